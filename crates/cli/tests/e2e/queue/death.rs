//! A daemon that is killed loses no job and no exit code, runs no job twice, and leaves none
//! blocked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::Daemon;
use crate::support::wait_until;

/// Kills of the daemon while its jobs run, unless MEMWEIR_DAEMON_KILLS says how many.
const KILLS: u32 = 25;

/// Jobs that are submitted after each start of a daemon.
const JOBS_PER_LIFE: u32 = 3;

#[test]
fn a_running_job_is_adopted() {
    let mut daemon = Daemon::start(&[]);
    let job = daemon.submit(&[], "echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; exit 5");
    wait_until("the job says so", || daemon.world.has("pid"));
    daemon.succeed(&[]);
    assert_eq!(daemon.state(job), "running");
    daemon.world.file("go", "");
    assert_eq!(daemon.wait(job), 5);
    assert_eq!(daemon.job(job)["attempt"], 1);
}

#[test]
fn a_job_that_runs_on_in_the_background_is_adopted() {
    let mut daemon = Daemon::start(&[]);
    let job = daemon.submit(&[], "setsid -f sh -c 'while :; do sleep 0.01; done'; exit 5");
    let next = daemon.submit(&["--priority", "-1"], "exit 0");
    wait_until("its first process has ended", || daemon.world.has("state/runs/1.1.exit"));
    daemon.succeed(&[]);
    assert_eq!((daemon.state(job), daemon.state(next)), ("running".into(), "pending".into()));
    daemon.command("cancel", job);
    assert_eq!((daemon.wait(job), daemon.wait(next)), (5, 0));
}

#[test]
fn an_adopted_job_can_be_canceled() {
    let mut daemon = Daemon::start(&[]);
    let job = daemon.submit(&[], "echo $$ > pid; while :; do sleep 0.01; done");
    wait_until("the job says so", || daemon.world.has("pid"));
    daemon.succeed(&[]);
    daemon.command("cancel", job);
    assert_eq!(daemon.wait(job), 143);
    assert_eq!(daemon.state(job), "canceled");
}

#[test]
fn the_end_of_a_job_without_a_daemon_is_kept() {
    let mut daemon = Daemon::start(&[]);
    let job = daemon.submit(&[], "echo > began; while [ ! -e go ]; do sleep 0.01; done; exit 6");
    let next = daemon.submit(&[], "exit 4");
    wait_until("the job says so", || daemon.world.has("began"));
    daemon.kill();
    daemon.world.file("go", "");
    wait_until("its end is on disk", || daemon.world.has("state/runs/1.1.exit"));
    daemon.process = super::launch(&daemon.world, &[]);
    assert_eq!((daemon.wait(job), daemon.wait(next)), (6, 4));
}

#[test]
fn an_orderly_end_leaves_the_jobs_running() {
    let mut daemon = Daemon::start(&[]);
    let job = daemon.submit(&[], "echo > began; while [ ! -e go ]; do sleep 0.01; done; exit 6");
    wait_until("the job says so", || daemon.world.has("began"));
    daemon.end();
    daemon.process = super::launch(&daemon.world, &[]);
    assert_eq!(daemon.state(job), "running");
    daemon.world.file("go", "");
    assert_eq!(daemon.wait(job), 6);
}

#[test]
fn a_job_whose_supervisor_is_killed_is_lost_and_says_so() {
    let daemon = Daemon::start(&[]);
    let job = daemon.submit(&[], "echo $PPID > supervisor; while [ ! -e go ]; do sleep 0.01; done");
    wait_until("the job says so", || {
        daemon.world.has("supervisor") && !daemon.world.read("supervisor").is_empty()
    });
    let supervisor = daemon.world.read("supervisor").trim().parse().expect("a number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), Signal::SIGKILL).expect("alive");
    daemon.world.file("go", "");
    assert_eq!(daemon.wait(job), 137);
    assert_eq!(daemon.state(job), "lost");
}

#[test]
fn jobs_take_turns_and_none_stays_blocked_without_a_daemon() {
    let options = ["--policy", "round-robin", "--admit", "3", "--quantum", "50ms"];
    let mut daemon = Daemon::start(&options);
    let script = "while [ ! -e go ]; do :; done; echo done >> ended";
    let jobs = [(); 3].map(|()| daemon.submit(&[], script));
    let mut seen = BTreeSet::new();
    wait_until("each job has been blocked", || {
        let blocked = daemon.jobs().into_iter().filter(|job| job["blocked"] == true);
        seen.extend(blocked.filter_map(|job| job["id"].as_u64()));
        seen.len() == jobs.len()
    });
    daemon.kill();
    daemon.world.file("go", "");
    wait_until("each job ends", || {
        daemon.world.has("ended") && daemon.world.read("ended").lines().count() == jobs.len()
    });
    daemon.process = super::launch(&daemon.world, &options);
    assert_eq!(jobs.map(|job| daemon.wait(job)), [0; 3]);
}

/// A random number below `limit`, from a seed that the test prints.
fn random(state: &mut u64, limit: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % limit
}

#[test]
fn kills_at_any_moment_lose_nothing_and_run_nothing_twice() {
    let kills = std::env::var("MEMWEIR_DAEMON_KILLS")
        .map_or(KILLS, |number| number.parse().expect("MEMWEIR_DAEMON_KILLS is a number"));
    let mut seed = u64::from(std::process::id()) | 1;
    println!("seed {seed}");
    // Round-robin over twice as many jobs as cores, so that jobs are frozen at most moments.
    let options = ["--policy", "round-robin", "--admit", "2", "--quantum", "20ms"];
    let mut daemon = Daemon::start(&options);
    let mut expected = BTreeMap::new();
    for _ in 0..kills {
        for _ in 0..JOBS_PER_LIFE {
            let code = random(&mut seed, 3);
            let pause = random(&mut seed, 8);
            let script = format!("echo $MEMWEIR_JOB_ID >> ran; sleep 0.0{pause}; exit {code}");
            expected.insert(daemon.submit(&[], &script), code as i32);
        }
        std::thread::sleep(Duration::from_micros(random(&mut seed, 150_000)));
        daemon.succeed(&options);
    }
    let start = Instant::now();
    for (job, code) in &expected {
        assert_eq!(daemon.wait(*job), *code, "job {job} of seed {seed}");
    }
    println!("the last jobs took {:?}", start.elapsed());
    let ran = daemon.world.read("ran");
    let mut ran: Vec<u32> = ran.lines().map(|line| line.parse().expect("a number")).collect();
    ran.sort_unstable();
    assert_eq!(ran, expected.keys().copied().collect::<Vec<_>>(), "each ran once");
    assert_eq!(daemon.jobs().len(), expected.len());
}
