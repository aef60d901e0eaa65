//! What may be asked of an execution, whatever the number of cores and of memories.

use memweir_core::{Counts, MAX_MEDIA, Nanos, Traffic};

use super::track::Point;
use crate::kernel::Processor;
use crate::record::PageCopy;
use crate::task::Placement;

/// What a task has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    /// Nanoseconds on a core.
    pub(crate) cpu_time: f64,
    /// What it did, by medium as seen from the cores that it ran on.
    pub(crate) counts: Counts,
    /// What it moved, by memory of the machine.
    pub(crate) moved: [Traffic; MAX_MEDIA],
    /// Where it is.
    pub(crate) at: Point,
}

/// Tasks on cores, and what is known of them.
pub(crate) trait Execution: Processor {
    /// What a task has done so far.
    fn read(&mut self, task: usize) -> Reading;

    /// What each of these tasks has done so far.
    fn read_all(&mut self, tasks: &[usize]) -> Vec<Reading>;

    /// What a task will do from a point on in so much time, alone on the machine: lines, and the
    /// time until then, which is less if the task ends before.
    fn ahead(&self, task: usize, from: Point, time: Nanos) -> (f64, f64);

    /// Time that a task takes alone on the machine, and what it does then.
    fn alone(&self, task: usize) -> (Nanos, Counts);

    /// Gives the pages of a task, which is on no core, another place; when it runs next, it copies
    /// these pages first.
    fn migrate(&mut self, task: usize, placement: Placement, copies: &[PageCopy]);

    /// The node of the core that a task was on last.
    fn node(&self, task: usize) -> usize;

    /// Where a task's pages are.
    fn placement(&self, task: usize) -> &Placement;
}
