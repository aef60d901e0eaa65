//! The workload of a scenario, and its preparation for a repetition. `tasks`, `pages` and `mix`
//! read it from a file.

use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::profile::Profile;
use memweir_core::{Nanos, Priority};
use memweir_flow::hardware::Hardware;
use memweir_flow::migration::TaskPages;
use memweir_flow::program::Program;
use memweir_flow::task::{Placement, Task};
use memweir_flow::workload::catalog::Entry;
use memweir_flow::workload::mix::instance_name;
use memweir_flow::workload::synthetic::Synthetic;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Scenario;
use super::log::LogSpec;
use super::mix::MixSpec;
use super::pages::Pages;
use super::report::Certainty;

/// Tasks to execute.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The tasks that the file lists one by one.
    pub tasks: Vec<TaskSpec>,
    /// A mix drawn in addition.
    pub mix: Option<MixSpec>,
    /// A job log, which is the whole workload.
    pub log: Option<LogSpec>,
    /// Placement of the pages of tasks of the log, and of the mix unless it has its own.
    pub placement: Placement,
}

/// One task of a scenario, of which several instances may be executed.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Its name; from the second instance on, followed by the instance's number.
    pub name: String,
    /// Source of its program.
    pub source: Source,
    /// Number of instances.
    pub instances: u32,
    /// Progress after which it is complete; the whole program if absent.
    pub work: Option<Nanos>,
    /// Time of its submission.
    pub arrival: Nanos,
    /// Position in the program at which it starts.
    pub offset: Offset,
    /// Placement of its pages, unless `pages` is present.
    pub placement: Placement,
    /// Model of pages that determines the placement.
    pub pages: Option<Pages>,
    /// Priority, for policies with an objective.
    pub priority: Priority,
}

/// Source of a program.
#[derive(Clone, Debug)]
pub enum Source {
    /// Spans given in the file.
    Spans(Arc<Program>),
    /// A recorded program.
    Recording {
        /// Its name.
        name: String,
        /// The recording.
        profile: Arc<Profile>,
    },
    /// A program drawn from figures in the file.
    Synthetic {
        /// The figures.
        program: Box<Synthetic>,
        /// True if the file gives the seed; otherwise each repetition draws anew.
        fixed: bool,
    },
    /// A program of the catalog, drawn from published figures.
    Catalog {
        /// The figures.
        entry: Arc<Entry>,
        /// The seed, if the file gives one; else each repetition draws anew.
        seed: Option<u64>,
    },
}

/// Position in its program at which a task starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// After this much progress.
    At(Nanos),
    /// A random position, drawn for each instance and repetition.
    Random,
}

/// The workload of one repetition.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Their pages, if they may move.
    pub pages: Option<Vec<TaskPages>>,
    /// The shortest possible turnaround or a lower bound, once it has been computed.
    pub optimum: Option<(Nanos, Certainty)>,
}

impl Scenario {
    /// Prepares the workload of a repetition, which is the same for every policy and every run.
    ///
    /// # Errors
    /// If a mix has no solution.
    pub fn prepare(&self, repetition: u32) -> Result<Prepared, Refusal> {
        let seed = self.seed_of(repetition);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut tasks = Vec::new();
        for spec in &self.workload.tasks {
            spec.append(&self.hardware, seed, &mut random, &mut tasks)?;
        }
        if let Some(mix) = &self.workload.mix {
            let placement = self.workload.placement;
            tasks.extend(mix.tasks(&self.hardware, self.cores, placement, seed)?);
        }
        if let Some(log) = &self.workload.log {
            tasks = log.tasks(&self.hardware, self.workload.placement, seed);
        }
        let pages = self.migration.as_ref().map(|migration| {
            let pages = migration.pages(&tasks, &self.catalog, seed);
            for (task, pages) in tasks.iter_mut().zip(&pages) {
                task.placement = pages.placement();
            }
            pages
        });
        Ok(Prepared { tasks, pages, optimum: None })
    }
}

impl TaskSpec {
    /// Appends its instances to `tasks`.
    fn append(
        &self,
        hardware: &Hardware,
        seed: u64,
        random: &mut ChaCha8Rng,
        tasks: &mut Vec<Task>,
    ) -> Result<(), Refusal> {
        let (program, whole) = self.source.program(hardware, seed)?;
        let placement = self.pages.as_ref().map_or(self.placement, |pages| pages.placement(seed));
        for number in 1..=self.instances {
            let offset = match self.offset {
                Offset::At(offset) => offset,
                Offset::Random => Nanos(random.random_range(0..program.length().0.max(1))),
            };
            tasks.push(Task {
                name: instance_name(&self.name, number),
                program: Arc::clone(&program),
                offset,
                work: self.work.unwrap_or(whole),
                arrival: self.arrival,
                placement,
                priority: self.priority,
            });
        }
        Ok(())
    }
}

impl Source {
    /// Returns true if the program is a drawn cycle, without a beginning.
    #[must_use]
    pub fn is_drawn(&self) -> bool {
        matches!(self, Self::Synthetic { .. } | Self::Catalog { .. })
    }

    /// Returns the program in a repetition with this seed, and the length of the whole program.
    fn program(&self, hardware: &Hardware, seed: u64) -> Result<(Arc<Program>, Nanos), Refusal> {
        let whole = |program: Program| {
            let length = program.length();
            (Arc::new(program), length)
        };
        Ok(match self {
            Self::Spans(program) => (Arc::clone(program), program.length()),
            Self::Recording { name, profile } => {
                let peak = hardware.machine.core_peak;
                let program = Program::from_profile(name, profile, peak);
                whole(program.map_err(|error| Refusal::new(error.to_string(), "record it anew"))?)
            }
            Self::Synthetic { program, fixed: true } => whole(program.program()?),
            Self::Synthetic { program, fixed: false } => {
                whole(Synthetic { seed, ..(**program).clone() }.program()?)
            }
            Self::Catalog { entry, seed: own } => {
                (Arc::new(entry.program(hardware, own.unwrap_or(seed))), entry.run_time())
            }
        })
    }
}
