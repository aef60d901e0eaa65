//! Search for the set of jobs with the highest weighted speed.
//!
//! The best set is a knapsack problem with a cost that depends on the whole set, so the search is
//! approximate, in two steps:
//!
//! 1. *Scores.* At a given contention each job has a score of its own: its weighted speed less the
//!    damage that its traffic does to the others. The jobs with the highest scores per core form a
//!    set, that set has a contention and a damage per traffic, and so on for a few rounds. This is
//!    a subgradient method on the Lagrangian dual, in which each medium has one multiplier.
//! 2. *Exchanges.* From the best of these sets, single jobs are exchanged for waiting ones while
//!    the exact value rises and effort is left.

use std::ops::Range;

use memweir_core::MAX_MEDIA;

use crate::policy::Candidate;
use crate::speed::{Contention, Load, SpeedModel};

/// Rounds of scores.
const ROUNDS: u32 = 3;

/// Effort that exchanges may cost, in jobs of evaluated sets. Four times as much changed no gain on
/// the training mixes.
const EFFORT: usize = 600;

/// Waiting jobs that are put in order at least: those that narrow jobs leave over are exchanged.
const LEAST_ORDERED: usize = 64;

/// Relative gain below which an exchange is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// A job in the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) load: Load,
    /// Weight of a second of the job's progress; positive.
    pub(super) price: f64,
    pub(super) cores: u32,
    per_core: f64,
}

impl Member {
    /// Creates a member whose weight is not known yet.
    pub(super) fn new(job: &Candidate, speeds: &SpeedModel) -> Self {
        let per_core = 1.0 / f64::from(job.cores);
        Self { load: speeds.load(job), price: 0.0, cores: job.cores, per_core }
    }
}

/// The choice of one quantum.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) speeds: &'a SpeedModel,
    /// Jobs that run in any case.
    pub(super) running: &'a [Member],
    /// Jobs to choose from.
    pub(super) waiting: &'a [Member],
    /// Free cores; at least one.
    pub(super) cores: u32,
}

/// Contention, and the damage that further traffic does at it.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    contention: Contention,
    damage: [f64; MAX_MEDIA],
}

impl Conditions {
    fn among(speeds: &SpeedModel, set: &[Member]) -> Self {
        let contention = speeds.contention(set.iter().map(|job| &job.load));
        let damage = speeds.damage(set.iter().map(|job| (&job.load, job.price)), &contention);
        Self { contention, damage }
    }

    /// Moves towards other conditions, by this part of the distance.
    fn approach(&mut self, other: &Self, part: f64) {
        let towards = |from: &mut f64, to: f64| *from += part * (to - *from);
        for medium in 0..MAX_MEDIA {
            towards(&mut self.contention.excess[medium], other.contention.excess[medium]);
            towards(&mut self.damage[medium], other.damage[medium]);
        }
    }

    /// Returns what a job adds to the weighted speed here, per core.
    fn score(&self, job: &Member) -> f64 {
        let damage: f64 = self.damage.iter().zip(job.load.utilization).map(|(d, u)| d * u).sum();
        job.load.speed(&self.contention) * (job.price - damage) * job.per_core
    }
}

/// Returns the weighted speed of a set.
pub(super) fn value(speeds: &SpeedModel, set: &[Member]) -> f64 {
    let contention = speeds.contention(set.iter().map(|job| &job.load));
    set.iter().map(|job| job.price * job.load.speed(&contention)).sum()
}

/// Searches for sets; kept between decisions for its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Chooser {
    /// The waiting jobs, partly in order, the highest score first.
    order: Vec<Ranked>,
    /// Places of the chosen jobs.
    chosen: Vec<usize>,
    /// The running jobs, then the chosen ones.
    set: Vec<Member>,
    /// The best of `chosen` so far.
    best: Vec<usize>,
}

impl Chooser {
    /// Returns the places of the jobs to run.
    pub(super) fn choose(&mut self, problem: &Problem<'_>) -> impl Iterator<Item = usize> {
        let mut at = Conditions::among(problem.speeds, problem.running);
        let mut highest = f64::NEG_INFINITY;
        for round in 1..=ROUNDS {
            self.take_by_score(problem, &at);
            let value = value(problem.speeds, &self.set);
            if value > highest {
                highest = value;
                self.best.clone_from(&self.chosen);
            }
            at.approach(&Conditions::among(problem.speeds, &self.set), 1.0 / f64::from(round));
        }
        self.exchange(problem, highest);
        self.chosen.iter().copied()
    }

    /// Fills the cores with the jobs of the highest scores, also where a job would do more damage
    /// than it adds: the scheduler decides which cores stay idle, by speeds that it has learned.
    fn take_by_score(&mut self, problem: &Problem<'_>, at: &Conditions) {
        self.order.clear();
        self.order.extend(
            problem.waiting.iter().zip(0..).map(|(job, place)| Ranked::new(at.score(job), place)),
        );
        let head = (2 * problem.cores as usize).max(LEAST_ORDERED).min(self.order.len());
        if head < self.order.len() {
            self.order.select_nth_unstable(head);
        }
        self.order[..head].sort_unstable();
        self.chosen.clear();
        self.set.clear();
        self.set.extend(problem.running);
        let free = self.take_what_fits(problem, 0..head, problem.cores);
        if free > 0 && head < self.order.len() {
            self.order[head..].sort_unstable();
            self.take_what_fits(problem, head..self.order.len(), free);
        }
    }

    /// Takes jobs from this part of the order. Returns the cores that stay free.
    fn take_what_fits(&mut self, problem: &Problem<'_>, part: Range<usize>, mut free: u32) -> u32 {
        for ranked in &self.order[part] {
            let place = ranked.place();
            let job = problem.waiting[place];
            if job.cores <= free {
                free -= job.cores;
                self.chosen.push(place);
                self.set.push(job);
            }
        }
        free
    }

    /// Improves the best set by exchanges, which leaves it in `chosen`.
    ///
    /// The jobs of low score leave first and those of high score come first.
    fn exchange(&mut self, problem: &Problem<'_>, mut highest: f64) {
        let fixed = problem.running.len();
        self.chosen.clone_from(&self.best);
        self.set.truncate(fixed);
        self.set.extend(self.best.iter().map(|place| problem.waiting[*place]));
        let used: u32 = self.set[fixed..].iter().map(|job| job.cores).sum();
        let mut free = problem.cores - used;
        let mut effort = EFFORT;
        let mut improved = true;
        while improved {
            improved = false;
            for nth in (0..self.chosen.len()).rev() {
                let leaving = self.set[fixed + nth];
                for place in self.order.iter().map(|ranked| ranked.place()) {
                    let coming = problem.waiting[place];
                    if coming.cores > leaving.cores + free || self.chosen.contains(&place) {
                        continue;
                    }
                    if effort < self.set.len() {
                        return;
                    }
                    effort -= self.set.len();
                    self.set[fixed + nth] = coming;
                    let value = value(problem.speeds, &self.set);
                    if value > highest * (1.0 + LEAST_GAIN) {
                        highest = value;
                        free = free + leaving.cores - coming.cores;
                        self.chosen[nth] = place;
                        improved = true;
                        break;
                    }
                    self.set[fixed + nth] = leaving;
                }
            }
        }
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
