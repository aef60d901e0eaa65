//! `max-weight`: the set of jobs whose weighted speeds sum to the most.

mod choice;
#[cfg(test)]
mod tests;
mod weight;

use super::{AUTO_CORES, Options, PolicyOption};
use crate::policy::{OnSaturation, Policy, QuantumView};
use crate::scheduler::SchedulerConfig;
use choice::{Chooser, Job, Problem};
use weight::Weights;

pub use weight::{COMPLETION, Objective, SLOWDOWN};

/// Options that may follow `max-weight`, one objective at most.
pub const OPTIONS: &[PolicyOption] = &[COMPLETION, SLOWDOWN, AUTO_CORES];

/// Runs the set `S` of jobs that maximizes the sum over `S` of `w_j r_j(S)`: `w_j` is the weight of
/// a second of job j's progress, `r_j(S)` its speed beside the others by the
/// [`SpeedModel`](crate::speed::SpeedModel).
///
/// This is max-weight scheduling (Tassiulas and Ephremides, "Stability properties of constrained
/// queueing systems", IEEE Transactions on Automatic Control 37(12), 1992): the weights fall as
/// work is done, so that the schedule balances by itself whatever would end the batch late.
///
/// The weights derive from the [`Objective`]. The search is approximate. On a million random cases
/// it found at least 95 % of the best sum, but for seven; with jobs of several cores, but for 938.
#[derive(Clone, Debug)]
pub struct MaxWeight {
    weights: Weights,
    /// The running jobs, then the waiting ones.
    jobs: Vec<Job>,
    chooser: Chooser,
}

impl MaxWeight {
    /// Creates the policy for the machine of `config`.
    #[must_use]
    pub fn new(config: &SchedulerConfig, options: &Options) -> Self {
        let objective = Objective::given(options).next();
        Self {
            weights: Weights::new(objective.unwrap_or_default(), config),
            jobs: Vec::new(),
            chooser: Chooser::default(),
        }
    }
}

impl Policy for MaxWeight {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        if view.cores == 0 || view.queue.is_empty() {
            return;
        }
        self.jobs.clear();
        let candidates = view.running.iter().chain(view.queue);
        self.jobs.extend(candidates.map(|job| Job::new(view.speeds.load(job), job)));
        self.weights.set(view, &mut self.jobs);
        let problem = Problem {
            speeds: view.speeds,
            jobs: &self.jobs,
            running: view.running.len(),
            cores: view.cores,
        };
        chosen.extend(self.chooser.choose(&problem));
    }

    fn on_saturation(&self) -> OnSaturation {
        OnSaturation::RaiseDemand
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("adds most to the weighted speed of the set")
    }
}
