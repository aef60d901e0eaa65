//! The policies for hybrid memory on small cases, computed by hand from hmmsched section V.

use std::sync::{Arc, Mutex};

use memweir_core::medium::{Distance, Medium, MediumKind};
use memweir_core::{BytesPerSec, Counts, JobId, Lines, MAX_MEDIA, Media, Nanos, Picos, Traffic};
use memweir_policy::policies::{self, Choice};
use memweir_policy::{
    Bus, Candidate, JobSpec, Kind, Observation, Policy, PredictorKind, QuantumScheduler,
    QuantumView, SchedulerConfig, TrafficRate, TrafficRates,
};
use proptest::prelude::*;

use crate::machine::{QUANTUM, config, gb, ids, spec, view};

fn medium(name: &str, kind: MediumKind, distance: Distance, latencies: [u64; 2]) -> Medium {
    Medium::new(name, kind, distance, latencies.map(Picos::from_nanos))
}

/// DRAM and an NVM, 1 : 3 : 8, and the same on another node that is as far as ten DRAM accesses.
fn media() -> Media {
    Media::new(vec![
        medium("dram", MediumKind::Dram, Distance::Local, [25, 25]),
        medium("nvm", MediumKind::Nvm, Distance::Local, [75, 200]),
        medium("dram-1", MediumKind::Dram, Distance::Remote, [275, 275]),
        medium("nvm-1", MediumKind::Nvm, Distance::Remote, [325, 450]),
    ])
    .unwrap()
}

fn on(policy: &str, media: Media) -> SchedulerConfig {
    SchedulerConfig { media, ..config(policy, 4) }
}

/// A job that reads this much from each medium.
fn reader(job: u32, reads: [f64; MAX_MEDIA]) -> Candidate {
    let rates = reads.map(|rate| TrafficRate { reads: gb(rate), writes: BytesPerSec::ZERO });
    of_traffic(job, TrafficRates(rates))
}

fn of_traffic(job: u32, traffic: TrafficRates) -> Candidate {
    Candidate { traffic, ..Candidate::new(JobId(job), traffic.total()) }
}

/// A job that reads from DRAM and from NVM.
fn job(job: u32, dram: f64, nvm: f64) -> Candidate {
    reader(job, [dram, nvm, 0.0, 0.0])
}

fn executed(seconds: u64, candidate: Candidate) -> Candidate {
    Candidate { executed: Nanos(seconds * 1_000_000_000), ..candidate }
}

fn build(policy: &str) -> Box<dyn Policy> {
    find(policy).build(&on(policy, media()))
}

fn find(policy: &str) -> Choice {
    policies::find(policy).unwrap()
}

fn choose(policy: &mut dyn Policy, view: &QuantumView<'_>) -> Vec<usize> {
    let mut chosen = Vec::new();
    policy.select(view, &mut chosen);
    chosen
}

/// Six jobs of which none is latency-sensitive with `no-classes`:
///
/// | place | EBW_D | EBW_NV (3 per read) |
/// |---|---|---|
/// | 0 | 5 | 15 |
/// | 1 | 9 | 6 |
/// | 2 | 1 | 30 |
/// | 3 | 7 | 3 |
/// | 4 | 2 | 27 |
/// | 5 | 3 | 9 |
fn six() -> Vec<Candidate> {
    [(5.0, 5.0), (9.0, 2.0), (1.0, 10.0), (7.0, 1.0), (2.0, 9.0), (3.0, 3.0)]
        .iter()
        .zip(0..)
        .map(|((dram, nvm), number)| job(number, *dram, *nvm))
        .collect()
}

#[test]
fn bandwidth_sensitive_jobs_come_in_the_four_steps_in_turn() {
    // Largest EBW_D 9; smallest EBW_NV of the rest 3; largest EBW_NV 30; smallest EBW_D 2; again
    // largest EBW_D 5; smallest EBW_NV 9.
    let chosen = choose(&mut *build("hmmsched:no-classes"), &view(&[], &six(), 6));
    assert_eq!(chosen, [1, 3, 2, 4, 0, 5]);
}

