use memweir_core::{Counts, Lines};
use proptest::prelude::*;

use super::*;

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
    // Less than nothing is nothing.
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

#[test]
fn wrong_files_are_refused_with_their_line() {
    for (text, line, reason) in [
        ("", 1, "no segment file"),
        ("# a comment\n\nmemweir-segment 2\n", 3, "no segment file"),
        ("memweir-segment 1\n5\n", 2, "interval_ns"),
        ("memweir-segment 1\ninterval_ns x\n5\n", 2, "`x` is no whole number"),
        ("memweir-segment 1\ninterval_ns 1\n5\n\n-4\n", 5, "`-4` is no rate"),
        ("memweir-segment 1\ninterval_ns 1\nNaN\n", 3, "is no rate"),
        ("memweir-segment 1\ninterval_ns 1\n5 6\n", 3, "is no rate"),
    ] {
        let error = Segment::parse(text, "s.txt").unwrap_err();
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    for text in ["memweir-segment 1\ninterval_ns 1\n", "memweir-segment 1\ninterval_ns 0\n5\n"] {
        assert!(Segment::parse(text, "s.txt").is_err());
    }
}

fn any_segment() -> impl Strategy<Value = Segment> {
    (1_u64..10_000_000, prop::collection::vec(0.0..1e11, 1..150)).prop_map(|(interval, rates)| {
        Segment::new(Nanos(interval), rates.into_iter().map(BytesPerSec).collect()).unwrap()
    })
}

proptest! {
    #[test]
    fn files_come_back(segment in any_segment()) {
        prop_assert_eq!(Segment::parse(&segment.to_text(), "x").unwrap(), segment);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(memweir-segment 1\n)?(interval_ns 5\n)?\\PC{0,80}") {
        if let Ok(segment) = Segment::parse(&text, "x") {
            prop_assert!(segment.mean().0.is_finite());
        }
    }

    #[test]
    fn a_smaller_degree_keeps_the_mean(segment in any_segment(), y in 0.0..1.0) {
        let (before, after) = (segment.mean().0, segment.with_degree(y).mean().0);
        prop_assert!((before - after).abs() <= 1e-9 * before.max(1.0));
    }

    #[test]
    fn synthetic_segments_have_the_mean_and_the_swing_that_was_asked_for(
        mean in 1e8..4e10,
        burstiness in 0.0..=1.0,
        seed in any::<u64>(),
    ) {
        let shape = Shape {
            mean: BytesPerSec(mean),
            burstiness,
            ceiling: BytesPerSec(4e10),
        };
        let segment = Segment::synthetic(&shape, seed);
        prop_assert_eq!(segment.rates().len(), INTERVALS);
        prop_assert!((segment.mean().0 / mean - 1.0).abs() < 1e-9);
        let peak = segment.rates().iter().fold(0.0_f64, |peak, rate| peak.max(rate.0));
        // Whole numbers of busy intervals leave some excess over the ceiling.
        prop_assert!(peak <= 4e10 * 1.05, "{peak}");
        prop_assert_eq!(Segment::synthetic(&shape, seed), segment);
    }
}
