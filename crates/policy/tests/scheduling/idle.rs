//! Idle cores pay where overload costs more than it brings, and cost nothing elsewhere.

use memweir_core::{BytesPerSec, JobId};
use memweir_policy::{Bus, CoreUse, Decision, JobSpec, QuantumScheduler, SchedulerConfig};
use proptest::prelude::*;

use crate::machine::{Batch, QUANTUM, Work, blocking_policies, busy, config, run, scheduler, spec};

const PEAK: f64 = 40.0;

/// Four cores on a bus of 40 GB/s, whose jobs are declared.
fn batch(policy: &str, core_use: CoreUse, congestion: f64) -> Batch {
    let bus = Bus { peak: Some(BytesPerSec::from_gb(PEAK)), ..Bus::default() };
    let config = SchedulerConfig { bus, core_use, ..config(policy, 4) };
    Batch { config, peak: PEAK, congestion, noise: 0.0, declared: true, seed: 1 }
}

fn turnaround(batch: &Batch, jobs: &[Work]) -> f64 {
    run(batch, jobs, |_, _, _| {})
}

/// Returns the turnarounds with all cores filled, and with [`CoreUse::Auto`].
fn both(policy: &str, congestion: f64, declared: bool, jobs: &[Work]) -> (f64, f64) {
    let of =
        |core_use| turnaround(&Batch { declared, ..batch(policy, core_use, congestion) }, jobs);
    (of(CoreUse::All), of(CoreUse::Auto))
}

fn streams(count: usize, seconds: f64) -> Vec<Work> {
    vec![Work { seconds, gb: 36.0 }; count]
}

#[test]
fn where_overload_costs_capacity_idle_cores_pay() {
    for policy in ["round-robin", "ideal-average", "peak-bandwidth", "hmmsched"] {
        for declared in [true, false] {
            // Four at once require 3.6 times the peak; the bus carries 1 / (1 + 0.3 x 2.6) of it.
            let (all, auto) = both(policy, 0.3, declared, &streams(8, 40.0));
            assert!(all > 500.0, "{policy}: {all}");
            // One at a time would take 320 seconds.
            assert!(auto < 380.0, "{policy}: {auto}, where filling takes {all}");
        }
    }
}

#[test]
fn it_can_be_asked_for_behind_the_policys_name() {
    let jobs = streams(8, 20.0);
    let named = turnaround(&batch("round-robin:auto-cores", CoreUse::All, 0.3), &jobs);
    assert_eq!(named, both("round-robin", 0.3, true, &jobs).1);
}

/// Six jobs that require 36 GB/s each, on a bus that is saturated from 10 GB/s on.
fn overloaded() -> QuantumScheduler {
    let mut config = batch("round-robin", CoreUse::Auto, 0.0).config;
    config.bus.saturation = Some(BytesPerSec::from_gb(10.0));
    let mut scheduler = scheduler(config);
    for job in 0..6 {
        let expected_bandwidth = Some(BytesPerSec::from_gb(36.0));
        scheduler.admit(JobSpec { expected_bandwidth, ..spec(job) });
    }
    scheduler
}

/// Returns the GB/s that each of `jobs` jobs gets that require 36: the bus carries half of its
/// peak.
fn breaks_down(jobs: usize) -> f64 {
    if jobs == 1 { 36.0 } else { 20.0 / jobs as f64 }
}

/// A decision, its observation, and the backfill that a live batch asks for at once.
fn quantum(scheduler: &mut QuantumScheduler, gb: impl Fn(usize) -> f64) -> Decision {
    let mut decision = scheduler.select();
    while let Some(filled) = scheduler.backfill() {
        decision = filled;
    }
    let gb = gb(decision.chosen.len());
    let seen: Vec<_> = decision.chosen.iter().map(|job| busy(job.0, gb)).collect();
    scheduler.observe(QUANTUM, &seen);
    decision
}

#[test]
fn what_was_refused_is_not_let_in_by_the_back_door() {
    let mut scheduler = overloaded();
    let widths: Vec<usize> =
        (0..40).map(|_| quantum(&mut scheduler, breaks_down).chosen.len()).collect();
    assert_eq!(widths[0], 4, "nobody suffers before it has been seen");
    assert!(widths[20..].iter().filter(|width| **width == 1).count() >= 15, "{widths:?}");
}