#[test]
fn the_order_goes_on_from_choice_to_choice() {
    let mut policy = build("hmmsched:no-classes");
    let six = six();
    assert_eq!(choose(&mut *policy, &view(&[], &six, 2)), [1, 3]);
    // With two running jobs, or none, the next steps are the largest EBW_NV, then the smallest
    // EBW_D.
    assert_eq!(choose(&mut *policy, &view(&six[..2], &six[2..], 1)), [0]);
    assert_eq!(choose(&mut *policy, &view(&[], &six, 1)), [2]);
}

#[test]
fn the_head_is_taken_for_the_step_that_it_fits_best() {
    let six = six();
    let beside =
        |head: Candidate| choose(&mut *build("hmmsched:no-classes"), &view(&[head], &six, 3));
    // No job has more DRAM traffic: the next steps are smallest EBW_NV, largest EBW_NV, smallest
    // EBW_D.
    assert_eq!(beside(job(9, 20.0, 4.0)), [3, 2, 4]);
    // No job has less NVM traffic, but two have more DRAM traffic: largest EBW_NV, smallest EBW_D,
    // largest EBW_D.
    assert_eq!(beside(job(9, 6.0, 0.5)), [2, 4, 1]);
    // No job has more NVM traffic: smallest EBW_D, largest EBW_D, smallest EBW_NV.
    assert_eq!(beside(job(9, 4.0, 20.0)), [2, 1, 3]);
    // No job has less DRAM traffic: from the start.
    assert_eq!(beside(job(9, 0.5, 4.0)), [1, 3, 2]);
}

#[test]
fn latency_sensitive_jobs_come_first_the_lowest_ebw_first() {
    // Total 100; below 10: 1 + 2 + 3. The heavy ones have run for 1,000 s.
    let queue = [
        executed(500, job(0, 44.0, 0.0)),
        executed(9, job(1, 3.0, 0.0)),
        executed(9, job(2, 1.0, 0.0)),
        executed(500, job(3, 50.0, 0.0)),
        executed(9, job(4, 2.0, 0.0)),
    ];
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue, 3)), [2, 4, 1]);
    // The others in their order: largest, then smallest EBW_D, as no job has NVM traffic.
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue, 5)), [2, 4, 1, 3, 0]);
    // Below 0.02 x 100 there is 1 alone.
    assert_eq!(choose(&mut *build("hmmsched:alpha=0.02"), &view(&[], &queue, 3)), [2, 3, 4]);
}

#[test]
fn jobs_that_run_are_classified_with_the_others() {
    // 2 of 12 is above a tenth, of 52 below.
    let queue = [executed(90, job(0, 10.0, 0.0)), job(1, 2.0, 0.0)];
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue, 1)), [0]);
    let head = [executed(90, job(2, 40.0, 0.0))];
    assert_eq!(choose(&mut *build("hmmsched"), &view(&head, &queue, 1)), [1]);
}

#[test]
fn latency_sensitive_jobs_wait_once_they_have_had_a_tenth() {
    let heavy = |number, seconds| executed(seconds, job(number, 50.0, 0.0));
    let light = |number, seconds| executed(seconds, job(number, 1.0, 0.0));
    let queue = |seconds| [light(0, seconds), heavy(1, 100), light(2, 0), heavy(3, 100)];
    // 19 of 200 seconds is less than a tenth, 21 is not.
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue(19), 2)), [0, 2]);
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue(21), 2)), [1, 3]);
    assert_eq!(choose(&mut *build("hmmsched:no-guard"), &view(&[], &queue(21), 2)), [0, 2]);
    // No core is idle for it.
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue(21), 4)), [1, 3, 0, 2]);
    // No job has run yet: no class is below a tenth of zero.
    let fresh = [light(0, 0), heavy(1, 0)];
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &fresh, 1)), [1]);
}

#[test]
fn the_coming_quantum_counts_towards_the_tenth() {
    // 0.9 of 9.1 seconds; with another 0.1 s there would be 1 of 9.1: the second core goes to
    // the other class.
    let at = |millis, candidate| Candidate { executed: Nanos::from_millis(millis), ..candidate };
    let queue = [at(900, job(0, 1.0, 0.0)), at(0, job(1, 1.0, 0.0)), at(9_100, job(2, 50.0, 0.0))];
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue, 2)), [0, 2]);
    // A latency-sensitive head counts as well.
    assert_eq!(choose(&mut *build("hmmsched"), &view(&queue[..1], &queue[1..], 1)), [1]);
    // With 0.75 s on two cores, 0.95 of 9.1.
    let wide = Candidate { cores: 2, ..at(750, queue[0]) };
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[wide], &queue[1..], 1)), [1]);
}

