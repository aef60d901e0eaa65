//! Each policy's choice on small cases, computed by hand.

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_policy::fitness::FitnessSelector;
use memweir_policy::policies::{self, Options, POLICIES};
use memweir_policy::{Bus, Candidate, QuantumScheduler, QuantumView, TargetCurve};
use proptest::prelude::*;

use crate::machine::{self, config, gb};

/// Jobs that require these GB/s on one core each.
fn queue(demands: &[f64]) -> Vec<Candidate> {
    wide_queue(&demands.iter().map(|demand| (*demand, 1)).collect::<Vec<_>>())
}

/// Jobs that require these GB/s on this many cores.
fn wide_queue(jobs: &[(f64, u32)]) -> Vec<Candidate> {
    let candidate = |((demand, cores), job): (&(f64, u32), u32)| Candidate {
        cores: *cores,
        ..Candidate::new(JobId(job), gb(*demand))
    };
    jobs.iter().zip(0..).map(candidate).collect()
}

/// A view with this many free cores and this many GB/s committed.
fn view(queue: &[Candidate], cores: u32, committed: f64) -> QuantumView<'_> {
    QuantumView { committed: gb(committed), ..machine::view(&[], queue, cores) }
}

fn choose(policy: &str, view: &QuantumView<'_>) -> (Vec<usize>, Option<BytesPerSec>) {
    let mut policy = policies::find(policy).unwrap().build(&config(policy, 1));
    let mut chosen = Vec::new();
    policy.select(view, &mut chosen);
    (chosen, policy.target())
}

fn fittest(target: f64, view: &QuantumView<'_>) -> Vec<usize> {
    let mut chosen = Vec::new();
    FitnessSelector::default().select(gb(target), view, &mut chosen);
    chosen
}

#[test]
fn fitness_compares_with_the_share_of_each_free_core() {
    // 30 left for 2 cores, 15 each: gaps 1 14 1 15 0.5. Then 14.5 for one: gaps 0.5 13.5 1.5 15.5.
    let queue = queue(&[14.0, 1.0, 16.0, 30.0, 15.5]);
    assert_eq!(fittest(40.0, &view(&queue, 2, 10.0)), [4, 0]);
}

#[test]
fn an_exact_fit_is_the_best_and_the_first_of_equals_wins() {
    let queue = queue(&[14.0, 16.0, 15.0, 15.0]);
    assert_eq!(fittest(15.0, &view(&queue, 1, 0.0)), [2]);
    // Gaps 1 and 1 on both sides of 15.
    assert_eq!(fittest(15.0, &view(&queue[..2], 1, 0.0)), [0]);
}

#[test]
fn with_the_target_overdrawn_the_smallest_demands_are_the_fittest() {
    // -10 left for 2 cores: gaps to -5 are 12, 6, 9; then to -11: 18, 15.
    let queue = queue(&[7.0, 1.0, 4.0]);
    assert_eq!(fittest(40.0, &view(&queue, 2, 50.0)), [1, 2]);
}

#[test]
fn jobs_of_several_cores_are_compared_per_core() {
    let queue = wide_queue(&[(11.0, 1), (20.0, 2), (18.0, 2), (2.0, 1)]);
    // 40 for 4 cores: gaps to 10 are 1, 0, 1, 8. Then 20 for 2: gaps 1, 1, 8, the first wins. Then
    // 9 for 1: the third would fit exactly, 9 per core, but has two.
    assert_eq!(fittest(40.0, &view(&queue, 4, 0.0)), [1, 0, 3]);
}

#[test]
fn the_selection_ends_with_the_cores_or_the_jobs() {
    let queue = queue(&[1.0, 2.0]);
    assert_eq!(fittest(9.0, &view(&queue, 8, 0.0)), [0, 1]);
    assert!(fittest(9.0, &view(&queue, 0, 0.0)).is_empty());
    assert!(fittest(9.0, &view(&[], 8, 0.0)).is_empty());
}

#[test]
fn round_robin_takes_the_queue_in_order_and_passes_over_what_is_too_wide() {
    let queue = wide_queue(&[(9.0, 1), (0.0, 3), (5.0, 1), (1.0, 1), (1.0, 1)]);
    assert_eq!(choose("round-robin", &view(&queue, 3, 0.0)), (vec![0, 2, 3], None));
}

