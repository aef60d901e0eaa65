use memweir_core::medium::{Distance, Medium, MediumKind};
use memweir_core::{BytesPerSec, JobId, Media, Nanos, Picos, Priority};
use proptest::prelude::*;

use super::choice::Ranked;
use super::*;
use crate::ebw::TrafficRates;
use crate::policies::find;
use crate::policy::Candidate;
use crate::scheduler::Bus;
use crate::speed::SpeedModel;

fn gb(value: f64) -> BytesPerSec {
    BytesPerSec::from_gb(value)
}

fn seconds(value: f64) -> Nanos {
    Nanos::from_secs_f64(value)
}

/// A bus of 10 GB/s.
fn machine(cores: u32) -> SchedulerConfig {
    SchedulerConfig {
        cores,
        bus: Bus { peak: Some(gb(10.0)), ..Bus::default() },
        ..SchedulerConfig::default()
    }
}

/// A job that requires this many GB/s on one core and takes this many seconds.
fn job(demand: f64, length: f64) -> Candidate {
    Candidate {
        job: JobId(0),
        cores: 1,
        demand: gb(demand),
        expected_time: Some(seconds(length)),
        traffic: TrafficRates::local_reads(gb(demand)),
        executed: Nanos::ZERO,
        progress: Nanos::ZERO,
        age: Nanos::ZERO,
        priority: Priority::default(),
    }
}

fn choose(
    policy: &str,
    config: &SchedulerConfig,
    running: &[Candidate],
    queue: &[Candidate],
) -> Vec<usize> {
    let speeds = SpeedModel::new(config);
    let view = QuantumView {
        quantum: 0,
        cores: config.cores - running.iter().map(|job| job.cores).sum::<u32>(),
        committed: running.iter().map(|job| job.demand).sum(),
        running,
        queue,
        bus: config.bus,
        highest_observed: BytesPerSec::ZERO,
        batch: &None,
        speeds: &speeds,
    };
    let mut chosen = Vec::new();
    find(policy).expect("a policy").build(config).select(&view, &mut chosen);
    chosen
}

fn sorted(mut chosen: Vec<usize>) -> Vec<usize> {
    chosen.sort_unstable();
    chosen
}

#[test]
fn without_contention_the_longest_run_first() {
    let queue: Vec<_> = [3.0, 9.0, 1.0, 7.0].map(|length| job(0.0, length)).into();
    assert_eq!(sorted(choose("max-weight", &machine(2), &[], &queue)), [1, 3]);
    let progress = Candidate { progress: seconds(8.5), ..queue[1] };
    let queue = [queue[0], progress, queue[2], queue[3]];
    assert_eq!(sorted(choose("max-weight", &machine(2), &[], &queue)), [0, 3]);
}

#[test]
fn a_heavy_job_runs_beside_a_light_one_of_equal_length() {
    // Two jobs of 9 GB/s beside each other: each must draw 5, x = 0.25 + 0.8 / (9/11) = 1.228,
    // speed 0.499. Beside a light one: x = 0.25 * 0.9^4 = 0.164, speeds 0.882 and 1.
    let queue: Vec<_> = [9.0, 9.0, 0.0].map(|demand| job(demand, 10.0)).into();
    let chosen = choose("max-weight", &machine(2), &[job(9.0, 10.0)], &queue);
    assert_eq!(chosen, [2]);
    let chosen = choose("max-weight", &machine(2), &[job(0.0, 10.0)], &queue);
    assert_eq!(chosen, [0]);
}

#[test]
fn a_long_job_runs_beside_another_heavy_one_if_the_rest_is_short() {
    // The lengths are the bound: 100 s, against 71 core seconds and 19 s of traffic.
    let queue = [job(9.0, 100.0), job(0.0, 20.0), job(0.0, 20.0)];
    assert_eq!(choose("max-weight", &machine(2), &[job(9.0, 1.0)], &queue), [0]);
}

#[test]
fn jobs_of_unknown_length_advance_alike() {
    let unknown = |demand: f64, progress: f64| Candidate {
        expected_time: None,
        progress: seconds(progress),
        ..job(demand, 0.0)
    };
    // The second is far behind, although it is the heavier one.
    let queue = [unknown(1.0, 60.0), unknown(5.0, 2.0), unknown(1.0, 58.0)];
    assert_eq!(choose("max-weight", &machine(2), &[unknown(5.0, 59.0)], &queue), [1]);
}

