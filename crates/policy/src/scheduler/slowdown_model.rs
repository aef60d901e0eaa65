//! Model of the slowdown of one job on an overloaded bus, for [`super::occupancy`].
//!
//! Contention leaves a job's transactions per instruction unchanged; a new phase changes them. With
//! a meter that counts instructions, a job with as many transactions per instruction as on a calm
//! bus, but fewer instructions per second of CPU time, is slowed down, by the ratio of the two
//! rates. This works even on a bus that collapses under overload: it carries less than the
//! saturation threshold, so that the measured bandwidth of a job would pass for its demand (iabw
//! section 4.2 filters saturated quanta alone). The measurement of such a quantum is rejected.
//!
//! Without instruction counts, a slowdown is accepted only on a saturated bus, and a job's speed is
//! its measured bandwidth over its predicted demand.
//!
//! A measurement beside other jobs is never fully reliable. A job that has not been observed on a
//! calm bus for long therefore runs alone for one quantum when time permits. The interval between
//! such quanta doubles as long as they confirm the prediction.

use memweir_core::{BytesPerSec, Counts, Nanos};

/// Overload below which a slowdown is too small to separate from noise.
const LEAST_OVERLOAD: f64 = 1.1;

/// Share of the peak below which the traffic on the bus slows no job down.
const CALM_SHARE: f64 = 0.5;

/// Weight of the latest sample of a sensitivity: about ten quanta decide it.
const LEARNING: f64 = 0.25;

/// Largest sensitivity that is accepted.
const MOST_SENSITIVE: f64 = 4.0;

/// Share of the peak below which a job's traffic does not show its speed.
const TELLING_SHARE: f64 = 0.01;

/// Relative difference up to which two figures count as equal.
const TOLERANCE: f64 = 0.1;

/// Initial number of quanta without a calm one after which a job asks to run alone.
const QUANTA_BEFORE_ALONE: u32 = 64;

/// Upper limit of the doubled intervals.
const MOST_PATIENT: u32 = 1 << 16;

/// Conditions under which a quantum's jobs were observed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowdownSample {
    /// Predicted demand of all jobs over the peak.
    pub(super) overload: f64,
    pub(super) peak: BytesPerSec,
    /// Measured bandwidth of all jobs.
    pub(super) bandwidth: BytesPerSec,
    /// True if `bandwidth` reached the saturation threshold.
    pub(super) saturated: bool,
    /// True if there was only one job.
    pub(super) alone: bool,
}

impl SlowdownSample {
    /// Returns true if no job was slowed down.
    fn is_calm(&self) -> bool {
        self.alone || (self.overload <= 1.0 && self.bandwidth.0 < CALM_SHARE * self.peak.0)
    }
}

/// Relation of a job's measured bandwidth to its demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BandwidthEvidence {
    /// The bandwidth equals the demand, even on a saturated bus: the job ran alone.
    Demand,
    /// The bandwidth equals the demand unless the bus was saturated.
    DemandUnlessSaturated,
    /// The bandwidth is below the demand, on a saturated bus or not.
    Slowed,
}

/// Knowledge of one job's slowdown under overload.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowdownModel {
    sensitivity: f64,
    /// Last measurement on a calm bus.
    calm: Option<Measurement>,
    /// Whole quanta since the last calm one.
    unconfirmed: u32,
    /// Number of unconfirmed quanta after which the job asks to run alone.
    patience: u32,
    /// Last measurement beside other jobs on a bus that was not calm.
    beside_others: Option<Measurement>,
    /// True if the last quantum alone showed that the job had been slowed down before.
    was_slowed: bool,
}

impl Default for SlowdownModel {
    fn default() -> Self {
        Self {
            sensitivity: 0.0,
            calm: None,
            unconfirmed: 0,
            patience: QUANTA_BEFORE_ALONE,
            beside_others: None,
            was_slowed: false,
        }
    }
}

impl SlowdownModel {
    /// Returns the job's slowdown less one when demand is twice the peak.
    pub(super) fn sensitivity(&self) -> f64 {
        self.sensitivity
    }

    /// Returns true if the job needs a quantum alone.
    pub(super) fn needs_solo_quantum(&self) -> bool {
        self.unconfirmed >= self.patience
    }

    /// Returns true if, when last run alone, the job was faster in the same phase than before.
    pub(super) fn was_slowed(&self) -> bool {
        self.was_slowed
    }

