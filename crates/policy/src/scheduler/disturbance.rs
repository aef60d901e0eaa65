//! Learns how jobs disturb each other beyond the bus, for the [`speed`](crate::speed) model.
//!
//! Beside others a job takes the time per instruction
//!
//! ```text
//! T = a (1 + w) + g P                  sensitivity v = g / a
//! ```
//!
//! where `a` is its time alone, `w` the part of that by which the bus prolongs it, by the speed
//! model, `P` the pressure of the others, and `g` what a unit of it adds. Each quantum gives one
//! such equation for each of its jobs. A Kalman filter solves them as they come: it learns `a` and
//! `g` of the job by linear regression, and corrects the pressures of the others by what is left.
//! Of the correlations between these figures it keeps the one between `a` and `g`.
//!
//! Not every quantum says something of company:
//! * Near the peak, errors of the model of the bus would pass for disturbance.
//! * In another phase a job takes another time alone. The more its traffic per instruction departs
//!   from what it was, the less an equation counts; the same where its time varies by itself.
//!
//! So a sensitivity counts only as far as it is certain. Company that has done no harm is harmless,
//! and gets tried.

use memweir_core::units::LINE_BYTES;
use memweir_core::{Counts, Nanos};

use super::QuantumScheduler;
use super::job::{Job, Placement};
use super::table::Slot;
use super::types::Observation;
use crate::speed::Disturbance;

/// Least standard deviation of a time per instruction, over the time.
const NOISE: f64 = 0.1;

/// Standard deviation of the first time alone: where the bandwidth alone is known, which gives it,
/// and else, when it is taken from the first quantum.
const FIRST_ALONE: (f64, f64) = (0.3, 0.5);

/// A job that waits for memory for less of its time alone has traffic that does not tell its time.
const LEAST_MEMORY_BOUND: f64 = 0.1;

/// A bandwidth alone that gives a time alone which differs from the measured one by more than this
/// factor is wrong, or that of another phase.
const SANE: f64 = 10.0;

/// Standard deviation of the time that a unit of pressure adds, before anything is known.
const FIRST_ADDED: f64 = 1.0;

/// Standard deviation of a first pressure, over the utilization that stands for it.
const FIRST_PRESSURE: f64 = 0.5;

/// Least utilization that stands for a pressure.
const LEAST_PRESSURE: f64 = 0.02;

/// Variances that a quantum adds to these three, since jobs change; that of the pressure over the
/// square of its first deviation.
const DRIFT: [f64; 3] = [0.001, 0.01, 0.01];

/// Relative deviation of a time per instruction for each change of the traffic per instruction by
/// a factor of e.
const OTHER_PHASE: f64 = 3.0;

/// Weight of a quantum in the mean traffic per instruction, and in the variance of what is left.
const LEARNING: [f64; 2] = [0.2, 0.1];

/// Standard deviations by which a sensitivity counts for less than its estimate.
const CERTAIN: f64 = 2.0;

/// Least time alone, over the first one.
const LEAST_ALONE: f64 = 0.05;

/// One job in one quantum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Nanoseconds per instruction.
    time: f64,
    /// The same alone, if the bandwidth alone is known.
    alone: Option<f64>,
    /// Logarithm of the lines per instruction.
    intensity: f64,
    /// Part of its time alone by which the bus prolonged it, by the speed model.
    waiting: f64,
    /// Its utilization of the media, which stands for its pressure at first.
    utilization: f64,
}

impl Seen {
    /// Returns what a quantum shows of a job; `None` if that is nothing: without instructions, when
    /// the job was off its cores for half of the time, or before its demand is known.
    pub(super) fn of(job: &Job, observation: &Observation, elapsed: Nanos) -> Option<Self> {
        let counts = observation.counts.filter(|counts| counts.instructions > 0)?;
        let busy = elapsed.as_f64() * f64::from(job.spec.cores) / 2.0;
        if observation.cpu_time.as_f64() < busy {
            return None;
        }
        job.demand()?;
        let instructions = counts.instructions as f64;
        let intensity = lines_per_instruction(&counts);
        let time = observation.cpu_time.as_f64() / instructions;
        let telling = job.memory_bound >= LEAST_MEMORY_BOUND;
        let rate = job.spec.expected_bandwidth.filter(|rate| telling && rate.0 > 0.0);
        let alone = rate.map(|rate| intensity * LINE_BYTES as f64 / rate.0 * 1e9);
        Some(Self {
            time,
            alone: alone.filter(|alone| (1.0 / SANE..SANE).contains(&(time / alone))),
            intensity: intensity.ln(),
            waiting: job.waiting,
            utilization: job.utilization,
        })
    }
}

/// Returns the lines per instruction, positive.
fn lines_per_instruction(counts: &Counts) -> f64 {
    (counts.lines().as_f64() + 1.0) / counts.instructions as f64
}

/// Estimates of one job. Times are in units of its first one.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The unit, in nanoseconds per instruction.
    unit: f64,
    /// Time alone, and what a unit of pressure adds.
    alone: f64,
    added: f64,
    /// Variance of the one, covariance, variance of the other.
    covariance: [f64; 3],
    pressure: f64,
    pressure_variance: f64,
    first_pressure_variance: f64,
    /// Mean logarithm of the lines per instruction.
    intensity: f64,
    /// Relative variance of a time.
    noise: f64,
}

