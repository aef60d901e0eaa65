use memweir_core::Lines;
use memweir_policy::quantum_loop::JobQuantum;
use memweir_policy::{Decision, QuantumSummary, Running};

use super::*;
use crate::batch::Totals;
use crate::jobs::{Command, Job};

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn ledger(expected: &[Option<Nanos>]) -> Ledger {
    let job = |index| Job::new(format!("{index}"), Command::Shell("true".into()));
    let batch = Batch { jobs: (0..expected.len()).map(job).collect() };
    Ledger::new(&batch, expected, 2, ms(100))
}

fn slots(jobs: usize) -> Slots {
    Slots::new(jobs, Totals::default())
}

/// A quantum of 100 ms in which the first job ran for `running` and read `lines`.
fn quantum(number: u64, running: Nanos, lines: Option<u64>) -> Quantum {
    let entry = JobQuantum {
        job: JobId(0),
        chosen: true,
        reason: None,
        running,
        speed: Some(0.5),
        cpu_time: ms(50),
        counts: lines.map(|lines| Counts { reads: Lines(lines), ..Counts::default() }),
    };
    Quantum {
        start: ms(100 * number),
        summary: QuantumSummary {
            elapsed: ms(100),
            bandwidth: BytesPerSec::ZERO,
            saturated: false,
        },
        jobs: vec![entry],
        decision: Decision {
            running: Running::Everything,
            chosen: vec![JobId(0)],
            predicted: BytesPerSec::ZERO,
            target: None,
        },
        switch: None,
        calls: Vec::new(),
    }
}

#[test]
fn a_job_is_judged_by_the_time_it_ran_and_the_system_by_the_quantum() {
    let mut ledger = ledger(&[None]);
    ledger.started(JobId(0), ms(1_000));
    ledger.quantum_ended(&quantum(0, ms(50), Some(1_000_000)));
    ledger.quantum_ended(&quantum(1, ms(100), Some(1_000_000)));
    let sees = Capabilities::default();
    let report = ledger.job_report(JobId(0), Some(&sees));
    // 64 MB in 50 ms, then in 100 ms.
    assert_eq!(report.bandwidth_peak, Some(1.28e9));
    assert!((report.bandwidth_mean.unwrap() - 128e6 / 0.15).abs() < 1.0);
    assert_eq!(ledger.bandwidths(), [BytesPerSec(0.64e9); 2]);
    assert_eq!((report.quanta, report.running_s), (2, 0.1));
}

#[test]
fn what_the_meter_does_not_see_is_absent_and_not_zero() {
    let mut ledger = ledger(&[None]);
    ledger.started(JobId(0), ms(0));
    ledger.quantum_ended(&quantum(0, ms(100), Some(5)));
    let blind = ledger.job_report(JobId(0), None);
    assert_eq!((blind.instructions, blind.memory_reads, blind.memory_writes), (None, None, None));
    assert_eq!((blind.bandwidth_mean, blind.bandwidth_peak), (None, None));
    let sees = Capabilities { writes: true, ..Capabilities::default() };
    let report = ledger.job_report(JobId(0), Some(&sees));
    assert_eq!((report.instructions, report.memory_reads), (None, Some(5)));
    assert_eq!(report.memory_writes, Some(0));
    ledger.counting_failed(JobId(0));
    assert_eq!(ledger.job_report(JobId(0), Some(&sees)).memory_reads, None);
}

#[test]
fn a_quantum_without_a_meter_has_no_bandwidth() {
    let mut ledger = ledger(&[None]);
    ledger.quantum_ended(&quantum(0, ms(100), None));
    assert_eq!(ledger.progress(&slots(1)).bandwidth, None);
    assert!(ledger.bandwidths().is_empty());
    assert_eq!(ledger.quanta(), 1);
}

#[test]
fn a_last_quantum_that_is_cut_short_says_nothing_of_bandwidth() {
    let mut ledger = ledger(&[None]);
    ledger.quantum_ended(&quantum(0, ms(100), Some(1_000)));
    let mut cut = quantum(1, ms(1), Some(1_000));
    cut.summary.elapsed = ms(1);
    ledger.quantum_ended(&cut);
    assert_eq!(ledger.bandwidths().len(), 1);
    assert_eq!(ledger.quanta(), 2);
}

