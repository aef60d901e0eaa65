use memweir_core::{Counts, Lines};

use super::*;
use crate::attempt::Attempts;

fn work(directory: &Path) -> Work {
    Work {
        program: "/bin/true".into(),
        argv: vec!["true".into()],
        directory: directory.into(),
        environment: Vec::new(),
    }
}

fn first_run(directory: &Path) -> FirstRun {
    let reads = Counts::new(0, Lines(2_000_000), Lines(0));
    FirstRun {
        job: JobId(1),
        begin: Begin::of(&work(directory)).unwrap(),
        profile: Profile::steady(Nanos::from_millis(2_000), reads),
        meter: MeterKind::Perf,
    }
}

#[test]
fn a_first_run_is_found_by_the_next_submission_on_any_number_of_cores() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(Some(&directory.path().join("profiles.sqlite"))).unwrap();
    let work = work(directory.path());
    let unknown = profiles.look_up("true", &work, 1, None, None);
    assert_eq!((unknown.source, unknown.time), (None, None));
    let store = Store::open(Some(profiles.path())).unwrap();
    let key = keep(&store, &first_run(directory.path())).unwrap();
    assert_eq!(key.as_deref(), unknown.program.as_deref());
    let wide = profiles.look_up("true", &work, 2, None, None);
    assert_eq!((wide.source, wide.time), (Some(Source::Store), Some(Nanos::from_millis(1_000))));
    assert_eq!(wide.bandwidth, Some(BytesPerSec(128e6)));
    let time = Some(Nanos::MILLI);
    let half = profiles.look_up("true", &work, 1, time, None);
    assert_eq!((half.source, half.time), (Some(Source::SubmissionAndStore), time));
    let told = profiles.look_up("true", &work, 1, time, Some(BytesPerSec(5.0)));
    assert_eq!((told.source, told.bandwidth), (Some(Source::Submission), Some(BytesPerSec(5.0))));
}

#[test]
fn the_files_of_a_first_run_pass_from_its_supervisor_to_the_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let attempts = Attempts::new(directory.path());
    attempts.create().unwrap();
    std::fs::write(directory.path().join("input"), "x").unwrap();
    let argv = vec!["true".into(), "input".into()];
    let begin = Begin::of(&Work { argv, ..work(directory.path()) }).unwrap();
    let attempt = attempts.of(JobId(1), 1);
    assert!(attempt.read_begin().is_err());
    attempt.begin(&begin).unwrap();
    let read = attempt.read_begin().unwrap();
    assert_eq!(
        (&read.command, &read.key, &read.inputs),
        (&begin.command, &begin.key, &begin.inputs)
    );
    assert_eq!(read.inputs.len(), 1);
    attempt.remove();
    assert!(attempt.read_begin().is_err());
}

#[test]
fn no_submission_waits_for_another_that_looks_at_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(Some(&directory.path().join("profiles.sqlite"))).unwrap();
    let store = lock(&profiles.idle).pop().unwrap();
    keep(&store, &first_run(directory.path())).unwrap();
    let known = profiles.look_up("true", &work(directory.path()), 1, None, None);
    assert_eq!(known.source, Some(Source::Store));
    lock(&profiles.idle).push(store);
    assert_eq!(lock(&profiles.idle).len(), 2);
}

/// Returns a keeper that holds up job 1 until the sender is dropped, and the jobs whose runs it
/// begins to keep.
fn held_up(timeout: Duration) -> (Keeper, Sender<()>, Receiver<JobId>) {
    let (begun, begins) = channel();
    let (release, held_up) = channel::<()>();
    let held_up = Mutex::new(held_up);
    let keeper = Keeper::with(timeout, move |run| {
        begun.send(run.job).unwrap();
        if run.job == JobId(1) {
            let _ = lock(&held_up).recv();
        }
    });
    (keeper.unwrap(), release, begins)
}

#[test]
fn first_runs_are_kept_while_a_file_server_holds_up_another() {
    let directory = tempfile::tempdir().unwrap();
    let (keeper, release, begins) = held_up(Duration::ZERO);
    for job in [1, 2, 3].map(JobId) {
        keeper.keep(FirstRun { job, ..first_run(directory.path()) });
        assert_eq!(begins.recv(), Ok(job));
    }
    // The end waits for none that was given up.
    drop(keeper);
    drop(release);
}

#[test]
fn first_runs_are_kept_one_after_the_other_and_all_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let (keeper, release, begins) = held_up(Duration::MAX);
    for job in [1, 2].map(JobId) {
        keeper.keep(FirstRun { job, ..first_run(directory.path()) });
    }
    assert_eq!(begins.recv(), Ok(JobId(1)));
    assert!(begins.try_recv().is_err(), "the first is not written yet");
    drop(release);
    drop(keeper);
    assert_eq!(begins.try_recv(), Ok(JobId(2)));
}

#[test]
fn of_two_first_runs_the_first_to_end_counts() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Some(&directory.path().join("profiles.sqlite"))).unwrap();
    let run = first_run(directory.path());
    assert!(keep(&store, &run).unwrap().is_some());
    let shorter = Profile::steady(Nanos::MILLI, Counts::default());
    let second = FirstRun { job: JobId(2), profile: shorter, ..run };
    assert_eq!(keep(&store, &second).unwrap(), None);
}

#[test]
fn a_program_that_is_replaced_during_its_first_run_is_profiled_again() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(Some(&directory.path().join("profiles.sqlite"))).unwrap();
    let program = directory.path().join("program");
    std::fs::write(&program, "one").unwrap();
    let work = Work { program: program.as_path().into(), ..work(directory.path()) };
    let begin = Begin::of(&work).unwrap();
    let run = FirstRun { begin, ..first_run(directory.path()) };
    std::fs::write(&program, "another").unwrap();
    let store = Store::open(Some(profiles.path())).unwrap();
    assert!(keep(&store, &run).unwrap().is_some());
    let known = profiles.look_up("program", &work, 1, None, None);
    assert_eq!(known.source, Some(Source::Replaced));
}

#[test]
fn a_first_run_ran_while_it_had_cores() {
    let directory = tempfile::tempdir().unwrap();
    let counts = Counts::new(0, Lines(1_000), Lines(0));
    let reading = Observation::new(JobId(1), Nanos::from_millis(100), Some(counts));
    let mut watch = Watch::default();
    // The second resumption is that of a job which kept its core.
    for (resumed, read) in [(0, 100), (300, 350)] {
        watch.resume(Nanos::from_millis(resumed));
        watch.resume(Nanos::from_millis(resumed + 20));
        watch.read(&reading, Nanos::from_millis(read));
    }
    let begin = || Begin::of(&work(directory.path())).unwrap();
    let run = watch.first_run(JobId(1), begin(), MeterKind::Perf).unwrap();
    assert_eq!(run.profile.wall_time, Nanos::from_millis(150));
    let unread = Watch::default().first_run(JobId(1), begin(), MeterKind::Perf);
    assert!(unread.is_none(), "nothing was read");
}
