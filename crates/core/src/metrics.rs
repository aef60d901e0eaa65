//! Metrics of iabw (X14): speedup, turnaround, spread, and tests for a measured difference.
//!
//! These are plain functions over measurements. Rates come as the units of [`crate::units`];
//! statistics that serve any quantity, and ratios of times in any unit, take floats.

mod robust;

pub use robust::hodges_lehmann;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::units::BytesPerSec;

/// Share of the peak within which a predicted bandwidth counts as correct (iabw section 5.6).
pub const PREDICTION_TOLERANCE: f64 = 0.05;

/// Returns the weighted speedup of jobs that ran together, iabw eq. (1): the sum over the jobs of
/// the time alone over the time shared. N jobs that do not disturb each other reach N. A job whose
/// shared time is zero is skipped.
///
/// ```
/// use memweir_core::metrics::weighted_speedup;
///
/// // One undisturbed, one twice as slow.
/// assert_eq!(weighted_speedup(&[(10.0, 10.0), (10.0, 20.0)]), 1.5);
/// ```
#[must_use]
pub fn weighted_speedup(alone_and_shared: &[(f64, f64)]) -> f64 {
    let shared = alone_and_shared.iter().filter(|(_, shared)| *shared > 0.0);
    shared.map(|(alone, shared)| alone / shared).sum()
}

/// Returns the largest slowdown of any job, the unfairness of bpm section 4.3: time shared over
/// time alone. `None` if no job has a nonzero time alone.
#[must_use]
pub fn maximum_slowdown(alone_and_shared: &[(f64, f64)]) -> Option<f64> {
    slowdowns(alone_and_shared).max_by(f64::total_cmp)
}

/// Returns the harmonic speedup: the number of jobs over the sum of their slowdowns, 1 if they do
/// not disturb each other. It reflects both throughput and fairness. `None` if no job has a nonzero
/// time alone.
#[must_use]
pub fn harmonic_speedup(alone_and_shared: &[(f64, f64)]) -> Option<f64> {
    let (count, sum) = slowdowns(alone_and_shared)
        .fold((0, 0.0), |(count, sum), slowdown| (count + 1, sum + slowdown));
    (sum > 0.0).then(|| f64::from(count) / sum)
}

/// Returns time shared over time alone of each job with a nonzero time alone.
fn slowdowns(alone_and_shared: &[(f64, f64)]) -> impl Iterator<Item = f64> {
    let lasting = alone_and_shared.iter().filter(|(alone, _)| *alone > 0.0);
    lasting.map(|(alone, shared)| shared / alone)
}

/// Returns the mean; `None` of no values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the standard deviation of the population of which `values` are a sample (division by
/// `n - 1`); `None` of fewer than two. Over the bandwidths of all quanta it is the measure of iabw
/// Fig. 9(b).
#[must_use]
pub fn std_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Returns the standard deviation in percent of the mean, the %RSD of iabw section 5.1; `None` of
/// fewer than two values, or around a mean of zero.
#[must_use]
pub fn relative_std_deviation_percent(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean != 0.0)?;
    std_deviation(values).map(|deviation| 100.0 * deviation / mean.abs())
}

/// Returns Spearman's rank correlation of pairs of values: 1 if both grow together, -1 if one falls
/// as the other grows; equal values share a rank. `None` of fewer than two pairs, or if one side is
/// constant. Excess values of the longer side are ignored.
#[must_use]
pub fn rank_correlation(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let count = xs.len().min(ys.len());
    let (xs, ys) = (ranks(&xs[..count]), ranks(&ys[..count]));
    let (mean_x, mean_y) = (mean(&xs)?, mean(&ys)?);
    let pairs = || xs.iter().zip(&ys).map(|(x, y)| (x - mean_x, y - mean_y));
    let product: f64 = pairs().map(|(x, y)| x * y).sum();
    let squares: (f64, f64) = pairs().fold((0.0, 0.0), |(a, b), (x, y)| (a + x * x, b + y * y));
    let scale = (squares.0 * squares.1).sqrt();
    (scale > 0.0).then(|| product / scale)
}

