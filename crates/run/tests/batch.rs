//! Batches of real processes under any mechanism that this machine offers.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use memweir_core::Nanos;
use memweir_linux::Mechanism;
use memweir_policy::CoreUse;
use memweir_policy::record::{Call, replay};
use memweir_run::batch::run_batch;
use memweir_run::compare::{CompareOptions, Verdict, compare};
use memweir_run::decisions;
use memweir_run::jobs::Batch;
use memweir_run::observer::{Event, Observer, Silent};
use memweir_run::options::{OnFailure, Pinning, RunOptions};
use memweir_run::platform::Platform;
use memweir_run::report::{BatchReport, Outcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use support::{SPIN, commands, groups_of, options, shell, until};

fn run(batch: &Batch, options: &RunOptions) -> BatchReport {
    run_batch(batch, options, &mut Silent).expect("the batch runs")
}

fn exit_codes(report: &BatchReport) -> Vec<Option<i32>> {
    report.jobs.iter().map(|job| job.exit_code).collect()
}

#[test]
fn every_policy_that_needs_no_meter_runs_a_batch_to_its_end() {
    let directory = tempfile::tempdir().expect("a directory");
    for policy in ["os", "round-robin", "random", "long-job-first"] {
        let options = RunOptions { policy: policy.to_owned(), ..options(directory.path()) };
        let spin = format!("{SPIN}; echo done; exit 3");
        let report = run(&shell(&[&spin, "echo out; echo err >&2", SPIN]), &options);
        assert_eq!(report.outcome, Outcome::Finished);
        assert_eq!(exit_codes(&report), [Some(3), Some(0), Some(0)], "{policy}");
        let out = fs::read_to_string(report.jobs[1].stdout.as_ref().expect("kept")).expect("kept");
        let err = fs::read_to_string(report.jobs[1].stderr.as_ref().expect("kept")).expect("kept");
        assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));
        assert!(report.jobs[0].running_s > 0.0 && report.jobs[0].quanta > 0);
        assert!(report.turnaround_s >= report.jobs[0].wall_s);
        assert!(!report.succeeded());
    }
}

#[test]
fn every_mechanism_that_works_here_runs_a_batch_to_its_end() {
    let directory = tempfile::tempdir().expect("a directory");
    for mechanism in [Mechanism::CgroupV2, Mechanism::Sigstop, Mechanism::CgroupV1] {
        let probe = memweir_linux::blocker::probe(mechanism);
        if !probe.available {
            memweir_test_support::skip!(Kernel, "{mechanism}: {}", probe.reason);
            continue;
        }
        let options = RunOptions { mechanism: Some(mechanism), ..options(directory.path()) };
        let report = run(&shell(&[SPIN, SPIN, SPIN, SPIN]), &options);
        assert_eq!(report.mechanism, mechanism.to_string());
        assert_eq!(exit_codes(&report), [Some(0); 4], "{mechanism}");
    }
}

#[test]
fn five_hundred_jobs_fit_into_one_batch() {
    let directory = tempfile::tempdir().expect("a directory");
    let batch = commands("true").repeated(500);
    for policy in ["os", "round-robin"] {
        let options = RunOptions { policy: policy.to_owned(), ..options(directory.path()) };
        let report = run(&batch, &options);
        assert!(report.succeeded(), "{policy}: {:?}", report.notices);
        assert_eq!(report.jobs.len(), 500);
    }
}

#[test]
fn a_job_is_over_when_its_last_child_is() {
    if !memweir_linux::blocker::probe(Mechanism::CgroupV2).available {
        return memweir_test_support::skip!(
            Privilege,
            "only groups know children that leave their session"
        );
    }
    let directory = tempfile::tempdir().expect("a directory");
    let daemon = "setsid sh -c 'sleep 0.7; echo late' & exit 5";
    let report = run(&shell(&[daemon, SPIN]), &options(directory.path()));
    assert_eq!(report.jobs[0].exit_code, Some(5));
    assert!(report.jobs[0].wall_s >= 0.7, "{}", report.jobs[0].wall_s);
    let out = fs::read_to_string(report.jobs[0].stdout.as_ref().expect("kept")).expect("kept");
    assert_eq!(out, "late\n");
}

#[test]
fn a_thousand_children_are_one_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let bomb = "i=0; while [ $i -lt 1000 ]; do sleep 0.3 & i=$((i+1)); done; wait";
    let report = run(&shell(&[bomb, SPIN, SPIN]), &options(directory.path()));
    assert_eq!(exit_codes(&report), [Some(0); 3], "{:?}", report.notices);
}

/// Kills the first job's process at each end of a quantum.
struct Killer<'a> {
    logs: &'a Path,
}

