//! The best sequence of co-schedules, by branch and bound.
//!
//! A node is a position in every task at the end of a quantum. It is pruned if the bound of the
//! remaining work shows that it cannot lead to a better sequence than the best so far, or if the
//! same positions were reached in as few quanta before. The search treats tasks with equal
//! remaining work as one.

use std::collections::HashMap;

use memweir_core::JobId;

use super::bound;
use super::plan::{Place, Plan};
use crate::experiment::Experiment;
use crate::stretch::{Response, Solver};

/// Relative difference below which turnarounds count as equal: rounding.
const EPSILON: f64 = 1e-9;

/// Remaining work of a task: its kind, its row, and the bits of the progress in that row.
type Key = (usize, usize, u64);

/// The positions to which a quantum leads.
#[derive(Clone, Debug)]
struct Child {
    places: Vec<Place>,
    /// Tasks that ran, those that filled free cores last.
    ran: Vec<usize>,
    /// Nanoseconds from the start of the quantum to the completion of all tasks, if they completed.
    complete: Option<f64>,
}

pub(super) struct Search<'a> {
    plans: &'a [Plan],
    /// Number of the first task that is equal to this one.
    kinds: Vec<usize>,
    solver: Solver,
    cores: usize,
    quantum: f64,
    /// Quanta that may still be simulated.
    budget: u64,
    /// Fewest quanta in which each set of positions was reached.
    seen: HashMap<Vec<Key>, usize>,
    path: Vec<Vec<usize>>,
    best: Option<(f64, Vec<Vec<usize>>)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(experiment: &Experiment, plans: &'a [Plan], budget: u64) -> Self {
        let tasks = &experiment.tasks;
        let alike = |a: usize, b: usize| {
            tasks[a].program == tasks[b].program
                && tasks[a].placement == tasks[b].placement
                && (tasks[a].offset, tasks[a].work) == (tasks[b].offset, tasks[b].work)
        };
        let kind = |task: usize| (0..task).find(|other| alike(*other, task)).unwrap_or(task);
        Self {
            plans,
            kinds: (0..tasks.len()).map(kind).collect(),
            solver: Solver::new(&experiment.machine),
            cores: experiment.scheduler.cores as usize,
            quantum: experiment.scheduler.quantum.as_f64(),
            budget,
            seen: HashMap::new(),
            path: Vec::new(),
            best: None,
        }
    }

    /// Returns the shortest turnaround in nanoseconds and its schedule; `None` if the budget ran
    /// out first.
    pub(super) fn run(mut self) -> Option<(f64, Vec<Vec<JobId>>)> {
        let finished = self.visit(&vec![Place::default(); self.plans.len()]);
        let (turnaround, schedule) = self.best.filter(|_| finished)?;
        let job = |task: usize| JobId(task as u32);
        let jobs = |ran: Vec<usize>| ran.into_iter().map(job).collect();
        Some((turnaround, schedule.into_iter().map(jobs).collect()))
    }

    /// Searches everything below a node; returns false if the budget ran out.
    fn visit(&mut self, places: &[Place]) -> bool {
        let depth = self.path.len();
        if !self.promises(depth, places) {
            return true;
        }
        let key = self.key(places);
        if self.seen.get(&key).is_some_and(|before| *before <= depth) {
            return true;
        }
        self.seen.insert(key, depth);
        let mut children = Vec::new();
        for chosen in self.choices(places) {
            if self.budget == 0 {
                return false;
            }
            self.budget -= 1;
            let child = Child { places: places.to_vec(), ran: chosen.clone(), complete: None };
            self.run_quantum(child, chosen, self.quantum, &mut children);
        }
        // The most promising first: a good sequence found early prunes more of the others.
        children.sort_by(|a, b| self.outlook(a).total_cmp(&self.outlook(b)));
        for child in children {
            self.path.push(child.ran);
            let finished = match child.complete {
                Some(at) => {
                    self.note(depth as f64 * self.quantum + at);
                    true
                }
                None => self.visit(&child.places),
            };
            self.path.pop();
            if !finished {
                return false;
            }
        }
        true
    }

    /// Returns a lower bound of the time from the start of a child's quantum to its completion.
    fn outlook(&self, child: &Child) -> f64 {
        child.complete.unwrap_or_else(|| self.quantum + self.left(&child.places))
    }

    fn left(&self, places: &[Place]) -> f64 {
        let left = self.plans.iter().zip(places).map(|(plan, place)| plan.left(*place));
        bound::of_left(left, self.cores as u32)
    }

    fn promises(&self, depth: usize, places: &[Place]) -> bool {
        let least = depth as f64 * self.quantum + self.left(places);
        self.best.as_ref().is_none_or(|(best, _)| least < best * (1.0 - EPSILON))
    }

    fn note(&mut self, turnaround: f64) {
        if self.best.as_ref().is_none_or(|(best, _)| turnaround < *best) {
            self.best = Some((turnaround, self.path.clone()));
        }
    }

    fn key_of(&self, task: usize, places: &[Place]) -> Key {
        (self.kinds[task], places[task].row, places[task].into.to_bits())
    }

    /// Returns the remaining work, regardless of which task has it.
    fn key(&self, places: &[Place]) -> Vec<Key> {
        let mut key: Vec<Key> = (0..places.len()).map(|task| self.key_of(task, places)).collect();
        key.sort_unstable();
        key
    }

    /// Returns the incomplete tasks that are not among `running`, one of each group of equal tasks.
    fn waiting(&self, places: &[Place], running: &[usize]) -> Vec<usize> {
        let mut waiting: Vec<usize> = (0..places.len())
            .filter(|task| !self.plans[*task].is_complete(places[*task]))
            .filter(|task| !running.contains(task))
            .collect();
        waiting.sort_by_key(|task| self.key_of(*task, places));
        waiting.dedup_by_key(|task| self.key_of(*task, places));
        waiting
    }

    /// Returns every set of tasks that can run together, those that fill the cores first.
    fn choices(&self, places: &[Place]) -> Vec<Vec<usize>> {
        let mut keys: Vec<Vec<Key>> = Vec::new();
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut all: Vec<Vec<usize>> = Vec::new();
        for _ in 0..self.cores {
            let mut larger = Vec::new();
            for set in &sets {
                for task in self.waiting(places, set) {
                    let mut with: Vec<usize> = set.iter().copied().chain([task]).collect();
                    with.sort_unstable();
                    let mut key: Vec<Key> =
                        with.iter().map(|task| self.key_of(*task, places)).collect();
                    key.sort_unstable();
                    if !keys.contains(&key) {
                        keys.push(key);
                        larger.push(with);
                    }
                }
            }
            all.extend(larger.iter().cloned());
            sets = larger;
        }
        all.reverse();
        all
    }

    /// Runs `running` for `left` nanoseconds. When tasks complete, waiting ones take their cores,
    /// or the cores stay idle; every way to the end of the quantum is added to `out`.
    fn run_quantum(
        &self,
        mut child: Child,
        mut running: Vec<usize>,
        left: f64,
        out: &mut Vec<Child>,
    ) {
        let left = left - self.step(&mut child.places, &running, left);
        let before = running.len();
        running.retain(|task| !self.plans[*task].is_complete(child.places[*task]));
        let free = before - running.len();
        let waiting = self.waiting(&child.places, &running);
        if running.is_empty() && waiting.is_empty() {
            child.complete = Some(self.quantum - left);
            out.push(child);
        } else if left <= self.quantum * EPSILON {
            out.push(child);
        } else {
            self.fill(child, running, &waiting, free, left, out);
        }
    }

    /// Runs the rest of a quantum with up to `free` of the waiting tasks, in every combination.
    fn fill(
        &self,
        child: Child,
        running: Vec<usize>,
        waiting: &[usize],
        free: usize,
        left: f64,
        out: &mut Vec<Child>,
    ) {
        if free > 0 {
            for (place, task) in waiting.iter().enumerate() {
                let mut filled = child.clone();
                filled.ran.push(*task);
                let with = running.iter().copied().chain([*task]).collect();
                self.fill(filled, with, &waiting[place + 1..], free - 1, left, out);
            }
        }
        if running.is_empty() {
            out.push(child);
        } else {
            self.run_quantum(child, running, left, out);
        }
    }

    /// Runs tasks together for `left` nanoseconds or until one of them completes; returns the time
    /// that passed.
    fn step(&self, places: &mut [Place], running: &[usize], left: f64) -> f64 {
        let mut now = 0.0;
        while now < left {
            let responses: Vec<Response> = running
                .iter()
                .map(|task| self.plans[*task].rows[places[*task].row].response)
                .collect();
            let stretch = self.solver.solve(&responses);
            let to_end = |(task, response): (&usize, &Response)| {
                let place = places[*task];
                (self.plans[*task].rows[place.row].length - place.into) / response.speed(&stretch)
            };
            let next = running.iter().zip(&responses).map(to_end).fold(f64::MAX, f64::min);
            let time = next.min(left - now);
            now += time;
            let mut complete = false;
            for (task, response) in running.iter().zip(&responses) {
                let place = &mut places[*task];
                let length = self.plans[*task].rows[place.row].length;
                place.into += time * response.speed(&stretch);
                if place.into >= length * (1.0 - EPSILON) {
                    *place = Place { row: place.row + 1, into: 0.0 };
                    complete |= self.plans[*task].is_complete(*place);
                }
            }
            if complete {
                return now.min(left);
            }
        }
        left
    }
}
