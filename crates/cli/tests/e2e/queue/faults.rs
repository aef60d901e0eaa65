//! Faults around the daemon: full disks, too little memory, clocks that are set, a machine that
//! restarts, and queues that outgrow their limits.

use std::process::Command as StdCommand;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{Daemon, client, daemon, launch};
use crate::support::{SmallDisk, SmallGroup, World, refusal, stdout_of, wait_until};

/// A small disk for the state of a daemon; `None` where it cannot be mounted.
fn small_disk(world: &World) -> Option<SmallDisk> {
    SmallDisk::mount(world, "state", "size=1m,mode=711")
}

/// Takes all the room that is left on a disk.
fn fill(disk: &SmallDisk) {
    let path = disk.0.join("filler");
    let mut size = 1 << 20;
    let mut filler = std::fs::read(&path).unwrap_or_default();
    while size > 0 {
        filler.resize(filler.len() + size, b'x');
        if std::fs::write(&path, &filler).is_err() {
            filler.truncate(filler.len() - size);
            size /= 2;
        }
    }
    std::fs::write(&path, &filler).expect("as before");
    // Pages that the last write left.
    for number in 0.. {
        if std::fs::write(disk.0.join(format!("rest-{number}")), [0; 4096]).is_err() {
            return;
        }
    }
}

/// Gives back the room that `fill` took.
fn empty(disk: &SmallDisk) {
    for entry in std::fs::read_dir(&disk.0).expect("a directory").flatten() {
        let name = entry.file_name();
        if name == "filler" || name.to_string_lossy().starts_with("rest-") {
            std::fs::remove_file(entry.path()).expect("a file");
        }
    }
}

#[test]
fn a_full_disk_refuses_submissions_and_loses_no_exit_code() {
    let world = World::new();
    let Some(disk) = small_disk(&world) else { return };
    let process = launch(&world, &[]);
    // The disk goes first, since the world cannot remove a directory on which one is mounted.
    let (mut daemon, disk) = (Daemon { world, process }, disk);
    let script = "echo > began; while [ ! -e go ]; do sleep 0.01; done; exit 6";
    let running = daemon.submit(&[], script);
    let next = daemon.submit(&[], "exit 5");
    wait_until("the job says so", || daemon.world.has("began"));
    fill(&disk);
    let message = wait_for_refusal(&daemon);
    assert!(message.contains("nothing was changed"), "{message}");
    assert!(message.contains("full"), "{message}");
    daemon.world.file("go", "");
    assert_eq!(daemon.wait(running), 6, "its code is known all the same");
    wait_until("the next job is held", || daemon.reason(next).contains("cannot write its state"));
    empty(&disk);
    assert_eq!(daemon.wait(next), 5, "it starts once there is room");
    daemon.succeed(&[]);
    assert_eq!((daemon.wait(running), daemon.wait(next)), (6, 5));
    let again = daemon.submit(&[], "true");
    assert_eq!(daemon.wait(again), 0);
}

/// Submits held jobs until the full disk refuses one: the database may have some room of its own.
fn wait_for_refusal(daemon: &Daemon) -> String {
    for _ in 0..1000 {
        let mut command = daemon.client("submit");
        let output = command.args(["--hold", "--", "true"]).output().expect("it starts");
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(3));
            return String::from_utf8_lossy(&output.stderr).into_owned();
        }
    }
    panic!("the disk is never full")
}

#[test]
fn a_daemon_without_room_for_its_state_says_so() {
    let world = World::new();
    let Some(disk) = small_disk(&world) else { return };
    fill(&disk);
    let message = refusal(&mut assert_cmd::Command::from_std(daemon(&world, &[])), 3);
    assert!(message.contains("state"), "{message}");
    assert!(message.contains("full") || message.contains("No space left"), "{message}");
}