#[test]
fn long_job_first_takes_the_longest_and_the_unknown_last() {
    let mut queue = queue(&[0.0; 5]);
    for (job, seconds) in queue.iter_mut().zip([Some(5), None, Some(9), Some(5), Some(1)]) {
        job.expected_time = seconds.map(|seconds| Nanos(seconds * 1_000_000_000));
    }
    assert_eq!(choose("long-job-first", &view(&queue, 3, 0.0)).0, [2, 0, 3]);
    assert_eq!(choose("long-job-first", &view(&queue, 9, 0.0)).0, [2, 0, 3, 4, 1]);
    let mut policy = policies::find("long-job-first").unwrap().build(&config("long-job-first", 1));
    policy.select(&view(&queue, 9, 0.0), &mut Vec::new());
    assert_eq!(policy.reason(3), Some("longest expected time"), "the one of 1 s");
    assert_eq!(policy.reason(4), Some("next in the run queue"), "the unknown one");
}

#[test]
fn random_is_fixed_by_its_seed_and_reaches_every_job() {
    let queue = queue(&[0.0; 6]);
    let draws = |seed| {
        let mut config = config("random", 1);
        config.seed = seed;
        let mut policy = policies::find("random").unwrap().build(&config);
        let mut all = Vec::new();
        for _ in 0..100 {
            let mut chosen = Vec::new();
            policy.select(&view(&queue, 2, 0.0), &mut chosen);
            all.push(chosen);
        }
        all
    };
    assert_eq!(draws(7), draws(7));
    assert_ne!(draws(7), draws(8));
    for job in 0..6 {
        assert!(draws(7).iter().any(|chosen| chosen.contains(&job)), "{job}");
    }
}

#[test]
fn peak_bandwidth_aims_at_the_peak() {
    let queue = queue(&[5.0, 25.0, 30.0]);
    let calibrated = QuantumView {
        bus: Bus { peak: Some(gb(40.0)), ..Bus::default() },
        highest_observed: gb(90.0),
        ..view(&queue, 1, 14.0)
    };
    // 26 left for one core.
    assert_eq!(choose("peak-bandwidth", &calibrated), (vec![1], Some(gb(40.0))));
}

#[test]
fn peak_bandwidth_without_a_peak_aims_at_the_highest_seen() {
    let queue = queue(&[5.0, 25.0, 2.0]);
    let seen = |highest| QuantumView { highest_observed: gb(highest), ..view(&queue, 1, 14.0) };
    // One job requires 25 by itself: the bus can carry at least that. 11 left.
    assert_eq!(choose("peak-bandwidth", &seen(12.0)), (vec![0], Some(gb(25.0))));
    // 36 - 14 = 22 left.
    assert_eq!(choose("peak-bandwidth", &seen(36.0)), (vec![1], Some(gb(36.0))));
}

#[test]
fn ideal_average_aims_at_the_ideal_average_up_to_the_peak() {
    let queue = queue(&[5.0, 25.0, 2.0]);
    let ideal = |ideal, peak: Option<f64>| {
        let view = QuantumView {
            batch: &Some(gb(ideal)),
            bus: Bus { peak: peak.map(gb), ..Bus::default() },
            highest_observed: gb(1.0),
            ..view(&queue, 1, 14.0)
        };
        choose("ideal-average", &view)
    };
    // 20 - 14 = 6 left; 16 - 14 = 2; 60 - 14 = 46.
    assert_eq!(ideal(20.0, Some(40.0)), (vec![0], Some(gb(20.0))));
    assert_eq!(ideal(20.0, Some(16.0)), (vec![2], Some(gb(16.0))));
    // A peak that was only observed is no cap.
    assert_eq!(ideal(60.0, None), (vec![1], Some(gb(60.0))));
}

