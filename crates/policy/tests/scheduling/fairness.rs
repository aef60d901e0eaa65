//! Properties of every policy: no job starves, cores are not over-committed, decisions are
//! reproducible, and no order of calls does harm.

use memweir_core::{BytesPerSec, Counts, JobId, Lines, Nanos, Priority};
use memweir_policy::{
    Bus, CoreUse, Decision, JobSpec, Kind, Observation, Policy, PredictorKind, QuantumScheduler,
    QuantumView, Running, SchedulerConfig, policies,
};
use proptest::prelude::*;

use crate::machine::{
    QUANTUM, blocking_policies, busy, busy_for, config, ids, running, scheduler, spec, with_jobs,
};

fn every_policy() -> impl Strategy<Value = &'static str> {
    prop::sample::select(policies::names().collect::<Vec<_>>())
}

fn every_predictor() -> impl Strategy<Value = PredictorKind> {
    prop::sample::select(vec![
        PredictorKind::Last,
        PredictorKind::Window { quanta: 3 },
        PredictorKind::Phase { threshold: 0.4 },
        PredictorKind::Profile,
    ])
}

/// A job that keeps its cores busy at a bandwidth that depends on the quantum.
fn busy_on(job: &JobSpec, quantum: u64) -> Observation {
    let gb = (u64::from(job.job.0) * 7 + quantum * 13) % 29;
    let seen = busy(job.job.0, gb as f64);
    let used = seen.cpu_time.unwrap_or_default();
    Observation { cpu_time: Some(Nanos(used.0 * u64::from(job.cores))), ..seen }
}

fn batch(widths: &[u32]) -> Vec<JobSpec> {
    widths
        .iter()
        .enumerate()
        .map(|(job, cores)| JobSpec {
            cores: *cores,
            expected_time: (job % 3 > 0).then(|| Nanos::from_millis(700 * job as u64)),
            expected_bandwidth: (job % 2 > 0).then(|| BytesPerSec::from_gb(job as f64)),
            ..spec(job as u32)
        })
        .collect()
}

fn every_core_use() -> impl Strategy<Value = CoreUse> {
    prop::sample::select(vec![CoreUse::All, CoreUse::Auto])
}

fn calibrated(policy: &str, cores: u32, predictor: PredictorKind) -> SchedulerConfig {
    let bus = Bus { peak: Some(BytesPerSec::from_gb(40.0)), ..Bus::default() };
    SchedulerConfig { predictor, bus, ..config(policy, cores) }
}

fn assert_cores_fit(decision: &Decision, jobs: &[JobSpec], cores: u32) {
    let width = |id: &JobId| jobs.iter().find(|job| job.job == *id).map_or(1, |job| job.cores);
    let taken: u64 = decision.chosen.iter().map(|id| u64::from(width(id))).sum();
    assert!(
        taken <= u64::from(cores) || decision.chosen.len() == 1,
        "{decision:?} takes {taken} of {cores}"
    );
}

#[test]
fn the_head_runs_even_if_it_is_wider_than_the_machine() {
    let mut scheduler = scheduler(config("ideal-average", 2));
    scheduler.admit(spec(0));
    scheduler.admit(JobSpec { cores: 9, ..spec(1) });
    scheduler.admit(spec(2));
    assert_eq!(scheduler.select().chosen, ids(&[0, 2]));
    scheduler.observe(QUANTUM, &[busy(0, 1.0), busy(2, 1.0)]);
    assert_eq!(scheduler.select().chosen, ids(&[1]));
    assert_eq!(scheduler.backfill(), None);
    scheduler.observe(QUANTUM, &[busy(1, 1.0)]);
    assert_eq!(scheduler.select().chosen, ids(&[0, 2]));
}

#[test]
fn jobs_that_ran_go_to_the_tail_in_their_order() {
    let mut scheduler = with_jobs(config("round-robin", 2), 5);
    let mut chosen = || scheduler.select().chosen;
    assert_eq!(chosen(), ids(&[0, 1]));
    assert_eq!(chosen(), ids(&[2, 3]));
    assert_eq!(chosen(), ids(&[4, 0]));
    assert_eq!(chosen(), ids(&[1, 2]));
}

#[test]
fn a_core_that_falls_free_is_given_to_one_who_waits() {
    let mut scheduler = with_jobs(config("round-robin", 2), 4);
    scheduler.select();
    scheduler.retire(JobId(0));
    let decision = scheduler.backfill().unwrap();
    assert_eq!((decision.chosen.clone(), running(&decision)), (ids(&[1, 2]), vec![1, 2]));
    assert_eq!(scheduler.backfill(), None, "no core is free");
    scheduler.retire(JobId(1));
    scheduler.retire(JobId(2));
    assert_eq!(scheduler.backfill().unwrap().chosen, ids(&[3]));
    assert_eq!(scheduler.backfill(), None, "nobody waits");
}

