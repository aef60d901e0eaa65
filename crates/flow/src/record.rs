//! Hooks into a running experiment: recorders of timelines, and page migration.

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, Nanos};

use crate::outcome::QuantumOutcome;
use crate::task::Placement;

/// Record of one task in one quantum.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskQuantum {
    /// The task.
    pub task: JobId,
    /// True if it had a core of its own.
    pub chosen: bool,
    /// Time for which it was allowed to run.
    pub running: Nanos,
    /// Time on a core.
    pub cpu_time: Nanos,
    /// Its traffic, by medium as seen from the cores that it ran on.
    pub counts: Counts,
    /// Its predicted demand at the start of the quantum.
    pub predicted: Option<BytesPerSec>,
    /// Placement of its pages.
    pub placement: Placement,
    /// Node of the last core that it ran on.
    pub node: usize,
    /// Its work that is done, at the end of the quantum.
    pub progress: Nanos,
}

/// Receives every quantum when it ends.
pub trait Recorder {
    /// Records a quantum and the tasks that were allowed to run in it, in the order of their
    /// numbers.
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]);
}

/// A new placement for a task, and the copies that lead to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Migration {
    /// The task.
    pub task: JobId,
    /// Placement after the migration.
    pub placement: Placement,
    /// Pages to copy.
    pub copies: Vec<PageCopy>,
}

/// Pages to copy: every line is read in one memory and written in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCopy {
    /// Index of the memory that is read.
    pub from: usize,
    /// Index of the memory that is written.
    pub to: usize,
    /// Number of bytes.
    pub bytes: Bytes,
}

/// Moves pages between memories at the end of quanta.
///
/// The engine copies in the time of the task that owns the pages: when the task runs next, it
/// copies first, as fast as one core can, and the copy's traffic contends with that of the others.
/// The task makes no progress meanwhile, and the traffic is not counted for it.
pub trait Migrator {
    /// Returns the migrations to make after a quantum of length `elapsed`, given the tasks' records
    /// of it.
    fn migrate(&mut self, elapsed: Nanos, tasks: &[TaskQuantum]) -> Vec<Migration>;

    /// Notes that a task has ended, and that its memory is free.
    fn ended(&mut self, task: JobId) {
        let _ = task;
    }

    /// Returns the best placement that a task could have alone on the machine, for which the
    /// outcome says its time alone; `None` for the one with which it starts.
    fn alone(&self, task: JobId) -> Option<Placement> {
        let _ = task;
        None
    }
}