#[test]
fn jobs_too_wide_for_what_is_left_are_passed_over() {
    let wide = |cores, candidate| Candidate { cores, ..candidate };
    let queue = [wide(3, job(0, 9.0, 0.0)), wide(2, job(1, 8.0, 0.0)), job(2, 1.0, 0.0)];
    assert_eq!(choose(&mut *build("hmmsched:no-classes"), &view(&[], &queue, 2)), [1]);
    assert_eq!(choose(&mut *build("available-bandwidth"), &view(&[], &queue, 2)), [1]);
}

/// Each rule decides something here that comes out differently when the rule is disabled.
#[test]
fn every_ablation_differs_from_the_whole_policy() {
    let writes = |number, rate: f64| {
        let mut traffic = TrafficRates::default();
        traffic.0[1].writes = gb(rate);
        executed(100, of_traffic(number, traffic))
    };
    let queue = [
        // Remote DRAM, 11 per read: EBW_D 22 for 2 GB/s.
        executed(100, reader(0, [0.0, 0.0, 2.0, 0.0])),
        // EBW_D 8.
        executed(100, job(1, 8.0, 0.0)),
        // EBW_NV 8 per write: 32 for 4 GB/s, against 15 for 5 GB/s of reads.
        writes(2, 4.0),
        executed(100, job(3, 1.0, 5.0)),
        // Latency-sensitive.
        executed(1, job(4, 0.5, 0.0)),
        executed(60, job(5, 0.6, 0.0)),
    ];
    let chosen = |policy| choose(&mut *build(policy), &view(&[], &queue, 4));
    // 61 of 461 seconds are more than a tenth: largest EBW_D; smallest EBW_NV; largest EBW_NV;
    // smallest EBW_D, which is that of the last one left.
    assert_eq!(chosen("hmmsched"), [0, 1, 2, 3]);
    assert_eq!(chosen("hmmsched:no-classes"), [0, 1, 2, 4]);
    assert_eq!(chosen("hmmsched:no-guard"), [4, 5, 0, 1]);
    // 2 GB/s of DRAM make a latency-sensitive job of the first.
    assert_eq!(chosen("hmmsched:no-remote"), [1, 3, 2, 4]);
    assert_eq!(chosen("hmmsched:counts"), [1, 0, 3, 2]);
    // Without the first: largest EBW_D, smallest EBW_NV 15, where the queue has 32 before it.
    let chosen = |policy| choose(&mut *build(policy), &view(&[], &queue[1..], 2));
    assert_eq!(chosen("hmmsched"), [0, 2]);
    assert_eq!(chosen("hmmsched:no-order"), [0, 1]);
}

#[test]
fn with_dram_alone_the_largest_and_the_smallest_alternate() {
    let queue: Vec<_> =
        [4.0, 9.0, 2.0, 7.0, 6.0].iter().zip(0..).map(|(rate, n)| job(n, *rate, 0.0)).collect();
    let mut policy = find("hmmsched:no-classes").build(&on("hmmsched", Media::dram_only()));
    assert_eq!(choose(&mut *policy, &view(&[], &queue, 5)), [1, 2, 3, 0, 4]);
    // Beside a heavy head the smallest, beside a light one the largest.
    let beside = |head| choose(&mut *build("hmmsched:no-classes"), &view(&[head], &queue, 1));
    assert_eq!(beside(job(9, 8.0, 0.0)), [2]);
    assert_eq!(beside(job(9, 3.0, 0.0)), [1]);
}

#[test]
fn without_any_traffic_the_queue_decides() {
    let queue: Vec<_> = (0..4).map(|number| job(number, 0.0, 0.0)).collect();
    assert_eq!(choose(&mut *build("hmmsched"), &view(&[], &queue, 3)), [0, 1, 2]);
    assert_eq!(choose(&mut *build("available-bandwidth"), &view(&[], &queue, 3)), [0, 1, 2]);
}

