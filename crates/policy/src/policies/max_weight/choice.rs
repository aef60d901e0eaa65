//! Search for the set of jobs with the highest weighted speed.
//!
//! The best set is a knapsack problem with a cost that depends on the whole set, so the search is
//! approximate, in two parts:
//!
//! 1. *Scores.* At the contention of a set each job has a score of its own: its weighted speed less
//!    the damage that its traffic does to the others. Scores are derivatives of the weighted speed,
//!    so the jobs of the highest scores per core say in which direction it rises, but are no good
//!    set themselves: beside heavy jobs that contend, they are all light. A step goes all of the
//!    way towards them, half of it, a quarter, and so on, until the exact value has risen and falls
//!    again (the method of Frank and Wolfe, with whole jobs).
//! 2. *Exchanges.* Single jobs are exchanged for waiting ones while the exact value rises and
//!    effort is left. A job of several cores takes the place of several jobs, and several take its
//!    place.

use memweir_core::MAX_MEDIA;

use crate::policy::Candidate;
use crate::speed::{Contention, Load, SpeedModel};

/// Steps in the direction of the highest scores. Twice as many gained 0.1 to 0.3 % more on mixes
/// like the training ones for 16 cores, and nothing on those for four.
const STEPS: u32 = 2;

/// Effort of a decision, in jobs that are looked at: all waiting jobs in each ranking, and the
/// whole set for each exchange. Five times as much gained 0.2 % more on 64 cores, and less on 8
/// and 16.
const EFFORT: usize = 3600;

/// The part of it that is left for exchanges among however many waiting jobs.
const LEAST_EFFORT: usize = 600;

/// Waiting jobs that are put in order at least: those that narrow jobs leave over are exchanged.
const LEAST_ORDERED: usize = 64;

/// Relative gain below which an exchange is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// A job of one decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) load: Load,
    pub(super) cores: u32,
    /// Reciprocal of its cores.
    pub(super) per_core: f64,
    /// Weight of a second of its progress; positive. Before it is known, the worth of its priority.
    pub(super) weight: f64,
}

impl Job {
    /// Creates a job that weighs as much as its priority is worth.
    pub(super) fn new(load: Load, job: &Candidate) -> Self {
        let cores = job.cores;
        Self { load, cores, per_core: 1.0 / f64::from(cores), weight: job.priority.worth() }
    }

    /// Returns what the job adds to the weighted speed of a set under these conditions, per core,
    /// on a machine of `M` media.
    fn score<const M: usize>(&self, at: &Conditions) -> f64 {
        let damage: f64 = (0..M).map(|m| self.load.utilization[m] * at.damage[m]).sum();
        let gain = self.load.speed_on::<M>(&at.contention) * (self.weight - damage);
        gain * self.per_core
    }
}

/// The choice of one quantum.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) speeds: &'a SpeedModel,
    /// The jobs that run in any case, then those to choose from.
    pub(super) jobs: &'a [Job],
    /// Number of the former.
    pub(super) running: usize,
    /// Free cores; at least one.
    pub(super) cores: u32,
}

impl<'a> Problem<'a> {
    fn running(&self) -> &'a [Job] {
        &self.jobs[..self.running]
    }

    fn waiting(&self) -> &'a [Job] {
        &self.jobs[self.running..]
    }

    /// Returns the weighted speed of the running jobs and of those at these places.
    #[cfg(test)]
    pub(super) fn value(&self, places: impl IntoIterator<Item = usize>) -> f64 {
        let chosen = places.into_iter().map(|place| self.waiting()[place]);
        value(self.speeds, &self.running().iter().copied().chain(chosen).collect::<Vec<_>>())
    }
}

/// Contention, and the damage that further traffic does at it.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    contention: Contention,
    damage: [f64; MAX_MEDIA],
}

impl Conditions {
    fn among(speeds: &SpeedModel, set: &[Job]) -> Self {
        let contention = speeds.contention(set.iter().map(|job| &job.load));
        let damage = speeds.damage(set.iter().map(|job| (&job.load, job.weight)), &contention);
        Self { contention, damage }
    }
}

/// Returns the weighted speed of a set.
fn value(speeds: &SpeedModel, set: &[Job]) -> f64 {
    let contention = speeds.contention(set.iter().map(|job| &job.load));
    set.iter().map(|job| job.weight * job.load.speed(&contention)).sum()
}

