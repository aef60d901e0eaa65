//! Figures under load, by hand: `cargo test --release -p memweir --test e2e -- --ignored load`.

use std::time::{Duration, Instant};

use memweir_core::JobId;
use memweir_daemon::client::Client;
use memweir_daemon::protocol::{Array, Initial, Listing, Reply, Request, Submission, Work};
use memweir_test_support::rows::record;

use super::{Daemon, socket};

/// Jobs of each measurement.
const JOBS: u32 = 10_000;

/// Jobs that have ended.
const HISTORY: u32 = 100_000;

fn submission() -> Request {
    let environment = std::env::vars_os().map(|(name, value)| (name.into(), value.into()));
    Request::Submit(Box::new(Submission {
        name: None,
        cores: 1,
        priority: 0,
        after: Vec::new(),
        initial: Initial::Held,
        array: None,
        expected_time_ns: None,
        expected_bandwidth: None,
        bandwidth_limit: None,
        work: Work {
            program: "/bin/true".into(),
            argv: vec!["true".into()],
            directory: "/".into(),
            environment: environment.collect(),
        },
    }))
}

/// Submits jobs over one connection and returns the time of each.
fn submit(daemon: &Daemon, jobs: u32) -> Vec<Duration> {
    let mut client = Client::connect(&socket(&daemon.world)).expect("a daemon");
    let request = submission();
    let one = |_| {
        let start = Instant::now();
        let reply = client.request(&request).expect("accepted");
        assert!(matches!(reply, Reply::Submitted { .. }));
        start.elapsed()
    };
    (0..jobs).map(one).collect()
}

fn report(what: &str, mut times: Vec<Duration>) {
    // Enough rows for a percentile.
    let some = times.iter().step_by(times.len().div_ceil(1000));
    record(what, "us", some.map(|time| time.as_secs_f64() * 1e6));
    times.sort_unstable();
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    let of = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{what}: mean {mean:?}, median {:?}, 99 % {:?}", of(50), of(99));
}

#[test]
#[ignore = "it measures for a minute, and its figures are those of the machine"]
fn load_of_ten_thousand_jobs() {
    let daemon = Daemon::start(&[]);
    let start = Instant::now();
    report("submit, one client", submit(&daemon, JOBS));
    println!("{JOBS} jobs of one client took {:?}", start.elapsed());
    let list = |_| {
        let start = Instant::now();
        let mut client = Client::connect(&socket(&daemon.world)).expect("a daemon");
        let jobs = client.jobs(&Request::Queue { which: Listing::All }).expect("a list");
        assert!(jobs.len() >= JOBS as usize);
        start.elapsed()
    };
    report("list 10,000 jobs", (0..20).map(list).collect());
    let start = Instant::now();
    let times = std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..32).map(|_| scope.spawn(|| submit(&daemon, JOBS / 32))).collect();
        crowd.into_iter().flat_map(|client| client.join().expect("it ends")).collect()
    });
    report("submit, 32 clients", times);
    let elapsed = start.elapsed();
    record("9,984 jobs of 32 clients", "s", [elapsed.as_secs_f64()]);
    println!("{} jobs of 32 clients took {elapsed:?}", JOBS / 32 * 32);
    report_memory("with 20,000 jobs", &daemon);
}

#[test]
#[ignore = "it measures for a minute, and its figures are those of the machine"]
fn load_beside_a_history_of_100_000_jobs() {
    let mut daemon = Daemon::start(&["--keep-jobs", "100000"]);
    let mut client = Client::connect(&socket(&daemon.world)).expect("a daemon");
    let Request::Submit(one) = submission() else { unreachable!("it is a submission") };
    let array = Some(Array { first: 1, last: HISTORY, limit: None });
    let start = Instant::now();
    client.request(&Request::Submit(Box::new(Submission { array, ..*one }))).expect("accepted");
    report("submit an array of 100,000 jobs", vec![start.elapsed()]);
    let start = Instant::now();
    let ids = vec![(JobId(1), JobId(HISTORY))];
    client.request(&Request::Cancel { ids }).expect("canceled");
    report("cancel them", vec![start.elapsed()]);
    report("submit beside 100,000", submit(&daemon, 1000));
    let list = |_| {
        let start = Instant::now();
        let jobs = client.jobs(&Request::Queue { which: Listing::Unfinished }).expect("a list");
        assert_eq!(jobs.len(), 1000);
        start.elapsed()
    };
    report("list 1,000 beside 100,000", (0..20).map(list).collect());
    report_memory("with 101,000 jobs", &daemon);
    let start = Instant::now();
    daemon.succeed(&["--keep-jobs", "100000"]);
    report("a successor serves", vec![start.elapsed()]);
}

/// Prints the memory that the daemon has.
fn report_memory(what: &str, daemon: &Daemon) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process.id()));
    let status = status.expect("the daemon lives");
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    let mib = kib.and_then(|kib| kib.parse::<f64>().ok()).expect("Linux") / 1024.0;
    record(what, "MiB", [mib]);
    println!("{what}: {mib:.1} MiB");
}
