use memweir_core::{BytesPerSec, Nanos};

use super::*;
use crate::queue::{End, Loss, Membership, Moment, Source, State};

fn work() -> Work {
    Work {
        program: "/bin/true".into(),
        argv: vec!["true".into(), "x".into()],
        directory: "/tmp".into(),
        environment: vec![("A".into(), "1".into())],
    }
}

fn job(id: u32) -> Job {
    Job::new(JobId(id), "name", 7)
}

/// Returns the number of environments that are kept.
fn environments(store: &Store) -> u32 {
    let count = "SELECT count(*) FROM environments";
    store.connection.query_row(count, [], |row| row.get(0)).unwrap()
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
        State::Ended(End::OutOfMemory),
        State::Ended(End::Canceled(None)),
        State::Ended(End::Canceled(Some(143))),
        State::Ended(End::Lost(Loss::Supervisor)),
        State::Ended(End::Lost(Loss::Restart)),
        State::Ended(End::Lost(Loss::Files)),
    ];
    let job = |(id, state): (u32, State)| Job {
        state,
        after: vec![JobId(1), JobId(9)],
        array: Some(Membership { array: JobId(1), index: id, limit: Some(3) }),
        held_by: Some("ann".into()),
        expected_time: Some(Nanos(5)),
        expected_bandwidth: Some(BytesPerSec(1e9)),
        expected_from: Some(if id % 2 == 0 { Source::Store } else { Source::Job(JobId(id)) }),
        bandwidth_limit: Some(BytesPerSec(5e8)),
        program: Some("5ca1ab1e".into()),
        command: "true x".into(),
        submitted: 1,
        started: Some(2),
        ended: matches!(state, State::Ended(_)).then_some(Moment { wall_ms: 3, uptime_ms: 4 }),
        ..self::job(id)
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
        store.add(&[job(id)], 8, &work()).unwrap();
    }
    assert_eq!(environments(&store), 1);
}

#[test]
fn removed_jobs_take_their_environments_with_them() {
    let (_directory, mut store) = store();
    let other = Work { environment: Vec::new(), ..work() };
    store.add(&[job(1), job(2)], 8, &work()).unwrap();
    store.add(&[job(3)], 8, &other).unwrap();
    store.remove(&[JobId(1), JobId(3)]).unwrap();
    assert_eq!((store.load().unwrap().jobs, environments(&store)), (vec![job(2)], 1));
    assert!(store.work(JobId(2)).is_ok());
}

#[test]
fn a_store_of_the_first_version_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(MIGRATIONS[0]).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let old = "INSERT INTO environments VALUES (1, x'00', '[]');
        INSERT INTO jobs VALUES (4, 'n', 7, 8, 1, 0, '[]', NULL, NULL, NULL, NULL, 'exited', 0, 1,
        0, 5, NULL, 'true', 1, 2, 3, '', 1)";
    connection.execute_batch(old).unwrap();
    drop(connection);
    let store = Store::open(&path).unwrap();
    let kept = store.load().unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{} has passwords", file.path().display());
    }
    assert_eq!(kept.jobs[0].ended, Some(Moment { wall_ms: 3, uptime_ms: 0 }));
    assert_eq!(kept.jobs[0].expected_from, Some(Source::Submission));
    assert_eq!(kept.jobs[0].bandwidth_limit, None);
    assert_eq!(kept.uptime, Reading::default());
}

#[test]
fn the_clock_survives() {
    let (_directory, mut store) = store();
    let reading = Reading { total_ms: 5, boot: "x".to_owned(), at_ms: 6 };
    store.set_uptime(&reading).unwrap();
    assert_eq!(store.load().unwrap().uptime, reading);
}

#[test]
fn a_number_is_given_once() {
    let (_directory, mut store) = store();
    store.add(&[job(1)], 8, &work()).unwrap();
    assert!(store.add(&[job(2), job(1)], 8, &work()).is_err());
    assert_eq!(store.load().unwrap().jobs, [job(1)], "none of both was added");
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
    store.add(&[job(5)], 8, &work()).unwrap();
    store.connection.execute("UPDATE jobs SET state = 'odd'", []).unwrap();
    let error = store.load().unwrap_err().to_string();
    assert!(error.contains("job 5: its state is unreadable"), "{error}");
}