#[test]
fn ideal_average_aims_where_the_curve_says() {
    let curve = TargetCurve {
        quadratic: 0.0,
        linear: 0.5,
        constant: 1.0,
        iabw_min: gb(0.0),
        iabw_max: gb(100.0),
        r_squared: None,
    };
    let mut config = config("ideal-average", 1);
    config.target = Some(curve);
    let mut policy = policies::find("ideal-average").unwrap().build(&config);
    let queue = queue(&[5.0, 25.0, 2.0]);
    let mut chosen = Vec::new();
    let view = QuantumView { batch: &Some(gb(38.0)), ..view(&queue, 1, 14.0) };
    policy.select(&view, &mut chosen);
    // 38 / 2 + 1 = 20, 6 left.
    assert_eq!((chosen, policy.target()), (vec![0], Some(gb(20.0))));
}

#[test]
fn ideal_average_that_knows_nothing_takes_the_queue_in_order() {
    let queue = queue(&[0.0; 4]);
    assert_eq!(choose("ideal-average", &view(&queue, 2, 0.0)), (vec![0, 1], None));
}

#[test]
fn os_chooses_nobody() {
    assert_eq!(choose("os", &view(&queue(&[1.0, 2.0]), 2, 0.0)), (vec![], None));
}

#[test]
fn policies_that_block_give_a_reason_for_each_choice() {
    for entry in POLICIES.iter().filter(|entry| entry.name != "os") {
        let mut policy = (entry.build)(&config(entry.name, 2), &Options::default());
        let mut chosen = Vec::new();
        policy.select(&view(&queue(&[1.0, 2.0, 3.0]), 2, 0.0), &mut chosen);
        assert!((0..chosen.len()).all(|nth| policy.reason(nth).is_some()), "{}", entry.name);
    }
}

#[test]
fn the_table_names_every_policy_once_and_helps_with_wrong_names() {
    let names: Vec<_> = policies::names().collect();
    let expected = [
        "os",
        "round-robin",
        "random",
        "long-job-first",
        "peak-bandwidth",
        "ideal-average",
        "available-bandwidth",
        "hmmsched",
        "max-weight",
    ];
    assert_eq!(names, expected);
    assert!(POLICIES.iter().all(|entry| !entry.summary.contains('\n')));
    let refused = QuantumScheduler::new(config("ideal-avg", 2)).err().unwrap();
    assert_eq!(
        refused.sentence(),
        "unknown policy `ideal-avg`: did you mean `ideal-average`? valid: os, round-robin, \
         random, long-job-first, peak-bandwidth, ideal-average, available-bandwidth, hmmsched, \
         max-weight"
    );
}

/// Eq. (2) word by word: the largest 1 / |BW_remain / CPU_remain - BW_required|, the first of
/// equals.
fn by_the_book(target: BytesPerSec, view: &QuantumView<'_>) -> Vec<usize> {
    let (mut bw_remain, mut cpu_remain) = (target - view.committed, view.cores);
    let mut chosen = Vec::new();
    while cpu_remain > 0 {
        let mut best: Option<(usize, f64)> = None;
        for (place, job) in view.queue.iter().enumerate() {
            if chosen.contains(&place) || job.cores > cpu_remain {
                continue;
            }
            let share = bw_remain / f64::from(cpu_remain);
            let fitness = 1.0 / share.distance(job.demand_per_core()).0;
            if best.is_none_or(|(_, highest)| fitness > highest) {
                best = Some((place, fitness));
            }
        }
        let Some((place, _)) = best else { break };
        chosen.push(place);
        bw_remain -= view.queue[place].demand;
        cpu_remain -= view.queue[place].cores;
    }
    chosen
}

proptest! {
    #[test]
    fn the_selector_is_eq_2(
        // Few different demands, so that there are many equals, and whole numbers of bytes, so
        // that different gaps have different reciprocals.
        jobs in prop::collection::vec((0u32..30, 1u32..4), 0..400),
        target in 0u32..200, committed in 0u32..200, cores in 0u32..20,
    ) {
        let jobs: Vec<_> =
            jobs.iter().map(|(demand, cores)| (f64::from(*demand), *cores)).collect();
        let queue = wide_queue(&jobs);
        let view = view(&queue, cores, f64::from(committed));
        let target = f64::from(target);
        prop_assert_eq!(fittest(target, &view), by_the_book(gb(target), &view));
    }
}
