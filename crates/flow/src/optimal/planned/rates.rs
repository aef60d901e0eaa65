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

/// Fewest of them that a search looks at.
const LEAST_SEARCHED: usize = 4;

/// Searches after which no set is taken to be worth more, if they look at few points.
const MOST_SEARCHES: usize = 3;

/// Rates of sets, computed once each.
pub(super) struct Rater {
    solver: Solver,
    /// Samples that a search looks at: fewer on larger machines, where there are more sets.
    searched: usize,
    /// First sample of the next search.
    first: usize,
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
        let cores = experiment.scheduler.cores.max(1) as usize;
        let searched = (16 * SAMPLES / (cores * cores)).clamp(LEAST_SEARCHED, SAMPLES);
        Self { solver, searched, first: 0, samples, known: HashMap::new() }
    }

    /// Returns the number of searches that see different samples, at most [`MOST_SEARCHES`].
    pub(super) fn searches(&self) -> usize {
        (SAMPLES / self.searched).min(MOST_SEARCHES)
    }

    /// Returns the progress per time of each task of a set while it runs, in the order of the set,
    /// which is ascending.
    pub(super) fn rates(&mut self, set: &[usize]) -> Vec<f64> {
        if let Some(rates) = self.known.get(set) {
            return rates.clone();
        }
        let rates = self.rates_at(set, 0..SAMPLES);
        self.known.insert(set.to_vec(), rates.clone());
        rates
    }

    /// Returns the same at these samples alone.
    fn rates_at(&self, set: &[usize], samples: impl ExactSizeIterator<Item = usize>) -> Vec<f64> {
        let count = samples.len();
        // A task spends more time where it is slow: the mean is over its progress.
        let mut times = vec![0.0; set.len()];
        for sample in samples {
            let met: Vec<Response> = set.iter().map(|task| self.samples[*task][sample]).collect();
            let stretch = self.solver.solve(&met);
            for (time, response) in times.iter_mut().zip(&met) {
                *time += 1.0 / response.speed(&stretch);
            }
        }
        times.iter().map(|time| count as f64 / time).collect()
    }

    /// Returns the worth of a set as a search sees it.
    fn estimate(&mut self, prices: &[f64], set: &[usize]) -> f64 {
        let rates = match self.searched {
            SAMPLES => self.rates(set),
            count => {
                let next = (self.first..self.first + count).map(|sample| sample % SAMPLES);
                self.rates_at(set, next)
            }
        };
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
    /// that is worth the most: tasks join while there are cores, those of the highest prices
    /// first, and take the place of others then, as long as that pays. The next search looks at
    /// other samples.
    pub(super) fn best(
        &mut self,
        prices: &[f64],
        fixed: &[usize],
        choice: &[usize],
        cores: usize,
    ) -> Vec<usize> {
        let mut order = choice.to_vec();
        order.sort_by(|a, b| prices[*b].total_cmp(&prices[*a]));
        let mut set = fixed.to_vec();
        set.sort_unstable();
        let mut highest = self.estimate(prices, &set);
        loop {
            let before = highest;
            for task in &order {
                if set.contains(task) {
                    continue;
                }
                let changes = changes(&set, *task, fixed, cores);
                let worths = changes.into_iter().map(|set| (self.estimate(prices, &set), set));
                match worths.max_by(|a, b| a.0.total_cmp(&b.0)) {
                    Some((worth, changed)) if worth > highest * (1.0 + 1e-9) => {
                        (set, highest) = (changed, worth);
                    }
                    _ => {}
                }
            }
            if highest == before {
                self.first = (self.first + self.searched) % SAMPLES;
                return set;
            }
        }
    }
}

/// Returns the sets in which a task joins this one, or takes the place of one that is not fixed.
fn changes(set: &[usize], task: usize, fixed: &[usize], cores: usize) -> Vec<Vec<usize>> {
    if set.len() < cores {
        return vec![with(set, task)];
    }
    let without = |out: &usize| set.iter().copied().filter(|other| other != out).collect();
    let leaving = set.iter().filter(|out| !fixed.contains(out));
    leaving.map(without).map(|rest: Vec<usize>| with(&rest, task)).collect()
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
        let demand = &task.program.spans[at.span].demand;
        fastest(solver, (0..nodes).map(|node| solver.response(demand, &task.placement, node)))
    };
    let mut samples: Vec<Response> = (0..SAMPLES).map(response).collect();
    samples.shuffle(random);
    samples
}