impl Estimate {
    fn first(seen: &Seen) -> Self {
        let deviation = if seen.alone.is_some() { FIRST_ALONE.0 } else { FIRST_ALONE.1 };
        let pressure_variance = squared(FIRST_PRESSURE * seen.utilization.max(LEAST_PRESSURE));
        Self {
            unit: seen.alone.unwrap_or(seen.time),
            alone: 1.0,
            added: 0.0,
            covariance: [squared(deviation), 0.0, squared(FIRST_ADDED)],
            pressure: seen.utilization,
            pressure_variance,
            first_pressure_variance: pressure_variance,
            intensity: seen.intensity,
            noise: squared(NOISE),
        }
    }

    /// Adds what may have changed since the last quantum.
    fn drift(&mut self) {
        let first_pressure = self.first_pressure_variance;
        widen(&mut self.covariance[0], DRIFT[0], squared(FIRST_ALONE.1));
        widen(&mut self.covariance[2], DRIFT[1], squared(FIRST_ADDED));
        widen(&mut self.pressure_variance, DRIFT[2] * first_pressure, first_pressure);
    }
}

/// Adds to a variance, unless as little is known as at first.
fn widen(variance: &mut f64, drift: f64, first: f64) {
    if *variance < first {
        *variance += drift;
    }
}

/// A job of a quantum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    slot: Slot,
    known: Estimate,
    seen: Seen,
}

/// Knowledge of the disturbance between one job and others. Most jobs have none, and a decision
/// goes through all of them, so it lies elsewhere.
#[derive(Debug, Default)]
pub(super) struct DisturbanceModel(Option<Box<Estimate>>);

impl DisturbanceModel {
    /// Returns what is certain.
    pub(super) fn disturbance(&self) -> Disturbance {
        let Some(known) = &self.0 else { return Disturbance::default() };
        let added = (known.added - CERTAIN * known.covariance[2].sqrt()).max(0.0);
        Disturbance { sensitivity: added / known.alone, pressure: Some(known.pressure) }
    }
}

/// Learns from the jobs of one quantum.
fn learn(jobs: &mut [Member]) {
    jobs.iter_mut().for_each(|job| job.known.drift());
    for place in 0..jobs.len() {
        correct(jobs, place);
    }
}

/// Corrects the estimates by the time of the job at this place.
fn correct(jobs: &mut [Member], place: usize) {
    let Member { known: job, seen, .. } = jobs[place];
    let sum = |of: fn(&Estimate) -> f64| {
        jobs.iter().map(|other| of(&other.known)).sum::<f64>() - of(&job)
    };
    let (pressure, uncertain) = (sum(|job| job.pressure), sum(|job| job.pressure_variance));
    let time = seen.time / job.unit;
    let bus = 1.0 + seen.waiting;
    let left = time - (job.alone * bus + job.added * pressure);
    // Covariances of the estimates with the time that they predict.
    let [alone, both, added] = job.covariance;
    let (of_alone, of_added) = (alone * bus + both * pressure, both * bus + added * pressure);
    let predicted = of_alone * bus + of_added * pressure + squared(job.added) * uncertain;
    let other_phase = squared(OTHER_PHASE * (seen.intensity - job.intensity));
    let variance = predicted + squared(time) * (job.noise.max(squared(NOISE)) + other_phase);
    let others = jobs.iter_mut().enumerate().filter(|(other, _)| *other != place);
    for other in others.map(|(_, other)| &mut other.known) {
        let gain = other.pressure_variance * job.added / variance;
        other.pressure = (other.pressure + gain * left).max(0.0);
        other.pressure_variance *= 1.0 - gain * job.added;
    }
    let noise = ((squared(left) - predicted) / squared(time)).clamp(0.0, 1.0);
    let job = &mut jobs[place].known;
    job.alone = (job.alone + of_alone / variance * left).max(LEAST_ALONE);
    job.added = (job.added + of_added / variance * left).max(0.0);
    job.covariance = [
        alone - squared(of_alone) / variance,
        both - of_alone * of_added / variance,
        added - squared(of_added) / variance,
    ];
    job.intensity += LEARNING[0] * (seen.intensity - job.intensity);
    job.noise += LEARNING[1] * (noise - job.noise);
}

fn squared(value: f64) -> f64 {
    value * value
}

impl QuantumScheduler {
    /// Learns the disturbance between the jobs of a quantum whose set has not changed, if all of
    /// them show something.
    pub(super) fn learn_disturbance(&mut self, elapsed: Nanos, observations: &[Observation]) {
        let members = &mut self.scratch.members;
        members.clear();
        members.extend(observations.iter().filter_map(|observation| {
            let slot = self.jobs.slot_of(observation.job)?;
            let job = &self.jobs[slot];
            let seen = Seen::of(job, observation, elapsed)?;
            let known =
                job.disturbance.0.as_deref().copied().unwrap_or_else(|| Estimate::first(&seen));
            (job.placement == Placement::Running).then_some(Member { slot, known, seen })
        }));
        if members.len() < self.chosen.len() {
            return;
        }
        learn(members);
        for Member { slot, known, .. } in members {
            self.jobs[*slot].disturbance = DisturbanceModel(Some(Box::new(*known)));
        }
    }
}

#[cfg(test)]
mod tests;