#[test]
fn the_rest_is_what_was_expected_less_what_was_done() {
    let mut ledger = ledger(&[Some(ms(1_000)), Some(ms(400))]);
    for job in [JobId(0), JobId(1)] {
        ledger.started(job, ms(0));
    }
    ledger.quantum_ended(&quantum(0, ms(100), None));
    // 950 + 400 ms of CPU time on two cores, of which one job alone needs 950 on one.
    assert_eq!(ledger.progress(&slots(2)).remaining, Some(ms(950)));
}

#[test]
fn a_job_of_unknown_length_is_taken_to_be_like_those_that_are_over() {
    let (mut ledger, mut slots) = (ledger(&[None, None]), slots(2));
    for job in [JobId(0), JobId(1)] {
        ledger.started(job, ms(0));
    }
    ledger.quantum_ended(&quantum(0, ms(100), None));
    assert_eq!(ledger.progress(&slots).remaining, None, "nothing is known yet");
    slots.over(JobId(0));
    // The first took 50 ms of CPU time.
    let progress = ledger.progress(&slots);
    assert_eq!((progress.remaining, progress.jobs_done), (Some(ms(50)), 1));
    let mut quantum = quantum(1, ms(100), None);
    quantum.jobs[0].job = JobId(1);
    ledger.quantum_ended(&quantum);
    assert_eq!(ledger.progress(&slots).remaining, None, "it has used as much");
}

#[test]
fn turnaround_ends_with_the_last_job_or_with_the_interruption() {
    let mut ledger = ledger(&[None, None]);
    ledger.started(JobId(0), ms(1_000));
    ledger.started(JobId(1), ms(1_100));
    assert_eq!(ledger.ended(JobId(1), Some(0), ms(1_500)), ms(400));
    assert_eq!(ledger.ended(JobId(0), Some(0), ms(1_300)), ms(300));
    assert_eq!(ledger.turnaround(Outcome::Finished, ms(9_000)), ms(500));
    assert_eq!(ledger.turnaround(Outcome::Interrupted, ms(2_000)), ms(1_000));
}

#[test]
fn a_job_that_cannot_be_executed_has_a_code_and_was_not_left_out() {
    let mut ledger = ledger(&[None, None]);
    ledger.ended(JobId(0), Some(127), ms(5));
    ledger.ended(JobId(1), None, ms(5));
    let never = [0, 1].map(|job| ledger.job_report(JobId(job), None).never_started);
    assert_eq!(never, [false, true]);
}

#[test]
fn speeds_are_those_of_the_time_with_cores() {
    let mut ledger = ledger(&[Some(ms(90)), Some(ms(90))]);
    ledger.quantum_ended(&quantum(0, ms(50), None));
    let fast = quantum(1, ms(100), None);
    ledger.quantum_ended(&Quantum {
        jobs: vec![JobQuantum { speed: Some(0.8), ..fast.jobs[0] }],
        ..fast
    });
    // Asleep: unblocked, but without a core of its own.
    let asleep = quantum(2, ms(100), None);
    ledger.quantum_ended(&Quantum {
        jobs: vec![JobQuantum { speed: None, ..asleep.jobs[0] }],
        ..asleep
    });
    let speeds = |ledger: &Ledger, job| {
        let report = ledger.job_report(JobId(job), Some(&Capabilities::default()));
        (report.predicted_speed, report.measured_speed)
    };
    let (predicted, measured) = speeds(&ledger, 0);
    // 0.5 * 50 ms and 0.8 * 100 ms of 150 ms; it has not ended.
    assert!((predicted.unwrap() - 0.105 / 0.15).abs() < 1e-9);
    assert_eq!(measured, None);
    ledger.ended(JobId(0), Some(0), ms(300));
    assert!((speeds(&ledger, 0).1.unwrap() - 0.09 / 0.15).abs() < 1e-9);
    ledger.ended(JobId(0), Some(1), ms(300));
    assert_eq!(speeds(&ledger, 0).1, None, "it failed");
    assert_eq!(speeds(&ledger, 1), (None, None), "it never had a core");
    assert_eq!(ledger.job_report(JobId(0), None).predicted_speed, None, "nothing was counted");
}

#[test]
fn the_rest_of_a_batch_of_centuries_is_known() {
    let year = Nanos(365 * 86_400 * 1_000_000_000);
    // On two cores.
    let left = ledger(&[Some(year); 1000]).progress(&slots(1000)).remaining;
    assert_eq!(left, Some(Nanos(500 * year.0)));
}
