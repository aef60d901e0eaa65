//! Conclusions about two ways to run the same batch, from turnarounds measured in pairs: rounds of
//! a live comparison, or repetitions of a simulation with the same seed.

use serde::{Deserialize, Serialize};

use crate::metrics;

/// A paired difference of turnaround: variant minus baseline, so negative is faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Lower end of the confidence interval, in seconds.
    pub low_s: f64,
    /// Upper end of the confidence interval, in seconds.
    pub high_s: f64,
    /// Mean in percent of the baseline's mean turnaround.
    pub percent: f64,
}

impl Difference {
    /// Returns the difference between turnarounds in seconds, pair by pair, at a level of
    /// confidence between 0 and 1; `None` if there are too few pairs for an interval.
    #[must_use]
    pub fn between(baseline: &[f64], variant: &[f64], confidence: f64) -> Option<Self> {
        let pairs: Vec<(f64, f64)> =
            baseline.iter().copied().zip(variant.iter().copied()).collect();
        let difference = metrics::paired_difference(&pairs, confidence)?;
        let interval = difference.interval?;
        let whole = metrics::mean(baseline).filter(|mean| *mean > 0.0);
        Some(Self {
            mean_s: difference.mean,
            low_s: interval.low,
            high_s: interval.high,
            percent: whole.map_or(0.0, |whole| 100.0 * difference.mean / whole),
        })
    }
}

/// Conclusion about a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is the baseline of the comparison.
    Baseline,
    /// The whole interval lies below zero.
    Faster,
    /// The whole interval lies above zero.
    Slower,
    /// The interval contains zero: no difference was measured.
    NoDifference,
    /// One round gives no interval.
    TooFewRounds,
    /// The runs did not do the same work: a job failed in some of them.
    Void,
}

impl Verdict {
    /// Returns the conclusion from a difference to the baseline.
    #[must_use]
    pub fn of(difference: Option<Difference>) -> Self {
        match difference {
            None => Self::TooFewRounds,
            Some(difference) if difference.high_s < 0.0 => Self::Faster,
            Some(difference) if difference.low_s > 0.0 => Self::Slower,
            Some(_) => Self::NoDifference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_an_interval_on_one_side_of_zero() {
        let verdict = |variant: &[f64]| {
            Verdict::of(Difference::between(&[10.0, 10.5, 9.5][..variant.len()], variant, 0.95))
        };
        assert_eq!(verdict(&[8.0, 8.4, 7.6]), Verdict::Faster);
        assert_eq!(verdict(&[12.0, 12.4, 11.4]), Verdict::Slower);
        assert_eq!(verdict(&[10.1, 10.3, 9.6]), Verdict::NoDifference);
        assert_eq!(verdict(&[1.0]), Verdict::TooFewRounds);
        // The difference is always zero: the interval is a point that contains zero.
        assert_eq!(verdict(&[10.0, 10.5, 9.5]), Verdict::NoDifference);
    }

    #[test]
    fn the_percentage_is_of_the_baselines_mean() {
        let difference = Difference::between(&[10.0, 30.0], &[9.0, 27.0], 0.95).expect("two pairs");
        assert_eq!((difference.mean_s, difference.percent), (-2.0, -10.0));
        let brief = Difference::between(&[0.1, 0.3], &[0.2, 0.4], 0.95).expect("two pairs");
        assert!((brief.percent - 50.0).abs() < 1e-9);
        let of_nothing = Difference::between(&[0.0, 0.0], &[1.0, 2.0], 0.95).expect("two pairs");
        assert_eq!(of_nothing.percent, 0.0);
    }
}
