//! Hooks into a running experiment: who writes timelines, and who moves pages.

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, Nanos};

use crate::outcome::QuantumOutcome;
use crate::task::Placement;

/// What one task did in one quantum.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskQuantum {
    /// The task.
    pub task: JobId,
    /// Whether it had a core of its own.
    pub chosen: bool,
    /// How long it was let run.
    pub running: Nanos,
    /// How long it was on a core.
    pub cpu_time: Nanos,
    /// What it moved, by medium as seen from the cores that it ran on.
    pub counts: Counts,
    /// What it was predicted to require when the quantum began.
    pub predicted: Option<BytesPerSec>,
    /// Where its pages were.
    pub placement: Placement,
    /// Node of the core that it was on last.
    pub node: usize,
}

/// Is told of every quantum when it is over.
pub trait Recorder {
    /// A quantum is over in which these tasks were let run, in the order of their numbers.
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]);
}

/// Another placement for a task, and what it takes to get there.
#[derive(Clone, Debug, PartialEq)]
pub struct Migration {
    /// The task.
    pub task: JobId,
    /// Where its pages will be.
    pub placement: Placement,
    /// What is copied on the way.
    pub copies: Vec<PageCopy>,
}

/// Pages that are copied: every line is read in one memory and written in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCopy {
    /// Memory that is read, by its place in the machine.
    pub from: usize,
    /// Memory that is written.
    pub to: usize,
    /// How much.
    pub bytes: Bytes,
}

/// Moves pages between memories at the end of quanta.
///
/// The engine copies in the time of the task whose pages they are: when it runs next, it copies
/// first, as fast as one core can, and the copy's traffic contends with that of the others. The task
/// makes no progress meanwhile, and the traffic is not counted for it.
pub trait Migrator {
    /// What to move after a quantum in which the tasks did this.
    fn migrate(&mut self, elapsed: Nanos, tasks: &[TaskQuantum]) -> Vec<Migration>;
}
