//! hmmsched: its figures and tables on the flow engine, and two of them at bank level.

mod banks;
mod media;
mod mixes;
mod nodes;
mod pages;

use memweir_core::input::InputError;

use crate::report::{Effort, Found};
use crate::run::{Failed, Laboratory};
use crate::source::{FigureData, File, Suite, file};
use crate::work::Bench;
use mixes::Mixes;

pub(crate) const PAPER: File = file!("hmmsched/paper.toml");

/// In the order of the paper.
pub(crate) const FIGURES: [File; 9] = [
    file!("hmmsched/table-01.toml"),
    file!("hmmsched/figure-02.toml"),
    file!("hmmsched/banks.toml"),
    file!("hmmsched/figure-03.toml"),
    file!("hmmsched/writes.toml"),
    file!("hmmsched/figure-07.toml"),
    file!("hmmsched/ablation.toml"),
    file!("hmmsched/remote.toml"),
    file!("hmmsched/migration.toml"),
];

/// The mixes on the machine, with each set of latencies.
pub(crate) struct Lab {
    mixes: Mixes,
}

impl Lab {
    /// Makes the mixes.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub(crate) fn new(suite: &Suite, effort: Effort) -> Result<Self, InputError> {
        Ok(Self { mixes: Mixes::new(&suite.figure("7")?.parameters()?, effort)? })
    }
}

impl Laboratory for Lab {
    fn work(&self, figures: &[&FigureData]) -> u64 {
        let each = self.mixes.work();
        figures
            .iter()
            .map(|figure| match figure.id.as_str() {
                "7" => 4 * each,
                "ablation" => 6 * each,
                "remote" => 3 * each / 2,
                "migration" => 4 * each,
                "banks" => 450,
                "writes" => 33,
                _ => each / 16,
            })
            .sum()
    }

    fn figure(&self, data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
        match data.id.as_str() {
            "table1" => media::table_1(),
            "2" => media::figure_2(data, bench),
            "3" => media::figure_3(data),
            "banks" => banks::figure_2(data, bench),
            "writes" => banks::figure_3(data, bench),
            "7" => mixes::figure_7(&self.mixes, bench),
            "ablation" => mixes::ablation(&self.mixes, bench),
            "remote" => nodes::remote(&self.mixes, bench),
            "migration" => pages::migration(&self.mixes, bench),
            _ => Err(Failed::no_code_for(data)),
        }
    }

    fn precision(&self) -> String {
        format!(
            "{} repetition instead of five, half a minute of each task instead of two; times move \
             by some percent.",
            self.mixes.repetitions
        )
    }
}
