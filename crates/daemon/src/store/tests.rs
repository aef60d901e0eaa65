use memweir_core::{BytesPerSec, Nanos};

use super::*;
use crate::queue::{End, Membership, Source, State};

fn work() -> Work {
    Work {
        program: "/bin/true".into(),
        argv: vec!["true".into(), "x".into()],
        directory: "/tmp".into(),
        environment: vec![("A".into(), "1".into())],
    }
}

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("queue.sqlite")).unwrap();
    (directory, store)
}

#[test]
fn jobs_in_every_state_survive() {
    let (_directory, mut store) = store();
    let states = [
        State::Pending,
        State::Starting,
        State::Running,
        State::Ended(End::Exited(7)),
        State::Ended(End::Canceled(None)),
        State::Ended(End::Canceled(Some(143))),
        State::Ended(End::Lost),
    ];
    let job = |(id, state): (u32, State)| Job {
        state,
        after: vec![JobId(1), JobId(9)],
        array: Some(Membership { array: JobId(1), index: id, limit: Some(3) }),
        held_by: Some("ann".into()),
        expected_time: Some(Nanos(5)),
        expected_bandwidth: Some(BytesPerSec(1e9)),
        expected_from: Some(if id % 2 == 0 { Source::Store } else { Source::Job(JobId(id)) }),
        program: Some("5ca1ab1e".into()),
        command: "true x".into(),
        submitted: 1,
        started: Some(2),
        ..Job::new(JobId(id), "name", 7)
    };
    let jobs: Vec<Job> = (1..).zip(states).map(job).collect();
    store.add(&jobs, 8, &work()).unwrap();
    assert_eq!(store.load().unwrap().jobs, jobs);
    let (found, user) = store.work(JobId(2)).unwrap();
    assert_eq!((found, user), (work(), Credentials { user: 7, group: 8 }));
    assert!(store.work(JobId(99)).is_err());
}

#[test]
fn equal_environments_are_kept_once() {
    let (_directory, mut store) = store();
    for id in 1..=3 {
        store.add(&[Job::new(JobId(id), "name", 7)], 8, &work()).unwrap();
    }
    let count = "SELECT count(*) FROM environments";
    let kept: u32 = store.connection.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 1);
}

#[test]
fn a_number_is_given_once() {
    let (_directory, mut store) = store();
    let job = Job::new(JobId(1), "name", 7);
    store.add(std::slice::from_ref(&job), 8, &work()).unwrap();
    let both = [Job::new(JobId(2), "name", 7), job.clone()];
    assert!(store.add(&both, 8, &work()).is_err());
    assert_eq!(store.load().unwrap().jobs, [job], "none of both was added");
}

#[test]
fn a_store_of_the_future_is_refused_and_left_alone() {
    let (directory, store) = store();
    store.connection.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    drop(store);
    let path = directory.path().join("queue.sqlite");
    let error = Store::open(&path).unwrap_err().to_string();
    assert!(error.contains("from a later memweir"), "{error}");
    let connection = Connection::open(&path).unwrap();
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(found, SCHEMA + 1);
}

#[test]
fn a_damaged_row_is_named() {
    let (_directory, mut store) = store();
    store.add(&[Job::new(JobId(5), "name", 7)], 8, &work()).unwrap();
    store.connection.execute("UPDATE jobs SET state = 'odd'", []).unwrap();
    let error = store.load().unwrap_err().to_string();
    assert!(error.contains("job 5: its state is unreadable"), "{error}");
}
