//! The upper bound of what scheduling can do: the shortest turnaround of a batch, or a bound that
//! none is below.
//!
//! * [`lower_bound`] holds for every schedule whatever, the operating system's time slices
//!   included. Its proofs stand in `bound` and `blend`.
//! * [`optimal`] searches, for batches small enough, the best sequence of co-schedules: everything
//!   that a scheduler which chooses per quantum could have done. Else it returns the bound.

mod blend;
mod bound;
mod plan;
mod search;

use memweir_core::{JobId, Nanos};

use crate::experiment::Experiment;
use crate::machine::{Impossible, Machine};
use crate::task::Task;
use blend::Kinds;
use plan::{Costing, Plan};
use search::Search;

/// How much is known of a shortest turnaround.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Some sequence of co-schedules takes so long, and none takes less. They range over all that
    /// a scheduler of quanta can do: in every quantum any set of tasks that fits the cores, with
    /// cores left idle or not, and on a core that falls free within a quantum any waiting task.
    /// Switching is free.
    Best,
    /// No schedule takes less; whether one takes as little is unknown.
    Bound,
}

/// The shortest turnaround of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// From the first arrival to the last completion.
    pub turnaround: Nanos,
    /// What it is.
    pub certainty: Certainty,
    /// Who runs in each quantum of the best sequence, those that fill free cores behind the
    /// chosen; empty for a bound.
    pub schedule: Vec<Vec<JobId>>,
}

/// How long is searched before the bound has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The most quanta that are simulated.
    pub quanta: u64,
    /// Batches of more tasks are not searched.
    pub tasks: usize,
    /// Nor are those that take more quanta even by their bound.
    pub depth: u64,
}

impl Default for Effort {
    /// Eight tasks and forty quanta, 20,000 of which are simulated: less than a second as a rule.
    fn default() -> Self {
        Self { quanta: 20_000, tasks: 8, depth: 40 }
    }
}

/// The shortest turnaround of an experiment's tasks on its cores, in quanta of its length. Its
/// policy, its predictor and its overheads are not looked at.
///
/// A batch is searched if it is within `effort`, all of its tasks are submitted at once, and the
/// machine has one node; else, and if the search gives up, the result is a bound.
///
/// # Errors
/// If there can be no such machine or task.
pub fn optimal(experiment: &Experiment, effort: Effort) -> Result<Optimum, Impossible> {
    experiment.check()?;
    let tasks = &experiment.tasks;
    let mut costing = Costing::new(&experiment.machine);
    let bound = bound_of(&experiment.machine, tasks, &mut costing, experiment.scheduler.cores);
    let quantum = experiment.scheduler.quantum.as_f64();
    let together = tasks.windows(2).all(|pair| pair[0].arrival == pair[1].arrival);
    let small = tasks.len() <= effort.tasks && bound / quantum <= effort.depth as f64;
    if small && together && experiment.machine.nodes.len() == 1 {
        let plans: Vec<Plan> = tasks.iter().map(|task| costing.plan(task)).collect();
        let search = Search::new(experiment, &plans, effort.quanta);
        if let Some((turnaround, schedule)) = search.run() {
            let turnaround = Nanos(turnaround.round() as u64);
            return Ok(Optimum { turnaround, certainty: Certainty::Best, schedule });
        }
    }
    Ok(Optimum { turnaround: down(bound), certainty: Certainty::Bound, schedule: Vec::new() })
}

/// A turnaround that no schedule of these tasks on `cores` cores of the machine is below.
///
/// # Panics
/// If the machine or a task is impossible, see [`Machine::check`].
#[must_use]
pub fn lower_bound(machine: &Machine, tasks: &[Task], cores: u32) -> Nanos {
    down(bound_of(machine, tasks, &mut Costing::new(machine), cores))
}

/// The better one of the two bounds, in nanoseconds.
fn bound_of(machine: &Machine, tasks: &[Task], costing: &mut Costing<'_>, cores: u32) -> f64 {
    let simple = bound::of_batch(tasks, costing, cores);
    // Where a task is fastest alone says nothing of where it is among others.
    if machine.nodes.len() > 1 {
        return simple;
    }
    let mut kinds = Kinds::default();
    for task in tasks {
        let spans = costing.progress(task);
        kinds.add(spans.into_iter().map(|(row, progress)| (row.response, progress)));
    }
    kinds.bound(&costing.solver, cores).map_or(simple, |blend| simple.max(blend))
}

/// Rounded so that it stays a bound: a billionth is more than the sums of floats are off by.
fn down(bound: f64) -> Nanos {
    Nanos((bound * (1.0 - 1e-9)).floor() as u64)
}

/// How much of what can be gained over the operating system a policy gains: 1 is all of it, 0
/// nothing, less than 0 a loss. With a bound in the place of the optimum it is at least so much.
/// `None` where the operating system leaves nothing to gain.
#[must_use]
pub fn share_of_possible_gain(os: Nanos, policy: Nanos, optimal: Nanos) -> Option<f64> {
    (os > optimal).then(|| (os.as_f64() - policy.as_f64()) / (os.as_f64() - optimal.as_f64()))
}

#[cfg(test)]
mod tests;