impl Observer for Killer<'_> {
    fn event(&mut self, event: Event<'_>) {
        if matches!(event, Event::QuantumEnded(_)) {
            let said = fs::read_to_string(self.logs.join("sh.1.out")).unwrap_or_default();
            if let Ok(pid) = said.trim().parse() {
                // Fails once the process is gone.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

#[test]
fn a_job_that_is_killed_while_it_is_blocked_is_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let endless = "echo $$; while :; do :; done";
    // One core: at the end of the first quantum the first job is blocked.
    let options = RunOptions { cores: Some(1), ..options(directory.path()) };
    let batch = shell(&[endless, SPIN]);
    let mut killer = Killer { logs: &options.logs };
    let report = run_batch(&batch, &options, &mut killer).expect("the batch runs");
    assert_eq!(exit_codes(&report), [Some(137), Some(0)]);
}

#[test]
fn a_failure_ends_the_batch_fast_if_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = RunOptions { on_failure: OnFailure::FailFast, ..options(directory.path()) };
    let report = run(&shell(&["exit 9", "sleep 600"]), &options);
    assert_eq!(report.outcome, Outcome::FailedFast);
    assert_eq!(exit_codes(&report), [Some(9), Some(128 + 15)]);
}

#[test]
fn a_program_that_cannot_be_executed_fails_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("space");
    support::make_executable(&script);
    let mut batch = commands(script.to_str().expect("plain"));
    batch.jobs.extend(commands("true").jobs);
    let report = run(&batch, &options(directory.path()));
    assert_eq!(exit_codes(&report), [Some(127), Some(0)], "{:?}", report.notices);
    assert!(report.notices.iter().any(|n| n.contains("could not be started")), "{report:?}");
}

#[test]
fn a_full_disk_costs_logs_timeline_and_record_but_no_job() {
    if !geteuid().is_root() {
        return memweir_test_support::skip!(Privilege, "only root can mount a small disk");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let Some(_disk) = support::SmallDisk::mount(directory.path()) else {
        return memweir_test_support::skip!(Privilege, "a small disk cannot be mounted here");
    };
    let options = RunOptions {
        timeline: Some(directory.path().join("timeline.csv")),
        record: Some(directory.path().join("decisions.jsonl")),
        logs: directory.path().join("logs"),
        ..options(directory.path())
    };
    // The first job fills the disk, the others go on.
    let fill = "head -c 100000000 /dev/zero; true";
    let mut lines = vec![fill];
    lines.extend([SPIN; 6]);
    let report = run(&shell(&lines), &options);
    assert_eq!(exit_codes(&report), vec![Some(0); 7], "{:?}", report.notices);
    let told = report.notices.iter().any(|n| n.contains("timeline") || n.contains("not kept"));
    assert!(told, "{:?}", report.notices);
    let ended = report.notices.iter().any(|n| n.contains("no more decisions are recorded"));
    assert!(ended, "{:?}", report.notices);
    assert!(report.lost.iter().any(|lost| lost.path.ends_with("decisions.jsonl")), "{report:?}");
    // The record is whole up to there.
    let record = decisions::read(&directory.path().join("decisions.jsonl")).expect("a record");
    assert_eq!(replay(&record, None).expect("its policy").differences, []);
}

#[test]
fn cores_may_stay_idle_under_any_policy_that_blocks() {
    let directory = tempfile::tempdir().expect("a directory");
    let auto = RunOptions { core_use: CoreUse::Auto, ..options(directory.path()) };
    let mut batch = shell(&[SPIN, SPIN, SPIN]);
    for job in &mut batch.jobs {
        job.expected_time = Some(Nanos::from_millis(300));
        job.expected_reads = Some(memweir_core::BytesPerSec::from_gb(3.0));
    }
    let report = run(&batch, &auto);
    assert_eq!(exit_codes(&report), [Some(0); 3]);
    assert_eq!(report.policy, "round-robin:auto-cores");
    let calibrated = Platform::default_path().is_ok_and(|path| path.exists());
    let told = report.notices.iter().any(|notice| notice.contains("every core is filled"));
    assert!(told || calibrated, "{:?}", report.notices);
    let os = RunOptions { policy: "os".to_owned(), ..auto };
    assert_eq!(run(&batch, &os).policy, "os");
}

#[test]
fn decisions_about_real_jobs_replay_to_the_bit() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("decisions.jsonl");
    let mut batch = shell(&[SPIN, "sleep 0.2; exit 3", SPIN, SPIN, "true"]);
    for (job, gb) in batch.jobs.iter_mut().zip([8.0, 0.1, 3.0, 5.0, 0.5]) {
        job.expected_time = Some(Nanos::from_millis(300));
        job.expected_reads = Some(memweir_core::BytesPerSec::from_gb(gb));
    }
    for policy in ["ideal-average", "random", "os"] {
        let options = RunOptions {
            policy: policy.to_owned(),
            record: Some(path.clone()),
            ..options(directory.path())
        };
        let report = run(&batch, &options);
        assert_eq!(report.jobs[1].exit_code, Some(3), "{policy}: {:?}", report.notices);
        let record = decisions::read(&path).expect("a record");
        assert_eq!((record.header.jobs.len(), record.truncated.as_deref()), (5, None));
        let replayed = replay(&record, None).expect("its policy");
        assert_eq!(replayed.differences, [], "{policy}");
        assert!(replayed.decisions > 1, "{policy}: {}", replayed.decisions);
        let retired = record.calls.iter().filter(|(_, call)| matches!(call, Call::Retire(_)));
        assert_eq!(retired.count(), 5, "{policy}");
        let learned = record.calls.iter().filter(|(_, call)| matches!(call, Call::Learn { .. }));
        assert_eq!(learned.count(), 4, "{policy}: one job has failed");
    }
}

