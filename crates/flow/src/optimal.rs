//! The upper bound of the gain from scheduling: the shortest turnaround of a batch, or a bound
//! below every turnaround.
//!
//! * [`lower_bound`] holds for every schedule, including the operating system's time slices. Its
//!   proofs are in `bound` and `blend`.
//! * [`optimal`] searches, for batches small enough, the best sequence of co-schedules among all
//!   those that a scheduler which selects per quantum could have made. Otherwise it returns the
//!   bound.
//! * [`planned`] runs a schedule that is planned with all knowledge, for batches of any size: the
//!   best that is known where no policy is better.
//! * [`hindsight`] finds one by running `max-weight` with lengths that are corrected from run to
//!   run, on machines of any size and at bank level, too.

mod blend;
mod bound;
pub mod hindsight;
mod plan;
pub mod planned;
mod search;
mod simplex;

use memweir_core::{JobId, Nanos};

use crate::experiment::Experiment;
use crate::machine::{Impossible, Machine};
use crate::task::Task;
use blend::Kinds;
use plan::{Costing, Plan};
use search::Search;

/// Names of the schedules that stand beside policies in a scenario and are none.
pub const SCHEDULES: [&str; 2] = [planned::PLANNED, hindsight::HINDSIGHT];

/// Certainty of a shortest turnaround.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Some sequence of co-schedules takes this long, and none takes less. The sequences cover all
    /// actions of a scheduler of quanta: in every quantum any set of tasks that fits the cores,
    /// with cores left idle or not, and on a core that falls idle within a quantum any waiting
    /// task. Switching is free.
    Best,
    /// No schedule takes less; it is unknown whether any reaches it.
    Bound,
}

/// The shortest turnaround of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// From the first arrival to the last completion.
    pub turnaround: Nanos,
    /// Certainty of the turnaround.
    pub certainty: Certainty,
    /// Tasks that run in each quantum of the best sequence; those that fill free cores follow the
    /// chosen ones. Empty for a bound.
    pub schedule: Vec<Vec<JobId>>,
}

/// Limits of the search; beyond them, the result is the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Most quanta that are simulated.
    pub quanta: u64,
    /// Largest number of tasks in a batch that is searched.
    pub tasks: usize,
    /// Largest number of quanta, by the batch's bound, of a batch that is searched.
    pub depth: u64,
}

impl Default for Effort {
    /// At most eight tasks, forty quanta of depth and 20,000 simulated quanta: usually less than a
    /// second.
    fn default() -> Self {
        Self { quanta: 20_000, tasks: 8, depth: 40 }
    }
}

/// Returns the shortest turnaround of an experiment's tasks on its cores, in quanta of its length.
/// The policy, the predictor and the overheads are ignored.
///
/// A batch is searched if it is within `effort`, all of its tasks are submitted at once, and the
/// machine has one node; otherwise, and if the search gives up, the result is a bound.
///
/// # Errors
/// If the machine or a task is impossible.
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

/// Returns a bound below the turnaround of every schedule of these tasks on `cores` cores.
///
/// # Panics
/// If the machine or a task is impossible, see [`Machine::check`].
#[must_use]
pub fn lower_bound(machine: &Machine, tasks: &[Task], cores: u32) -> Nanos {
    down(bound_of(machine, tasks, &mut Costing::new(machine), cores))
}

/// Returns the higher of the two bounds, in nanoseconds.
fn bound_of(machine: &Machine, tasks: &[Task], costing: &mut Costing<'_>, cores: u32) -> f64 {
    let simple = bound::of_batch(tasks, costing, cores);
    // A task's fastest node alone may not be its fastest node among others.
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

/// Rounds down so that the result stays a bound: a billionth exceeds the error of the sums of
/// floats.
fn down(bound: f64) -> Nanos {
    Nanos((bound * (1.0 - 1e-9)).floor() as u64)
}

#[cfg(test)]
mod tests;
