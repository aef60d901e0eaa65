//! Rates of sets of tasks, and the set that is worth the most.

use std::collections::HashMap;

use memweir_core::Nanos;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engine::PrefixSums;
use crate::experiment::Experiment;
use crate::optimal::plan::fastest;
use crate::stretch::{Response, Solver};
use crate::task::Task;

/// Points of each task's life at which it meets the others.
const SAMPLES: usize = 64;

/// Rates of sets, computed once each.
pub(super) struct Rater {
    solver: Solver,
    /// By task, then by sample.
    samples: Vec<Vec<Response>>,
    /// By the tasks of the set, in ascending order.
    known: HashMap<Vec<usize>, Vec<f64>>,
}

impl Rater {
    pub(super) fn new(experiment: &Experiment) -> Self {
        let solver = Solver::new(&experiment.machine);
        let nodes = experiment.machine.nodes.len();
        let mut random = ChaCha8Rng::seed_from_u64(experiment.seed);
        let samples = experiment
            .tasks
            .iter()
            .map(|task| sampled(&solver, nodes, task, &mut random))
            .collect();
        Self { solver, samples, known: HashMap::new() }
    }

    /// Returns the progress per time of each task of a set while it runs, in the order of the set,
    /// which is ascending.
    pub(super) fn rates(&mut self, set: &[usize]) -> Vec<f64> {
        if let Some(rates) = self.known.get(set) {
            return rates.clone();
        }
        // A task spends more time where it is slow: the mean is over its progress.
        let mut times = vec![0.0; set.len()];
        for sample in 0..SAMPLES {
            let met: Vec<Response> = set.iter().map(|task| self.samples[*task][sample]).collect();
            let stretch = self.solver.solve(&met);
            for (time, response) in times.iter_mut().zip(&met) {
                *time += 1.0 / response.speed(&stretch);
            }
        }
        let rates: Vec<f64> = times.iter().map(|time| SAMPLES as f64 / time).collect();
        self.known.insert(set.to_vec(), rates.clone());
        rates
    }

    fn worth(&mut self, prices: &[f64], set: &[usize]) -> f64 {
        let rates = self.rates(set);
        set.iter().zip(rates).map(|(task, rate)| prices[*task] * rate).sum()
    }

    /// Returns the set among those known, of these tasks, that is worth the most; `None` if that is
    /// hardly more than its time.
    pub(super) fn best_known(&self, prices: &[f64], active: &[usize]) -> Option<Vec<usize>> {
        let worth = |(set, rates): (&Vec<usize>, &Vec<f64>)| -> f64 {
            set.iter().zip(rates).map(|(task, rate)| prices[*task] * rate).sum()
        };
        let possible = |set: &[usize]| set.iter().all(|task| active.binary_search(task).is_ok());
        let known = self.known.iter().filter(|(set, _)| possible(set));
        let (set, worth) = known
            .map(|known| (known.0, worth(known)))
            .max_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(b.0)))?;
        (worth > 1.0 + super::LEAST_GAIN).then(|| set.clone())
    }

    /// Searches the set of at most `cores` tasks, `fixed` among them and the others of `choice`,
    /// that is worth the most: tasks join as long as that pays, then single ones are exchanged.
    pub(super) fn best(
        &mut self,
        prices: &[f64],
        fixed: &[usize],
        choice: &[usize],
        cores: usize,
    ) -> Vec<usize> {
        let mut set = fixed.to_vec();
        set.sort_unstable();
        let mut highest = self.worth(prices, &set);
        loop {
            let mut changes: Vec<Vec<usize>> = Vec::new();
            for task in choice.iter().filter(|task| !set.contains(task)) {
                if set.len() < cores {
                    changes.push(with(&set, *task));
                    continue;
                }
                for out in set.iter().filter(|out| !fixed.contains(out)) {
                    let rest: Vec<usize> = set.iter().copied().filter(|t| t != out).collect();
                    changes.push(with(&rest, *task));
                }
            }
            let worths = changes.into_iter().map(|set| (self.worth(prices, &set), set));
            let best = worths.max_by(|a, b| a.0.total_cmp(&b.0));
            match best {
                Some((worth, changed)) if worth > highest * (1.0 + 1e-9) => {
                    (set, highest) = (changed, worth);
                }
                _ => return set,
            }
        }
    }
}

/// Returns an ascending set with one more task.
fn with(set: &[usize], task: usize) -> Vec<usize> {
    let mut larger = set.to_vec();
    larger.insert(set.partition_point(|other| *other < task), task);
    larger
}

/// Returns a task's responses at points evenly spread over its life, in random order, on the node
/// where it is fastest alone.
fn sampled(solver: &Solver, nodes: usize, task: &Task, random: &mut ChaCha8Rng) -> Vec<Response> {
    let shift: f64 = random.random();
    let point = |sample: usize| (sample as f64 + shift) / SAMPLES as f64 * task.work.as_f64();
    let sums = PrefixSums::new(&task.program);
    let response = |sample: usize| {
        let at = sums.beginning_at(task.offset + Nanos(point(sample) as u64));
        fastest(solver, nodes, &task.program.spans[at.span], &task.placement)
    };
    let mut samples: Vec<Response> = (0..SAMPLES).map(response).collect();
    samples.shuffle(random);
    samples
}
