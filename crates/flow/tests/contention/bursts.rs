//! Colliding bursts, as measured in iabw section 2: the directions, with figures computed by hand.

use std::sync::Arc;

use memweir_core::{Nanos, metrics};
use memweir_flow::service::GrowthPoint;
use memweir_flow::{Program, Task, simulate};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{CORE_PEAK, experiment, machine, ms, program, span, task, together};

/// Capacity of the memory, in GB/s.
const PEAK: f64 = 10.0;

/// Returns the weighted speedup of two tasks and the bandwidth that they reach, in GB/s.
fn pair(left: Task, right: Task) -> (f64, f64) {
    let outcome = together(PEAK, vec![left, right]);
    let shorter = outcome.tasks.iter().map(|task| task.finish).min().unwrap_or_default();
    let longer = outcome.turnaround;
    assert!((longer.as_f64() - shorter.as_f64()) <= 0.05 * longer.as_f64(), "they end together");
    (outcome.weighted_speedup(), outcome.mean_bandwidth().as_gb())
}

/// Fig. 1(b): two Hogs do not interfere until the peak, and then the bandwidth stalls there.
#[test]
fn two_steady_hogs_do_not_interfere_until_the_peak() {
    let hogs = |rate: f64| {
        let hog = program(&[rate]);
        pair(task(&hog, 0, 1_000), task(&hog, 0, 1_000))
    };
    for rate in [1.0, 3.0, 4.9, 5.0] {
        let (speedup, bandwidth) = hogs(rate);
        assert!((speedup - 2.0).abs() < 1e-6, "{rate}: {speedup}");
        assert!((bandwidth - 2.0 * rate).abs() < 1e-3, "{rate}: {bandwidth}");
    }
    // Two that ask for 8 get 5 each: 2 * 5 / 8.
    let (speedup, bandwidth) = hogs(8.0);
    assert!((speedup - 1.25).abs() < 1e-6 && (bandwidth - PEAK).abs() < 1e-3);
}

/// Creates bursts of 1.5 times the mean and pauses of half of it, at random.
fn bursty(mean: f64, seed: u64) -> Arc<Program> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let rates: Vec<f64> =
        (0..2_000).map(|_| mean * if random.random_bool(0.5) { 1.5 } else { 0.5 }).collect();
    program(&rates)
}

/// Fig. 3(c): two HogSims interfere from two thirds of the peak on, where two bursts (3 times one
/// mean) exceed it: 3 * mean > 10 from a combined demand of 6.67.
#[test]
fn two_fluctuating_hogsims_interfere_from_two_thirds_of_the_peak() {
    let speedup = |demand: f64| {
        let left = bursty(demand / 2.0, 1);
        let right = bursty(demand / 2.0, 2);
        pair(task(&left, 0, 2_000), task(&right, 0, 2_000))
    };
    let (below, bandwidth) = speedup(6.6);
    assert!((below - 2.0).abs() < 1e-6 && (bandwidth - 6.6).abs() < 0.2);
    let (above, bandwidth) = speedup(8.0);
    // A quarter of the time two bursts of 6 ask for 12 and get 10: with a stall of 0.6, the speed
    // is 5/6. A task is in a burst half of the time, and half of that time the other one is, too.
    assert!((1.88..1.95).contains(&above), "{above}");
    // The bandwidth no longer reaches the sum of both alone.
    assert!(bandwidth < 7.8, "{bandwidth}");
    let (saturated, bandwidth) = speedup(12.0);
    assert!(saturated < 1.7 && bandwidth > 0.85 * PEAK, "{saturated} {bandwidth}");
    assert!(2.0 - above < (2.0 - saturated) / 2.0, "the loss grows faster than the demand");
}

/// Fig. 5(a, d): with half the degree of fluctuation, interference begins later and is less.
#[test]
fn less_fluctuation_interferes_less() {
    let scaled = |degree: f64, seed: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let rate = |high: bool| 4.5 * (1.0 + degree * if high { 0.6 } else { -0.6 });
        program(&(0..2_000).map(|_| rate(random.random_bool(0.5))).collect::<Vec<_>>())
    };
    let speedup =
        |degree| pair(task(&scaled(degree, 3), 0, 2_000), task(&scaled(degree, 4), 0, 2_000)).0;
    let (full, half, none) = (speedup(1.0), speedup(0.5), speedup(0.0));
    assert!(full < half && half < none && none > 2.0 - 1e-6, "{full} {half} {none}");
}

