//! Draws the rates of a synthetic program, millisecond by millisecond.

use memweir_core::{BytesPerSec, Nanos};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{FINE, Fluctuation, Synthetic};

/// A stretch of one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Length of the step.
    pub(super) length: Nanos,
    /// Bandwidth, constant over the step.
    pub(super) rate: BytesPerSec,
    /// Number of the phase's kind.
    pub(super) kind: u32,
}

/// Least rate of a step before scaling, over the mean, so that raising the lower steps can reach a
/// mean near the ceiling.
const FLOOR: f64 = 1e-3;

/// Draws the steps of the whole cycle, in order, scaled to the program's mean.
pub(super) fn steps(program: &Synthetic) -> Vec<Step> {
    let mut random = ChaCha8Rng::seed_from_u64(program.seed);
    let levels = levels(program.phases.kinds, program.phases.spread);
    let lengths: Vec<Nanos> =
        levels.iter().map(|_| around(program.phases.length, 0.5, &mut random)).collect();
    let mut steps = Vec::new();
    let mut left = program.length;
    let mut kind = 0;
    while left > Nanos::ZERO {
        // A phase returns with about the same length, on which phase prediction depends.
        let length = around(lengths[kind], 0.1, &mut random).min(left);
        fluctuate(&program.fluctuation, length, &mut random, |length, swing| {
            let rate = BytesPerSec((levels[kind] * (1.0 + swing)).max(FLOOR));
            steps.push(Step { length, rate, kind: kind as u32 });
        });
        left = left - length;
        kind = (kind + 1) % levels.len();
    }
    scale_to_mean(&mut steps, program.bandwidth, program.highest());
    steps
}

/// Returns the bandwidths of the kinds of phases over their mean: evenly spaced, with the given
/// standard deviation.
fn levels(kinds: u32, spread: f64) -> Vec<f64> {
    if kinds < 2 {
        return vec![1.0];
    }
    let last = f64::from(kinds - 1);
    // The standard deviation of points evenly spaced from -1 to 1.
    let deviation = ((last + 2.0) / (3.0 * last)).sqrt();
    (0..kinds)
        .map(|kind| (1.0 + spread / deviation * (2.0 * f64::from(kind) / last - 1.0)).max(0.0))
        .collect()
}

/// Draws a length from `1 - range` to `1 + range` times `mean`, in whole fine intervals.
fn around(mean: Nanos, range: f64, random: &mut ChaCha8Rng) -> Nanos {
    whole(mean.as_f64() * random.random_range(1.0 - range..=1.0 + range))
}

/// Rounds `length` nanoseconds to a whole number of fine intervals; at least one.
fn whole(length: f64) -> Nanos {
    Nanos(FINE.0 * ((length / FINE.as_f64()).round().max(1.0) as u64))
}

/// Draws runs above and below the mean in turn: calls `each` with the length of a run and its
/// distance from the mean, over the mean.
fn fluctuate(
    fluctuation: &Fluctuation,
    length: Nanos,
    random: &mut ChaCha8Rng,
    mut each: impl FnMut(Nanos, f64),
) {
    if fluctuation.degree == 0.0 {
        return each(length, 0.0);
    }
    let r = fluctuation.regularity;
    // Heights are r + (1 - r) u with u uniform in [0, 2): their mean square is this.
    let square = r * r + 2.0 * r * (1.0 - r) + (1.0 - r) * (1.0 - r) * 4.0 / 3.0;
    let scale = fluctuation.degree / square.sqrt();
    let mut left = length;
    let mut sign = if random.random_bool(0.5) { 1.0 } else { -1.0 };
    while left > Nanos::ZERO {
        // Exponential runs have no memory: the most irregular ones with a given mean.
        let exponential = -(1.0 - random.random::<f64>()).ln();
        let stretch = r + (1.0 - r) * exponential;
        let run = whole(fluctuation.period.as_f64() * stretch).min(left);
        let height = r + (1.0 - r) * random.random_range(0.0..2.0);
        each(run, sign * scale * height);
        left = left - run;
        sign = -sign;
    }
}

/// Scales the rates so that their mean is `mean`. Rates above `ceiling` are cut there, and the
/// others raised to compensate.
fn scale_to_mean(steps: &mut [Step], mean: BytesPerSec, ceiling: BytesPerSec) {
    let total: f64 = steps.iter().map(|step| step.length.as_f64()).sum();
    let cut_mean = |steps: &[Step], factor: f64| {
        let cut = |step: &Step| step.length.as_f64() * (step.rate.0 * factor).min(ceiling.0);
        steps.iter().map(cut).sum::<f64>() / total
    };
    // The mean after the cut grows with the factor, up to the ceiling: no rate is below the floor.
    let (mut low, mut high) = (0.0, mean.0);
    while cut_mean(steps, high) < mean.0 && high < ceiling.0 / FLOOR {
        high *= 2.0;
    }
    // One step for each bit of a float.
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if cut_mean(steps, middle) < mean.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    for step in steps {
        step.rate = BytesPerSec((step.rate.0 * high).min(ceiling.0));
    }
}
