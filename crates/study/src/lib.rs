//! Studies: simulations that a file describes, at every point of a sweep, and their results as
//! data.
//!
//! A scenario names a machine, a workload and the choices to compare. A study runs it for all
//! values of its swept keys, on all cores, and reports each run and what follows from the runs.
//!
//! | module | contents |
//! |---|---|
//! | [`text`] | the text of a scenario file |
//! | [`sweep`] | keys that take several values in turn |
//! | [`key`] | keys of points by content |
//! | [`parallel`] | work on all cores |
//! | [`flow`] | scenarios of tasks that share memories ([`memweir_flow`]) |
//! | [`bank`] | scenarios of requests to caches and banks ([`memweir_bank`]) |
//! | [`swap`] | scenarios of applications in turn and their swap areas ([`memweir_swap`]) |
//!
//! # Examples
//!
//! The swapped pages of the browsers of drswap, with two sizes of DRAM:
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::path::Path;
//!
//! use memweir_core::Stop;
//! use memweir_study::ScenarioText;
//! use memweir_study::swap::study::PageStudy;
//! use memweir_study::sweep::Grid;
//!
//! let text = "swaps = \"nvm\"\ngroup = \"browser\"\ndram_mib = 182\nswap_mib = 512\n";
//! let text = ScenarioText::new("browsers.toml", text, Path::new("."));
//! let grid = Grid::new(vec!["dram_mib=128,512".parse()?])?;
//! let study = PageStudy::read(&text, &[], grid).expect("a scenario");
//! let report = study.run(&Stop::default(), NonZeroUsize::MIN, |_| ()).expect("no stop");
//! assert_eq!(report.points.len(), 2);
//! # Ok::<(), memweir_core::input::Refusal>(())
//! ```

#![forbid(unsafe_code)]

pub mod bank;
mod fidelity;
pub mod flow;
pub mod key;
pub mod parallel;
mod scheduling;
pub mod swap;
pub mod sweep;
pub mod text;

pub use fidelity::Fidelity;
pub use text::ScenarioText;
