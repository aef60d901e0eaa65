use proptest::prelude::*;

use super::*;

#[test]
fn wrong_files_are_refused_with_their_line() {
    for (text, line, reason) in [
        ("", 1, "no segment file"),
        ("# a comment\n\nmemweir-segment 2\n", 3, "no segment file"),
        ("memweir-segment 1\n5\n", 2, "interval_ns"),
        ("# a comment\nmemweir-segment 1\n\n5\n", 4, "`interval_ns` and a whole number"),
        ("memweir-segment 1\ninterval_ns\n", 2, "interval_ns"),
        ("memweir-segment 1\ninterval_ns x\n5\n", 2, "`x` is no whole number"),
        ("memweir-segment 1\ninterval_ns 1\n5\n\n-4\n", 5, "`-4` is no rate"),
        ("memweir-segment 1\ninterval_ns 1\nNaN\n", 3, "is no rate"),
        ("memweir-segment 1\ninterval_ns 1\n5 6\n", 3, "is no rate"),
    ] {
        let error = parse(text, "s.txt").unwrap_err();
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    for text in ["memweir-segment 1\ninterval_ns 1\n", "memweir-segment 1\ninterval_ns 0\n5\n"] {
        assert!(parse(text, "s.txt").is_err());
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
        prop_assert_eq!(parse(&to_text(&segment), "x").unwrap(), segment);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(memweir-segment 1\n)?(interval_ns 5\n)?\\PC{0,80}") {
        if let Ok(segment) = parse(&text, "x") {
            prop_assert!(segment.mean().0.is_finite());
        }
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
        let segment = synthetic(&shape, seed);
        prop_assert_eq!(segment.rates().len(), INTERVALS);
        prop_assert!((segment.mean().0 / mean - 1.0).abs() < 1e-9);
        let peak = segment.rates().iter().fold(0.0_f64, |peak, rate| peak.max(rate.0));
        // Whole numbers of busy intervals leave some excess over the ceiling.
        prop_assert!(peak <= 4e10 * 1.05, "{peak}");
        prop_assert_eq!(synthetic(&shape, seed), segment);
    }
}
