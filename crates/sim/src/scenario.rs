//! Scenarios: a machine, a workload and the policies to compare on it, as a file says them.
//!
//! | module | what lives there |
//! |---|---|
//! | `file`, `tasks`, `placement`, `pages`, [`mix`], [`migration`] | what a scenario file may say, and what is refused |
//! | `workload` | the tasks of a repetition |
//! | `execute` | one run |
//! | [`study`] | all runs, at every point of a sweep |
//! | [`target`] | the scheduling bandwidth targets that it can name |
//! | [`sweep`] | keys that take several values in turn |
//! | [`parallel`] | work on all cores |
//! | [`report`] | what came of it, and what may be concluded |

mod cores;
mod execute;
mod file;
pub mod migration;
pub mod mix;
mod pages;
pub mod parallel;
mod placement;
pub mod report;
pub mod study;
pub mod sweep;
pub mod target;
mod tasks;
mod workload;

pub use file::{Fidelity, ScenarioText};
pub(crate) use file::{KEYS as FLOW_KEYS, machine_of_fidelity, of_fidelity};
pub use pages::Pages;
pub use workload::{Offset, Prepared, Source, TaskSpec, Workload};

use std::path::Path;
use std::sync::Arc;

use memweir_core::Nanos;
use memweir_core::input::Refusal;
use memweir_core::profile::Profile;
use memweir_policy::{PredictorKind, TargetCurve};

use crate::experiment::{KernelConfig, Knowledge, Overheads};
use crate::hardware::Hardware;
use crate::workload::catalog::Catalog;
use migration::MigrationSpec;

/// Where the recordings come from that a scenario names; reading them is not done here.
pub trait Recordings {
    /// The recording in the file at `path`. Asked again and again for the same one.
    ///
    /// # Errors
    /// Says why it cannot be read.
    fn profile(&self, path: &Path) -> Result<Arc<Profile>, Refusal>;
}

/// A commented scenario to start from.
pub const EXAMPLE: &str = include_str!("../data/example.toml");

/// One scenario, as its file says it. Equal scenarios give equal results.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The machine.
    pub hardware: Hardware,
    /// What is executed on it.
    pub workload: Workload,
    /// Cores that the tasks may use: the first ones of the machine.
    pub cores: u32,
    /// The policies to compare; at least one, none twice.
    pub policies: Vec<String>,
    /// How a task's next bandwidth is predicted.
    pub predictor: PredictorKind,
    /// Length of a quantum.
    pub quantum: Nanos,
    /// From the ideal average bandwidth to the target; the former itself if absent.
    pub target: Option<TargetCurve>,
    /// What the scheduler is told of the tasks.
    pub knowledge: Knowledge,
    /// What scheduling costs.
    pub overheads: Overheads,
    /// How the operating system below behaves.
    pub kernel: KernelConfig,
    /// Seed of the first repetition; each further one has the next.
    pub seed: u64,
    /// How often each policy runs, with other seeds each time; at least once.
    pub repetitions: u32,
    /// Level of the confidence intervals, between 0 and 1.
    pub confidence: f64,
    /// What is to be known of the shortest turnaround.
    pub optimum: Optimum,
    /// What moves pages while the tasks run, if anything does.
    pub migration: Option<MigrationSpec>,
    /// The programs by name.
    pub catalog: Arc<Catalog>,
}

/// What is to be known of the shortest turnaround, against which the gains are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimum {
    /// The best sequence of co-schedules where the batch is small enough to search it, else a bound:
    /// see [`crate::optimal::optimal`].
    #[default]
    Search,
    /// A bound that no schedule is below.
    Bound,
    /// Nothing.
    None,
}

#[cfg(test)]
mod tests;
