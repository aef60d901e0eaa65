//! Bandwidth segments: a job's demand in one scheduling quantum, at fine intervals (iabw section
//! 2.2), with the transformations of section 2.3 (X4).
//!
//! `memweir-run` replays segments on a real bus, and defines their file format.

use crate::input::InputError;
use crate::profile::Profile;
use crate::units::{BytesPerSec, Nanos};

/// Fine intervals per segment: one scheduling quantum of 100 ms at 1 ms.
pub const INTERVALS: usize = 100;

/// Highest number of intervals in a segment.
const MAX_INTERVALS: usize = 1_000_000;

/// The bandwidth that a job demands in consecutive fine intervals, `<a_1, ..., a_100>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    interval: Nanos,
    rates: Vec<BytesPerSec>,
}

impl Segment {
    /// Creates a segment of these rates, `interval` each.
    ///
    /// # Errors
    /// Refuses an interval of zero or more than a minute, no rates or more than a million, and
    /// rates that are negative or not finite.
    pub fn new(interval: Nanos, rates: Vec<BytesPerSec>) -> Result<Self, InputError> {
        let refuse = |reason: &str| Err(InputError::new("segment", reason));
        if interval == Nanos::ZERO || interval > Nanos::from_millis(60_000) {
            return refuse("an interval lasts from a nanosecond to a minute");
        }
        if rates.is_empty() || rates.len() > MAX_INTERVALS {
            return refuse("a segment has from one to a million intervals");
        }
        if rates.iter().any(|rate| !is_rate(*rate)) {
            return refuse("a rate is a finite number, zero or more");
        }
        Ok(Self { interval, rates })
    }

    /// Returns the length of one interval.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Returns the rates, in order.
    #[must_use]
    pub fn rates(&self) -> &[BytesPerSec] {
        &self.rates
    }

    /// Returns the length of the whole segment.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        Nanos(self.interval.0 * self.rates.len() as u64)
    }

    /// Returns the mean rate.
    #[must_use]
    pub fn mean(&self) -> BytesPerSec {
        self.rates.iter().copied().sum::<BytesPerSec>() / self.rates.len() as f64
    }

    /// Scales the *degree* of fluctuation by `y`: the distance of each rate from the mean times
    /// `y`. A rate that would become negative is zero instead, which raises the mean.
    #[must_use]
    pub fn with_degree(&self, y: f64) -> Self {
        let mean = self.mean();
        let scale = |rate: &BytesPerSec| (mean + (*rate - mean) * y).max(BytesPerSec::ZERO);
        Self { interval: self.interval, rates: self.rates.iter().map(scale).collect() }
    }

    /// Scales the *period* of fluctuation by `x`: every interval lasts `x` times as long, and
    /// HogSim repeats the segment more often in the same time if `x` is below 1. An interval never
    /// becomes shorter than a nanosecond.
    #[must_use]
    pub fn with_period(&self, x: f64) -> Self {
        let interval = Nanos(((self.interval.as_f64() * x).round() as u64).max(1));
        Self { interval, rates: self.rates.clone() }
    }

    /// Returns every rate times `factor`, the "shift" that varies the demand in Fig. 3(c).
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let rates = self.rates.iter().map(|rate| *rate * factor).collect();
        Self { interval: self.interval, rates }
    }

    /// Returns the number of times that the rate crosses its mean.
    #[must_use]
    pub fn crossings(&self) -> usize {
        let mean = self.mean();
        let sides: Vec<bool> =
            self.rates.iter().filter(|rate| **rate != mean).map(|rate| *rate > mean).collect();
        sides.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// Returns the *period* of fluctuation: the mean time between two crossings of the mean. `None`
    /// for a segment that never crosses it.
    #[must_use]
    pub fn fluctuation_period(&self) -> Option<Nanos> {
        let crossings = self.crossings() as u64;
        (crossings > 0).then(|| Nanos(self.duration().0 / crossings))
    }

    /// Returns the regular counterpart (Fig. 4d): it alternates between the highest and the lowest
    /// rate of this segment, each for one fluctuation period, as often as fits, so that its
    /// repetition stays regular. A segment that never crosses its mean is already regular.
    #[must_use]
    pub fn regular(&self) -> Self {
        let Some(period) = self.fluctuation_period() else { return self.clone() };
        let run = (period.0 as f64 / self.interval.as_f64()).round() as usize;
        let high = self.rates.iter().copied().fold(BytesPerSec::ZERO, BytesPerSec::max);
        let low = self.rates.iter().copied().fold(high, BytesPerSec::min);
        let swings = (self.rates.len() / (2 * run)).max(1);
        let rates = (0..2 * run * swings)
            .map(|index| if (index / run).is_multiple_of(2) { high } else { low })
            .collect();
        Self { interval: self.interval, rates }
    }

    /// Returns the whole quanta of a recorded program, 100 intervals each.
    ///
    /// # Errors
    /// Refuses profiles with an interval other than 1 ms, and profiles shorter than a quantum.
    pub fn extract(profile: &Profile) -> Result<Vec<Self>, InputError> {
        if profile.interval != Nanos::MILLI {
            return Err(InputError::new(
                "profile",
                format!(
                    "segments have intervals of 1 ms, this one has {} ms",
                    profile.interval.as_millis_f64()
                ),
            ));
        }
        let rates: Vec<_> = (0..profile.intervals.len())
            .map(|index| profile.intervals[index].bandwidth(profile.span_of(index)))
            .collect();
        let segments: Vec<_> = rates
            .chunks_exact(INTERVALS)
            .map(|rates| Self { interval: profile.interval, rates: rates.to_vec() })
            .collect();
        if segments.is_empty() {
            return Err(InputError::new("profile", "the program ended within its first quantum"));
        }
        Ok(segments)
    }
}

