//! The interface of an execution, for any number of cores and of memories.

use memweir_core::{Counts, MAX_MEDIA, Nanos, Traffic};

use super::layout::Point;
use crate::kernel::Processor;
use crate::record::PageCopy;
use crate::task::Placement;

/// Progress and traffic of a task so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Nanoseconds on a core.
    pub(crate) cpu_time: f64,
    /// Instructions and traffic, by medium as seen from the cores that it ran on.
    pub(crate) counts: Counts,
    /// Traffic, by memory of the machine.
    pub(crate) moved: [Traffic; MAX_MEDIA],
    /// Its position.
    pub(crate) at: Point,
}

/// Tasks on cores, with their positions and traffic.
pub(crate) trait Execution: Processor {
    /// Returns the reading of a task.
    fn read(&mut self, task: usize) -> Reading;

    /// Returns the reading of each of these tasks.
    fn read_all(&mut self, tasks: &[usize]) -> Vec<Reading>;

    /// Returns the work that a task has done when it is at this point.
    fn progress(&self, task: usize, at: Point) -> Nanos;

    /// Predicts the task alone on the machine from a point on, for up to `time`: returns the lines
    /// that it moves and the nanoseconds that it runs, which are less than `time` if the task ends
    /// before.
    fn ahead(&self, task: usize, from: Point, time: Nanos) -> (f64, f64);

    /// Returns the time that a task takes alone on the machine, and its counts over that time.
    fn alone(&self, task: usize) -> (Nanos, Counts);

    /// Changes the placement of a task that is on no core; when it runs next, it copies these pages
    /// first.
    fn migrate(&mut self, task: usize, placement: Placement, copies: &[PageCopy]);

    /// Returns the node of the core that a task was on last.
    fn node(&self, task: usize) -> usize;

    /// Returns the placement of a task's pages.
    fn placement(&self, task: usize) -> &Placement;
}
