//! Jobs that misbehave, and machines that refuse.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{MEMWEIR, SPIN, SmallDisk, World, json, root, wait_until};

/// Two jobs that must take turns on one core cannot use more CPU time than passes.
fn takes_turns(world: &World, script: &str) {
    let mut run = world.memweir();
    run.args(["run", "--policy", "round-robin", "--cores", "1", "--quantum", "20ms"]);
    run.args(["--json", "-", "--", "sh", "-c", script, ":::", "sh", "-c", script]);
    let report = json(&mut run, 0);
    let jobs = report["jobs"].as_array().expect("jobs");
    let used: f64 = jobs.iter().filter_map(|job| job["running_s"].as_f64()).sum();
    let wall = report["turnaround_s"].as_f64().expect("a turnaround");
    // The time of switches, and of work before the first quantum, is not part of the claim.
    assert!(used <= wall * 1.15 + 0.05, "{used} s of CPU time in {wall} s on one core: {report}");
}

#[test]
fn jobs_that_leave_their_session_take_turns_too() {
    if root("blocking jobs that call setsid") {
        takes_turns(&World::new(), &format!("setsid sh -c '{SPIN}; {SPIN}' & wait"));
    }
}

#[test]
fn a_thousand_children_are_counted_and_waited_for() {
    let world = World::new();
    let forks = "i=0; while [ $i -lt 1000 ]; do /bin/true & i=$((i+1)); done; wait; echo all";
    let mut run = world.memweir();
    run.args(["run", "--policy", "round-robin", "--cores", "1", "--quantum", "10ms"]);
    run.args(["--json", "-", "--", "sh", "-c", forks, ":::", "sh", "-c", SPIN]);
    let report = json(&mut run, 0);
    let log = report["jobs"][0]["stdout"].as_str().expect("a log").to_owned();
    assert_eq!(world.read(&log), "all\n");
}

#[test]
fn a_job_that_is_killed_while_it_is_blocked_ends_at_once() {
    let world = World::new();
    // With one core, one of the two jobs is blocked when the second is killed.
    let memweir = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut run = world.memweir();
            run.args(["run", "--policy", "round-robin", "--cores", "1", "--quantum", "200ms"]);
            run.args(["--json", "-", "--", "sh", "-c", "until [ -e go ]; do :; done"]);
            run.args([":::", "sh", "-c", "echo $$ > victim; while :; do :; done"]);
            json(&mut run, 1)
        });
        wait_until("the victim runs", || world.has("victim") && !world.read("victim").is_empty());
        let victim = Pid::from_raw(world.read("victim").trim().parse().expect("a number"));
        kill(victim, Signal::SIGKILL).expect("the victim is there");
        wait_until("the victim is gone", || {
            let state = std::fs::read_to_string(format!("/proc/{victim}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
        world.file("go", "");
        run.join().expect("the batch ends")
    });
    let jobs = memweir["jobs"].as_array().expect("jobs");
    assert_eq!((&jobs[0]["exit_code"], &jobs[1]["exit_code"]), (&0.into(), &137.into()));
}

#[test]
fn five_hundred_jobs_are_one_batch() {
    let world = World::new();
    let run = ["run", "--policy", "round-robin", "--each", "500", "--json", "-", "--", "true"];
    let report = json(world.memweir().args(run), 0);
    let jobs = report["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 500);
    assert!(jobs.iter().all(|job| job["exit_code"] == 0));
}

/// memweir as the user nobody, from a directory that this user can reach.
fn as_nobody(world: &World, arguments: &[&str]) -> Command {
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("chmod");
    };
    let binary = world.path().join("memweir");
    // By another process: a copy that this one writes could not be executed as long as a process
    // that another test has just forked has it open for writing, too.
    let copied = Command::new("cp").arg(MEMWEIR).arg(&binary).status().expect("cp");
    assert!(copied.success(), "a copy of memweir");
    open(world.path());
    open(&binary);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(binary)
        .args(arguments)
        .env("XDG_DATA_HOME", world.path().join("data"))
        .current_dir(world.path());
    command
}

#[test]
fn without_permission_for_cgroups_signals_block_the_jobs() {
    let Some(world) = World::of_root("becoming nobody") else { return };
    let run =
        ["run", "--policy", "round-robin", "--cores", "1", "--json", "-", "--", "sh", "-c", SPIN];
    let report = json(&mut assert_cmd::Command::from_std(as_nobody(&world, &run)), 0);
    assert_eq!(report["mechanism"], "sigstop", "{report}");
    let run = ["run", "--policy", "round-robin", "--mechanism", "cgroup-v2", "--", "true"];
    let output = as_nobody(&world, &run).output().expect("setpriv runs");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("cgroup"), "{message}");
}

#[test]
fn a_full_disk_for_logs_fails_the_job_that_writes_and_no_other() {
    let world = World::new();
    let Some(_logs) = SmallDisk::mount(&world, "logs", "size=64k") else { return };
    let mut run = world.memweir();
    run.args(["run", "--policy", "round-robin", "--logs", "logs", "--json", "-", "--"]);
    run.args(["dd", "if=/dev/zero", "bs=64k", "count=64", ":::", "sh", "-c", SPIN]);
    let report = json(&mut run, 1);
    assert_ne!(report["jobs"][0]["exit_code"], 0, "{report}");
    assert_eq!(report["jobs"][1]["exit_code"], 0, "{report}");
}