#[test]
fn available_bandwidth_takes_what_comes_nearest_and_fits() {
    let queue: Vec<_> =
        [6.0, 30.0, 14.0, 9.0, 1.0].iter().zip(0..).map(|(rate, n)| job(n, *rate, 0.0)).collect();
    let head = [job(9, 20.0, 0.0)];
    let bus = Bus { peak: Some(gb(40.0)), ..Bus::default() };
    let choose = |cores| {
        let view = QuantumView { bus, ..view(&head, &queue, cores) };
        choose(&mut *build("available-bandwidth"), &view)
    };
    // 20 left: 14, then 6 left: 6, then nothing: the least of the rest, 1 and 9.
    assert_eq!(choose(1), [2]);
    assert_eq!(choose(4), [2, 0, 4, 3]);
}

#[test]
fn available_bandwidth_fits_both_kinds_of_memory_if_it_knows_their_peaks() {
    let mut config = on("available-bandwidth", media());
    config.medium_peaks = [Some(gb(30.0)), Some(gb(10.0)), Some(gb(10.0)), Some(gb(10.0))];
    let queue = [job(0, 11.0, 12.0), job(1, 24.0, 0.0), job(2, 30.0, 3.0), job(3, 2.0, 9.0)];
    // The head leaves 20 of 40 with DRAM and 8 of 20 with NVM.
    let head = [job(9, 20.0, 12.0)];
    let mut policy = find("available-bandwidth").build(&config);
    // Each is too much for one side: the one that takes the least is 11/40 + 12/20, 24/40,
    // 30/40 + 3/20 or 2/40 + 9/20.
    assert_eq!(choose(&mut *policy, &view(&head, &queue, 1)), [3]);
    // With nothing running: 0.875 0.6 0.9 0.5. The third leaves 10 and 17, enough for the fourth.
    assert_eq!(choose(&mut *policy, &view(&[], &queue, 2)), [2, 3]);
    assert_eq!(policy.target(), Some(gb(60.0)));
    // Of DRAM the peak of the bus is enough. 10 of 16 with NVM leave 6.
    config.medium_peaks = [None, Some(gb(8.0)), None, Some(gb(8.0))];
    config.bus.peak = Some(gb(40.0));
    let mut policy = find("available-bandwidth").build(&config);
    let queue = [job(0, 0.0, 10.0), job(1, 0.0, 7.0), job(2, 0.0, 6.0), job(3, 0.0, 1.0)];
    assert_eq!(choose(&mut *policy, &view(&[], &queue, 4)), [0, 2, 3, 1]);
    assert_eq!(policy.target(), Some(gb(56.0)));
}

/// A job that read this many lines of DRAM and wrote this many of NVM in a quantum.
fn seen_by(job: u32, dram: u64, nvm_writes: u64) -> Observation {
    let mut traffic = [Traffic::default(); MAX_MEDIA];
    traffic[0].reads = Lines(dram);
    traffic[1].writes = Lines(nvm_writes);
    Observation::new(JobId(job), QUANTUM, Some(Counts::by_medium(1, traffic)))
}

/// Records its candidates, and chooses in the order of the queue.
struct Spy(Arc<Mutex<Vec<Candidate>>>);

impl Policy for Spy {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let mut seen = self.0.lock().unwrap();
        seen.clear();
        seen.extend(view.running.iter().chain(view.queue));
        chosen.extend(0..view.queue.len());
    }
}

/// Returns a scheduler on two cores with two jobs, and the candidates that its policy sees.
fn spied(predictor: PredictorKind) -> (QuantumScheduler, Arc<Mutex<Vec<Candidate>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let bus = Bus { peak: Some(gb(40.0)), saturation: Some(gb(30.0)), ..Bus::default() };
    let config = SchedulerConfig { cores: 2, predictor, bus, ..on("spy", media()) };
    let mut scheduler = QuantumScheduler::with_policy(config, Box::new(Spy(Arc::clone(&seen))));
    scheduler.admit(JobSpec { expected_bandwidth: Some(gb(3.0)), ..spec(0) });
    scheduler.admit(spec(1));
    (scheduler, seen)
}

