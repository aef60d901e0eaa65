use memweir_core::profile::Profile;
use memweir_core::{Counts, Nanos};

use super::stored::PAUSE;
use super::*;
use crate::attempt::{Claim, Exit};
use crate::protocol::{Array, Initial, MAX_ARRAY, MAX_NAME, Submission, ViewedState, Work};
use crate::queue::End;

/// Users of the tests. The daemon is root's.
const ROOT: Credentials = Credentials { user: 0, group: 0 };
const ANN: Credentials = Credentials { user: 4_000_001, group: 4_000_001 };
const BOB: Credentials = Credentials { user: 4_000_002, group: 4_000_002 };

pub(crate) fn open(directory: &std::path::Path, owner: u32) -> Service {
    let facts = Facts { state: directory.to_owned(), ..Facts::default() };
    let store = Store::open(&directory.join("queue.sqlite")).unwrap();
    let capacity = Capacity { cores: 2, admit: 2 };
    Service::open(store, capacity, owner, Waker::new().unwrap(), facts).unwrap()
}

fn service() -> (tempfile::TempDir, Service) {
    let directory = tempfile::tempdir().unwrap();
    let service = open(directory.path(), 0);
    (directory, service)
}

/// Admits the jobs that are next, and returns their numbers.
fn tried(service: &Service) -> Vec<u32> {
    service.admit().iter().map(|job| job.id.0).collect()
}

/// Begins a job that the machine then refuses to start.
fn refuse_start(service: &Service, id: u32) {
    service.begin(JobId(id)).unwrap();
    service.hold_unstarted(JobId(id));
}

pub(crate) fn submission() -> Submission {
    Submission {
        name: None,
        cores: 1,
        priority: 0,
        after: Vec::new(),
        initial: Initial::Ready,
        array: None,
        expected_time_ns: None,
        expected_bandwidth: None,
        bandwidth_limit: None,
        work: Work {
            program: "/bin/true".into(),
            argv: vec!["true".into()],
            directory: "/".into(),
            environment: vec![("A".into(), "1".into())],
        },
    }
}

fn ask(service: &Service, peer: Credentials, request: Request) -> Reply {
    service.handle(&peer.into(), request)
}

fn submit(service: &Service, peer: Credentials, submission: Submission) -> Reply {
    ask(service, peer, Request::Submit(Box::new(submission)))
}

fn one(id: u32) -> Ids {
    vec![(JobId(id), JobId(id))]
}

fn notices(service: &Service) -> Vec<String> {
    match ask(service, ANN, Request::Status {}) {
        Reply::Status(status) => status.notices,
        other => panic!("no status: {other:?}"),
    }
}