/// Returns the rank of each value, from one; equal values get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let equal = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|value| below(*value) + (equal(*value) + 1.0) / 2.0).collect()
}

/// A range that contains the true value with the probability of its level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A difference between two conditions that were measured in pairs, so that a drift of the machine
/// affects both members of a pair alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedDifference {
    /// Mean over the pairs of the difference.
    pub mean: f64,
    /// Confidence interval of the mean; absent for a single pair, which shows no spread.
    pub interval: Option<Interval>,
}

/// Returns the difference `other - baseline` over `(baseline, other)` pairs, with its confidence
/// interval by Student's t of this `level`, 0.95 for 95 %. `None` of no pairs, or for a level that
/// is not between 0 and 1.
#[must_use]
pub fn paired_difference(pairs: &[(f64, f64)], level: f64) -> Option<PairedDifference> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    let differences: Vec<f64> = pairs.iter().map(|(baseline, other)| other - baseline).collect();
    let (n, mean) = (differences.len(), mean(&differences)?);
    let interval = std_deviation(&differences).and_then(|deviation| {
        let quantile = student_t_quantile(n - 1, level)?;
        let half = quantile * deviation / (n as f64).sqrt();
        Some(Interval { low: mean - half, high: mean + half })
    });
    Some(PairedDifference { mean, interval })
}

/// Returns the two-sided quantile of Student's t: the share `level` of the distribution, between 0
/// and 1, lies within plus or minus it. `None` without a degree of freedom.
#[must_use]
pub fn student_t_quantile(degrees_of_freedom: usize, level: f64) -> Option<f64> {
    let distribution = StudentsT::new(0.0, 1.0, degrees_of_freedom as f64).ok()?;
    Some(distribution.inverse_cdf(0.5 + level / 2.0))
}

/// One band of a bandwidth breakdown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandwidthBand {
    /// Lower edge, which belongs to the band.
    pub from: BytesPerSec,
    /// Upper edge, which does not; absent in the last band.
    pub to: Option<BytesPerSec>,
    /// Share of the quanta, 0 to 1.
    pub share: f64,
}

/// Returns the shares of the quanta per band of system bandwidth, the BTR breakdown of iabw Fig.
/// 10: `bands` bands of equal width from zero to the peak, then one for everything from the peak
/// on. With a peak that is not positive, or no bands, only the last one remains.
#[must_use]
pub fn bandwidth_breakdown(
    quanta: &[BytesPerSec],
    peak: BytesPerSec,
    bands: usize,
) -> Vec<BandwidthBand> {
    let bands = if peak.0 > 0.0 && peak.0.is_finite() { bands } else { 0 };
    let edge = |index: usize| {
        if index == 0 { BytesPerSec::ZERO } else { peak * (index as f64 / bands as f64) }
    };
    let mut breakdown: Vec<BandwidthBand> = (0..=bands)
        .map(|index| BandwidthBand {
            from: edge(index),
            to: (index < bands).then(|| edge(index + 1)),
            share: 0.0,
        })
        .collect();
    for rate in quanta {
        // By the edges as reported, not by division, so that a rate on an edge is in the band that
        // includes that edge.
        let band = breakdown.partition_point(|band| band.from.0 <= rate.0).saturating_sub(1);
        breakdown[band].share += 1.0 / quanta.len() as f64;
    }
    breakdown
}