/// Fig. 5(b, c): regular segments that start together re-align, with one's bursts in the other's
/// pauses, if their period is short compared with the run: then they lose next to nothing.
///
/// By hand: bursts of 9 and 5 GB/s ask for 14 and get 10, at a stretch of 1.54: the first, which
/// waits for memory for more of its time, runs at 1 / (0.1 + 0.9 * 1.54) = 0.67, the second at
/// 0.79. So while bursts overlap the second gets ahead, by 17 % of the overlap in each period;
/// without an overlap it gets no further ahead, because a burst and a pause ask for 10 at most.
/// Overlaps shrink geometrically and add up to 1 / 0.17 = 6 bursts, in which the two lose 0.49 +
/// 0.27 of a burst each time: 4.5 bursts in all, out of 1,000 if they are short, and of all bursts
/// if they are long. (Two equal segments run equally fast in every overlap and keep their distance;
/// two real ones are never equal.)
#[test]
fn regular_fluctuation_realigns_when_its_period_is_short() {
    let run = |half_us: u64| {
        let segment = |high: f64| {
            let spans = [high, 1.0].map(|rate| span(Nanos(half_us * 1_000), rate));
            let program = Program { name: "regular".to_owned(), spans: spans.into() };
            Task { work: ms(2_000), ..Task::once("regular", Arc::new(program)) }
        };
        together(PEAK, vec![segment(9.0), segment(5.0)]).weighted_speedup()
    };
    let (short, medium, long) = (run(1_000), run(20_000), run(500_000));
    assert!((2.0 - short - 0.00225).abs() < 0.0003, "{short}");
    assert!(short > medium && medium > long && long < 1.8, "{short} {medium} {long}");
}

/// Irregular fluctuation continues to interfere, however short its periods are.
#[test]
fn irregular_fluctuation_does_not_realign() {
    let irregular = |unit: u64, seed: u64| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let spans = (0..4_000_000 / unit)
            .map(|_| span(Nanos(unit * 1_000), if random.random_bool(0.5) { 8.0 } else { 1.0 }))
            .collect();
        Arc::new(Program { name: "irregular".to_owned(), spans })
    };
    let run = |unit| {
        let task = |seed| Task { work: ms(2_000), ..Task::once("task", irregular(unit, seed)) };
        pair(task(5), task(6)).0
    };
    let (long, short) = (run(5_000), run(100));
    assert!(long < 1.9 && short < 1.9, "{long} {short}");
    assert!((long - short).abs() < 0.05, "{long} {short}");
}

/// Fig. 6: over random combinations of four segments the loss grows faster than the demand: the
/// regression of the loss against the demand has a positive second derivative, and there is loss
/// below the peak.
#[test]
fn slowdown_of_random_combinations_grows_super_linearly() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let mut by_demand: [Vec<f64>; 4] = Default::default();
    for _ in 0..300 {
        let mut demand = 0.0;
        let tasks = (0..4)
            .map(|_| {
                let (mean, swing) = (random.random_range(0.4..3.0), random.random_range(0.3..1.0));
                demand += mean;
                let rate = |random: &mut ChaCha8Rng| {
                    mean * (1.0 + swing * if random.random_bool(0.5) { 1.0 } else { -1.0 })
                };
                let segment: Vec<f64> = (0..100).map(|_| rate(&mut random)).collect();
                task(&program(&segment), 0, 300)
            })
            .collect();
        let outcome = together(PEAK, tasks);
        let band = ((demand - 4.0) / 1.5).floor();
        if (0.0..4.0).contains(&band) {
            by_demand[band as usize].push(4.0 - outcome.weighted_speedup());
        }
    }
    // Combined demands of 4 to 10 GB/s, all below the peak, in steps of 1.5.
    let losses = by_demand.map(|losses| metrics::mean(&losses).expect("a full band"));
    assert!(losses[0] < 0.02 && losses[3] > 0.05, "{losses:?}");
    let steps: Vec<f64> = losses.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps[0] > 0.0 && steps[1] > steps[0] && steps[2] > steps[1], "{losses:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// X7, iabw eq. (3)-(7), in the engine: two phases `a` and `b`, in which all tasks together ask
    /// for different bandwidths, take no less time than the same traffic spread evenly: the
    /// engine's time is convex in the demand.
    #[test]
    fn even_bandwidth_is_best(
        a in 1u64..200, b in 1u64..200, low in 0.0..CORE_PEAK, high in 0.0..CORE_PEAK,
        tasks in 1u32..5, grows in any::<bool>(),
    ) {
        let mut machine = machine(tasks, PEAK);
        if grows {
            let point = |utilization, stretch| GrowthPoint { utilization, stretch };
            machine.memories[0].service.growth =
                vec![point(0.5, 1.0), point(0.8, 1.2), point(1.0, 2.0)].into();
        }
        let turnaround = |first: f64, second: f64| {
            let spans = vec![span(ms(a), first), span(ms(b), second)];
            let program = Arc::new(Program { name: "two phases".to_owned(), spans });
            let tasks = vec![Task::once("task", program); tasks as usize];
            let outcome = simulate(&experiment(machine.clone(), tasks, "os"));
            outcome.expect("a possible experiment").turnaround.as_f64()
        };
        let mean = (a as f64 * low + b as f64 * high) / (a + b) as f64;
        let (even, uneven) = (turnaround(mean, mean), turnaround(low, high));
        prop_assert!(even <= uneven + 1.0, "{even} {uneven}");
    }
}
