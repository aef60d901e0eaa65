//! Scenarios at flow level: a machine, a workload and the policies to compare, as given in a file.
//!
//! | module | contents |
//! |---|---|
//! | `file`, `tasks`, `placement`, `pages`, `target`, [`mix`], [`migration`] | reading scenarios |
//! | `workload` | the tasks of a repetition |
//! | [`log`], [`queueing`] | job logs of clusters as workloads, and their results |
//! | `execute` | one run |
//! | [`study`] | all runs, at every point of a sweep |
//! | [`custom`] | policies from outside the table of policies |
//! | [`report`] | results, and the conclusions that they allow |

mod cores;
pub mod custom;
mod execute;
pub(crate) mod file;
pub mod log;
pub mod migration;
pub mod mix;
mod pages;
mod placement;
pub mod queueing;
pub mod report;
pub mod study;
mod target;
mod tasks;
mod workload;

pub use custom::{CustomPolicies, CustomPolicy};
pub use pages::Pages;
pub use workload::{Offset, Prepared, Source, TaskSpec, Workload};

use std::path::Path;
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, Nanos};
use memweir_policy::{CoreUse, PredictorKind, TargetCurve};

use memweir_flow::experiment::{KernelConfig, Knowledge, KnowledgeError, Overheads};
use memweir_flow::hardware::Hardware;
use memweir_flow::workload::catalog::Catalog;
use migration::MigrationSpec;

/// Source of the recordings that a scenario names.
pub trait Recordings {
    /// Returns the recording in the file at `path`. Called repeatedly for the same file.
    ///
    /// # Errors
    /// If the file cannot be read, with the reason.
    fn profile(&self, path: &Path) -> Result<Arc<Profile>, Refusal>;

    /// Returns the programs of the profile store by name, each with its mean bandwidth.
    ///
    /// # Errors
    /// If there is no store.
    fn stored(&self) -> Result<Vec<(String, BytesPerSec)>, Refusal> {
        let help = "give a bandwidth, a distribution, or \"catalog\"";
        Err(Refusal::new("there is no profile store here", help))
    }
}

impl<F: Fn(&Path) -> Result<Arc<Profile>, Refusal>> Recordings for F {
    fn profile(&self, path: &Path) -> Result<Arc<Profile>, Refusal> {
        self(path)
    }
}

/// A commented scenario to start from.
pub const EXAMPLE: &str = include_str!("../data/example.toml");

/// A scenario. Equal scenarios give equal results.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The machine.
    pub hardware: Hardware,
    /// The workload.
    pub workload: Workload,
    /// Cores that the tasks may use: the first ones of the machine.
    pub cores: u32,
    /// The policies to compare; at least one, none twice.
    pub policies: Vec<String>,
    /// Those of them that are not in the table.
    pub custom: CustomPolicies,
    /// Rule for filling the cores of a policy from outside the table; the others have it as an
    /// option in their names.
    pub core_use: CoreUse,
    /// Predictor of a task's next bandwidth.
    pub predictor: PredictorKind,
    /// Length of a quantum.
    pub quantum: Nanos,
    /// Map from the ideal average bandwidth to the target; if absent, the former is the target.
    pub target: Option<TargetCurve>,
    /// The scheduler's knowledge of the tasks.
    pub knowledge: Knowledge,
    /// Its error.
    pub knowledge_error: KnowledgeError,
    /// Costs of scheduling.
    pub overheads: Overheads,
    /// Configuration of the operating system below.
    pub kernel: KernelConfig,
    /// Seed of the first repetition; each further one has the next.
    pub seed: u64,
    /// Runs of each policy, each with its own seed; at least one.
    pub repetitions: u32,
    /// Level of the confidence intervals, between 0 and 1.
    pub confidence: f64,
    /// Requested knowledge of the shortest turnaround.
    pub optimum: Optimum,
    /// Page migration while the tasks run, if any.
    pub migration: Option<MigrationSpec>,
    /// The programs by name.
    pub catalog: Arc<Catalog>,
}

/// Requested knowledge of the shortest turnaround, with which the gains are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimum {
    /// The best sequence of co-schedules if the batch is small enough to search for it, else a
    /// bound: see [`memweir_flow::optimal::optimal`].
    #[default]
    Search,
    /// A lower bound on the turnaround of all schedules.
    Bound,
    /// None.
    None,
}

memweir_core::named! {
    pub Optimum, "optimum": Search = "search", Bound = "bound", None = "none"
}

#[cfg(test)]
mod tests;
