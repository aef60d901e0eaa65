//! Sweeps in shards: several processes simulate the points of one sweep into one directory, and
//! another takes up what they left.
//!
//! A point is kept under a key that follows from its content: the version of memweir and the
//! sources of its simulators, the swept values, and the scenario with all files that it names. The
//! values of a sweep and the keys of some of its points name its partition, so that a partition
//! never holds results of two scenarios:
//!
//! ```text
//! DIR/scenario=5d0c…/manifest.json
//! DIR/scenario=5d0c…/shard-00003-of-00008-91be….parquet
//! ```
//!
//! Every process writes files of its own, and each file holds whole points at any time. Nothing is
//! locked: two processes that simulate the same point write equal rows, and readers keep one.
//!
//! | module | contents |
//! |---|---|
//! | [`shard`] | division of the points among processes |
//! | [`simulation`] | a simulation point by point, and the rows of each kind |
//! | [`plan`] | the points of a sweep with their keys |
//! | [`manifest`] | the description of a partition |
//! | [`partition`] | the directory: its files, and the points in them |
//! | [`run`] | running points |
//! | [`merge`] | one table of all files |
//!
//! # Examples
//!
//! Half of the points, then the whole sweep:
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::path::Path;
//!
//! use memweir_core::Stop;
//! use memweir_study::ScenarioText;
//! use memweir_study::swap::study::PageStudy;
//! use memweir_study::sweep::Grid;
//! use memweir_sweep::partition::Partition;
//! use memweir_sweep::plan::{Origin, Plan};
//! use memweir_sweep::{Shard, merge, run};
//!
//! let text = "swaps = \"nvm\"\ngroup = \"browser\"\ndram_mib = 182\nswap_mib = 512\n";
//! let text = ScenarioText::new("browsers.toml", text, Path::new("."));
//! let grid = Grid::new(vec!["dram_mib=128,512".parse()?])?;
//! let read = |grid| PageStudy::read(&text, &[], grid).expect("a scenario");
//! let name = Plan::new(&read(grid.star()), &[]).name_of_sweep();
//! let half: Shard = "1/2".parse()?;
//! let points: Vec<usize> = half.points(grid.len()).collect();
//! let study = read(grid.only(&points));
//! let plan = Plan::new(&study, &[]);
//!
//! let out = tempfile::tempdir().expect("a directory");
//! let origin = Origin::of(&text, &[]);
//! let partition = Partition::begin(out.path(), &name, &plan, &origin).expect("space");
//! let work = run::Work { plan: &plan, partition: &partition, threads: NonZeroUsize::MIN };
//! let missing = run::missing(&plan, &partition).expect("files");
//! work.run(&half, &missing, &Stop::default(), || ()).expect("space");
//! assert_eq!(merge::read(partition.directory()).expect("files").missing.len(), 1);
//! # Ok::<(), memweir_core::input::Refusal>(())
//! ```

#![forbid(unsafe_code)]

pub mod manifest;
pub mod merge;
pub mod partition;
pub mod plan;
pub mod run;
pub mod shard;
pub mod simulation;

use std::io;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;

pub use shard::Shard;

/// Reason for which a sweep did not end.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file is not what it should be, or a point was refused.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Results could not be written. What was written before is kept.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl SweepError {
    fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}