/// Returns the share of the quanta whose bandwidth was predicted to within 5 % of the peak (iabw
/// Fig. 15), from `(predicted, measured)` pairs; `None` of no pairs.
#[must_use]
pub fn prediction_accuracy(
    predicted_and_measured: &[(BytesPerSec, BytesPerSec)],
    peak: BytesPerSec,
) -> Option<f64> {
    let tolerance = peak * PREDICTION_TOLERANCE;
    let right = predicted_and_measured
        .iter()
        .filter(|(predicted, measured)| predicted.distance(*measured).0 < tolerance.0)
        .count();
    let all = predicted_and_measured.len();
    (all > 0).then(|| right as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gb(value: f64) -> BytesPerSec {
        BytesPerSec::from_gb(value)
    }

    fn close(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance
    }

    #[test]
    fn weighted_speedup_by_hand() {
        // 100/100 + 100/125 + 60/80 = 1 + 0.8 + 0.75.
        let jobs = [(100.0, 100.0), (100.0, 125.0), (60.0, 80.0)];
        assert!(close(weighted_speedup(&jobs), 2.55, 1e-12));
        assert_eq!(weighted_speedup(&[(5.0, 0.0)]), 0.0);
        assert_eq!(weighted_speedup(&[]), 0.0);
    }

    #[test]
    fn slowdowns_by_hand() {
        // Slowdowns 1, 1.25 and 4/3: three over 43/12.
        let jobs = [(100.0, 100.0), (100.0, 125.0), (60.0, 80.0)];
        assert!(close(maximum_slowdown(&jobs).unwrap(), 4.0 / 3.0, 1e-12));
        assert!(close(harmonic_speedup(&jobs).unwrap(), 36.0 / 43.0, 1e-12));
        assert_eq!((maximum_slowdown(&[]), harmonic_speedup(&[])), (None, None));
        // Of brief jobs, too; one that takes no time alone is skipped.
        let brief = [(0.5, 0.25), (0.0, 1.0)];
        assert_eq!((maximum_slowdown(&brief), harmonic_speedup(&brief)), (Some(0.5), Some(2.0)));
        assert_eq!(weighted_speedup(&brief), 2.0);
    }

    #[test]
    fn spread_by_hand() {
        // Around 5: 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, over 7.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        let deviation = (32.0f64 / 7.0).sqrt();
        assert!(close(std_deviation(&values).unwrap(), deviation, 1e-12));
        let percent = relative_std_deviation_percent(&values).unwrap();
        assert!(close(percent, 20.0 * deviation, 1e-12));
    }

    #[test]
    fn too_few_values_have_no_spread() {
        assert_eq!((mean(&[]), std_deviation(&[])), (None, None));
        assert_eq!(std_deviation(&[3.0]), None);
        assert_eq!(relative_std_deviation_percent(&[3.0]), None);
        assert_eq!(relative_std_deviation_percent(&[-1.0, 1.0]), None);
        assert_eq!(relative_std_deviation_percent(&[-2.0, -2.0]), Some(0.0));
        let negative = relative_std_deviation_percent(&[-4.0, -2.0]).unwrap();
        assert!(close(negative, 100.0 * 2.0f64.sqrt() / 3.0, 1e-12));
    }

    #[test]
    fn t_quantiles_are_those_of_the_tables() {
        let table = [
            (1, 0.95, 12.706_204_736),
            (2, 0.95, 4.302_652_730),
            (4, 0.95, 2.776_445_105),
            (9, 0.95, 2.262_157_163),
            (4, 0.99, 4.604_094_871),
            (30, 0.90, 1.697_260_887),
        ];
        for (degrees, level, expected) in table {
            let quantile = student_t_quantile(degrees, level).unwrap();
            assert!(close(quantile, expected, 1e-6), "{degrees} {level}: {quantile}");
        }
    }

    #[test]
    fn paired_difference_of_five_by_hand() {
        let pairs = [(17.0, 16.0), (16.5, 15.0), (17.5, 15.5), (16.0, 15.5), (18.0, 15.5)];
        // Differences -1, -1.5, -2, -0.5, -2.5: mean -1.5, deviations 0.5 0 -0.5 1 -1, squares 2.5
        // over 4; t(4, 95 %) 2.776445.
        let half = 2.776_445_105 * (2.5f64 / 4.0).sqrt() / 5.0f64.sqrt();
        let difference = paired_difference(&pairs, 0.95).unwrap();
        assert_eq!(difference.mean, -1.5);
        let interval = difference.interval.unwrap();
        assert!(close(interval.low, -1.5 - half, 1e-6), "{interval:?}");
        assert!(close(interval.high, -1.5 + half, 1e-6), "{interval:?}");
    }

    #[test]
    fn one_pair_measures_no_difference() {
        let difference = paired_difference(&[(10.0, 1.0)], 0.95).unwrap();
        assert_eq!((difference.mean, difference.interval), (-9.0, None));
        assert_eq!(paired_difference(&[], 0.95), None);
        for level in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(paired_difference(&[(1.0, 2.0), (1.0, 3.0)], level), None);
        }
    }

    #[test]
    fn breakdown_by_hand() {
        let quanta = [0.0, 9.9, 10.0, 25.0, 39.9, 40.0, 41.0, 99.0].map(gb);
        let shares: Vec<(f64, Option<f64>, f64)> = bandwidth_breakdown(&quanta, gb(40.0), 4)
            .iter()
            .map(|band| (band.from.as_gb(), band.to.map(BytesPerSec::as_gb), band.share))
            .collect();
        let expected = [
            (0.0, Some(10.0), 0.25),
            (10.0, Some(20.0), 0.125),
            (20.0, Some(30.0), 0.125),
            (30.0, Some(40.0), 0.125),
            (40.0, None, 0.375),
        ];
        assert_eq!(shares, expected);
    }

    #[test]
    fn breakdown_without_a_peak_is_one_band() {
        for (peak, bands) in [(gb(0.0), 4), (gb(10.0), 0), (BytesPerSec(f64::NAN), 3)] {
            let breakdown = bandwidth_breakdown(&[gb(1.0), gb(2.0)], peak, bands);
            let only = BandwidthBand { from: gb(0.0), to: None, share: 1.0 };
            assert_eq!(breakdown, [only]);
        }
        assert!(bandwidth_breakdown(&[], gb(4.0), 2).iter().all(|band| band.share == 0.0));
    }

    #[test]
    fn accuracy_counts_quanta_within_five_percent_of_the_peak() {
        // 5 % of 40 is 2: distances 1.9, 2.0 and 0 count as right, wrong, right.
        let pairs = [(10.0, 11.9), (10.0, 12.0), (3.0, 3.0)].map(|(p, m)| (gb(p), gb(m)));
        assert_eq!(prediction_accuracy(&pairs, gb(40.0)), Some(2.0 / 3.0));
        assert_eq!(prediction_accuracy(&[], gb(40.0)), None);
        assert_eq!(prediction_accuracy(&pairs[..1], gb(40.0)), Some(1.0));
    }

    #[test]
    fn rank_correlation_knows_order_only() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 9.0], &[5.0, 6.0, 7.0]), Some(1.0));
        assert_eq!(rank_correlation(&[1.0, 2.0, 9.0], &[7.0, 6.0, 5.0]), Some(-1.0));
        // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 over the root of 4.5 times 5.
        let tied = rank_correlation(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((tied - (4.5_f64 / 5.0).sqrt()).abs() < 1e-12);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(rank_correlation(&[1.0], &[1.0]), None);
        // Values beyond the end of the other side do not count.
        assert_eq!(rank_correlation(&[1.0, 2.0, 0.0], &[5.0, 6.0]), Some(1.0));
        assert_eq!(rank_correlation(&[1.0, 2.0], &[5.0, 6.0, 0.0]), Some(1.0));
    }

    proptest! {
        #[test]
        fn shares_add_up_to_one(
            quanta in prop::collection::vec(0.0..100.0f64, 1..200), peak in 0.1..80.0f64,
            bands in 0usize..20,
        ) {
            let quanta: Vec<_> = quanta.into_iter().map(gb).collect();
            let breakdown = bandwidth_breakdown(&quanta, gb(peak), bands);
            prop_assert_eq!(breakdown.len(), bands + 1);
            prop_assert!(close(breakdown.iter().map(|band| band.share).sum(), 1.0, 1e-9));
            for pair in breakdown.windows(2) {
                prop_assert_eq!(pair[0].to, Some(pair[1].from));
            }
        }

        #[test]
        fn a_wider_level_gives_a_wider_interval_around_the_same_mean(
            pairs in prop::collection::vec((1.0..50.0f64, 1.0..50.0f64), 2..20),
        ) {
            let at = |level| paired_difference(&pairs, level).unwrap();
            let (narrow, wide) = (at(0.8), at(0.99));
            prop_assert_eq!(narrow.mean, wide.mean);
            let (narrow, wide) = (narrow.interval.unwrap(), wide.interval.unwrap());
            prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
        }
    }
}