fn refused(reply: Reply) -> (RefusalKind, String) {
    match reply {
        Reply::Refused(Refusal { kind, message }) => (kind, message),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn only_the_owner_and_root_command_a_job() {
    let (_directory, service) = service();
    submit(&service, ANN, submission());
    let requests: [fn(Ids) -> Request; 4] = [
        |ids| Request::Hold { ids },
        |ids| Request::Release { ids },
        |ids| Request::Cancel { ids },
        |ids| Request::Requeue { ids },
    ];
    for request in requests {
        let (kind, message) = refused(ask(&service, BOB, request(one(1))));
        assert_eq!(kind, RefusalKind::NotYours);
        assert_eq!(message, "job 1 belongs to 4000001: only 4000001 and root may change it");
    }
    assert_eq!(ask(&service, ANN, Request::Hold { ids: one(1) }), Reply::Done {});
    assert_eq!(ask(&service, ROOT, Request::Release { ids: one(1) }), Reply::Done {});
    let drain = Request::Drain { drain: Drain::Begin };
    assert_eq!(refused(ask(&service, ANN, drain.clone())).0, RefusalKind::NotYours);
    assert_eq!(ask(&service, ROOT, drain), Reply::Done {});
    assert_eq!(service.admit(), [], "the queue drains");
}

#[test]
fn operators_command_all_jobs_and_refusals_name_them() {
    let (_directory, mut service) = service();
    service.access.operators = Some(UserGroup { id: BOB.group, name: "ops".to_owned() });
    submit(&service, ANN, submission());
    submit(&service, ROOT, submission());
    let (drain, hold) = (Request::Drain { drain: Drain::Begin }, Request::Hold { ids: one(1) });
    for request in [drain, hold, Request::Release { ids: one(1) }, Request::Cancel { ids: one(2) }]
    {
        assert_eq!(ask(&service, BOB, request), Reply::Done {});
    }
    assert_eq!(ask(&service, BOB, Request::Requeue { ids: one(2) }), Reply::Done {});
    let (_, message) = refused(ask(&service, ANN, Request::Cancel { ids: one(2) }));
    let who = "only root and members of the group ops may";
    assert_eq!(message, format!("job 2 belongs to root: {who} change it"));
    let end = Request::Drain { drain: Drain::End };
    assert_eq!(refused(ask(&service, ANN, end)).1, format!("{who} drain this queue"));
    let raised = Submission { priority: 1, ..submission() };
    assert!(refused(submit(&service, BOB, raised)).1.contains("only root"));
}

#[test]
fn a_daemon_of_a_user_runs_jobs_of_that_user_alone() {
    let directory = tempfile::tempdir().unwrap();
    let service = open(directory.path(), ANN.user);
    assert!(service.admits(ANN) && service.admits(ROOT) && !service.admits(BOB));
    assert_eq!(refused(submit(&service, ROOT, submission())).0, RefusalKind::NotYours);
    assert!(matches!(submit(&service, ANN, submission()), Reply::Submitted { .. }));
}

#[test]
fn jobs_that_are_not_there_are_named() {
    let (_directory, service) = service();
    submit(&service, ANN, submission());
    for ids in [one(0), one(2), vec![(JobId(1), JobId(u32::MAX))], vec![(JobId(1), JobId(0))]] {
        let (kind, message) = refused(ask(&service, ANN, Request::Jobs { ids }));
        assert_eq!(kind, RefusalKind::NoSuchJob);
        assert!(message.contains("there is no job"), "{message}");
    }
    let after = Submission { after: one(7), ..submission() };
    assert_eq!(refused(submit(&service, ANN, after)).0, RefusalKind::NoSuchJob);
}

#[test]
fn a_request_changes_all_of_its_jobs_or_none() {
    let (_directory, service) = service();
    submit(&service, ANN, submission());
    submit(&service, ANN, Submission { initial: Initial::Held, ..submission() });
    let both = vec![(JobId(1), JobId(2))];
    let (kind, message) = refused(ask(&service, ANN, Request::Release { ids: both }));
    assert_eq!(kind, RefusalKind::WrongState);
    assert!(message.contains("job 1 is pending: only a held job"), "{message}");
    assert!(service.job(JobId(2)).unwrap().held_by.is_some());
}

#[test]
fn values_out_of_range_are_refused() {
    let (_directory, service) = service();
    let work = |change: fn(&mut Work)| {
        let mut submission = submission();
        change(&mut submission.work);
        submission
    };
    let array = |first, last, limit| Some(Array { first, last, limit });
    let cases = [
        (Submission { cores: 0, ..submission() }, "from 1 to 2"),
        (Submission { cores: 3, ..submission() }, "from 1 to 2"),
        (Submission { priority: 1, ..submission() }, "only root"),
        (Submission { name: Some(String::new()), ..submission() }, "from 1 to"),
        (Submission { name: Some("a\nb".into()), ..submission() }, "control characters"),
        (Submission { expected_bandwidth: Some(-1.0), ..submission() }, "from 0 to 1e14"),
        (Submission { expected_bandwidth: Some(1e300), ..submission() }, "from 0 to 1e14"),
        (
            Submission { expected_time_ns: Some(0), ..submission() },
            "more than 0 and at most a year",
        ),
        (Submission { expected_time_ns: Some(u64::MAX), ..submission() }, "at most a year"),
        (Submission { bandwidth_limit: Some(1e3), ..submission() }, "the lowest is 64e3"),
        (Submission { bandwidth_limit: Some(0.0), ..submission() }, "above 0"),
        (Submission { bandwidth_limit: Some(-1.0), ..submission() }, "from 0 to 1e14"),
        (Submission { bandwidth_limit: Some(1e300), ..submission() }, "from 0 to 1e14"),
        (Submission { bandwidth_limit: Some(f64::INFINITY), ..submission() }, "from 0 to 1e14"),
        (Submission { array: array(2, 1, None), ..submission() }, "an array has"),
        (Submission { array: array(0, u32::MAX, None), ..submission() }, "an array has"),
        (Submission { array: array(0, MAX_ARRAY, None), ..submission() }, "an array has"),
        (Submission { name: Some("a".repeat(MAX_NAME + 1)), ..submission() }, "from 1 to 200"),
        (Submission { array: array(1, 2, Some(0)), ..submission() }, "at least 1"),
        (work(|work| work.argv.clear()), "needs a command"),
        (work(|work| work.program = "true".into()), "absolute"),
        (work(|work| work.directory = "".into()), "absolute"),
        (work(|work| work.environment.push(("".into(), "".into()))), "not empty"),
        (work(|work| work.environment.push(("A=B".into(), "".into()))), "no `=`"),
        (work(|work| work.argv.push("a\0b".into())), "zero byte"),
    ];
    for (submission, reason) in cases {
        let (kind, message) = refused(submit(&service, ANN, submission));
        assert_eq!(kind, RefusalKind::Value);
        assert!(message.contains(reason), "{reason}: {message}");
    }
    assert_eq!(ask(&service, ANN, Request::Queue { which: Listing::All }), Reply::Jobs(vec![]));
    let last = u32::MAX;
    for submission in [
        Submission { name: Some("a".repeat(MAX_NAME)), ..submission() },
        Submission { array: array(last, last, Some(1)), ..submission() },
    ] {
        assert!(matches!(submit(&service, ANN, submission), Reply::Submitted { .. }));
    }
}

#[test]
fn an_array_waits_for_another_one_up_to_a_number_of_pairs() {
    let (_directory, service) = service();
    let array =
        |last| Submission { array: Some(Array { first: 1, last, limit: None }), ..submission() };
    submit(&service, ANN, array(2_001));
    let after = |array| Submission { after: vec![(JobId(1), JobId(2_001))], ..array };
    let (kind, message) = refused(submit(&service, ANN, after(array(500))));
    assert_eq!(kind, RefusalKind::Value);
    assert!(message.contains("500 jobs cannot wait for 2001 others each"), "{message}");
    for array in [submission(), array(499)] {
        assert!(matches!(submit(&service, ANN, after(array)), Reply::Submitted { .. }));
    }
}

#[test]
fn an_estimate_of_either_kind_comes_from_the_submission() {
    let (_directory, service) = service();
    submit(&service, ANN, submission());
    submit(&service, ANN, Submission { expected_time_ns: Some(5), ..submission() });
    submit(&service, ANN, Submission { expected_bandwidth: Some(5.0), ..submission() });
    let from = [1, 2, 3].map(|id| service.job(JobId(id)).unwrap().expected_from);
    assert_eq!(from, [None, Some(Source::Submission), Some(Source::Submission)]);
}

#[test]
fn a_job_that_has_its_name_from_its_program_controls_no_terminal() {
    let (_directory, service) = service();
    let work = Work { program: "/bin/a\u{1b}[2J\nb".into(), ..submission().work };
    submit(&service, ANN, Submission { work, ..submission() });
    assert_eq!(service.job(JobId(1)).unwrap().name, "a [2J b");
}

#[test]
fn a_limit_that_cannot_be_kept_is_refused_with_the_reason() {
    let (_directory, mut service) = service();
    service.facts.no_limits = Some("it blocks by cgroup-v2".to_owned());
    let limited = Submission { bandwidth_limit: Some(1e9), ..submission() };
    let (kind, message) = refused(submit(&service, ANN, limited));
    assert_eq!(kind, RefusalKind::Value);
    assert!(message.contains("it blocks by cgroup-v2"), "{message}");
    assert!(matches!(submit(&service, ANN, submission()), Reply::Submitted { .. }));
}

#[test]
fn a_service_that_is_opened_again_knows_every_job() {
    let (directory, service) = service();
    let array = Some(Array { first: 5, last: 7, limit: Some(1) });
    let reply = submit(&service, ANN, Submission { array, ..submission() });
    assert_eq!(reply, Reply::Submitted { first: JobId(1), last: JobId(3) });
    let limit = Some(5e8);
    submit(&service, BOB, Submission { after: one(1), bandwidth_limit: limit, ..submission() });
    assert_eq!(service.admit().len(), 1);
    service.begin(JobId(1)).unwrap();
    service.over(JobId(1), End::Exited(3));
    ask(&service, ANN, Request::Hold { ids: one(2) });
    ask(&service, ANN, Request::Cancel { ids: one(3) });
    ask(&service, ROOT, Request::Drain { drain: Drain::Begin });
    let before: Vec<Job> = service.lock().queue().jobs().cloned().collect();
    drop(service);
    let again = open(directory.path(), 0);
    let after: Vec<Job> = again.lock().queue().jobs().cloned().collect();
    assert_eq!(before, after);
    assert!(again.lock().queue().is_draining());
    let Reply::Jobs(views) = ask(&again, ANN, Request::Queue { which: Listing::All }) else {
        panic!("no list");
    };
    let states: Vec<ViewedState> = views.iter().map(|view| view.state).collect();
    use ViewedState::{Canceled, Failed, Pending};
    assert_eq!(states, [Failed, Pending, Canceled, Pending]);
    let limits: Vec<Option<f64>> = views.iter().map(|view| view.bandwidth_limit).collect();
    assert_eq!(limits, [None, None, None, limit]);
    assert_eq!(views[1].name, "true[6]");
    assert_eq!(views[3].reason.as_deref().unwrap().split(',').next(), Some("waits for job 1"));
}

#[test]
fn a_start_gives_the_work_as_it_was_submitted() {
    let (_directory, service) = service();
    submit(&service, ANN, submission());
    service.admit();
    let begun = service.begin(JobId(1)).unwrap();
    assert_eq!((begun.work, begun.user), (submission().work, ANN));
    assert_eq!(begun.job.attempt, 1);
    assert!(service.begin(JobId(1)).is_none(), "it starts once");
}

#[test]
fn a_refused_start_holds_the_job_and_the_others_are_tried_one_by_one() {
    let (_directory, service) = service();
    (0..4).for_each(|_| drop(submit(&service, ANN, submission())));
    let tried = || tried(&service);
    let refused = |id| refuse_start(&service, id);
    assert_eq!(tried(), [1, 2]);
    refused(1);
    refused(2);
    let job = service.job(JobId(1)).unwrap();
    assert_eq!(job.held_by.as_deref(), Some("memweir, which cannot start it yet"));
    assert!(tried().is_empty(), "the others would be refused as well");
    service.catch_up();
    assert_eq!(tried(), [3]);
    refused(3);
    (2..=PAUSE).for_each(|_| service.catch_up());
    let is_held = |id| service.job(JobId(id)).unwrap().held_by.is_some();
    assert_eq!([1, 2, 3, 4].map(is_held), [false, false, true, false]);
    assert_eq!(tried(), [1]);
    service.begin(JobId(1)).unwrap();
    service.runs(JobId(1));
    assert_eq!(tried(), [2], "the machine has room");
    (1..=PAUSE).for_each(|_| service.catch_up());
    assert!(!is_held(3), "the last one is released although nothing else is left to try");
    assert_eq!(notices(&service), [""; 0], "all was on disk");
}

#[test]
fn jobs_of_a_user_whom_the_machine_refuses_give_way_to_those_of_others() {
    let (_directory, service) = service();
    (0..9).for_each(|_| drop(submit(&service, ANN, submission())));
    submit(&service, BOB, submission());
    let tried = || tried(&service);
    let refused = |id| refuse_start(&service, id);
    assert_eq!(tried(), [1, 2]);
    refused(1);
    refused(2);
    service.catch_up();
    assert_eq!(tried(), [10], "the next of nine may be refused as well");
    refused(10);
    service.catch_up();
    assert_eq!(tried(), [3], "nobody else is left");
    refused(3);
    // After the time for which jobs 1 and 2 are held; job 10 is next to be released.
    (3..=PAUSE).for_each(|_| service.catch_up());
    assert_eq!(tried(), [1], "both users were refused, so that the order of the queue holds");
}

#[test]
fn a_trial_that_a_client_withdraws_is_followed_by_another() {
    let (_directory, service) = service();
    (0..2).for_each(|_| drop(submit(&service, ANN, submission())));
    let tried = || tried(&service);
    assert_eq!(tried(), [1, 2]);
    refuse_start(&service, 1);
    ask(&service, ANN, Request::Hold { ids: one(2) });
    (1..=PAUSE).for_each(|_| service.catch_up());
    assert_eq!(tried(), [1]);
    ask(&service, ANN, Request::Cancel { ids: one(1) });
    ask(&service, ANN, Request::Release { ids: one(2) });
    assert_eq!(tried(), [0; 0]);
    service.catch_up();
    assert_eq!(tried(), [2]);
}

#[test]
fn a_job_that_is_held_in_the_moment_of_its_start_does_not_start() {
    let (_directory, service) = service();
    submit(&service, ANN, submission());
    service.admit();
    ask(&service, ANN, Request::Hold { ids: one(1) });
    assert!(service.begin(JobId(1)).is_none());
    let job = service.job(JobId(1)).unwrap();
    assert_eq!((job.state, job.attempt), (State::Pending, 0));
}

#[test]
fn jobs_of_the_last_daemon_ended_before_the_clock_of_the_next() {
    let (directory, service) = service();
    (0..2).for_each(|_| drop(submit(&service, ANN, submission())));
    drop(service);
    let mut store = Store::open(&directory.path().join("queue.sqlite")).unwrap();
    let ended = |(mut job, uptime_ms): (Job, u64)| {
        job = job.ended(End::Exited(0), Moment { wall_ms: 0, uptime_ms });
        job
    };
    let jobs = store.load().unwrap().jobs.into_iter().zip([8_000_000, 3_000_000]);
    store.update(&jobs.map(ended).collect::<Vec<Job>>()).unwrap();
    drop(store);
    assert!(open(directory.path(), 0).uptime().total_ms >= 8_000_000);
}

#[test]
fn an_end_alone_that_a_full_disk_refuses_is_written_later() {
    let (directory, service) = service();
    let rename = |from: &str, to: &str| {
        let store = rusqlite::Connection::open(directory.path().join("queue.sqlite")).unwrap();
        store.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
    };
    submit(&service, ANN, submission());
    service.catch_up();
    assert_eq!(notices(&service), [""; 0], "nothing is behind");
    service.admit();
    service.begin(JobId(1)).unwrap();
    rename("jobs", "lost");
    service.over(JobId(1), End::Exited(3));
    rename("lost", "jobs");
    service.catch_up();
    assert!(!service.lock().is_behind());
    assert_eq!(open(directory.path(), 0).job(JobId(1)), service.job(JobId(1)));
}

#[test]
fn the_next_daemon_lifts_the_holds_of_the_last_one() {
    let (directory, service) = service();
    submit(&service, ANN, submission());
    submit(&service, ANN, Submission { initial: Initial::Held, ..submission() });
    service.admit();
    service.begin(JobId(1)).unwrap();
    service.hold_unstarted(JobId(1));
    // As when the first run of its command tells more of it.
    service.lock().set(JobId(1), Job::clone).unwrap().unwrap();
    drop(service);
    let again = open(directory.path(), 0);
    let held_by = |id| again.job(JobId(id)).unwrap().held_by;
    assert_eq!((held_by(1), held_by(2).as_deref()), (None, Some("4000001")));
    assert_eq!(again.admit().len(), 1);
}

#[test]
fn what_a_full_disk_refuses_is_written_later() {
    let (directory, service) = service();
    let rename = |from: &str, to: &str| {
        let store = rusqlite::Connection::open(directory.path().join("queue.sqlite")).unwrap();
        store.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
    };
    service.attempts.create().unwrap();
    (0..2).for_each(|_| drop(submit(&service, ANN, submission())));
    service.admit();
    let attempt = service.begin(JobId(1)).unwrap().attempt;
    let exit = Exit { code: 3, short_of_memory: false, refused: false };
    attempt.end(exit).unwrap();
    rename("jobs", "lost");
    service.over(JobId(1), End::Exited(3));
    assert_eq!(service.job(JobId(1)).unwrap().end(), Some(End::Exited(3)));
    assert_eq!(attempt.read_end().unwrap(), Some(exit), "it is on disk here alone");
    assert!(service.begin(JobId(2)).is_none(), "a start that is not on disk would be forgotten");
    let second = || service.job(JobId(2)).unwrap();
    assert_eq!((second().state, second().attempt), (State::Pending, 0));
    assert_eq!(second().held_by.as_deref(), Some("memweir, which cannot write its state"));
    let (kind, message) = refused(ask(&service, ANN, Request::Cancel { ids: one(2) }));
    assert_eq!(kind, RefusalKind::Storage);
    assert!(message.starts_with("nothing was changed: "), "{message}");
    service.catch_up();
    assert!(second().held_by.is_some() && attempt.read_end().unwrap().is_some());
    rename("lost", "jobs");
    service.catch_up();
    assert_eq!((second().held_by, attempt.read_end().unwrap()), (None, None));
    let Reply::Status(status) = ask(&service, ANN, Request::Status {}) else { panic!("none") };
    let last = status.notices.last().map(String::as_str);
    assert_eq!(last, Some("what could not be written before is on disk now"));
    let again = open(directory.path(), 0);
    let jobs = [1, 2].map(|id| (again.job(JobId(id)), service.job(JobId(id))));
    assert!(jobs.iter().all(|(again, here)| again == here), "{jobs:?}");
    assert_eq!(service.admit().len(), 1);
    assert_eq!(service.begin(JobId(2)).unwrap().job.attempt, 1);
}

#[test]
fn old_jobs_and_those_of_an_earlier_daemon_take_their_logs_with_them() {
    let (directory, service) = service();
    service.attempts.create().unwrap();
    (0..2).for_each(|_| drop(submit(&service, ANN, submission())));
    service.admit();
    for id in [1, 2].map(JobId) {
        service.begin(id).unwrap().attempt.claim(&Claim::Revoked).unwrap();
        service.open_logs(id, Credentials::of_this_process()).unwrap();
    }
    service.over(JobId(1), End::Exited(0));
    let files = |directory: &std::path::Path| {
        let files = service.attempts.files().into_iter();
        let of_directory = files.filter(|(_, path)| path.parent() == Some(directory));
        of_directory.map(|(id, _)| id.0).collect::<std::collections::BTreeSet<_>>()
    };
    let logs = || Vec::from_iter(files(&directory.path().join("logs")));
    let runs = || Vec::from_iter(files(&directory.path().join("runs")));
    let retention = |jobs| Retention { jobs, age_ms: u64::MAX };
    service.prune(retention(1));
    assert_eq!(logs(), [1, 2]);
    service.prune(retention(0));
    assert_eq!((service.job(JobId(1)), logs()), (None, vec![2]));
    assert_eq!(runs(), [2], "the claim of the job that runs");
    // A daemon may be killed before it has removed the files. Job 9 is none of this queue.
    for id in [1, 9].map(JobId) {
        std::fs::write(service.attempts.stderr(id), "").unwrap();
        service.attempts.of(id, 1).claim(&Claim::Revoked).unwrap();
    }
    std::fs::write(directory.path().join("runs/1.1.claim-77"), "").unwrap();
    service.remove_strays();
    assert_eq!((logs(), runs()), (vec![2, 9], vec![2, 9]));
    assert_eq!(open(directory.path(), 0).lock().queue().jobs().len(), 1);
}

#[test]
fn what_clients_ask_for_while_a_start_fails_holds() {
    let (_directory, service) = service();
    (0..2).for_each(|_| drop(submit(&service, ANN, submission())));
    service.admit();
    service.begin(JobId(1)).unwrap();
    assert_eq!(ask(&service, ANN, Request::Cancel { ids: one(1) }), Reply::Done {});
    service.hold_unstarted(JobId(1));
    assert_eq!(service.job(JobId(1)).unwrap().end(), Some(End::Canceled(None)));
    service.begin(JobId(2)).unwrap();
    service.hold_unstarted(JobId(2));
    assert_eq!(ask(&service, ANN, Request::Hold { ids: one(2) }), Reply::Done {});
    (1..=PAUSE).for_each(|_| service.catch_up());
    assert_eq!(service.job(JobId(2)).unwrap().held_by.as_deref(), Some("4000001"));
}

#[test]
fn jobs_of_a_command_learn_from_its_first_run() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::open(Some(&directory.path().join("profiles.sqlite"))).unwrap();
    let service = open(directory.path(), 0).with_profiles(Some(profiles));
    let array = Some(Array { first: 1, last: 1200, limit: None });
    submit(&service, ANN, Submission { array, ..submission() });
    let estimate = Submission { expected_time_ns: Some(5), ..submission() };
    submit(&service, ANN, estimate);
    let other = Work { argv: vec!["true".into(), "x".into()], ..submission().work };
    submit(&service, ANN, Submission { work: other, ..submission() });
    service.admit();
    for running in [1, 2] {
        service.begin(JobId(running)).unwrap();
        service.runs(JobId(running));
    }
    let key = service.job(JobId(1)).unwrap().program.unwrap();
    service.learned(&key, JobId(1), &Profile::steady(Nanos(7), Counts::default()));
    let of = |id| {
        let job = service.job(JobId(id)).unwrap();
        (job.expected_time, job.expected_from)
    };
    assert_eq!(of(1), (None, None), "it is the first run");
    for id in [2, 3, 1200] {
        assert_eq!(of(id), (Some(Nanos(7)), Some(Source::Job(JobId(1)))));
    }
    assert_eq!(of(1201), (Some(Nanos(5)), Some(Source::Submission)));
    assert_eq!(of(1202), (None, None));
    let reopened = open(directory.path(), 0);
    assert_eq!(reopened.job(JobId(1200)), service.job(JobId(1200)));
    let Reply::Status(status) = ask(&service, ANN, Request::Status {}) else { panic!("none") };
    let expected = Sources { submission: 1, store: 0, job: 1199, unknown: 2 };
    assert_eq!(status.expected, expected);
}

#[test]
fn a_user_has_so_many_unfinished_jobs() {
    let (_directory, mut service) = service();
    service.facts.user_jobs = Some(3);
    let array = |last| Some(Array { first: 1, last, limit: None });
    let submit =
        |peer, last| submit(&service, peer, Submission { array: array(last), ..submission() });
    let (kind, message) = refused(submit(ANN, 4));
    assert_eq!(kind, RefusalKind::Busy);
    let why = "you have 0 unfinished jobs here, and may have 3: wait for some, or cancel some";
    assert_eq!(message, why);
    assert!(matches!(submit(ANN, 3), Reply::Submitted { .. }));
    assert_eq!(refused(submit(ANN, 1)).0, RefusalKind::Busy);
    for request in [Request::Hold { ids: one(1) }, Request::Release { ids: one(1) }] {
        assert_eq!(ask(&service, ANN, request), Reply::Done {}, "it is no further job");
    }
    assert!(matches!(submit(BOB, 3), Reply::Submitted { .. }));
    assert!(matches!(submit(ROOT, 4), Reply::Submitted { .. }));
    ask(&service, ANN, Request::Cancel { ids: one(2) });
    let single = Request::Submit(Box::new(submission()));
    assert!(matches!(ask(&service, ANN, single), Reply::Submitted { .. }));
    let requeue = Request::Requeue { ids: one(2) };
    assert_eq!(refused(ask(&service, ANN, requeue.clone())).0, RefusalKind::Busy);
    ask(&service, ANN, Request::Cancel { ids: one(1) });
    assert_eq!(ask(&service, ANN, requeue), Reply::Done {});
    ask(&service, ANN, Request::Cancel { ids: one(3) });
    ask(&service, ROOT, Request::Requeue { ids: one(1) });
    let requeue = Request::Requeue { ids: one(3) };
    assert_eq!(ask(&service, ROOT, requeue), Reply::Done {}, "root may");
    assert_eq!(ask(&service, ANN, Request::Cancel { ids: one(3) }), Reply::Done {});
}

#[test]
fn the_status_tells_which_jobs_are_kept() {
    let (_directory, mut service) = service();
    service.facts.retention = Retention { jobs: 7, age_ms: 3 * DAY_MS };
    let status = service.status();
    assert_eq!((status.keep_jobs, status.keep_days), (7, 3));
}

#[test]
fn a_request_names_each_job_once() {
    let (_directory, service) = service();
    for _ in 0..3 {
        submit(&service, ANN, submission());
    }
    let all = (JobId(1), JobId(3));
    assert!(matches!(ask(&service, ANN, Request::Jobs { ids: vec![all] }), Reply::Jobs(_)));
    // As many ranges as fit into a line would name a job a billion times.
    let (kind, message) = refused(ask(&service, ANN, Request::Jobs { ids: vec![all; 100_000] }));
    assert_eq!(kind, RefusalKind::Value);
    let why = "a request can name each job once: up to job 1 it names more than there are";
    assert_eq!(message, why);
    let (kind, _) = refused(ask(&service, ANN, Request::Jobs { ids: vec![(JobId(1), JobId(4))] }));
    assert_eq!(kind, RefusalKind::NoSuchJob);
}

#[test]
fn a_wait_looks_at_the_job_that_is_likely_to_end_last() {
    let (_directory, service) = service();
    (0..3).for_each(|_| drop(submit(&service, ANN, submission())));
    let all = vec![(JobId(1), JobId(3))];
    let looks_at = |ids: &Ids| last_unfinished(service.lock().queue(), ids);
    for (canceled, next) in [(1, Some(3)), (3, Some(2)), (2, None)] {
        ask(&service, ANN, Request::Cancel { ids: one(canceled) });
        assert_eq!(looks_at(&all), next.map(JobId));
    }
    assert_eq!(looks_at(&one(4)), None, "it is unknown");
}

#[test]
fn a_wait_ends_with_the_job_or_with_its_time() {
    let (_directory, service) = service();
    submit(&service, ANN, submission());
    let wait = |timeout_ms| Request::Wait { ids: one(1), timeout_ms };
    let Reply::Jobs(views) = ask(&service, ANN, wait(1)) else { panic!("no jobs") };
    assert_eq!(views[0].state, ViewedState::Pending);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ask(&service, ANN, wait(MAX_WAIT_MS)));
        // So that it has begun to wait, most of the time.
        std::thread::sleep(Duration::from_millis(20));
        ask(&service, ANN, Request::Cancel { ids: one(1) });
        let Reply::Jobs(views) = waiter.join().unwrap() else { panic!("no jobs") };
        assert_eq!((views[0].state, views[0].exit_code), (ViewedState::Canceled, Some(143)));
    });
}
