//! Sleeping jobs: never blocked, and never in the way.

use memweir_core::{JobId, Nanos};
use memweir_policy::{Observation, QuantumScheduler, Running};

use crate::machine::{QUANTUM, busy, busy_for, config, ids, running, spec, with_jobs};

fn round_robin(cores: u32, jobs: u32) -> QuantumScheduler {
    with_jobs(config("round-robin", cores), jobs)
}

/// One part in a thousand of a quantum.
const TWITCH: Nanos = Nanos(QUANTUM.0 / 1000);

#[test]
fn a_sleeping_job_stays_unblocked_and_gives_its_core_away() {
    let mut scheduler = round_robin(2, 4);
    assert_eq!(scheduler.select().chosen, ids(&[0, 1]));
    scheduler.observe(QUANTUM, &[busy(0, 1.0), busy_for(1, 0.0, TWITCH)]);
    let decision = scheduler.select();
    assert_eq!(decision.chosen, ids(&[2, 3]));
    assert_eq!(running(&decision), [2, 3, 1]);
    // A timer woke it for a moment. It is asleep still: the others take turns.
    scheduler.observe(QUANTUM, &[busy(2, 1.0), busy(3, 1.0), busy_for(1, 0.0, TWITCH)]);
    let decision = scheduler.select();
    assert_eq!((decision.chosen.clone(), running(&decision)), (ids(&[0, 2]), vec![0, 2, 1]));
}

#[test]
fn a_job_of_unknown_cpu_time_neither_falls_asleep_nor_wakes_up() {
    let unknown = |job| Observation { cpu_time: None, ..busy(job, 1.0) };
    let mut scheduler = round_robin(1, 2);
    scheduler.select();
    scheduler.observe(QUANTUM, &[unknown(0)]);
    assert_eq!(running(&scheduler.select()), [1], "awake, so that it waits for its turn");
    scheduler.observe(QUANTUM, &[busy_for(1, 0.0, TWITCH)]);
    assert_eq!(running(&scheduler.select()), [0, 1]);
    scheduler.observe(QUANTUM, &[busy(0, 1.0), unknown(1)]);
    assert_eq!(running(&scheduler.select()), [0, 1], "still asleep");
}

#[test]
fn a_job_that_wakes_joins_the_tail_of_the_queue() {
    let mut scheduler = round_robin(1, 3);
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy_for(0, 0.0, Nanos::ZERO)]);
    assert_eq!(running(&scheduler.select()), [1, 0]);
    scheduler.observe(QUANTUM, &[busy(1, 1.0), busy(0, 1.0)]);
    // It woke before job 1 went to the tail, so that the order is 2, 0, 1.
    assert_eq!(running(&scheduler.select()), [2]);
    scheduler.observe(QUANTUM, &[busy(2, 1.0)]);
    assert_eq!(running(&scheduler.select()), [0]);
}

#[test]
fn a_whole_quantum_asleep_is_needed() {
    // Given its core in mid-quantum, it did not have the time to start.
    let mut joined = round_robin(1, 2);
    joined.select();
    joined.retire(JobId(0));
    assert_eq!(joined.backfill().unwrap().chosen, ids(&[1]));
    joined.observe(QUANTUM, &[busy(0, 1.0), busy_for(1, 0.0, Nanos::ZERO)]);
    joined.admit(spec(2));
    let decision = joined.select();
    assert_eq!((decision.chosen.clone(), running(&decision)), (ids(&[2]), vec![2]));

    // A quantum that was cut short says nothing.
    let mut cut = round_robin(1, 2);
    cut.select();
    cut.observe(Nanos(QUANTUM.0 / 10), &[busy_for(0, 0.0, Nanos::ZERO)]);
    assert_eq!(running(&cut.select()), [1]);

    // One that was admitted and waited was given no core at all.
    let mut waiting = round_robin(1, 2);
    waiting.select();
    waiting.observe(QUANTUM, &[busy(0, 1.0), busy_for(1, 0.0, Nanos::ZERO)]);
    assert_eq!(running(&waiting.select()), [1]);
}

