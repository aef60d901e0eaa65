//! How one job suffers when the bus is asked for too much, for [`super::occupancy`].
//!
//! Contention leaves a job's transactions per instruction as they are; another phase changes them.
//! Where a meter counts instructions, a job that has as many transactions per instruction as on a
//! calm bus, and fewer instructions per second of CPU time, is slowed down, and by how much. That
//! shows even on a bus that breaks down, which carries less than the saturation threshold because
//! it is asked for too much, so that what a job got would pass for what it requires (iabw section
//! 4.2 filters saturated quanta alone). Such a quantum is not believed.
//!
//! Where nothing counts instructions, a saturated bus must vouch for a slowdown, and a job's speed
//! is the traffic that it got of what it was predicted to require.
//!
//! What is measured beside others is never quite above suspicion; so a job that has not been seen
//! on a calm bus for long is to be seen without company for one quantum, when there is time for it.
//! That is repeated at intervals that double as long as it confirms what was believed.

use memweir_core::{BytesPerSec, Counts, Nanos};

/// Below this overload, a slowdown is too small to tell from noise.
const LEAST_OVERLOAD: f64 = 1.1;

/// A bus with less traffic than this share of the peak does not slow anybody down.
const CALM_SHARE: f64 = 0.5;

/// Weight of the latest sample of a sensitivity: some ten quanta make a conviction.
const LEARNING: f64 = 0.25;

/// The largest sensitivity that is believed.
const MOST_SENSITIVE: f64 = 4.0;

/// With less than this share of the peak, a job's traffic does not tell how fast it runs.
const TELLING_SHARE: f64 = 0.01;

/// Figures that differ by less than this share are the same.
const TOLERANCE: f64 = 0.1;

/// Quanta without a calm one after which a job is first to be seen alone.
const PATIENCE: u32 = 64;

/// The longest that the doubled intervals get.
const MOST_PATIENT: u32 = 1 << 16;

/// The circumstances in which jobs were observed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lesson {
    /// What the jobs were predicted to require, over the peak.
    pub(super) overload: f64,
    pub(super) peak: BytesPerSec,
    /// What they moved.
    pub(super) bandwidth: BytesPerSec,
    /// Whether that reached the saturation threshold.
    pub(super) saturated: bool,
    /// Whether it was one job.
    pub(super) alone: bool,
}

impl Lesson {
    /// Whether nobody was slowed down.
    fn is_calm(&self) -> bool {
        self.alone || (self.overload <= 1.0 && self.bandwidth.0 < CALM_SHARE * self.peak.0)
    }
}

/// What to make of the bandwidth that was measured of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is what the job requires, whether the bus was saturated or not: nobody else was there.
    Required,
    /// It is what the job requires, unless the bus was saturated.
    Plain,
    /// It was squeezed, although the bus was not saturated.
    Squeezed,
}

/// What is known of how one job suffers from overload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hindrance {
    sensitivity: f64,
    /// What was last seen of it on a calm bus.
    calm: Option<Seen>,
    /// Whole quanta since the last calm one.
    unconfirmed: u32,
    /// How many of these are too many.
    patience: u32,
    /// What was last seen of it beside others on a bus that was not calm.
    in_company: Option<Seen>,
    /// Whether it turned out to have been squeezed when it was last seen alone.
    was_squeezed: bool,
}

impl Default for Hindrance {
    fn default() -> Self {
        Self {
            sensitivity: 0.0,
            calm: None,
            unconfirmed: 0,
            patience: PATIENCE,
            in_company: None,
            was_squeezed: false,
        }
    }
}

impl Hindrance {
    /// By how much of itself the job slows down when the bus is asked for twice what it carries.
    pub(super) fn sensitivity(&self) -> f64 {
        self.sensitivity
    }

    /// Whether a quantum without company would tell something that nothing else does.
    pub(super) fn wants_to_be_seen(&self) -> bool {
        self.unconfirmed >= self.patience
    }

    /// Whether, when it was last seen alone, it was faster at what it had been doing before.
    pub(super) fn was_squeezed(&self) -> bool {
        self.was_squeezed
    }