/// Searches for sets; kept between decisions for its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Chooser {
    /// The waiting jobs, the highest score first, up to `sorted`; the others have lower scores.
    order: Vec<Ranked>,
    sorted: usize,
    /// Places of the chosen jobs.
    chosen: Vec<usize>,
    /// The running jobs, then the chosen ones.
    set: Vec<Job>,
    /// The best of `chosen` so far.
    best: Vec<usize>,
    /// The jobs of `best` at the beginning of a step, the highest score first.
    members: Vec<usize>,
    /// Place of each waiting job in `order`, if that is sorted there.
    rank_of: Vec<u32>,
    /// True for each waiting job that is chosen.
    is_chosen: Vec<bool>,
}

impl Chooser {
    /// Returns the places of the jobs to run.
    pub(super) fn choose(&mut self, problem: &Problem<'_>) -> impl Iterator<Item = usize> {
        self.best.clear();
        self.take_best(problem);
        self.rank(problem);
        let mut highest = self.refill(problem, 0);
        self.best.clone_from(&self.chosen);
        for _ in 0..STEPS {
            self.take_best(problem);
            self.rank(problem);
            let before = highest;
            highest = self.step(problem, highest);
            if highest <= before {
                break;
            }
        }
        self.take_best(problem);
        self.exchange(problem, highest);
        self.chosen.iter().copied()
    }

    /// Chooses the best set again.
    fn take_best(&mut self, problem: &Problem<'_>) {
        self.chosen.clone_from(&self.best);
        self.set.clear();
        self.set.extend_from_slice(problem.running());
        self.set.extend(self.best.iter().map(|place| problem.waiting()[*place]));
    }

    /// Goes from the best set towards that of the highest scores: all of the way, then halves of
    /// it. Returns the highest weighted speed, which `highest` was before, and leaves its set in
    /// `best`.
    fn step(&mut self, problem: &Problem<'_>, mut highest: f64) -> f64 {
        self.rank_of.clear();
        self.rank_of.resize(self.order.len(), u32::MAX);
        for (ranked, rank) in self.order[..self.sorted].iter().zip(0..) {
            self.rank_of[ranked.place()] = rank;
        }
        self.members.clone_from(&self.best);
        self.members.sort_unstable_by_key(|place| (self.rank_of[*place], *place));
        let size = self.members.len();
        let stay = self.members.iter().take_while(|place| self.rank_of[**place] < size as u32);
        let mut leaving = size - stay.count();
        let before = highest;
        while leaving > 0 {
            let value = self.refill(problem, size - leaving);
            if value > highest {
                highest = value;
                self.best.clone_from(&self.chosen);
            } else if highest > before {
                break;
            }
            leaving /= 2;
        }
        highest
    }

    /// Chooses the first of `members`, so many of them, and jobs in the order of their scores for
    /// the other cores; also where a job would do more damage than it adds: the scheduler decides
    /// which cores stay idle, by speeds that it has learned. Returns the weighted speed.
    fn refill(&mut self, problem: &Problem<'_>, kept: usize) -> f64 {
        self.set.truncate(problem.running);
        self.chosen.clear();
        self.is_chosen.clear();
        self.is_chosen.resize(self.order.len(), false);
        let mut free = problem.cores;
        for nth in 0..kept {
            free -= self.take(problem, self.members[nth]);
        }
        let mut nth = 0;
        while free > 0 && nth < self.order.len() {
            if nth == self.sorted {
                self.order[nth..].sort_unstable();
                self.sorted = self.order.len();
            }
            let place = self.order[nth].place();
            if problem.waiting()[place].cores <= free && !self.is_chosen[place] {
                free -= self.take(problem, place);
            }
            nth += 1;
        }
        value(problem.speeds, &self.set)
    }

    /// Chooses a job. Returns its cores.
    fn take(&mut self, problem: &Problem<'_>, place: usize) -> u32 {
        self.is_chosen[place] = true;
        self.chosen.push(place);
        self.set.push(problem.waiting()[place]);
        problem.waiting()[place].cores
    }

    /// Orders the waiting jobs by their scores: what a job adds to the weighted speed beside the
    /// present set, per core.
    fn rank(&mut self, problem: &Problem<'_>) {
        let at = Conditions::among(problem.speeds, &self.set);
        match problem.speeds.media() {
            1 => self.score::<1>(problem, &at),
            _ => self.score::<MAX_MEDIA>(problem, &at),
        }
        self.sorted = (2 * problem.cores as usize).max(LEAST_ORDERED).min(self.order.len());
        if self.sorted < self.order.len() {
            self.order.select_nth_unstable(self.sorted);
        }
        self.order[..self.sorted].sort_unstable();
    }