#[test]
fn a_priority_multiplies_the_weight_under_every_objective() {
    let with = |length, step| Candidate { priority: Priority(step), ..job(0.0, length) };
    // Worth 4 / 3.5 s, against 1 / 1 s and 1 / 3 s.
    let queue = [with(1.0, 0), with(3.5, 2), with(3.0, 0)];
    assert_eq!(choose("max-weight:completion", &machine(1), &[], &queue), [1]);
    // Both wait for as long as they take: slowdown 2, so 2^4 * 2^3 / 10 against 2^3 / 1.
    let waited = |length, step| Candidate { age: seconds(length), ..with(length, step) };
    let queue = [waited(1.0, 0), waited(10.0, 1)];
    assert_eq!(choose("max-weight:slowdown", &machine(1), &[], &queue), [1]);
    // The longest, 5^3 + 12^3 in the turnaround; twice 4^3 + 12^3 is more.
    let queue = [with(5.0, 0), with(4.0, 1), with(3.0, 0)];
    assert_eq!(choose("max-weight", &machine(1), &[], &queue), [1]);
}

#[test]
fn the_mean_completion_time_wants_the_shortest_first() {
    let queue: Vec<_> = [3.0, 9.0, 1.0, 7.0].map(|length| job(0.0, length)).into();
    assert_eq!(sorted(choose("max-weight:completion", &machine(2), &[], &queue)), [0, 2]);
}

#[test]
fn the_largest_slowdown_wants_those_first_that_waited_longest_for_their_length() {
    let waited = |length, age| Candidate { age: seconds(age), ..job(0.0, length) };
    // Slowdowns (20 + 10) / 10 = 3, (2 + 1) / 1 = 3, (20 + 100) / 100 = 1.2: of equal slowdowns the
    // shorter job gains more by a second.
    let queue = [waited(10.0, 20.0), waited(1.0, 2.0), waited(100.0, 20.0)];
    assert_eq!(choose("max-weight:slowdown", &machine(1), &[], &queue), [1]);
    assert_eq!(sorted(choose("max-weight:slowdown", &machine(2), &[], &queue)), [0, 1]);
}

#[test]
fn wide_jobs_count_by_what_they_add_per_core() {
    let wide = Candidate { cores: 2, ..job(0.0, 10.0) };
    // The wide job is one of the longest and has as much core time ahead as both others.
    let chosen = choose("max-weight", &machine(2), &[], &[job(0.0, 5.0), wide, job(0.0, 5.0)]);
    assert_eq!(chosen, [1]);
    // It does not fit beside the running job.
    let running = [job(0.0, 5.0)];
    let chosen = choose("max-weight", &machine(2), &running, &[wide, job(0.0, 1.0)]);
    assert_eq!(chosen, [1]);
}

/// Two cores, and DRAM and NVM of 10 GB/s each; the NVM has this latency, the DRAM 25 ns.
fn hybrid(latency_ns: u64) -> SchedulerConfig {
    let medium = |name: &str, kind, latency| Medium {
        name: name.to_owned(),
        kind,
        distance: Distance::Local,
        read_latency: Picos::from_nanos(latency),
        write_latency: Picos::from_nanos(latency),
    };
    let media =
        vec![medium("dram", MediumKind::Dram, 25), medium("nvm", MediumKind::Nvm, latency_ns)];
    SchedulerConfig {
        media: Media::new(media).expect("two media"),
        medium_peaks: [Some(gb(10.0)), Some(gb(10.0)), None, None],
        ..machine(2)
    }
}

/// A job that reads this many GB/s of one of two media.
fn reader(medium: usize, demand: f64) -> Candidate {
    let mut traffic = TrafficRates::default();
    traffic.0[medium].reads = gb(demand);
    Candidate { traffic, ..job(demand, 10.0) }
}

#[test]
fn media_of_their_own_do_not_contend() {
    let waiting = [reader(0, 9.0), reader(1, 9.0)];
    assert_eq!(choose("max-weight", &hybrid(25), &[reader(0, 9.0)], &waiting), [1]);
    assert_eq!(choose("max-weight", &hybrid(25), &[reader(1, 9.0)], &waiting), [0]);
}

#[test]
fn jobs_in_slow_memory_are_expected_to_take_longer() {
    let unknown = |medium| Candidate { expected_time: None, ..reader(medium, 0.5) };
    let waiting = [unknown(0), unknown(1), unknown(0)];
    // Alike but for their memory: with equal latencies the order of the queue decides.
    assert_eq!(choose("max-weight", &hybrid(25), &[job(0.0, 1.0)], &waiting), [0]);
    assert_eq!(choose("max-weight", &hybrid(100), &[job(0.0, 1.0)], &waiting), [1]);
}