#[test]
fn declared_jobs_are_metered_along_their_profiles() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut batch = shell(&[SPIN, SPIN, SPIN]);
    for job in &mut batch.jobs {
        job.expected_time = Some(Nanos::from_millis(300));
        job.expected_reads = Some(memweir_core::BytesPerSec::from_gb(6.4));
    }
    let timeline = directory.path().join("t.csv");
    let options = RunOptions {
        policy: "ideal-average".to_owned(),
        timeline: Some(timeline.clone()),
        ..options(directory.path())
    };
    let report = run(&batch, &options);
    assert_eq!((report.meter.as_str(), report.predictor.as_str()), ("declared", "profile"));
    assert!(report.succeeded());
    // 6.4 GB/s on each core, for two cores or fewer.
    let ideal = report.ideal_average_bandwidth.expect("everything is declared");
    assert!((ideal - 6.4e9 * f64::from(report.cores)).abs() < 1e6, "{ideal}");
    for job in &report.jobs {
        let lines = job.memory_reads.expect("declared") as f64;
        let expected = job.running_s * 1e8;
        assert!((lines / expected - 1.0).abs() < 0.01, "{lines} of {expected}");
        assert_eq!(job.memory_writes, Some(0));
    }
    assert!(
        report.bandwidth_mean.is_some_and(|mean| mean > 0.0)
            && !report.bandwidth_breakdown.is_empty()
    );
    let rows = fs::read_to_string(timeline).expect("a timeline");
    assert!(rows.lines().count() as u64 > report.quanta, "{rows}");
}

#[test]
fn a_policy_that_needs_bandwidth_is_refused_without_any() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = RunOptions {
        policy: "ideal-average".to_owned(),
        meter: "declared".parse().expect("a meter"),
        ..options(directory.path())
    };
    let error = run_batch(&shell(&[SPIN]), &options, &mut Silent).expect_err("refused");
    assert!(error.to_string().contains("nothing is known of sh"), "{error}");
}

/// Returns the CPUs that each job may use, as it reports them.
fn cpus_seen(report: &BatchReport) -> Vec<String> {
    report
        .jobs
        .iter()
        .map(|job| fs::read_to_string(job.stdout.as_ref().expect("kept")).expect("kept"))
        .map(|text| text.trim().to_owned())
        .collect()
}

#[test]
fn jobs_are_bound_as_the_pinning_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let allowed = memweir_linux::topology::allowed_cpus().expect("this process has CPUs");
    let say = "sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status";
    let mut batch = shell(&[say, say]);
    let last = *allowed.last().expect("at least one");
    batch.jobs[1].cpus = vec![last];

    let one = RunOptions { cores: Some(1), policy: "os".to_owned(), ..options(directory.path()) };
    let first = allowed[0].to_string();
    assert_eq!(cpus_seen(&run(&batch, &one)), [first.clone(), first.clone()]);

    let by_hand = RunOptions { policy: "pinned".to_owned(), ..options(directory.path()) };
    let report = run(&batch, &by_hand);
    assert_eq!((report.policy.as_str(), &cpus_seen(&report)[1]), ("pinned", &last.to_string()));

    let own = RunOptions { pinning: Pinning::OneJobPerCore, ..options(directory.path()) };
    let seen = cpus_seen(&run(&batch, &own));
    assert!(seen.iter().all(|cpus| cpus.parse::<usize>().is_ok()), "{seen:?}");
}