#[test]
fn backfill_fits_the_bandwidth_of_those_who_run_on() {
    let mut scheduler = scheduler(SchedulerConfig {
        bus: Bus { peak: Some(BytesPerSec::from_gb(30.0)), ..Bus::default() },
        ..config("peak-bandwidth", 2)
    });
    for (job, gb) in [20.0, 10.0, 25.0, 12.0, 3.0].into_iter().enumerate() {
        let expected_bandwidth = Some(BytesPerSec::from_gb(gb));
        scheduler.admit(JobSpec { expected_bandwidth, ..spec(job as u32) });
    }
    assert_eq!(scheduler.select().chosen, ids(&[0, 1]));
    scheduler.retire(JobId(1));
    // 30 - 20 = 10 left for one core: 12 is nearest.
    assert_eq!(scheduler.backfill().unwrap().chosen, ids(&[0, 3]));
}

#[test]
fn a_wrong_answer_of_a_policy_is_passed_over() {
    struct Wild;
    impl Policy for Wild {
        fn select(&mut self, _view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
            chosen.extend([usize::MAX, 1, 1, 7, 0, 2, 3]);
        }
    }
    let mut scheduler = QuantumScheduler::with_policy(config("wild", 4), Box::new(Wild));
    for (job, cores) in [1, 2, 1, 1].into_iter().enumerate() {
        scheduler.admit(JobSpec { cores, ..spec(job as u32) });
    }
    // After the head, place 1 of the rest is job 2 and place 0 is job 1, two cores wide. That
    // leaves no core for job 3.
    assert_eq!(scheduler.select().chosen, ids(&[0, 2, 1]));
}

#[test]
fn a_job_is_admitted_once() {
    let mut scheduler = scheduler(config("round-robin", 4));
    scheduler.admit(spec(7));
    scheduler.admit(JobSpec { cores: 3, ..spec(7) });
    assert_eq!(scheduler.select().chosen, ids(&[7]));
    scheduler.retire(JobId(7));
    scheduler.retire(JobId(7));
    assert!(scheduler.select().chosen.is_empty());
    scheduler.admit(spec(7));
    assert_eq!(scheduler.select().chosen, ids(&[7]));
}

proptest! {
    #[test]
    fn nobody_starves_and_cores_fit(
        policy in blocking_policies(), predictor in every_predictor(),
        widths in prop::collection::vec(1u32..6, 1..24), cores in 1u32..9,
        core_use in every_core_use(),
    ) {
        let jobs = batch(&widths);
        let config = SchedulerConfig { core_use, ..calibrated(policy, cores, predictor) };
        let mut scheduler = scheduler(config);
        jobs.iter().for_each(|job| scheduler.admit(*job));
        let mut waited = vec![0; jobs.len()];
        for quantum in 0..4 * jobs.len() as u64 {
            let decision = scheduler.select();
            assert_cores_fit(&decision, &jobs, cores);
            let mut seen = Vec::new();
            for (job, waited) in jobs.iter().zip(&mut waited) {
                if decision.chosen.contains(&job.job) {
                    *waited = 0;
                    seen.push(busy_on(job, quantum));
                } else {
                    *waited += 1;
                }
            }
            prop_assert!(waited.iter().all(|quanta| *quanta < jobs.len()), "{waited:?}");
            scheduler.observe(QUANTUM, &seen);
        }
    }

    /// The same while some of the jobs sleep and wake at random: a job that is awake runs.
    #[test]
    fn nobody_starves_among_sleepers(
        policy in blocking_policies(), jobs in 1u32..16, cores in 1u32..5,
        sleepy in prop::collection::vec(any::<bool>(), 16),
        pattern in prop::collection::vec(any::<bool>(), 64),
    ) {
        let mut scheduler = with_jobs(config(policy, cores), jobs);
        let mut waited = vec![0; jobs as usize];
        for awake in pattern {
            let decision = scheduler.select();
            let may_run = running(&decision);
            for job in 0..jobs {
                let waited = &mut waited[job as usize];
                *waited = if may_run.contains(&job) { 0 } else { *waited + 1 };
                prop_assert!(*waited < jobs);
            }
            let seen: Vec<_> = may_run
                .iter()
                .map(|job| match sleepy[*job as usize] && !awake {
                    true => busy_for(*job, 0.0, Nanos::ZERO),
                    false => busy(*job, 2.0),
                })
                .collect();
            scheduler.observe(QUANTUM, &seen);
        }
    }

    #[test]
    fn decisions_depend_on_the_seed_and_what_was_seen_alone(
        policy in every_policy(), predictor in every_predictor(),
        widths in prop::collection::vec(1u32..4, 1..12), seed: u64, core_use in every_core_use(),
    ) {
        let jobs = batch(&widths);
        let config = SchedulerConfig { seed, core_use, ..calibrated(policy, 4, predictor) };
        let mut plain = scheduler(config.clone());
        let mut disturbed = scheduler(config);
        for job in &jobs {
            plain.admit(*job);
            disturbed.admit(*job);
        }
        for quantum in 0..20 {
            let decision = plain.select();
            // Queries, a job that came and went, and backfills without free cores.
            let stranger = JobId(1000);
            disturbed.admit(JobSpec { job: stranger, ..spec(0) });
            disturbed.retire(stranger);
            let _ = (disturbed.ideal_average_bandwidth(), disturbed.demand(JobId(0)));
            prop_assert_eq!(&decision, &disturbed.select());

            let seen: Vec<_> = jobs
                .iter()
                .filter(|job| decision.chosen.contains(&job.job))
                .map(|job| busy_on(job, quantum))
                .collect();
            let mut reversed: Vec<_> = seen.iter().rev().cloned().collect();
            reversed.push(busy(2000, 0.0));
            plain.observe(QUANTUM, &seen);
            disturbed.observe(QUANTUM, &reversed);
        }
    }
}