#[test]
fn jobs_in_slow_memory_have_as_much_ahead_as_behind_them() {
    for (latency, expected) in [(25, 0), (100, 1)] {
        let machine = hybrid(latency);
        let stretch = SpeedModel::new(&machine).stretch(&reader(1, 0.5));
        let after = |medium, seconds: f64| {
            let progress = Nanos((seconds * 1e9) as u64);
            Candidate { expected_time: None, progress, ..reader(medium, 0.5) }
        };
        // As if in DRAM the second is 10 s ahead. What slow memory adds to the 210 s that each is
        // expected to take counts for more.
        let waiting = [after(0, 100.0), after(1, 110.0 * stretch)];
        let chosen = choose("max-weight", &machine, &[job(0.0, 1.0)], &waiting);
        assert_eq!(chosen, [expected], "stretch {stretch}");
    }
}

/// Jobs of one core by their utilization and their weight.
type Figures = Vec<(f64, f64)>;

fn jobs(figures: &[(f64, f64)]) -> Vec<Job> {
    let speeds = SpeedModel::new(&machine(2));
    let with_load = |(utilization, weight): &(f64, f64)| {
        let candidate = job(10.0 * utilization, 1.0);
        Job { weight: *weight, ..Job::new(speeds.load(&candidate), &candidate) }
    };
    figures.iter().map(with_load).collect()
}

fn figures(most: usize) -> impl Strategy<Value = Figures> {
    prop::collection::vec((0.0f64..1.2, 0.01f64..1.0), 1..most)
}

/// Returns the highest weighted speed of all sets of so many of the waiting jobs.
fn exhaustive(problem: &Problem<'_>, waiting: usize) -> f64 {
    let size = problem.cores.min(waiting as u32);
    (0u32..1 << waiting)
        .filter(|set| set.count_ones() == size)
        .map(|set| problem.value((0..waiting).filter(|place| set >> place & 1 == 1)))
        .fold(0.0, f64::max)
}

#[test]
fn ranks_follow_falling_scores_then_places() {
    let scores = [f64::INFINITY, 2.5, 1.0, 1e-30, 0.0, -1e-30, -3.0, f64::NEG_INFINITY];
    let ranked: Vec<Ranked> = scores.iter().map(|score| Ranked::new(*score, 7)).collect();
    assert!(ranked.is_sorted_by(|higher, lower| higher < lower), "{ranked:?}");
    assert!(Ranked::new(1.0, 3) < Ranked::new(1.0, 4));
    assert_eq!(Ranked::new(-2.0, 1000).place(), 1000);
}

/// Single exchanges lead nowhere from the light and the heavy job to the two in between.
#[test]
fn the_search_exchanges_no_pairs() {
    let speeds = SpeedModel::new(&machine(4));
    let running = (0.067, 0.01);
    let waiting = [(0.0, 0.606), (0.241, 0.749), (0.849, 0.895), (0.312, 0.739)];
    let jobs = jobs(&[&[running], &waiting[..]].concat());
    let problem = Problem { speeds: &speeds, jobs: &jobs, running: 1, cores: 2 };
    let chosen: Vec<usize> = Chooser::default().choose(&problem).collect();
    assert_eq!(sorted(chosen), [0, 2]);
    let part = problem.value([0, 2]) / problem.value([1, 3]);
    assert!((0.94..0.95).contains(&part), "{part}");
}

/// Sixteen heavy jobs draw four times the peak, and the scores beside them say that only light ones
/// should run; beside sixteen light ones they say the contrary.
#[test]
fn many_cores_get_a_mix_of_heavy_and_light_jobs() {
    let speeds = SpeedModel::new(&machine(16));
    let (light, heavy) = ((0.0, 0.1), (0.25, 0.28));
    let jobs = jobs(&[[light; 24], [heavy; 24]].concat());
    let problem = Problem { speeds: &speeds, jobs: &jobs, running: 0, cores: 16 };
    let with = |heavy: usize| problem.value((0..16 - heavy).chain(24..24 + heavy));
    let best = (0..=16).map(with).fold(0.0, f64::max);
    assert!(with(0) < 0.8 * best && with(16) < 0.6 * best, "{} {} {best}", with(0), with(16));
    let chosen: Vec<usize> = Chooser::default().choose(&problem).collect();
    assert!(problem.value(chosen.iter().copied()) >= 0.999 * best, "{chosen:?}");
}

proptest! {
    #[test]
    fn the_search_comes_close_to_the_best_set(
        running in figures(3), waiting in figures(10), cores in 1usize..5,
    ) {
        let speeds = SpeedModel::new(&machine(4));
        let jobs = jobs(&[&running[..], &waiting].concat());
        let problem = Problem {
            speeds: &speeds, jobs: &jobs, running: running.len(), cores: cores as u32,
        };
        let chosen: Vec<usize> = Chooser::default().choose(&problem).collect();
        prop_assert_eq!(chosen.len(), cores.min(waiting.len()));
        let found = problem.value(chosen);
        let best = exhaustive(&problem, waiting.len());
        prop_assert!(found >= 0.9 * best, "{found} of {best}");
    }
}