/// Returns true for a valid rate of a segment: a finite number, zero or more.
#[must_use]
pub fn is_rate(rate: BytesPerSec) -> bool {
    rate.0.is_finite() && rate.0 >= 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Counts, Lines};

    fn segment(rates: &[f64]) -> Segment {
        Segment::new(Nanos::MILLI, rates.iter().copied().map(BytesPerSec).collect()).unwrap()
    }

    fn values(segment: &Segment) -> Vec<f64> {
        segment.rates().iter().map(|rate| rate.0).collect()
    }

    #[test]
    fn degree_scales_the_distance_from_the_mean() {
        // Mean 20.
        let original = segment(&[10.0, 30.0, 20.0, 20.0]);
        assert_eq!(values(&original.with_degree(0.5)), [15.0, 25.0, 20.0, 20.0]);
        assert_eq!(values(&original.with_degree(0.0)), [20.0; 4]);
        assert_eq!(values(&original.with_degree(2.0)), [0.0, 40.0, 20.0, 20.0]);
        // Negative rates become zero.
        assert_eq!(values(&original.with_degree(3.0)), [0.0, 50.0, 20.0, 20.0]);
    }

    #[test]
    fn period_is_the_mean_time_between_crossings() {
        // Mean 20; above, below, at the mean (no side), below, above: two crossings in 5 ms.
        let original = segment(&[30.0, 10.0, 20.0, 10.0, 30.0]);
        assert_eq!(original.crossings(), 2);
        assert_eq!(original.fluctuation_period(), Some(Nanos(2_500_000)));
        let halved = original.with_period(0.5);
        assert_eq!(halved.interval(), Nanos(500_000));
        assert_eq!(halved.fluctuation_period(), Some(Nanos(1_250_000)));
        assert_eq!(halved.mean(), original.mean());
        assert_eq!(segment(&[7.0; 3]).fluctuation_period(), None);
    }

    #[test]
    fn the_regular_counterpart_swings_between_the_extremes_once_per_period() {
        // Crossings: after the 2nd and the 4th of 6 ms, so the period is 3 ms.
        let original = segment(&[9.0, 8.0, 1.0, 2.0, 9.0, 7.0]);
        assert_eq!(values(&original.regular()), [9.0, 9.0, 9.0, 1.0, 1.0, 1.0]);
        let steady = segment(&[5.0; 4]);
        assert_eq!(steady.regular(), steady);
        // Five crossings in 12 ms: a period of 2.4 ms, runs of 2, and three swings of 4 ms each.
        let twelve = [9.0, 9.0, 1.0, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0, 9.0, 9.0, 1.0];
        let swing = [9.0, 9.0, 1.0, 1.0];
        assert_eq!(values(&segment(&twelve).regular()), swing.repeat(3));
        // Two crossings in 7 ms: runs of 4, of which the segment has one swing at least.
        let seven = segment(&[9.0, 9.0, 1.0, 1.0, 9.0, 9.0, 9.0]);
        assert_eq!(values(&seven.regular()), [9.0, 9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0]);
        // A run is no shorter than an interval, for there are fewer crossings than intervals.
        let fast = segment(&[9.0, 1.0, 9.0, 1.0]);
        assert_eq!(fast.regular(), fast);
    }

    #[test]
    fn what_is_no_segment_is_refused() {
        let minute = Nanos::from_millis(60_000);
        let refused = |interval: Nanos, rates: Vec<BytesPerSec>| {
            Segment::new(interval, rates).err().map(|error| error.reason)
        };
        let rates = |rates: &[f64]| rates.iter().copied().map(BytesPerSec).collect::<Vec<_>>();
        assert_eq!(refused(minute, rates(&[0.0, 0.5])), None);
        assert_eq!(refused(Nanos(1), rates(&[0.0; 1_000_000])), None);
        for interval in [Nanos::ZERO, Nanos(minute.0 + 1)] {
            assert!(refused(interval, rates(&[1.0])).unwrap().contains("to a minute"));
        }
        for none_or_many in [vec![], rates(&[0.0; 1_000_001])] {
            assert!(refused(minute, none_or_many).unwrap().contains("to a million"));
        }
        for no_rate in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(refused(minute, rates(&[1.0, no_rate])).unwrap().contains("zero or more"));
        }
    }

    #[test]
    fn an_interval_is_rounded_to_a_nanosecond_or_more() {
        let brief = Segment::new(Nanos(3), vec![BytesPerSec(8.0)]).unwrap();
        assert_eq!([0.5, 0.01].map(|x| brief.with_period(x).interval()), [Nanos(2), Nanos(1)]);
        assert_eq!(values(&brief.scaled(1.5)), [12.0]);
    }

    #[test]
    fn extraction_takes_whole_quanta() {
        let row = |n: u64| Counts::new(0, Lines(n), Lines(1));
        let mut profile = Profile {
            interval: Nanos::MILLI,
            intervals: (0..250).map(row).collect(),
            cpu_time: Nanos::from_millis(250),
            wall_time: Nanos::from_millis(250),
        };
        let segments = Segment::extract(&profile).unwrap();
        assert_eq!(segments.len(), 2);
        // Interval 137 holds 138 lines in 1 ms.
        assert_eq!(segments[1].rates()[37], Lines(138).over(Nanos::MILLI));
        profile.intervals.truncate(99);
        profile.cpu_time = Nanos::from_millis(99);
        assert!(Segment::extract(&profile).unwrap_err().reason.contains("first quantum"));
        let coarse = profile.coarser(10);
        assert!(Segment::extract(&coarse).unwrap_err().reason.contains("10 ms"));
    }

    fn any_segment() -> impl Strategy<Value = Segment> {
        (1_u64..10_000_000, prop::collection::vec(0.0..1e11, 1..150)).prop_map(
            |(interval, rates)| {
                Segment::new(Nanos(interval), rates.into_iter().map(BytesPerSec).collect()).unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn a_smaller_degree_keeps_the_mean(segment in any_segment(), y in 0.0..1.0) {
            let (before, after) = (segment.mean().0, segment.with_degree(y).mean().0);
            prop_assert!((before - after).abs() <= 1e-9 * before.max(1.0));
        }
    }
}
