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
    Candidate { expected_time: Some(seconds(length)), ..Candidate::new(JobId(0), gb(demand)) }
}

fn view<'a>(
    config: &SchedulerConfig,
    speeds: &'a SpeedModel,
    running: &'a [Candidate],
    queue: &'a [Candidate],
) -> QuantumView<'a> {
    QuantumView {
        quantum: 0,
        cores: config.cores - running.iter().map(|job| job.cores).sum::<u32>(),
        committed: running.iter().map(|job| job.demand).sum(),
        running,
        queue,
        bus: config.bus,
        highest_observed: BytesPerSec::ZERO,
        batch: &None,
        speeds,
    }
}

fn choose(
    policy: &str,
    config: &SchedulerConfig,
    running: &[Candidate],
    queue: &[Candidate],
) -> Vec<usize> {
    let speeds = SpeedModel::new(config);
    let mut policy = find(policy).expect("a policy").build(config);
    let mut chosen = Vec::new();
    policy.select(&view(config, &speeds, running, queue), &mut chosen);
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
    let medium = |name: &str, kind, latency| {
        Medium::new(name, kind, Distance::Local, [Picos::from_nanos(latency); 2])
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

/// Returns the weights of waiting jobs, the first of which has weight 1.
fn relative_weights(
    objective: Objective,
    config: &SchedulerConfig,
    queue: &[Candidate],
) -> Vec<f64> {
    let speeds = SpeedModel::new(config);
    let mut jobs: Vec<_> = queue.iter().map(|job| Job::new(speeds.load(job), job)).collect();
    Weights::new(objective, config).set(&view(config, &speeds, &[], queue), &mut jobs);
    jobs.iter().map(|job| job.weight / jobs[0].weight).collect()
}

/// Returns the seconds that the jobs have ahead of them, in whole milliseconds, if the first has 30
/// s. Without traffic and on a million cores the weights for the turnaround are their cubes.
fn seconds_ahead(queue: &[Candidate]) -> Vec<f64> {
    let weights = relative_weights(Objective::Turnaround, &machine(1_000_000), queue);
    weights.iter().map(|weight| (30e3 * weight.cbrt()).round() / 1e3).collect()
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    let close = |(found, expected): (&f64, &f64)| (found / expected - 1.0).abs() < 1e-9;
    assert!(found.iter().zip(expected).all(close), "{found:?} is not {expected:?}");
}

#[test]
fn the_weights_are_the_derivatives_of_the_three_bounds() {
    // K = (30 x 1 + 10 x 2) / 4 = 12.5 and B = 30 x 0.3 + 10 x 0.5 = 14.
    let queue = [job(3.0, 30.0), Candidate { cores: 2, ..job(5.0, 10.0) }];
    let first = 27_000.0 + 1_953.125 / 4.0 + 2_744.0 * 0.3;
    let second = 1_000.0 + 1_953.125 * 2.0 / 4.0 + 2_744.0 * 0.5;
    let weights = relative_weights(Objective::Turnaround, &machine(4), &queue);
    assert_close(&weights, &[1.0, second / first]);
}

#[test]
fn the_weight_for_the_slowdown_counts_what_is_done() {
    // Both take 10 s and were submitted 30 s ago. The second has 4 s ahead: slowdowns 4 and 3.4.
    let queue = [0.0, 6.0].map(|done| Candidate {
        progress: seconds(done),
        age: seconds(30.0),
        ..job(0.0, 10.0)
    });
    let weights = relative_weights(Objective::Slowdown, &machine(1), &queue);
    assert_close(&weights, &[1.0, (3.4f64 / 4.0).powi(3)]);
}

#[test]
fn a_job_of_known_length_has_a_fiftieth_ahead_at_least() {
    let done = |progress| Candidate { progress: seconds(progress), ..job(0.0, 100.0) };
    assert_eq!(
        seconds_ahead(&[done(70.0), done(97.0), done(99.5), done(300.0)]),
        [30.0, 3.0, 2.0, 2.0]
    );
    // At least a nanosecond, where nothing is known or needed.
    let queue = [job(0.0, 30.0), job(0.0, 0.0)];
    let weights = relative_weights(Objective::Completion, &machine(1), &queue);
    assert_close(&weights, &[1.0, 30e9]);
}

#[test]
fn jobs_of_unknown_length_have_ahead_what_the_others_say() {
    let done = |progress, job| Candidate { progress: seconds(progress), ..job };
    let unknown = |progress| Candidate { expected_time: None, ..done(progress, job(0.0, 0.0)) };
    // The mean of the known lengths is 60 s.
    let queue = [done(10.0, job(0.0, 40.0)), job(0.0, 80.0), unknown(10.0), unknown(30.0)];
    assert_eq!(seconds_ahead(&queue), [30.0, 80.0, 50.0, 30.0]);
    // It is shorter than the mean progress, 55 s, and 20 quanta of 0.1 s.
    let queue = [job(0.0, 30.0), unknown(10.0), unknown(100.0)];
    assert_eq!(seconds_ahead(&queue), [30.0, 47.0, 0.0]);
    // For the mean completion time, a job has ahead what is behind it, and these 2 s.
    let queue = [job(0.0, 30.0), unknown(10.0)];
    let weights = relative_weights(Objective::Completion, &machine(1), &queue);
    assert_close(&weights, &[1.0, 30.0 / 12.0]);
}

#[test]
fn slow_memory_adds_to_the_known_lengths_of_others() {
    let config = SchedulerConfig { cores: 1_000_000, ..hybrid(100) };
    let stretch = SpeedModel::new(&config).stretch(&reader(1, 1e-3));
    // 50 s in DRAM are the mean length, and the third takes that much in its memory.
    let known =
        |medium, length| Candidate { expected_time: Some(seconds(length)), ..reader(medium, 1e-3) };
    let unknown = Candidate { expected_time: None, ..reader(1, 1e-3) };
    let queue = [known(0, 30.0), known(1, 70.0 * stretch), unknown];
    assert!(stretch > 1.1, "{stretch}");
    let weights = relative_weights(Objective::Turnaround, &config, &queue);
    let ahead = (weights[2].cbrt() * 30.0 / (50.0 * stretch) - 1.0).abs();
    assert!(ahead < 1e-3, "{weights:?}");
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

/// Jobs by their utilization, their weight and their cores.
fn wide_jobs(figures: &[(f64, f64, u32)]) -> Vec<Job> {
    let narrow: Figures = figures.iter().map(|(load, weight, _)| (*load, *weight)).collect();
    let mut jobs = jobs(&narrow);
    for (job, (.., cores)) in jobs.iter_mut().zip(figures) {
        (job.cores, job.per_core) = (*cores, 1.0 / f64::from(*cores));
    }
    jobs
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

fn chosen(jobs: &[Job], running: usize, cores: u32) -> Vec<usize> {
    let speeds = SpeedModel::new(&machine(4));
    let problem = Problem { speeds: &speeds, jobs, running, cores };
    sorted(Chooser::default().choose(&problem).collect())
}

#[test]
fn a_wide_job_takes_the_place_of_several() {
    // None has traffic, so a set is worth its weights. The scores per core, 1, 0.75 and 0.1, lead
    // to the narrow jobs, worth 1.1; the wide one is worth 1.5.
    let waiting = wide_jobs(&[(0.0, 1.0, 1), (0.0, 0.1, 1), (0.0, 1.5, 2)]);
    assert_eq!(chosen(&waiting, 0, 2), [2]);
    // Three narrow ones are worth 1.5, and the wide one beside the best of them 1.7.
    let waiting = wide_jobs(&[(0.0, 1.0, 1), (0.0, 0.4, 1), (0.0, 0.1, 1), (0.0, 0.7, 2)]);
    assert_eq!(chosen(&waiting, 0, 3), [0, 3]);
}

#[test]
fn no_exchange_leaves_a_core_free_that_a_job_fits() {
    // Only the running job has a weight, so the least traffic is best: 0.3 of the wide job, or 0.2
    // of one narrow job, but the other narrow one would fit beside it, and both have 0.4.
    let jobs = wide_jobs(&[(0.5, 1.0, 1), (0.3, 1e-9, 2), (0.2, 1e-9, 1), (0.2, 1e-9, 1)]);
    assert_eq!(chosen(&jobs, 1, 2), [0]);
    // Where there is no other, the core stays free.
    assert_eq!(chosen(&jobs[..3], 1, 2), [1]);
}

/// Heavy jobs on all cores draw four times the peak, and the scores beside them say that only light
/// ones should run; beside light ones they say the contrary. On 64 cores single exchanges come to
/// nothing.
#[test]
fn many_cores_get_a_mix_of_heavy_and_light_jobs() {
    for (cores, least) in [(16, 0.999), (64, 0.98)] {
        let speeds = SpeedModel::new(&machine(cores as u32));
        let (light, heavy) = ((0.0, 0.1), (4.0 / cores as f64, 0.28));
        let each = cores * 3 / 2;
        let jobs = jobs(&[vec![light; each], vec![heavy; each]].concat());
        let problem = Problem { speeds: &speeds, jobs: &jobs, running: 0, cores: cores as u32 };
        let with = |heavy: usize| problem.value((0..cores - heavy).chain(each..each + heavy));
        let best = (0..=cores).map(with).fold(0.0, f64::max);
        assert!(with(0) < 0.8 * best && with(cores) < 0.6 * best, "{cores}: {best}");
        let chosen: Vec<usize> = Chooser::default().choose(&problem).collect();
        let found = problem.value(chosen.iter().copied());
        assert!(found >= least * best, "{cores}: {found} of {best}");
    }
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

    #[test]
    fn no_single_exchange_betters_a_choice_that_fits(
        waiting in prop::collection::vec((0.0f64..1.2, 0.01f64..1.0, 1u32..4), 1..8),
        cores in 1u32..5,
    ) {
        let speeds = SpeedModel::new(&machine(4));
        let jobs = wide_jobs(&waiting);
        let problem = Problem { speeds: &speeds, jobs: &jobs, running: 0, cores };
        let chosen: Vec<usize> = Chooser::default().choose(&problem).collect();
        let used = |set: &[usize]| set.iter().map(|place| jobs[*place].cores).sum::<u32>();
        // Returns true if a job outside of the set fits the cores that the set leaves free.
        let idles = |set: &[usize]| {
            let free = cores - used(set);
            (0..jobs.len()).any(|place| jobs[place].cores <= free && !set.contains(&place))
        };
        prop_assert!(used(&chosen) <= cores && !idles(&chosen), "{chosen:?}");
        let found = problem.value(chosen.iter().copied());
        for nth in 0..chosen.len() {
            for place in (0..jobs.len()).filter(|place| !chosen.contains(place)) {
                let mut other = chosen.clone();
                other[nth] = place;
                let betters = problem.value(other.iter().copied()) > found * (1.0 + 1e-6);
                let may_be = used(&other) <= cores && !idles(&other);
                prop_assert!(!betters || !may_be, "{other:?} and not {chosen:?}");
            }
        }
    }
}