#[test]
fn a_job_that_joined_has_had_the_next_span_whole() {
    let mut scheduler = round_robin(1, 2);
    scheduler.select();
    scheduler.retire(JobId(0));
    scheduler.backfill();
    scheduler.observe(QUANTUM, &[busy_for(1, 0.0, Nanos::ZERO)]);
    scheduler.observe(QUANTUM, &[busy_for(1, 0.0, Nanos::ZERO)]);
    let decision = scheduler.select();
    assert_eq!((decision.chosen.clone(), running(&decision)), (vec![], vec![1]));
}

#[test]
fn one_percent_is_the_boundary() {
    for (used, asleep) in [(QUANTUM.0 / 100, false), (QUANTUM.0 / 100 - 1, true)] {
        let mut scheduler = round_robin(1, 2);
        scheduler.select();
        scheduler.observe(QUANTUM, &[busy_for(0, 0.0, Nanos(used))]);
        assert_eq!(running(&scheduler.select()).contains(&0), asleep, "{used}");
    }
}

#[test]
fn when_every_job_sleeps_all_run_and_none_occupies_a_core() {
    let mut scheduler = round_robin(2, 3);
    for _ in 0..3 {
        let decision = scheduler.select();
        let idle: Vec<_> =
            running(&decision).iter().map(|job| busy_for(*job, 0.0, Nanos::ZERO)).collect();
        scheduler.observe(QUANTUM, &idle);
    }
    let decision = scheduler.select();
    assert!(decision.chosen.is_empty());
    assert_eq!(running(&decision), [0, 1, 2]);
    assert_eq!(scheduler.backfill(), None);
    // All wake at once: from the next decision on they take turns again.
    scheduler.observe(QUANTUM, &[busy(0, 1.0), busy(1, 1.0), busy(2, 1.0)]);
    assert_eq!(scheduler.select().chosen, ids(&[0, 1]));
}

#[test]
fn a_core_that_falls_asleep_can_be_backfilled() {
    let mut scheduler = round_robin(2, 3);
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy_for(0, 0.0, TWITCH), busy(1, 1.0)]);
    let decision = scheduler.backfill().unwrap();
    assert_eq!((decision.chosen.clone(), running(&decision)), (ids(&[1, 2]), vec![1, 2, 0]));
}

#[test]
fn a_quantum_asleep_says_nothing_about_the_demand() {
    let mut scheduler = round_robin(1, 2);
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy(0, 3.0)]);
    scheduler.select();
    scheduler.observe(QUANTUM, &[busy(1, 1.0)]);
    scheduler.select();
    let known = scheduler.demand(JobId(0));
    scheduler.observe(QUANTUM, &[busy_for(0, 0.0, Nanos::ZERO)]);
    assert!(known.is_some());
    assert_eq!(scheduler.demand(JobId(0)), known);
}

#[test]
fn the_operating_system_blocks_nobody_asleep_or_not() {
    let mut os = with_jobs(config("os", 2), 4);
    assert_eq!(os.backfill(), None);
    for _ in 0..3 {
        let decision = os.select();
        assert_eq!(decision.running, Running::Everything);
        assert_eq!(decision.chosen, ids(&[0, 1, 2, 3]));
        let half = Nanos(QUANTUM.0 / 2);
        os.observe(
            QUANTUM,
            &[
                busy_for(0, 2.0, half),
                busy_for(1, 2.0, half),
                busy_for(2, 2.0, half),
                busy_for(3, 0.0, Nanos::ZERO),
            ],
        );
    }
    os.retire(JobId(0));
    assert_eq!(os.backfill(), None);
    assert_eq!(os.select().chosen, ids(&[1, 2, 3]));
    // Two of three jobs of 4 GB/s at a time; of one job, no more than all of it.
    let predicted = |os: &mut QuantumScheduler| os.select().predicted.as_gb().round();
    os.observe(QUANTUM, &[1, 2, 3].map(|job| busy(job, 4.0)));
    assert_eq!(predicted(&mut os), 8.0);
    os.retire(JobId(1));
    os.retire(JobId(2));
    assert_eq!(predicted(&mut os), 4.0);
}