/// Returns the lines that correspond to this many GB/s in a quantum.
fn rate(gb: u64) -> u64 {
    gb * 100_000_000 / 64
}

#[test]
fn a_policy_sees_the_latest_traffic_by_medium() {
    let (mut scheduler, seen) = spied(PredictorKind::Last);
    let next = |scheduler: &mut QuantumScheduler| {
        scheduler.select();
        let mut jobs = seen.lock().unwrap().clone();
        jobs.sort_by_key(|job| job.job);
        (jobs[0], jobs[1])
    };
    // Before anything was seen: what is expected, and the mean of what is, from the local DRAM.
    let (known, unknown) = next(&mut scheduler);
    assert_eq!(known.traffic, TrafficRates::local_reads(gb(3.0)));
    assert_eq!(unknown.traffic, TrafficRates::local_reads(gb(3.0)));
    assert_eq!(known.executed, Nanos::ZERO);

    scheduler.observe(QUANTUM, &[seen_by(0, rate(6), rate(2)), seen_by(1, rate(4), 0)]);
    let (first, second) = next(&mut scheduler);
    assert_eq!((first.traffic.0[0].reads, first.traffic.0[1].writes), (gb(6.0), gb(2.0)));
    assert_eq!(second.traffic, TrafficRates::local_reads(gb(4.0)));
    assert_eq!((first.executed, second.executed), (QUANTUM, QUANTUM));

    // On a saturated bus it is not what the jobs require, but it divides as they divide it.
    scheduler.observe(QUANTUM, &[seen_by(0, rate(4), rate(12)), seen_by(1, rate(20), 0)]);
    let (first, second) = next(&mut scheduler);
    assert_eq!(first.demand, gb(8.0));
    assert_eq!((first.traffic.0[0].reads, first.traffic.0[1].writes), (gb(2.0), gb(6.0)));
    assert_eq!(second.traffic, TrafficRates::local_reads(gb(4.0)));
    assert_eq!(first.executed, Nanos(2 * QUANTUM.0));
}

#[test]
fn a_forecast_is_divided_as_the_latest_traffic_was() {
    let (mut scheduler, seen) = spied(PredictorKind::Profile);
    scheduler.select();
    let forecast = Some(gb(16.0));
    scheduler.observe(QUANTUM, &[Observation { forecast, ..seen_by(0, rate(6), rate(2)) }]);
    // A quantum without traffic shows no division.
    scheduler.observe(QUANTUM, &[Observation { forecast, ..seen_by(0, 0, 0) }]);
    scheduler.select();
    let jobs = seen.lock().unwrap();
    let first = jobs.iter().find(|job| job.job == JobId(0)).unwrap();
    assert_eq!((first.traffic.0[0].reads, first.traffic.0[1].writes), (gb(12.0), gb(4.0)));
}

#[test]
fn a_job_of_a_known_kind_is_shown_with_the_demand_of_the_first() {
    let (mut scheduler, seen) = spied(PredictorKind::Last);
    for job in 2..5 {
        scheduler.admit(JobSpec { kind: Some(Kind(1)), ..spec(job) });
    }
    // Too short a span for a demand shows how it divides.
    let twitch = Nanos(QUANTUM.0 / 100);
    scheduler.observe(twitch, &[Observation { cpu_time: Some(twitch), ..seen_by(4, 10, 10) }]);
    assert!(scheduler.learn(QUANTUM, &seen_by(2, rate(5), 0)));
    scheduler.retire(JobId(2));
    scheduler.select();
    let jobs = seen.lock().unwrap();
    let [other, seen_before] =
        [3, 4].map(|number| *jobs.iter().find(|job| job.job == JobId(number)).unwrap());
    assert_eq!((other.expected_time, other.demand), (Some(QUANTUM), gb(5.0)));
    assert_eq!(other.traffic, TrafficRates::local_reads(gb(5.0)));
    assert_eq!(seen_before.demand, gb(5.0));
    let (reads, writes) = (seen_before.traffic.0[0].reads, seen_before.traffic.0[1].writes);
    assert_eq!((reads, writes), (gb(2.5), gb(2.5)));
}