    /// Learns from a whole quantum in which the job was predicted to require `demand`, if
    /// something was known of it.
    pub(super) fn learn(
        &mut self,
        lesson: &Lesson,
        demand: Option<BytesPerSec>,
        seen: &Seen,
    ) -> Verdict {
        if lesson.is_calm() {
            self.confirm(lesson, demand, seen);
            return if lesson.alone { Verdict::Required } else { Verdict::Plain };
        }
        self.unconfirmed = self.unconfirmed.saturating_add(1);
        self.in_company = Some(*seen);
        let Some((speed, verdict)) = self.speed(lesson, demand, seen) else {
            return Verdict::Plain;
        };
        if lesson.overload >= LEAST_OVERLOAD {
            let sensitivity = (1.0 / speed - 1.0) / (lesson.overload - 1.0);
            let sample = sensitivity.clamp(0.0, MOST_SENSITIVE);
            self.sensitivity += LEARNING * (sample - self.sensitivity);
        }
        if speed < 1.0 - TOLERANCE { verdict } else { Verdict::Plain }
    }

    /// Learns what the job is like when nothing slows it down.
    fn confirm(&mut self, lesson: &Lesson, demand: Option<BytesPerSec>, seen: &Seen) {
        self.calm = Some(*seen);
        self.unconfirmed = 0;
        if lesson.alone {
            self.was_squeezed = self.in_company.take().is_some_and(|before| {
                let speed = before.speed_over(seen).unwrap_or(1.0);
                before.same_phase(seen) && speed < 1.0 - TOLERANCE
            });
            let expected = demand.is_some_and(|demand| same(demand.0, seen.bandwidth.0));
            self.patience = match expected {
                true => (self.patience * 2).min(MOST_PATIENT),
                false => PATIENCE,
            };
        }
    }

    /// How fast it ran, as a share of its speed on a calm bus, with what that says of its traffic
    /// if it was slow; `None` where nothing tells.
    fn speed(
        &self,
        lesson: &Lesson,
        demand: Option<BytesPerSec>,
        seen: &Seen,
    ) -> Option<(f64, Verdict)> {
        let ratio = self.calm.and_then(|calm| seen.speed_over(&calm));
        let telling = demand.filter(|demand| demand.0 >= TELLING_SHARE * lesson.peak.0);
        match (ratio, telling) {
            (Some(ratio), _) if self.calm.is_some_and(|calm| calm.same_phase(seen)) => {
                Some((ratio, Verdict::Squeezed))
            }
            // Of so little traffic, shares are noise.
            (Some(ratio), None) if lesson.saturated => Some((ratio, Verdict::Plain)),
            // It is known to be in another phase.
            (Some(_), _) => None,
            (None, Some(demand)) if lesson.saturated => {
                Some((seen.bandwidth.0 / demand.0, Verdict::Plain))
            }
            (None, _) => None,
        }
    }
}

/// What was measured of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    bandwidth: BytesPerSec,
    /// Per second of CPU time, in which a job waits for memory but not for anything else; absent
    /// where they are not counted.
    instructions: Option<f64>,
    /// Transactions per instruction, likewise.
    intensity: Option<f64>,
}

impl Seen {
    /// What `counts` amount to in a quantum of `elapsed` time.
    pub(super) fn new(counts: &Counts, elapsed: Nanos, cpu_time: Nanos) -> Self {
        let counted = counts.instructions > 0 && cpu_time > Nanos::ZERO;
        let instructions = Some(counts.instructions as f64).filter(|_| counted);
        Self {
            bandwidth: counts.bandwidth(elapsed),
            instructions: instructions.map(|count| count / cpu_time.as_secs_f64()),
            intensity: instructions.map(|count| counts.lines().as_f64() / count),
        }
    }

    /// Whether this and `other` have the same traffic per instruction.
    fn same_phase(&self, other: &Self) -> bool {
        self.intensity.zip(other.intensity).is_some_and(|(this, other)| same(this, other))
    }

    /// Instructions per second over those of `other`.
    fn speed_over(&self, other: &Self) -> Option<f64> {
        self.instructions.zip(other.instructions).map(|(this, other)| this / other)
    }
}

/// Whether two figures are the same as far as can be measured.
fn same(left: f64, right: f64) -> bool {
    (left - right).abs() <= TOLERANCE * left.max(right)
}

#[cfg(test)]
mod tests;
