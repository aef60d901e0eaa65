//! A schedule that is planned with what no scheduler knows: the demand of every task at every point
//! of its life.
//!
//! If each task made progress at the same rate whenever it ran beside the same others, the shortest
//! batch would be a linear program: the least sum of times `t_S` of sets `S` such that every task
//! does its work, with rates `r_j(S)`,
//!
//! ```text
//! sum over S of t_S r_j(S) = work_j  for every task j
//! ```
//!
//! Sets are found as they are needed: the prices `y_j` of the rows say how much a second of each
//! task's progress shortens the batch, and a set helps if the sum of `y_j r_j(S)` is above 1. That
//! is the choice of max-weight, with the weights that are right in hindsight.
//!
//! Rates are those of the engine, over points of the tasks' lives that meet at random. The policy
//! runs the sets for their times, by what is left of them, under the rules to which all policies
//! are subject (the head of the run queue runs), and plans again as tasks end and progress differs
//! from what was planned. So its turnaround is reached, and is no bound: phases that last for
//! seconds may allow a better schedule.

mod policy;
mod rates;

use std::sync::{Arc, Mutex, PoisonError};

use memweir_core::{Nanos, Stop};

use super::simplex::{self, Rates, worth};
use crate::batch::Simulation;
use crate::experiment::{Experiment, SimError};
use crate::outcome::{Outcome, QuantumOutcome};
use crate::record::{Recorder, TaskQuantum};
use policy::Follower;
use rates::Rater;

/// Name under which scenarios ask for this schedule, beside those of policies.
pub const PLANNED: &str = "planned";

/// Most cores for which a plan is found in useful time.
pub const MOST_CORES: u32 = 32;

/// A set is added to the plan if it would shorten the batch at this rate at least.
const LEAST_GAIN: f64 = 5e-4;

/// Quanta after which the plan is made anew, if no task ended before.
const PLANNED_QUANTA: u32 = 50;

/// Simulates an experiment under the planned schedule; the policy that it names is ignored.
///
/// # Errors
/// If the machine, a task or a figure is impossible, or the end was requested.
pub fn run(
    experiment: &Experiment,
    recorder: Option<&mut dyn Recorder>,
    stop: &Stop,
) -> Result<Outcome, SimError> {
    experiment.check()?;
    let planner = Arc::new(Mutex::new(Planner::new(experiment)));
    let follower = Follower(Arc::clone(&planner));
    let mut watch = Watch { planner, recorder };
    let simulation = Simulation::new(experiment).policy(Box::new(follower));
    simulation.recorder(&mut watch).stop(stop.clone()).run()
}

/// Tells the planner how far the tasks are.
struct Watch<'a> {
    planner: Arc<Mutex<Planner>>,
    recorder: Option<&'a mut dyn Recorder>,
}

impl Recorder for Watch<'_> {
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]) {
        let mut planner = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        for task in tasks {
            planner.done[task.task.index()] = task.progress.as_f64();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.quantum(quantum, tasks);
        }
    }
}

/// Plans sets and their times.
struct Planner {
    rater: Rater,
    cores: usize,
    quantum: f64,
    /// By task, in nanoseconds of progress.
    work: Vec<f64>,
    done: Vec<f64>,
    /// Tasks that had arrived and were not complete when the plan was made, in ascending order.
    planned: Vec<usize>,
    /// Quanta until the plan is made anew.
    lasts: u32,
    /// By task; 0 for those without a part in the plan.
    prices: Vec<f64>,
    /// Sets of the plan, and the time in nanoseconds that is left of each.
    sets: Vec<(Vec<usize>, f64)>,
}

impl Planner {
    fn new(experiment: &Experiment) -> Self {
        let tasks = &experiment.tasks;
        Self {
            rater: Rater::new(experiment),
            cores: experiment.scheduler.cores as usize,
            quantum: experiment.scheduler.quantum.as_f64(),
            work: tasks.iter().map(|task| task.work.as_f64()).collect(),
            done: vec![0.0; tasks.len()],
            planned: Vec::new(),
            lasts: 0,
            prices: vec![0.0; tasks.len()],
            sets: Vec::new(),
        }
    }

    /// Returns the tasks to run beside `running` in the next quantum, on `free` cores.
    fn next(&mut self, running: &[usize], waiting: &[usize], free: usize) -> Vec<usize> {
        let mut active: Vec<usize> = running.iter().chain(waiting).copied().collect();
        active.sort_unstable();
        if self.lasts == 0 || self.planned != active {
            self.plan(active);
        }
        self.lasts -= 1;
        let has = |set: &[usize]| running.iter().all(|task| set.contains(task));
        let fits = self.sets.iter_mut().filter(|(set, left)| *left > 0.0 && has(set));
        match fits.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((set, left)) => {
                *left -= self.quantum;
                set.iter().copied().filter(|task| !running.contains(task)).collect()
            }
            None => self.join(running, waiting, free),
        }
    }

    /// Returns the waiting tasks that are worth the most beside `running`, at the plan's prices.
    fn join(&mut self, running: &[usize], waiting: &[usize], free: usize) -> Vec<usize> {
        let mut set = self.rater.best(&self.prices, running, waiting, running.len() + free);
        set.retain(|task| !running.contains(task));
        set
    }

    /// Plans the rest of these tasks.
    fn plan(&mut self, active: Vec<usize>) {
        let least = Nanos::MILLI.as_f64();
        let left: Vec<f64> =
            active.iter().map(|task| (self.work[*task] - self.done[*task]).max(least)).collect();
        let alone: Vec<f64> = active.iter().map(|task| self.rater.rates(&[*task])[0]).collect();
        let (rater, cores, count) = (&mut self.rater, self.cores, self.work.len());
        let row = |task: &usize| active.binary_search(task).ok();
        let best = |prices: &[f64]| {
            let mut by_task = vec![0.0; count];
            for (task, price) in active.iter().zip(prices) {
                by_task[*task] = *price;
            }
            let worthwhile = |rater: &mut Rater, set: Vec<usize>| {
                let rates = set.iter().map(row).zip(rater.rates(&set));
                let rates: Rates = rates.filter_map(|(row, rate)| Some((row?, rate))).collect();
                (worth(&rates, prices) > 1.0 + LEAST_GAIN).then_some(rates)
            };
            let known = rater.best_known(&by_task, &active);
            known.and_then(|set| worthwhile(rater, set)).or_else(|| {
                (0..rater.searches()).find_map(|_| {
                    let set = rater.best(&by_task, &[], &active, cores);
                    worthwhile(rater, set)
                })
            })
        };
        let mix = simplex::mix(&alone, &left, best);
        self.prices.fill(0.0);
        for (task, price) in active.iter().zip(&mix.prices) {
            self.prices[*task] = *price;
        }
        let tasks = |rates: &Rates| rates.iter().map(|(row, _)| active[*row]).collect();
        self.sets = mix.sets.iter().map(|(rates, time)| (tasks(rates), *time)).collect();
        (self.planned, self.lasts) = (active, PLANNED_QUANTA);
    }
}

#[cfg(test)]
mod tests;