#[test]
fn the_age_counts_from_the_submission() {
    let (mut scheduler, seen) = spied(PredictorKind::Last);
    scheduler.observe(QUANTUM, &[]);
    scheduler.admit(spec(2));
    scheduler.observe(QUANTUM, &[]);
    scheduler.select();
    let ages: Vec<_> = seen.lock().unwrap().iter().map(|job| (job.job.0, job.age)).collect();
    assert_eq!(ages, [(0, Nanos(2 * QUANTUM.0)), (1, Nanos(2 * QUANTUM.0)), (2, QUANTUM)]);
}

#[test]
fn those_who_run_are_shown_in_mid_quantum_too() {
    let (mut scheduler, seen) = spied(PredictorKind::Last);
    (2..5).for_each(|job| scheduler.admit(spec(job)));
    assert_eq!(scheduler.select().chosen, ids(&[0, 1]));
    scheduler.retire(JobId(0));
    scheduler.backfill();
    let shown: Vec<JobId> = seen.lock().unwrap().iter().map(|job| job.job).collect();
    assert_eq!(shown, ids(&[1, 2, 3, 4]));
}

fn any_policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "hmmsched",
        "hmmsched:alpha=1",
        "hmmsched:alpha=0",
        "hmmsched:no-classes",
        "hmmsched:no-guard",
        "hmmsched:no-order",
        "hmmsched:counts",
        "hmmsched:no-remote",
        "available-bandwidth",
    ])
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let rate = prop_oneof![Just(0.0), 0.0..20.0f64];
    (prop::array::uniform4(rate), 1u32..4, 0u64..1_000).prop_map(|(reads, cores, seconds)| {
        Candidate { cores, ..executed(seconds, reader(0, reads)) }
    })
}

proptest! {
    /// The chosen indices are valid, unique and fit; no core is idle while a job that fits is
    /// waiting.
    #[test]
    fn choices_are_valid_and_leave_no_core_idle(
        policy in any_policy(), running in prop::collection::vec(any_candidate(), 0..3),
        queue in prop::collection::vec(any_candidate(), 0..40), cores in 0u32..9, peaks: bool,
    ) {
        let mut config = on(policy, media());
        if peaks {
            config.medium_peaks = [Some(gb(20.0)); MAX_MEDIA];
        }
        let mut policy = find(policy).build(&config);
        for _ in 0..3 {
            let chosen = choose(&mut *policy, &view(&running, &queue, cores));
            let mut distinct = chosen.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), chosen.len());
            let taken: u32 = chosen.iter().map(|place| queue[*place].cores).sum();
            prop_assert!(taken <= cores);
            let waits = |place: &usize| !chosen.contains(place);
            let fits = |place: usize| queue[place].cores <= cores - taken;
            prop_assert!(!(0..queue.len()).filter(waits).any(fits), "{chosen:?}");
            let has_reason = |nth| policy.reason(nth).is_some_and(|reason| !reason.is_empty());
            prop_assert!((0..chosen.len()).all(has_reason));
        }
    }

    /// hmmsched section V-A-2 word by word, on cores that fall idle one after the other.
    #[test]
    fn hmmsched_is_what_the_paper_says(
        // Few different figures, so that there are many equals, and whole ones, whose sums are
        // exact.
        jobs in prop::collection::vec((0u8..6, 0u8..6, 0u64..40), 0..60),
        cores in 0u32..20, percent in 0u32..=100,
    ) {
        let queue: Vec<_> = jobs
            .iter()
            .zip(0..)
            .map(|((dram, nvm, seconds), number)| {
                executed(*seconds, job(number, f64::from(*dram), f64::from(*nvm)))
            })
            .collect();
        let alpha = f64::from(percent) / 100.0;
        let view = view(&[], &queue, cores);
        let chosen = choose(&mut *build(&format!("hmmsched:alpha={alpha}")), &view);
        prop_assert_eq!(chosen, by_the_book(alpha, &queue, cores));
    }

    /// Eq. (2) with the nearest that fits, else the smallest, one core after the other.
    #[test]
    fn available_bandwidth_is_what_the_paper_says(
        jobs in prop::collection::vec((0u32..40, 1u32..4), 0..100), occupied in 0u32..50,
        cores in 0u32..20,
    ) {
        let candidate = |((demand, cores), number): (&(u32, u32), u32)| Candidate {
            cores: *cores,
            ..job(number, f64::from(*demand), 0.0)
        };
        let queue: Vec<_> = jobs.iter().zip(0..).map(candidate).collect();
        let head = [job(1_000, f64::from(occupied), 0.0)];
        // A peak of which whole demands are exact shares.
        let bus = Bus { peak: Some(gb(64.0)), ..Bus::default() };
        let view = QuantumView { bus, ..view(&head, &queue, cores) };
        let (mut left, mut free, mut expected) = (64.0 - f64::from(occupied), cores, Vec::new());
        loop {
            let waits = |place: &usize| !expected.contains(place) && jobs[*place].1 <= free;
            let fits = |place: &usize| f64::from(jobs[*place].0) <= left;
            let demand = |place: &usize| jobs[*place].0;
            let waiting = (0..queue.len()).filter(waits);
            // The last of equals counts from behind.
            let nearest = waiting.clone().rev().filter(fits).max_by_key(demand);
            let Some(place) = nearest.or_else(|| waiting.min_by_key(demand)) else { break };
            left -= f64::from(jobs[place].0);
            free -= jobs[place].1;
            expected.push(place);
        }
        prop_assert_eq!(choose(&mut *build("available-bandwidth"), &view), expected);
    }
}

