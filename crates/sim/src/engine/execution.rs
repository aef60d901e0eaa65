//! What may be asked of an execution, whatever the number of cores and of memories.

use memweir_core::{Counts, MAX_MEDIA, Nanos, Traffic};

use super::track::Point;
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

/// Tasks on cores. Times are nanoseconds from the start.
pub(crate) trait Execution {
    /// What time it is.
    fn now(&self) -> f64;

    /// Puts a task that is on no core on an idle one, which first does nothing for a while.
    fn put(&mut self, core: usize, task: usize, pause: Nanos);

    /// Takes the task off a core.
    fn take(&mut self, core: usize) -> usize;

    /// Lets time pass until then, or until a task is complete; on which core that was. The task
    /// is off its core then.
    fn run(&mut self, until: f64) -> Option<usize>;

    /// What a task has done so far.
    fn read(&mut self, task: usize) -> Reading;

    /// What a task will do from a point on in so much time, alone on the machine: lines, and the
    /// time until then, which is less if the task ends before.
    fn ahead(&self, task: usize, from: Point, time: Nanos) -> (f64, f64);

    /// Time that a task takes alone on the machine, and what it does then.
    fn alone(&self, task: usize) -> (Nanos, Counts);

    /// Gives the pages of a task, which is on no core, another place; when it runs next, it copies
    /// these pages first.
    fn migrate(&mut self, task: usize, placement: Placement, copies: &[PageCopy]);

    /// The node on which most of a task's traffic was when it was submitted.
    fn home(&self, task: usize) -> usize;

    /// The node of the core that a task was on last.
    fn node(&self, task: usize) -> usize;

    /// Where a task's pages are.
    fn placement(&self, task: usize) -> &Placement;
}
