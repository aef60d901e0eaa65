//! Metrics of the daemon.

use super::{Daemon, daemon};
use crate::prometheus::{assert_accepted, get};
use crate::support::{exists, refusal, wait_until};
use crate::watch::SOFTWARE_EVENTS;

fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

#[test]
fn the_daemon_counts_its_jobs_by_state_and_their_traffic() {
    let turns = ["--policy", "round-robin", "--admit", "2", "--quantum", "50ms"];
    let metered = ["--events", SOFTWARE_EVENTS];
    let metrics = ["--metrics-textfile", "queue.prom", "--metrics-listen", "127.0.0.1:0"];
    let mut daemon = Daemon::start(&[&turns[..], &metered, &metrics].concat());
    let turns = [(); 2].map(|()| daemon.submit(&[], "while [ ! -e go ]; do :; done"));
    daemon.submit(&["--hold"], "true");
    let state =
        |text: &str, state: &str| sample(text, &format!("memweir_jobs{{state=\"{state}\"}}"));
    wait_until("the textfile has the turns", || {
        let text = daemon.world.read("queue.prom");
        let states = ["running", "blocked", "waiting"].map(|name| state(&text, name));
        states == [Some(1.0); 3] && text.contains("memweir_job_memory_bytes_total{jobid=\"1\"")
    });
    let log = daemon.world.read("daemon.log");
    let address = log.split_once("http://").and_then(|(_, rest)| rest.split_once("/metrics"));
    let (address, _) = address.expect("the address is printed");
    let answer = get(address, "/metrics").expect("an answer");
    assert!(answer.contains("memweir_switch_duration_seconds_count"), "{answer}");
    assert!(answer.contains("memweir_job_blocked_seconds_total{jobid=\"2\""), "{answer}");
    daemon.world.file("go", "");
    assert_eq!(turns.map(|job| daemon.wait(job)), [0, 0]);
    wait_until("the ends are counted", || {
        state(&daemon.world.read("queue.prom"), "ended") == Some(2.0)
    });
    daemon.end();
    if exists("promtool") {
        assert_accepted(&daemon.world, "queue.prom");
    }
}

#[test]
fn a_daemon_that_is_refused_leaves_the_metrics_of_the_other_alone() {
    let options = ["--metrics-textfile", "queue.prom"];
    let first = Daemon::start(&options);
    let second = daemon(&first.world, &options);
    let message = refusal(&mut assert_cmd::Command::from_std(second), 3);
    assert!(message.contains("another daemon uses it"), "{message}");
    assert!(first.world.has("queue.prom"));
}
