//! Weights of jobs: what a second of a job's progress is worth to the objective.

use memweir_core::names::Named;
use memweir_core::{MAX_MEDIA, Nanos};

use super::choice::Job;
use crate::policies::{Options, PolicyOption};
use crate::policy::{Candidate, QuantumView};
use crate::scheduler::SchedulerConfig;
use crate::speed::SpeedModel;

/// A job close to its expected time, or beyond it, has one part in this many of that time ahead.
const LEAST_REMAINING_ONE_IN: f64 = 50.0;

/// Quanta of work that jobs of unknown length have ahead of them beyond the mean progress of all.
const LAG_QUANTA: f64 = 20.0;

/// Objective of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The turnaround: the end of the last job.
    ///
    /// Three lower bounds limit the turnaround from below: the longest remaining time `l_j` of a
    /// job; the remaining core time over the cores, `K = sum l_j c_j / C`; and the remaining
    /// traffic of each medium over its peak, `B_m = sum l_j u_jm`. Their 4-norm is a smooth
    /// estimate of the largest, and a job's weight is its derivative by `l_j`, but for a common
    /// factor:
    ///
    /// ```text
    /// w_j = l_j^3 + K^3 c_j / C + sum over media m of  B_m^3 u_jm
    /// ```
    ///
    /// Without contention and with a dominating job this is longest-remaining-first; where the bus
    /// limits the batch, a second of a heavy job is worth more, because it cannot be made up for
    /// later. A job's weight is multiplied by the worth of its priority, which the turnaround
    /// itself does not know.
    #[default]
    Turnaround,
    /// The mean completion time, weighted by the worth `p_j` of the priorities:
    /// `w_j = p_j / l_j`, Smith's rule.
    Completion,
    /// The largest slowdown, times the worth `p_j` of the priority: with the time `t_j` alone, and
    /// the slowdown `s_j = (age + l_j) / t_j` that the job ends with if it runs alone from now on,
    /// `w_j = p_j (p_j s_j)^3 / t_j`, the derivative of the 4-norm of all of them.
    Slowdown,
}

memweir_core::named! {
    pub Objective, "objective":
    Turnaround = "turnaround",
    Completion = "completion",
    Slowdown = "slowdown",
}

impl Objective {
    /// Returns the option by which a policy is given this objective; `None` for the default one.
    #[must_use]
    pub fn option(self) -> Option<PolicyOption> {
        match self {
            Self::Turnaround => None,
            Self::Completion => Some(COMPLETION),
            Self::Slowdown => Some(SLOWDOWN),
        }
    }

    /// Returns the objectives that these options of a policy name.
    pub(crate) fn given(options: &Options) -> impl Iterator<Item = Self> {
        let is_given = move |option: PolicyOption| options.has(&option);
        Self::ALL.iter().copied().filter(move |objective| objective.option().is_some_and(is_given))
    }
}

/// Minimizes the mean completion time instead of the turnaround.
pub const COMPLETION: PolicyOption =
    PolicyOption::flag("completion", "minimize the mean completion time of the jobs");

/// Minimizes the largest slowdown instead of the turnaround.
pub const SLOWDOWN: PolicyOption =
    PolicyOption::flag("slowdown", "minimize the largest slowdown of a job");

/// Computes weights; kept between decisions for its buffers.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    objective: Objective,
    cores: f64,
    lag: f64,
    remaining: Vec<f64>,
}

impl Weights {
    pub(super) fn new(objective: Objective, config: &SchedulerConfig) -> Self {
        Self {
            objective,
            cores: f64::from(config.cores.max(1)),
            lag: LAG_QUANTA * config.quantum.as_f64(),
            remaining: Vec::new(),
        }
    }