#[test]
fn a_job_that_is_killed_for_want_of_memory_says_so() {
    let Some(group) = SmallGroup::of_memory(64 << 20) else { return };
    let daemon = Daemon::start(&[]);
    // Its jobs are born in the group.
    std::fs::write(group.entrance(), daemon.process.id().to_string()).expect("root may");
    // It keeps what it reads, until a line ends.
    let greedy = daemon.submit(&[], "tail /dev/zero");
    assert_eq!(daemon.wait(greedy), 137);
    assert_eq!(daemon.state(greedy), "failed");
    assert_eq!(daemon.reason(greedy), "killed for want of memory");
    let shown = stdout_of(daemon.client("queue").arg("--all"), 0);
    assert!(shown.contains("killed for want of memory"));
    for (script, code) in [("kill -9 $$", 137), ("tail /dev/zero; exit 3", 3)] {
        let job = daemon.submit(&[], script);
        assert_eq!(daemon.wait(job), code);
        assert_eq!(daemon.reason(job), "", "{script}");
    }
}

#[test]
fn jobs_for_which_there_is_no_process_wait_until_there_is_one() {
    let Some(group) = SmallGroup::of_threads(1000) else { return };
    let world = World::new();
    let inner = daemon(&world, &[]);
    // From the start, since the groups of its jobs may lie below its own.
    let mut enters = world.surrounded(StdCommand::new("sh"));
    enters.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.entrance());
    enters.arg(inner.get_program()).args(inner.get_args());
    let process = super::launched(&world, enters);
    let daemon = Daemon { world, process };
    let jobs = [4, 5].map(|code| daemon.submit(&["--hold"], &format!("exit {code}")));
    let mut before = 0;
    wait_until("the threads of these connections are gone", || {
        let seen = std::mem::replace(&mut before, group.threads());
        std::thread::sleep(std::time::Duration::from_millis(300));
        seen == group.threads()
    });
    // Enough for a connection or a supervisor, and too little for a supervisor and its job.
    group.set(group.threads() + 1);
    daemon.command("release", jobs[0]);
    wait_until("it is refused", || {
        // So may a client be.
        let listed = daemon.client("queue").arg("--json").output().expect("it starts");
        String::from_utf8_lossy(&listed.stdout).contains("which cannot start it yet")
    });
    group.set(1000);
    daemon.command("release", jobs[1]);
    assert_eq!(jobs.map(|job| daemon.wait(job)), [4, 5]);
}

#[test]
fn a_job_that_ran_when_the_machine_restarted_is_lost_and_says_so() {
    let mut daemon = Daemon::start(&[]);
    let script = "echo $$ > began; while :; do sleep 0.01; done";
    let job = daemon.submit(&[], script);
    let next = daemon.submit(&[], "true");
    wait_until("the job says so", || daemon.world.has("began"));
    daemon.kill();
    // As the next boot finds it: nothing runs, and the claim is of another boot.
    let claim = daemon.world.read("state/runs/1.1.claim");
    let begun: Value = serde_json::from_str(&claim).expect("JSON");
    let supervisor = begun["begun"]["pid"].as_i64().expect("a number") as i32;
    for pid in [supervisor].into_iter().chain(daemon.world.processes()) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("/proc");
    let earlier = claim.replace(boot.trim(), "00000000-0000-4000-8000-000000000000");
    assert_ne!(claim, earlier, "a claim names its boot");
    daemon.world.file("state/runs/1.1.claim", &earlier);
    daemon.process = launch(&daemon.world, &[]);
    assert_eq!((daemon.wait(job), daemon.wait(next)), (137, 0));
    assert_eq!(daemon.state(job), "lost");
    assert_eq!(daemon.reason(job), "the machine was restarted while it ran");
    daemon.command("requeue", job);
    daemon.runs(job);
    daemon.command("cancel", job);
    assert_eq!(daemon.wait(job), 143);
}

#[test]
fn a_socket_without_a_daemon_is_told_and_replaced() {
    let mut daemon = Daemon::start(&[]);
    daemon.kill();
    assert!(daemon.world.has("socket"));
    let message = refusal(&mut client(&daemon.world, "queue"), 3);
    assert!(message.contains("no daemon listens at"), "{message}");
    daemon.process = launch(&daemon.world, &[]);
    let job = daemon.submit(&[], "true");
    assert_eq!(daemon.wait(job), 0);
}