/// Reimplements hmmsched's choice without running jobs, without any optimization.
fn by_the_book(alpha: f64, queue: &[Candidate], cores: u32) -> Vec<usize> {
    let ebw_d = |place: &usize| queue[*place].traffic.0[0].reads.0;
    let ebw_nv = |place: &usize| 3.0 * queue[*place].traffic.0[1].reads.0;
    let ebw = |place: &usize| ebw_d(place) + ebw_nv(place);
    let mut ascending: Vec<usize> = (0..queue.len()).collect();
    ascending.sort_by(|a, b| ebw(a).total_cmp(&ebw(b)));
    let total: f64 = ascending.iter().map(ebw).sum();
    let mut sum = 0.0;
    let mut latency: Vec<usize> = Vec::new();
    for place in ascending {
        sum += ebw(&place);
        if sum >= alpha * total {
            break;
        }
        latency.push(place);
    }
    let mut bandwidth: Vec<usize> = (0..queue.len()).filter(|at| !latency.contains(at)).collect();
    let seconds = |jobs: &[usize]| jobs.iter().map(|at| queue[*at].executed.as_secs_f64()).sum();
    let (mut of_latency, mut of_bandwidth): (f64, f64) = (seconds(&latency), seconds(&bandwidth));
    let differ = |jobs: &[usize], figure: &dyn Fn(&usize) -> f64| {
        jobs.iter().any(|place| figure(place) != figure(&jobs[0]))
    };
    let tells = [differ(&bandwidth, &ebw_d), differ(&bandwidth, &ebw_nv)];
    let (mut step, mut chosen) = (0, Vec::new());
    while chosen.len() < cores as usize && !(latency.is_empty() && bandwidth.is_empty()) {
        let latency_first = of_latency < 0.1 * of_bandwidth;
        if !latency.is_empty() && (latency_first || bandwidth.is_empty()) {
            of_latency += QUANTUM.as_secs_f64();
            chosen.push(latency.remove(0));
            continue;
        }
        of_bandwidth += QUANTUM.as_secs_f64();
        while tells != [false, false] && !tells[usize::from(step == 1 || step == 2)] {
            step = (step + 1) % 4;
        }
        // The first of equals: the smallest of what is sought, the largest of its negative.
        let sought = |place: &usize| match (tells, step) {
            ([false, false], _) => 0.0,
            (_, 0) => -ebw_d(place),
            (_, 1) => ebw_nv(place),
            (_, 2) => -ebw_nv(place),
            _ => ebw_d(place),
        };
        let best = bandwidth.iter().copied().min_by(|a, b| sought(a).total_cmp(&sought(b)));
        chosen.extend(best);
        bandwidth.retain(|place| Some(*place) != best);
        step = (step + 1) % 4;
    }
    chosen
}