    /// Sets the weights of the running jobs, then of the waiting ones, which are the worth of their
    /// priorities before.
    pub(super) fn set(&mut self, view: &QuantumView<'_>, jobs: &mut [Job]) {
        let candidates = view.running.iter().chain(view.queue);
        let known = candidates.clone().map_while(|job| Some((job.expected_time?, job.progress)));
        self.remaining.clear();
        self.remaining.extend(known.map(|(expected, done)| ahead(expected, done)));
        if self.remaining.len() < jobs.len() {
            self.estimate_remaining(candidates.clone(), view.speeds);
        }
        if self.objective == Objective::Turnaround {
            match view.speeds.media() {
                1 => self.weigh_turnaround::<1>(jobs),
                _ => self.weigh_turnaround::<MAX_MEDIA>(jobs),
            }
            return;
        }
        for ((job, candidate), ahead) in jobs.iter_mut().zip(candidates).zip(&self.remaining) {
            let worth = job.weight;
            if self.objective == Objective::Completion {
                job.weight = worth / ahead;
                continue;
            }
            let alone = candidate.progress.as_f64() + ahead;
            let slowdown = (candidate.age.as_f64() + ahead) / alone;
            job.weight = worth * cubed(worth * slowdown) / alone;
        }
    }

    /// Estimates the remaining nanoseconds of each job alone, at least one, where some lengths are
    /// unknown.
    ///
    /// For the turnaround, a job of unknown length has the mean length of the known ones, or what
    /// it lags behind the mean progress of the unknown ones and [`LAG_QUANTA`] more, if that is
    /// longer: so all of them advance alike. Lengths and progress count as if all data were in the
    /// local DRAM. To that comes the time that slow memory adds, over a length that is known or
    /// else twice the mean progress: the jobs have as much ahead as behind them. For the other
    /// objectives, a job has as much ahead as behind it, and these quanta more.
    fn estimate_remaining<'a>(
        &mut self,
        candidates: impl Iterator<Item = &'a Candidate> + Clone,
        speeds: &SpeedModel,
    ) {
        let jobs = candidates.map(|job| (job, speeds.stretch(job)));
        let mean = |total: f64, count: f64| if count > 0.0 { total / count } else { 0.0 };
        let nanos = Nanos::as_f64;
        let (mut length, mut known, mut progress, mut count) = (0.0, 0.0, 0.0, 0.0);
        for (job, stretch) in jobs.clone() {
            if let Some(expected) = job.expected_time {
                (length, known) = (length + nanos(expected) / stretch, known + 1.0);
            } else {
                (progress, count) = (progress + nanos(job.progress) / stretch, count + 1.0);
            }
        }
        let (length, progress) = (mean(length, known), mean(progress, count));
        let turnaround = self.objective == Objective::Turnaround;
        self.remaining.clear();
        self.remaining.extend(jobs.map(|(job, stretch)| {
            let done = nanos(job.progress);
            match job.expected_time {
                Some(expected) => ahead(expected, job.progress),
                None if turnaround => {
                    let added = (stretch - 1.0) * length.max(2.0 * progress + self.lag);
                    (length.max(progress + self.lag) + added - done).max(1.0)
                }
                None => (done + self.lag).max(1.0),
            }
        }));
    }

    fn weigh_turnaround<const M: usize>(&self, jobs: &mut [Job]) {
        let (mut longest, mut core_time, mut traffic) = (0.0f64, 0.0, [0.0; M]);
        for (job, ahead) in jobs.iter().zip(&self.remaining) {
            longest = longest.max(*ahead);
            core_time += ahead * f64::from(job.cores) / self.cores;
            for (sum, utilization) in traffic.iter_mut().zip(job.load.utilization) {
                *sum += ahead * utilization;
            }
        }
        // In units of the largest bound, so that no cube leaves the range of numbers.
        let unit = traffic.iter().fold(longest.max(core_time), |most, bound| most.max(*bound));
        let core_price = cubed(core_time / unit) / self.cores;
        let bus_prices = traffic.map(|bound| cubed(bound / unit));
        for (job, ahead) in jobs.iter_mut().zip(&self.remaining) {
            let traffic = job.load.utilization.iter().zip(&bus_prices);
            let of_traffic: f64 = traffic.map(|(utilization, price)| utilization * price).sum();
            let of_time = cubed(ahead / unit) + core_price * f64::from(job.cores);
            job.weight *= of_traffic + of_time;
        }
    }
}

/// Returns the nanoseconds that a job of this length has ahead of it; at least one.
fn ahead(expected: Nanos, done: Nanos) -> f64 {
    let (expected, done) = (expected.as_f64(), done.as_f64());
    (expected - done).max(expected / LEAST_REMAINING_ONE_IN).max(1.0)
}

fn cubed(value: f64) -> f64 {
    value * value * value
}