    /// Notes the scores of the waiting jobs, in no order.
    fn score<const M: usize>(&mut self, problem: &Problem<'_>, at: &Conditions) {
        let scores = problem.waiting().iter().map(|job| job.score::<M>(at));
        self.order.clear();
        self.order.extend(scores.zip(0..).map(|(score, place)| Ranked::new(score, place)));
    }

    /// Improves the chosen set by exchanges. They leave no core free that a waiting job fits.
    ///
    /// The jobs of low score leave first and those of high score come first.
    fn exchange(&mut self, problem: &Problem<'_>, mut highest: f64) {
        self.note_chosen();
        let ranked = (1 + STEPS as usize) * self.order.len();
        let mut effort = EFFORT.saturating_sub(ranked).max(LEAST_EFFORT);
        let mut improved = true;
        while improved {
            improved = false;
            for nth in (0..self.chosen.len()).rev() {
                for rank in 0..self.order.len() {
                    let place = self.order[rank].place();
                    let fits = problem.waiting()[place].cores <= problem.cores;
                    if !fits || self.is_chosen[place] {
                        continue;
                    }
                    if effort < self.set.len() {
                        return;
                    }
                    effort -= self.set.len();
                    if let Some(value) = self.exchanged(problem, nth, place, highest) {
                        highest = value;
                        improved = true;
                        break;
                    }
                }
                // A job of several cores may have taken the place of this one's neighbors.
                if nth > self.chosen.len() {
                    break;
                }
            }
        }
    }

    /// Puts a waiting job in the place of the `nth` chosen one, and of more if it needs their
    /// cores, if that raises the weighted speed above `highest`; returns the weighted speed then.
    fn exchanged(
        &mut self,
        problem: &Problem<'_>,
        nth: usize,
        place: usize,
        highest: f64,
    ) -> Option<f64> {
        let (at, coming) = (problem.running + nth, problem.waiting()[place]);
        let (leaving, left) = (self.set[at], self.chosen[nth]);
        let alike = coming.cores == leaving.cores;
        if !alike {
            self.best.clone_from(&self.chosen);
        }
        (self.set[at], self.chosen[nth]) = (coming, place);
        if !alike {
            self.fit(problem, nth);
        }
        let value = value(problem.speeds, &self.set);
        if value > highest * (1.0 + LEAST_GAIN) {
            self.note_chosen();
            return Some(value);
        }
        if alike {
            (self.set[at], self.chosen[nth]) = (leaving, left);
        } else {
            self.take_best(problem);
            self.note_chosen();
        }
        None
    }

    /// Makes the chosen jobs fit the cores. Jobs other than the `nth` leave, the last one first,
    /// until the rest fits; then waiting jobs take the free cores in the order of their scores.
    fn fit(&mut self, problem: &Problem<'_>, nth: usize) {
        let kept = self.chosen[nth];
        let mut used: u32 = self.set[problem.running..].iter().map(|job| job.cores).sum();
        while used > problem.cores {
            let last = self.chosen.iter().rposition(|place| *place != kept);
            let Some(last) = last else { break };
            self.chosen.remove(last);
            used -= self.set.remove(problem.running + last).cores;
        }
        self.note_chosen();
        let mut free = problem.cores - used;
        for rank in 0..self.order.len() {
            let place = self.order[rank].place();
            if free == 0 {
                break;
            }
            if problem.waiting()[place].cores <= free && !self.is_chosen[place] {
                free -= self.take(problem, place);
            }
        }
    }

    /// Notes which waiting jobs are chosen.
    fn note_chosen(&mut self) {
        self.is_chosen.fill(false);
        self.chosen.iter().for_each(|place| self.is_chosen[*place] = true);
    }
}

/// A waiting job by its score: the order is that of falling scores, then of places.
///
/// One integer, because the order is what a decision among many jobs spends most of its time on. A
/// score counts with the precision of an `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ranked(u64);

impl Ranked {
    const SIGN: u32 = 1 << 31;

    pub(super) fn new(score: f64, place: u32) -> Self {
        let bits = (score as f32).to_bits();
        // Such that unsigned comparison finds higher scores smaller.
        let falling = if bits & Self::SIGN == 0 { !bits & !Self::SIGN } else { bits };
        Self(u64::from(falling) << 32 | u64::from(place))
    }

    pub(super) fn place(self) -> usize {
        self.0 as u32 as usize
    }
}