#[test]
fn a_job_ends_and_its_core_may_stay_idle_but_not_all_of_them() {
    let mut scheduler = overloaded();
    let mut last = Vec::new();
    for _ in 0..30 {
        last = quantum(&mut scheduler, breaks_down).chosen;
    }
    let next = scheduler.select().chosen;
    assert_eq!((last.len(), next.len()), (1, 1));
    scheduler.retire(next[0]);
    let filled = scheduler.backfill().expect("somebody waits, and nobody runs").chosen;
    assert_eq!(filled.len(), 1);
    assert_ne!(filled, [JobId(next[0].0)]);
}

#[test]
fn a_job_that_is_canceled_while_it_waits_leaves_one_that_runs_alone_without_company() {
    let mut scheduler = scheduler(batch("round-robin", CoreUse::Auto, 0.0).config);
    for job in 0..6 {
        let expected_bandwidth = Some(BytesPerSec::from_gb(8.0));
        scheduler.admit(JobSpec { expected_bandwidth, ..spec(job) });
    }
    // 32 of 40 GB/s: no quantum is calm, until a job has had 64 of them.
    let mut chosen = scheduler.select().chosen;
    for _ in 0..200 {
        if chosen.len() == 1 {
            break;
        }
        let seen: Vec<_> = chosen.iter().map(|job| busy(job.0, 8.0)).collect();
        scheduler.observe(QUANTUM, &seen);
        chosen = scheduler.select().chosen;
    }
    assert_eq!(chosen.len(), 1, "one is to be seen alone");
    let waiting = (0..6).map(JobId).find(|job| *job != chosen[0]).expect("five wait");
    scheduler.retire(waiting);
    assert_eq!(scheduler.backfill(), None);
    // The end of the one that runs is another matter.
    scheduler.retire(chosen[0]);
    assert_eq!(scheduler.backfill().expect("four wait").chosen.len(), 4);
}

fn any_jobs(most: f64) -> impl Strategy<Value = Vec<Work>> {
    prop::collection::vec(
        (0.3..5.0f64, prop_oneof![Just(0.0), 0.0..most])
            .prop_map(|(seconds, gb)| Work { seconds, gb }),
        1..14,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Four jobs always fit the bus: nothing at all is lost.
    #[test]
    fn without_contention_nothing_is_lost(
        policy in blocking_policies(), jobs in any_jobs(PEAK / 4.0), declared: bool,
    ) {
        let (all, auto) = both(policy, 0.8, declared, &jobs);
        prop_assert_eq!(all, auto);
    }

    /// On a busy bus, a job has a quantum to itself now and then.
    #[test]
    fn without_contention_next_to_nothing_is_lost(
        policy in blocking_policies(), declared: bool,
        jobs in prop::collection::vec((20.0..60.0f64, PEAK / 8.0..PEAK / 4.0), 4..12),
    ) {
        let jobs: Vec<_> =
            jobs.into_iter().map(|(seconds, gb)| Work { seconds, gb }).collect();
        let batch = Batch { declared, ..batch(policy, CoreUse::Auto, 0.8) };
        // Turnaround depends on how the last jobs happen to fit; idle cores do not.
        let (mut idle, mut now) = (0.0, 0.0);
        run(&batch, &jobs, |together, waiting, span| {
            now += span;
            idle += span * (4 - together.len()).min(waiting.len()) as f64;
        });
        prop_assert!(idle <= 4.0 * now / 64.0 + QUANTUM.as_secs_f64(), "{idle} of {now} s");
    }

    /// The same where the calibrated peak is far too low: the demands exceed it, and no job is
    /// slowed down.
    #[test]
    fn a_wrong_peak_without_contention_costs_nothing(
        policy in blocking_policies(), jobs in any_jobs(PEAK / 4.0), declared: bool,
    ) {
        let of = |core_use| {
            let mut batch = Batch { declared, ..batch(policy, core_use, 0.0) };
            batch.config.bus.peak = Some(BytesPerSec::from_gb(PEAK / 8.0));
            turnaround(&batch, &jobs)
        };
        let (all, auto) = (of(CoreUse::All), of(CoreUse::Auto));
        // Undeclared jobs may have a quantum each to themselves, once.
        let seen_alone = if declared { 0.0 } else { QUANTUM.as_secs_f64() * jobs.len() as f64 };
        prop_assert!(auto <= all + seen_alone + 1e-6, "{auto} > {all}");
    }

    /// A full bus that is divided in proportion: idle cores neither gain nor lose.
    #[test]
    fn a_bus_that_is_merely_full_is_filled(
        policy in blocking_policies(), jobs in any_jobs(PEAK),
    ) {
        let (all, auto) = both(policy, 0.0, true, &jobs);
        prop_assert!(auto <= all * 1.05 + QUANTUM.as_secs_f64(), "{auto} > {all}");
    }
}
