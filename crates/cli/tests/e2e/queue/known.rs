//! Profiles of the queue: what is known of a job before it runs, and first runs of programs.

use serde_json::Value;

use super::Daemon;
use crate::support::{json, stdout_of, wait_until};
use crate::watch::SOFTWARE_EVENTS;

/// Work that any meter counts.
const WORK: &str = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done";

/// A daemon with a meter, whose jobs run one after the other.
fn metered() -> Daemon {
    Daemon::start(&["--events", SOFTWARE_EVENTS, "--meter", "perf", "--admit", "1"])
}

fn source(daemon: &Daemon, id: u32) -> Value {
    daemon.job(id)["expected"]["source"].clone()
}

/// The profiles in the store.
fn stored(daemon: &Daemon) -> Vec<Value> {
    let list = json(daemon.world.memweir().args(["store", "list", "--json"]), 0);
    list["profiles"].as_array().expect("a list").clone()
}

#[test]
fn the_first_run_of_a_program_tells_the_others_what_to_expect() {
    let daemon = metered();
    daemon.client("drain").assert().success();
    let script = format!("while [ ! -e go ]; do sleep 0.01; done; {WORK}");
    assert_eq!(daemon.submit_range(&["--array", "1-3"], &script), "1-3");
    let other = daemon.submit(&[], "true");
    assert_eq!(source(&daemon, 2), Value::Null);
    daemon.client("drain").arg("--end").assert().success();
    daemon.runs(1);
    daemon.client("drain").assert().success();
    daemon.world.file("go", "");
    assert_eq!(daemon.wait(1), 0);
    wait_until("the others learn", || source(&daemon, 3) == "job");
    let (second, first) = (daemon.job(2), daemon.job(1));
    assert_eq!(second["expected"]["job"], 1);
    assert!(second["expected"]["time_ns"].as_u64().is_some_and(|time| time > 0), "{second}");
    assert!(second["expected"]["bandwidth"].as_f64().is_some_and(|rate| rate > 0.0), "{second}");
    assert_eq!((&first["expected"], source(&daemon, other)), (&Value::Null, Value::Null));
    let listed = stdout_of(daemon.client("queue").args(["--json", "queue.json"]), 0);
    assert!(listed.contains("from job 1") && daemon.world.has("queue.json"), "{listed}");
    let status = stdout_of(&mut daemon.client("status"), 0);
    assert!(status.contains("0 from the profile store, 2 from earlier jobs, 1 none"), "{status}");

    let profiles = stored(&daemon);
    assert_eq!(profiles.len(), 1, "{profiles:?}");
    assert_eq!((&profiles[0]["meter"], &profiles[0]["exit_code"]), (&"perf".into(), &0.into()));
    assert_eq!(profiles[0]["key"], second["expected"]["profile"]);
    let later = daemon.submit(&[], &script);
    assert_eq!(source(&daemon, later), "store");
    assert_eq!(daemon.job(later)["expected"]["time_ns"], second["expected"]["time_ns"]);
    let told = daemon.submit(&["--expect-time", "3s", "--expect-bandwidth", "1GB/s"], &script);
    assert_eq!(source(&daemon, told), "submission");
    assert_eq!(daemon.job(told)["expected"]["time_ns"], 3_000_000_000_u64);
    let half = daemon.submit(&["--expect-time", "3s"], &script);
    assert_eq!(source(&daemon, half), "submission-and-store");
}

#[test]
fn what_is_expected_survives_the_daemon() {
    let mut daemon = metered();
    let job = daemon.submit(&[], WORK);
    assert_eq!(daemon.wait(job), 0);
    wait_until("the profile is stored", || stored(&daemon).len() == 1);
    let next = daemon.submit(&["--hold"], WORK);
    let before = daemon.job(next)["expected"].clone();
    assert_eq!(before["source"], "store");
    daemon.succeed(&["--events", SOFTWARE_EVENTS]);
    assert_eq!(daemon.job(next)["expected"], before);
}

#[test]
fn runs_that_fail_or_are_canceled_are_no_profiles() {
    let daemon = metered();
    let failed = daemon.submit(&[], &format!("{WORK}; exit 1"));
    assert_eq!(daemon.wait(failed), 1);
    let script = "trap 'exit 0' TERM; echo > began; while :; do sleep 0.01; done";
    let canceled = daemon.submit(&[], script);
    wait_until("the job says so", || daemon.world.has("began"));
    daemon.command("cancel", canceled);
    assert_eq!(daemon.wait(canceled), 143);
    let well = daemon.submit(&[], WORK);
    assert_eq!(daemon.wait(well), 0);
    wait_until("the profile is stored", || !stored(&daemon).is_empty());
    assert_eq!(stored(&daemon).len(), 1);
}

#[test]
fn a_replaced_program_is_profiled_again() {
    let daemon = metered();
    let write = |content: &str| {
        let program = daemon.world.file("program", content);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("a mode");
        program
    };
    let program = write(&format!("#!/bin/sh\n{WORK}\n"));
    let submit = || {
        let mut command = daemon.client("submit");
        let id = stdout_of(command.args(["--parsable", "--"]).arg(&program), 0);
        id.trim().parse::<u32>().expect("a number")
    };
    assert_eq!(daemon.wait(submit()), 0);
    wait_until("the profile is stored", || stored(&daemon).len() == 1);
    let date = stored(&daemon)[0]["date"].clone();
    write(&format!("#!/bin/sh\n{WORK}; {WORK}\n"));
    let again = submit();
    assert_eq!(source(&daemon, again), "replaced");
    assert_eq!(daemon.wait(again), 0);
    wait_until("the profile is replaced", || stored(&daemon)[0]["date"] != date);
    assert_eq!(source(&daemon, submit()), "store");
}
