//! bpm: its figures on the machine at bank level.

mod banks;
mod causes;
pub(crate) mod crowd;
mod evaluation;
mod indicators;
mod machine;
mod memory;
mod overhead;
mod programs;
mod rig;
mod runs;
mod threads;
mod variants;
mod workloads;

use memweir_core::input::InputError;

use crate::report::{Effort, Found};
use crate::run::{Failed, Laboratory};
use crate::source::{FigureData, File, Suite, file};
use crate::work::Bench;
use rig::{Parameters, Rig};
use runs::{Known, Runs};
use workloads::Workload;

pub(crate) const PAPER: File = file!("bpm/paper.toml");

/// The address map of the machine.
const MAP: File = file!("bpm/i7-860.toml");

/// In the order of the paper.
pub(crate) const FIGURES: [File; 12] = [
    file!("bpm/figure-01.toml"),
    file!("bpm/figure-04.toml"),
    file!("bpm/figure-05.toml"),
    file!("bpm/figure-07.toml"),
    file!("bpm/figure-08.toml"),
    file!("bpm/figure-09.toml"),
    file!("bpm/figure-10.toml"),
    file!("bpm/streamcluster.toml"),
    file!("bpm/power.toml"),
    file!("bpm/overhead.toml"),
    file!("bpm/assignment.toml"),
    file!("bpm/causes.toml"),
];

/// The machine, the programs, and the runs so far.
pub(crate) struct Lab {
    rig: Rig,
    workloads: Vec<Workload>,
    known: Known,
    /// Parameters of Fig. 1.
    banks: banks::Parameters,
    streamcluster: threads::Parameters,
}

impl Lab {
    /// The machine of the paper.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub(crate) fn new(suite: &Suite, effort: Effort) -> Result<Self, InputError> {
        let parameters: Parameters = suite.figure("4")?.parameters()?;
        Ok(Self {
            workloads: workloads::workloads(&programs::names(), parameters.seed)?,
            rig: Rig::new(parameters, effort)?,
            known: Known::default(),
            banks: suite.figure("1")?.parameters()?,
            streamcluster: suite.figure("streamcluster")?.parameters()?,
        })
    }
}

impl Laboratory for Lab {
    fn work(&self, figures: &[&FigureData]) -> u64 {
        runs::work(figures.iter().map(|figure| figure.id.as_str()))
    }

    fn figure(&self, data: &FigureData, bench: &Bench<'_>) -> Result<Found, Failed> {
        let Self { known, rig, workloads, .. } = self;
        let runs = &Runs { known, rig, workloads, bench };
        match data.id.as_str() {
            "1" => banks::figure_1(&self.banks, runs),
            "4" => evaluation::figure_4(runs),
            "5" => evaluation::figure_5(runs),
            "7" => indicators::figure_7(data, runs),
            "8" => variants::figure_8(runs),
            "9" => variants::figure_9(runs),
            "10" => variants::figure_10(data, runs),
            "streamcluster" => threads::streamcluster(data, runs),
            "power" => evaluation::power(runs),
            "overhead" => overhead::overhead(data, runs),
            "assignment" => {
                let demands = banks::demands(&self.banks, runs)?;
                variants::assignment(&demands, runs)
            }
            "causes" => causes::causes(&self.streamcluster, runs),
            _ => Err(Failed::no_code_for(data)),
        }
    }

    fn precision(&self) -> String {
        "A twelfth of the time per run: programs that seldom miss have a few dozen misses in it, and \
         improvements move by some percent."
            .to_owned()
    }
}