    /// Learns from a whole quantum in which the job was predicted to require `demand`, if that was
    /// known.
    pub(super) fn learn(
        &mut self,
        sample: &SlowdownSample,
        demand: Option<BytesPerSec>,
        measured: &Measurement,
    ) -> BandwidthEvidence {
        if sample.is_calm() {
            self.confirm(sample, demand, measured);
            return if sample.alone {
                BandwidthEvidence::Demand
            } else {
                BandwidthEvidence::DemandUnlessSaturated
            };
        }
        self.unconfirmed = self.unconfirmed.saturating_add(1);
        self.beside_others = Some(*measured);
        let Some((speed, evidence)) = self.speed(sample, demand, measured) else {
            return BandwidthEvidence::DemandUnlessSaturated;
        };
        if sample.overload >= LEAST_OVERLOAD {
            let sensitivity = (1.0 / speed - 1.0) / (sample.overload - 1.0);
            let latest = sensitivity.clamp(0.0, MOST_SENSITIVE);
            self.sensitivity += LEARNING * (latest - self.sensitivity);
        }
        if speed < 1.0 - TOLERANCE { evidence } else { BandwidthEvidence::DemandUnlessSaturated }
    }

    /// Learns the job's behavior without slowdown.
    fn confirm(
        &mut self,
        sample: &SlowdownSample,
        demand: Option<BytesPerSec>,
        measured: &Measurement,
    ) {
        self.calm = Some(*measured);
        self.unconfirmed = 0;
        if sample.alone {
            self.was_slowed = self.beside_others.take().is_some_and(|before| {
                let speed = before.speed_over(measured).unwrap_or(1.0);
                before.same_phase(measured) && speed < 1.0 - TOLERANCE
            });
            let expected = demand.is_some_and(|demand| same(demand.0, measured.bandwidth.0));
            self.patience = match expected {
                true => (self.patience * 2).min(MOST_PATIENT),
                false => QUANTA_BEFORE_ALONE,
            };
        }
    }

    /// Returns the job's speed as a share of its speed on a calm bus, and the evidence in its
    /// bandwidth if it was slow; `None` if its speed is unknown.
    fn speed(
        &self,
        sample: &SlowdownSample,
        demand: Option<BytesPerSec>,
        measured: &Measurement,
    ) -> Option<(f64, BandwidthEvidence)> {
        let ratio = self.calm.and_then(|calm| measured.speed_over(&calm));
        let telling = demand.filter(|demand| demand.0 >= TELLING_SHARE * sample.peak.0);
        match (ratio, telling) {
            (Some(ratio), _) if self.calm.is_some_and(|calm| calm.same_phase(measured)) => {
                Some((ratio, BandwidthEvidence::Slowed))
            }
            // With so little traffic, transactions per instruction are noise.
            (Some(ratio), None) if sample.saturated => {
                Some((ratio, BandwidthEvidence::DemandUnlessSaturated))
            }
            // The job is known to be in another phase.
            (Some(_), _) => None,
            (None, Some(demand)) if sample.saturated => {
                Some((measured.bandwidth.0 / demand.0, BandwidthEvidence::DemandUnlessSaturated))
            }
            (None, _) => None,
        }
    }
}

/// Measurement of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    bandwidth: BytesPerSec,
    /// Instructions per second of CPU time, which includes waits for memory but for nothing else;
    /// absent if they are not counted.
    instructions: Option<f64>,
    /// Transactions per instruction; absent if instructions are not counted.
    intensity: Option<f64>,
}

impl Measurement {
    /// Returns the measurement for `counts` in a quantum of `elapsed` time.
    pub(super) fn new(counts: &Counts, elapsed: Nanos, cpu_time: Nanos) -> Self {
        let counted = counts.instructions > 0 && cpu_time > Nanos::ZERO;
        let instructions = Some(counts.instructions as f64).filter(|_| counted);
        Self {
            bandwidth: counts.bandwidth(elapsed),
            instructions: instructions.map(|count| count / cpu_time.as_secs_f64()),
            intensity: instructions.map(|count| counts.lines().as_f64() / count),
        }
    }

    /// Returns true if both measurements have the same traffic per instruction.
    fn same_phase(&self, other: &Self) -> bool {
        self.intensity.zip(other.intensity).is_some_and(|(this, other)| same(this, other))
    }

    /// Returns the instructions per second relative to `other`.
    fn speed_over(&self, other: &Self) -> Option<f64> {
        self.instructions.zip(other.instructions).map(|(this, other)| this / other)
    }
}

/// Returns true if two figures are equal within the tolerance.
fn same(left: f64, right: f64) -> bool {
    (left - right).abs() <= TOLERANCE * left.max(right)
}

#[cfg(test)]
mod tests;