/// Any call that a caller may make.
#[derive(Clone, Debug)]
enum Call {
    Admit(JobSpec),
    Retire(JobId),
    Learn(Nanos, Observation),
    Observe(Nanos, Vec<Observation>),
    Select,
    Backfill,
}

fn any_call() -> impl Strategy<Value = Call> {
    let rate = prop_oneof![any::<f64>(), 0.0..1e11];
    let job = (0u32..8).prop_map(JobId);
    let spec = (
        job.clone(),
        prop_oneof![0u32..5, Just(u32::MAX)],
        prop::option::of(any::<u64>().prop_map(Nanos)),
        prop::option::of(rate.clone().prop_map(BytesPerSec)),
        any::<i32>().prop_map(Priority),
        prop::option::of((0u64..3).prop_map(Kind)),
    );
    let spec = spec.prop_map(|(job, cores, expected_time, expected_bandwidth, priority, kind)| {
        JobSpec { job, cores, expected_time, expected_bandwidth, priority, kind }
    });
    let observation = (
        job.clone(),
        prop::option::of(any::<u64>().prop_map(Nanos)),
        0u64..1 << 50,
        prop::collection::vec(any::<u32>(), 0..4),
        prop::option::of(rate.prop_map(BytesPerSec)),
    );
    let observation =
        observation.prop_map(|(job, cpu_time, lines, instruction_pointers, forecast)| {
            Observation {
                job,
                cpu_time,
                counts: Some(Counts {
                    instructions: lines,
                    reads: Lines(lines),
                    writes: Lines(lines),
                    ..Counts::default()
                }),
                instruction_pointers,
                forecast,
            }
        });
    let elapsed = prop_oneof![Just(Nanos::ZERO), Just(QUANTUM), any::<u64>().prop_map(Nanos)];
    prop_oneof![
        3 => spec.prop_map(Call::Admit),
        1 => job.prop_map(Call::Retire),
        1 => (elapsed.clone(), observation.clone())
            .prop_map(|(elapsed, last)| Call::Learn(elapsed, last)),
        3 => (elapsed, prop::collection::vec(observation, 0..6))
            .prop_map(|(elapsed, seen)| Call::Observe(elapsed, seen)),
        3 => Just(Call::Select),
        1 => Just(Call::Backfill),
    ]
}

proptest! {
    #[test]
    fn no_order_of_calls_does_harm(
        policy in every_policy(), predictor in every_predictor(), cores in 0u32..4,
        core_use in every_core_use(),
        calls in prop::collection::vec(any_call(), 0..80),
    ) {
        let config = SchedulerConfig { core_use, ..calibrated(policy, cores, predictor) };
        let mut scheduler = scheduler(config);
        let mut jobs: Vec<JobSpec> = Vec::new();
        for call in calls {
            let decision = match call {
                Call::Admit(spec) => {
                    scheduler.admit(spec);
                    if jobs.iter().all(|job| job.job != spec.job) {
                        jobs.push(JobSpec { cores: spec.cores.max(1), ..spec });
                    }
                    None
                }
                Call::Retire(job) => {
                    scheduler.retire(job);
                    jobs.retain(|other| other.job != job);
                    None
                }
                Call::Learn(elapsed, last) => {
                    scheduler.learn(elapsed, &last);
                    None
                }
                Call::Observe(elapsed, seen) => {
                    scheduler.observe(elapsed, &seen);
                    None
                }
                Call::Select => Some(scheduler.select()),
                Call::Backfill => scheduler.backfill(),
            };
            let Some(decision) = decision else { continue };
            prop_assert!(decision.predicted.0 >= 0.0 && decision.predicted.0.is_finite());
            let mut distinct = decision.chosen.clone();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), decision.chosen.len());
            prop_assert!(distinct.iter().all(|id| jobs.iter().any(|job| job.job == *id)));
            if let Running::Only(running) = &decision.running {
                assert_cores_fit(&decision, &jobs, cores.max(1));
                prop_assert_eq!(&running[..decision.chosen.len()], &decision.chosen[..]);
                prop_assert!(running.iter().all(|id| jobs.iter().any(|job| job.job == *id)));
            }
        }
    }
}
