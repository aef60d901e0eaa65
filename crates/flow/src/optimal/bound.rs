//! A bound below every turnaround.
//!
//! Let task `i` arrive at `r_i`, take `A_i` when it is alone on the machine from its start to its
//! end (on the node where it is fastest), and occupy memory `m` for the time `B_im`, which its
//! lines do whenever they are served. For every time `r` at which a task arrives, let `L(r)` be the
//! tasks that arrive at `r` or later. Then no schedule on `C` cores completes all tasks before
//!
//! ```text
//! (1)  r_i + A_i                          for every task i
//! (2)  r + sum over i in L(r) of A_i / C  for every r
//! (3)  r + sum over i in L(r) of B_im     for every r and memory m
//! ```
//!
//! *No task is faster than alone.* Let a task that runs with others make progress at speed `v`, and
//! alone at speed `a`, and suppose `v > a`. A memory's busy share is the sum over the tasks of
//! speed times the memory's time per progress, and never above 1. If the task alone fills a memory,
//! it does so at speed `a`, and at speed `v` the share would be above 1: a contradiction. So alone
//! it fills none, and each stretch is the service curve's at its busy share. With the others each
//! share is larger, as `v > a`, and curves do not fall, nor is the stretch of a full memory less
//! than the end of its curve. So each stretch is at least that of the task alone, and the speed,
//! which falls with every stretch, is at most `a`: a contradiction again.
//!
//! Where growth depends on the mix of reads and writes, others may change the mix and so make a
//! task faster than alone. Its `A_i` is then the time alone with the growth of the mix that grows
//! least, to which the proof applies: no stretch is below that growth at its busy share.
//!
//! *(1)* So a task occupies a core for `A_i` at least, after it has arrived, and never two at once.
//! *(2)* After `r`, the tasks of `L(r)` occupy cores for the sum of their `A_i` at least, and `C`
//! cores give at most `C` seconds each second. *(3)* A memory is busy for at most one second each
//! second, and all lines of `L(r)` are served after `r`.
//!
//! Pages are assumed to stay in place. The order in which tasks are selected does not matter
//! otherwise, so the bound holds for time slices as for quanta. With free preemption and memories
//! that never fill, (1) and (2) are reached (McNaughton, 1959).

use memweir_core::Nanos;

use super::plan::{Busy, Costing};
use crate::task::Task;

/// Returns a bound of the turnaround in nanoseconds from the first arrival.
pub(super) fn of_batch(tasks: &[Task], costing: &mut Costing<'_>, cores: u32) -> f64 {
    let first = tasks.iter().map(|task| task.arrival).min().unwrap_or(Nanos::ZERO);
    let mut costs: Vec<(f64, (f64, Busy))> =
        tasks.iter().map(|task| ((task.arrival - first).as_f64(), costing.total(task))).collect();
    // The latest first, so that those before a task in the list are those of its `L(r)`.
    costs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut sums = Sums::default();
    let mut bound = 0.0_f64;
    for (arrival, cost) in costs {
        sums.add(cost);
        bound = bound.max(arrival + sums.bound(cores));
    }
    bound
}

/// Returns a bound of the time from now on, for tasks that have all arrived, given their remaining
/// costs.
pub(super) fn of_left(left: impl Iterator<Item = (f64, Busy)>, cores: u32) -> f64 {
    let mut sums = Sums::default();
    left.for_each(|cost| sums.add(cost));
    sums.bound(cores)
}

/// Costs of several tasks that have arrived, together.
#[derive(Default)]
struct Sums {
    /// The longest time alone among them.
    longest: f64,
    alone: f64,
    busy: Busy,
}

impl Sums {
    fn add(&mut self, (alone, busy): (f64, Busy)) {
        self.longest = self.longest.max(alone);
        self.alone += alone;
        for (sum, busy) in self.busy.iter_mut().zip(busy) {
            *sum += busy;
        }
    }

    /// Returns the largest of (1), (2) and (3) for these tasks, from now on.
    fn bound(&self, cores: u32) -> f64 {
        self.busy.iter().copied().fold(self.longest.max(self.alone / f64::from(cores)), f64::max)
    }
}