/// A library that shifts the wall clock of a program by the seconds in a file.
const SHIFT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("SHIFT"), "r") : 0;
    if (file) {
        long seconds = 0;
        if (fscanf(file, "%ld", &seconds) == 1)
            time->tv_sec += seconds;
        fclose(file);
    }
    return result;
}
"#;

/// Ten years in seconds.
const DECADE: i64 = 10 * 365 * 24 * 60 * 60;

#[test]
fn a_wall_clock_that_is_set_changes_nothing_but_the_times_shown() {
    let Some(world) = World::with(&["cc"]) else { return };
    let (source, library) = (world.file("shift.c", SHIFT), world.path().join("shift.so"));
    let mut compiler = StdCommand::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    assert!(compiler.status().expect("it starts").success());
    world.file("shift", "0");
    let mut command =
        daemon(&world, &["--keep-days", "1", "--policy", "round-robin", "--admit", "2"]);
    command.env("LD_PRELOAD", &library).env("SHIFT", world.path().join("shift"));
    let process = super::launched(&world, command);
    let daemon = Daemon { world, process };
    let first = daemon.submit(&[], "exit 3");
    assert_eq!(daemon.wait(first), 3);
    let gate = daemon.submit(&[], "while [ ! -e go ]; do sleep 0.01; done");
    let turns = daemon.submit(&[], "while [ ! -e go ]; do sleep 0.01; done");
    daemon.runs(turns);
    let submitted = |id| daemon.job(id)["submitted_ms"].as_i64().expect("a time");
    for shift in [DECADE, -DECADE] {
        daemon.world.file("shift", &shift.to_string());
        let job = daemon.submit(&["--hold"], "true");
        let moved = submitted(job) - submitted(first);
        assert!((moved - shift * 1000).abs() < 600_000, "the library does not work: {moved}");
        // Longer than the time between two looks for old jobs.
        std::thread::sleep(std::time::Duration::from_secs(12));
        assert_eq!(daemon.state(first), "failed", "it is kept");
        assert_eq!(
            (daemon.state(gate).as_str(), daemon.state(turns).as_str()),
            ("running", "running")
        );
        daemon.client("queue").assert().success();
        daemon.command("release", job);
    }
    daemon.world.file("go", "");
    assert_eq!((daemon.wait(gate), daemon.wait(turns)), (0, 0));
}

#[test]
fn old_jobs_are_removed_with_their_logs_and_those_that_others_wait_for_stay() {
    let mut daemon = Daemon::start(&[]);
    for code in 0..5 {
        let job = daemon.submit(&[], &format!("echo {code}; exit {code}"));
        assert_eq!(daemon.wait(job), code);
    }
    let waits = daemon.submit(&["--after", "2"], "true");
    daemon.succeed(&["--keep-jobs", "2"]);
    let ids = || daemon.jobs().iter().map(|job| job["id"].clone()).collect::<Vec<_>>();
    wait_until("the first jobs are removed", || ids() == [2, 4, 5, 6]);
    wait_until("their logs are removed", || {
        !daemon.world.has("state/logs/1.out") && !daemon.world.has("state/logs/3.err")
    });
    assert!(daemon.world.has("state/logs/2.out"));
    assert_eq!(daemon.log(4), "3\n");
    let message = refusal(daemon.client("log").arg("1"), 2);
    assert!(message.contains("there is no job 1") && message.contains("long ago"), "{message}");
    assert!(daemon.reason(waits).contains("job 2, which failed"));
    assert_eq!(daemon.submit(&[], "true"), 7, "no number is given twice");
    let status = stdout_of(&mut daemon.client("status"), 0);
    assert!(status.contains("up to 2 ended jobs are kept, for 30 days of uptime"), "{status}");
}