#[test]
fn a_comparison_runs_every_variant_in_every_round() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = directory.path().join("results.jsonl");
    let wanted = CompareOptions {
        variants: ["os", "round-robin"].map(String::from).to_vec(),
        rounds: 2,
        results: Some(results.clone()),
        ..CompareOptions::default()
    };
    let batch = shell(&[SPIN, SPIN]);
    let found = compare(&batch, &options(directory.path()), &wanted, &mut Silent).expect("runs");
    assert!(found.failure.is_none());
    let found = found.comparison;
    assert_eq!((found.rounds, found.runs.len()), (2, 4));
    let order: Vec<&str> = found.runs.iter().map(|run| run.variant.as_str()).collect();
    assert_eq!(order, ["os", "round-robin", "round-robin", "os"]);
    assert_eq!(found.variants[0].verdict, Verdict::Baseline);
    assert!(found.variants[1].difference.is_some());
    assert_eq!(fs::read_to_string(results).expect("kept").lines().count(), 4);
    assert!(directory.path().join("logs/round-2/os/sh.1.out").exists());
}

#[test]
fn a_comparison_with_a_variant_that_cannot_run_starts_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let wanted = CompareOptions {
        variants: ["os", "pinned"].map(String::from).to_vec(),
        ..CompareOptions::default()
    };
    let batch = shell(&["touch started"]);
    let error = compare(&batch, &options(directory.path()), &wanted, &mut Silent);
    assert!(error.expect_err("no job has cpus").to_string().contains("cpus"));
    assert!(!directory.path().join("logs").exists());
}

#[test]
fn a_program_beside_the_batch_is_seen_on_its_cores() {
    let directory = tempfile::tempdir().expect("a directory");
    // The limit ends it if the test fails before.
    let spin = "ulimit -t 60; while :; do :; done";
    let mut spinner = Command::new("sh").args(["-c", spin]).spawn().expect("a shell");
    let batch = shell(&["sleep 1"]);
    let report = run(&batch, &options(directory.path()));
    spinner.kill().and_then(|()| spinner.wait()).expect("our own child");
    // More where the machine has other work, and less where that keeps the spinner waiting.
    let foreign = report.foreign_cores.expect("this is no virtual time");
    assert!(foreign > 0.3, "{foreign}");
}

#[test]
fn the_first_interrupt_ends_the_batch_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let polite = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done";
    let mut runner = support::Runner::start(directory.path(), &[], &[stubborn, polite]);
    until("both are ready", || runner.said("sh.1", "ready") && runner.said("sh.2", "ready"));
    runner.signal(Signal::SIGINT);
    let report = runner.report();
    assert_eq!(report.outcome, Outcome::Interrupted);
    assert_eq!(exit_codes(&report), [Some(137), Some(0)]);
    assert!(runner.said("sh.2", "bye"));
    assert_eq!(groups_of(runner.pid()), BTreeSet::new());
}

#[test]
fn the_second_interrupt_kills_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let stubborn = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.1; done";
    let mut runner = support::Runner::start(directory.path(), &[], &[stubborn]);
    until("it is ready", || runner.said("sh", "ready"));
    runner.signal(Signal::SIGINT);
    until("it was asked", || runner.said("sh", "asked"));
    runner.signal(Signal::SIGINT);
    assert_eq!(exit_codes(&runner.report()), [Some(137)]);
}

#[test]
fn released_jobs_run_on_after_the_batch() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo finished";
    let spin = "echo ready; while [ ! -e go ]; do :; done; echo finished";
    let mut runner = support::Runner::start(directory.path(), &["--release"], &[job, spin, spin]);
    until("one is ready", || runner.said("sh.1", "ready"));
    runner.signal(Signal::SIGTERM);
    let report = runner.report();
    assert_eq!(report.outcome, Outcome::Interrupted);
    assert_eq!(report.jobs[0].exit_code, None);
    fs::write(directory.path().join("go"), "").expect("space");
    for name in ["sh.1", "sh.2", "sh.3"] {
        if runner.said(name, "ready") {
            until("a released job ends", || runner.said(name, "finished"));
        }
    }
    until("the guardian clears up", || groups_of(runner.pid()).is_empty());
}

#[test]
fn whenever_memweir_is_killed_its_jobs_run_on() {
    for round in 0..12u64 {
        let directory = tempfile::tempdir().expect("a directory");
        let job = format!("{SPIN}; echo finished");
        let mut runner =
            support::Runner::start(directory.path(), &["--quantum", "20"], &[&job, &job, &job]);
        // From before the first job starts until all run.
        std::thread::sleep(Duration::from_millis(10 + round * 29));
        runner.signal(Signal::SIGKILL);
        runner.wait();
        until("what was started has ended", || groups_of(runner.pid()).is_empty());
        for name in ["sh.1", "sh.2", "sh.3"] {
            let started = runner.log(name).is_some_and(|log| log.contains("started"));
            assert!(!started || runner.said(name, "finished"), "{name} in round {round}");
        }
        let _ = memweir_linux::leftovers::clean();
        assert_eq!(groups_of(runner.pid()), BTreeSet::new());
    }
}
