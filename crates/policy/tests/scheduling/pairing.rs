//! The central promise: on a machine whose bus two streaming jobs overload, `ideal-average` lets
//! every streaming job run beside a CPU-bound one.

use memweir_core::BytesPerSec;
use memweir_policy::{Bus, PredictorKind, TargetCurve};
use proptest::prelude::*;

use crate::machine::{Batch, QUANTUM, Work, config, run};

/// As measured on a two-core machine: one streaming reader gets 40 GB/s, two get 44 together.
const STREAM: f64 = 40.0;
const PEAK: f64 = 44.0;

fn batch(policy: &str) -> Batch {
    let mut config = config(policy, 2);
    config.bus = Bus { peak: Some(BytesPerSec::from_gb(PEAK)), ..Bus::default() };
    Batch { config, peak: PEAK, congestion: 0.0, noise: 0.0, declared: true, seed: 1 }
}

/// Seconds during which streaming jobs ran together although a CPU-bound one was waiting, and
/// during which CPU-bound jobs did although there was a streaming job left for each of them.
#[derive(Debug, Default, PartialEq)]
struct Mismatch {
    streaming_together: f64,
    cpu_bound_together: f64,
}

/// Runs the batch and measures the mismatch from the second `after` on.
fn mismatch(batch: &Batch, jobs: &[Work], after: f64) -> (Mismatch, f64) {
    let mut found = Mismatch::default();
    let mut now = 0.0;
    let streams = |job: &u32| jobs[*job as usize].gb > STREAM / 2.0;
    let turnaround = run(batch, jobs, |together, waiting, span| {
        now += span;
        if now <= after || together.len() < 2 {
            return;
        }
        let streaming = together.iter().filter(|job| streams(job)).count();
        if streaming == 2 && waiting.iter().any(|job| !streams(job)) {
            found.streaming_together += span;
        }
        let left = waiting.iter().filter(|job| streams(job)).count();
        if streaming == 0 && left >= waiting.len() - left + together.len() {
            found.cpu_bound_together += span;
        }
    });
    (found, turnaround)
}

fn streaming(seconds: f64) -> Work {
    Work { seconds, gb: STREAM }
}

fn cpu_bound(seconds: f64) -> Work {
    Work { seconds, gb: 0.05 }
}

/// Every order of four streaming and four CPU-bound jobs.
fn orders() -> Vec<Vec<Work>> {
    (0u32..256)
        .filter(|mask| mask.count_ones() == 4)
        .map(|mask| {
            (0..8).map(move |i| if mask >> i & 1 == 1 { streaming(5.0) } else { cpu_bound(5.0) })
        })
        .map(Iterator::collect)
        .collect()
}

#[test]
fn four_and_four_are_always_paired_in_whatever_order_they_came() {
    assert_eq!(orders().len(), 70);
    for jobs in orders() {
        let (found, turnaround) = mismatch(&batch("ideal-average"), &jobs, 0.0);
        assert_eq!(found, Mismatch::default(), "{jobs:?}");
        // Eight jobs of 5 s on two cores without contention.
        assert!((turnaround - 20.0).abs() < 0.2, "{turnaround}");
    }
}

#[test]
fn and_so_they_are_by_every_predictor_and_by_a_curve() {
    let predictors = [
        PredictorKind::Last,
        PredictorKind::Window { quanta: 5 },
        PredictorKind::Phase { threshold: 0.4 },
        PredictorKind::Profile,
    ];
    let points = [(10.0, 9.0), (20.0, 17.0), (40.0, 32.0), (60.0, 42.0)];
    let curve =
        TargetCurve::fit(&points.map(|(x, y)| (BytesPerSec::from_gb(x), BytesPerSec::from_gb(y))));
    for predictor in predictors {
        for target in [None, Some(curve.clone().unwrap())] {
            for jobs in orders() {
                let mut batch = batch("ideal-average");
                batch.config.predictor = predictor;
                batch.config.target = target.clone();
                assert_eq!(mismatch(&batch, &jobs, 0.0).0, Mismatch::default(), "{predictor}");
            }
        }
    }
}

#[test]
fn undeclared_jobs_are_paired_once_each_has_run_twice() {
    for jobs in orders() {
        let mut batch = batch("ideal-average");
        batch.declared = false;
        // Eight jobs on two cores have all run after four quanta.
        let learnt = 8.0 * QUANTUM.as_secs_f64();
        let (found, _) = mismatch(&batch, &jobs, learnt + 1e-9);
        assert_eq!(found, Mismatch::default(), "{jobs:?}");
    }
}

/// Neither the jobs nor the bus are declared: the slowed-down bandwidth of the streaming jobs in
/// the first quanta counts as their demand, until they have run beside others.
#[test]
fn undeclared_jobs_on_an_unknown_bus_lose_next_to_nothing() {
    for jobs in orders() {
        let mut batch = batch("ideal-average");
        batch.declared = false;
        batch.config.bus = Bus::default();
        let (_, turnaround) = mismatch(&batch, &jobs, 0.0);
        assert!(turnaround < 20.0 * 1.03, "{turnaround} s: {jobs:?}");
    }
}

#[test]
fn round_robin_does_not_do_it() {
    let jobs: Vec<_> =
        (0..8).map(|i| if i < 4 { streaming(5.0) } else { cpu_bound(5.0) }).collect();
    let (found, turnaround) = mismatch(&batch("round-robin"), &jobs, 0.0);
    assert!(found.streaming_together > 5.0, "{found:?}");
    assert!(turnaround > 24.0, "{turnaround}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Demands that move by a fifth from quantum to quantum, four and four of equal length.
    #[test]
    fn noisy_demands_are_paired(order in 0usize..70, noise in 0.0..0.2f64, seed: u64) {
        let batch = Batch { noise, seed, ..batch("ideal-average") };
        let (found, turnaround) = mismatch(&batch, &orders()[order], 0.0);
        prop_assert_eq!(found, Mismatch::default());
        prop_assert!(turnaround < 20.0 * 1.05, "{turnaround}");
    }

    /// Any number of jobs of any lengths: two streaming jobs never run together while there is a
    /// CPU-bound one to run instead.
    #[test]
    fn streaming_jobs_never_meet_while_there_is_an_alternative(
        streaming_jobs in prop::collection::vec(0.3..6.0f64, 0..7),
        cpu_bound_jobs in prop::collection::vec(0.3..6.0f64, 0..7),
        seed: u64, noise in 0.0..0.15f64,
    ) {
        // In the order of their lengths, which mixes the kinds.
        let mut jobs: Vec<_> = streaming_jobs.into_iter().map(streaming).collect();
        jobs.extend(cpu_bound_jobs.into_iter().map(cpu_bound));
        jobs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let batch = Batch { noise, seed, ..batch("ideal-average") };
        let (found, _) = mismatch(&batch, &jobs, 0.0);
        prop_assert_eq!(found.streaming_together, 0.0);
    }
}
