//! The owner of a batch dies at any moment, with its guardian or without: no job stays blocked, no
//! group stays behind.
//!
//! `MEMWEIR_DEATHS` sets the number of random deaths per mechanism.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use memweir_core::JobId;
use memweir_linux::blocker::{Blocker, Mechanism};
use memweir_linux::leftovers;
use support::*;

const ALL: [Mechanism; 3] = [Mechanism::CgroupV2, Mechanism::Sigstop, Mechanism::CgroupV1];
/// Jobs of an owner.
const JOBS: usize = 6;

fn main() -> ExitCode {
    support::main(
        &[
            ("random_deaths_leave_no_job_blocked", random_deaths_leave_no_job_blocked),
            ("a_death_with_all_blocked", a_death_with_all_blocked),
            ("strays_are_continued", strays_are_continued),
            (
                "the_guardian_cannot_be_ended_by_a_terminal",
                the_guardian_cannot_be_ended_by_a_terminal,
            ),
            ("a_dead_guardian_is_replaced", a_dead_guardian_is_replaced),
            ("leftovers_of_both_deaths_are_cleaned", leftovers_of_both_deaths_are_cleaned),
            ("jobs_that_are_released_run_on", jobs_that_are_released_run_on),
        ],
        roles,
    )
}

fn roles(args: &[String]) -> Option<ExitCode> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ["owner", what, mechanism, at] = args.as_slice() else { return None };
    let (_, mechanism) = Mechanism::ALL.into_iter().find(|(name, _)| name == mechanism).unwrap();
    let Some(mut blocker) = open(mechanism) else { return Some(ExitCode::FAILURE) };
    match *what {
        "switches" => {
            start_all(&mut *blocker, at);
            switch_for_ever(&mut *blocker);
        }
        "blocks" => {
            start_all(&mut *blocker, at);
            blocker.block_all().unwrap();
            println!("blocked");
            wait_for_ever();
        }
        "strays" => {
            start(&mut *blocker, JobId(0), &job(&["spin-apart", at, "0"]));
            Counters::open(at).assert_runs(0);
            blocker.run_only(&[]).unwrap();
            println!("blocked");
            wait_for_ever();
        }
        "releases" => {
            start_all(&mut *blocker, at);
            blocker.block_all().unwrap();
            drop(blocker);
        }
        other => panic!("owner {other}"),
    }
    Some(ExitCode::SUCCESS)
}

fn start_all(blocker: &mut dyn Blocker, at: &str) {
    for index in 0..JOBS {
        let id = JobId(index as u32);
        spin(blocker, id, at.as_ref(), index, 1);
        blocker.block_all().unwrap();
        blocker.run_only(&[]).unwrap();
    }
}

fn switch_for_ever(blocker: &mut dyn Blocker) {
    for round in 0u32.. {
        blocker.block_all().unwrap();
        let chosen: Vec<JobId> = (0..JOBS as u32)
            .filter(|job| scatter(round, *job).is_multiple_of(3))
            .map(JobId)
            .collect();
        blocker.run_only(&chosen).unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(scatter(round, 99) % 3000)));
    }
}

fn wait_for_ever() {
    loop {
        std::thread::park();
    }
}

/// Numbers without a pattern, the same in every run.
fn scatter(a: u32, b: u32) -> u32 {
    let mut x = a.wrapping_mul(0x9E37_79B9) ^ b.wrapping_mul(0x85EB_CA6B);
    for _ in 0..2 {
        x = (x ^ (x >> 16)).wrapping_mul(0x045D_9F3B);
    }
    x ^ (x >> 16)
}

fn owner(what: &str, mechanism: Mechanism, counters: &Counters) -> Child {
    let at = counters.path().to_str().unwrap();
    let (program, argv) = this(&["owner", what, mechanism.name(), at]);
    let mut command = Command::new(program);
    command.args(&argv[1..]).stdout(Stdio::piped()).spawn().unwrap()
}

/// An owner that has said "blocked".
fn blocked_owner(what: &str, mechanism: Mechanism, counters: &Counters) -> Child {
    let mut owner = owner(what, mechanism, counters);
    let mut line = [0; 8];
    std::io::Read::read_exact(owner.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert_eq!(&line, b"blocked\n");
    owner
}

fn available() -> Vec<Mechanism> {
    ALL.into_iter().filter(|mechanism| open(*mechanism).is_some()).collect()
}

/// Sees that every job of a dead owner runs, ends them, and sees that nothing is left.
fn assert_all_run_and_nothing_stays(counters: &Counters, owner: u32) -> usize {
    let at = counters.path().to_str().unwrap();
    // Newborns whose gate closed still have the owner's command line for a moment, and those whose
    // gate had just opened have none.
    let settled = |(_, args): &(i32, Vec<String>)| match args.get(1) {
        Some(role) => role.starts_with("spin") || !args.iter().any(|arg| arg == at),
        None => !args.is_empty(),
    };
    assert!(eventually(|| own_processes().iter().all(settled)), "a newborn stays");
    let jobs = jobs_of(at);
    for (_, args) in jobs.iter().filter(|(_, args)| args[1] == "spin") {
        counters.assert_runs(args[3].parse().unwrap());
    }
    kill_jobs(at);
    let own = format!("memweir-{owner}-");
    assert!(eventually(|| groups(&own).is_empty()), "groups stay: {:?}", groups(&own));
    jobs.len()
}

fn random_deaths_leave_no_job_blocked() {
    let deaths = std::env::var("MEMWEIR_DEATHS").map_or(25, |text| text.parse().unwrap());
    for mechanism in available() {
        let mut jobs = 0;
        for round in 0..deaths {
            let counters = Counters::new();
            let mut owner = owner("switches", mechanism, &counters);
            // From before the guardian starts to long after the last job did.
            let micros = scatter(round, mechanism as u32) % 120_000;
            std::thread::sleep(Duration::from_micros(u64::from(micros)));
            owner.kill().unwrap();
            assert_eq!(owner.wait().unwrap().signal(), Some(libc::SIGKILL));
            jobs += assert_all_run_and_nothing_stays(&counters, owner.id());
        }
        eprintln!("  {mechanism}: {deaths} deaths, {jobs} jobs ran on");
        assert!(jobs > 0, "no owner lived long enough to start a job");
    }
}

fn a_death_with_all_blocked() {
    for mechanism in available() {
        let counters = Counters::new();
        let mut owner = blocked_owner("blocks", mechanism, &counters);
        counters.assert_stand(&(0..JOBS).collect::<Vec<_>>());
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
    }
}

fn strays_are_continued() {
    for mechanism in available() {
        let counters = Counters::new();
        let mut owner = blocked_owner("strays", mechanism, &counters);
        counters.assert_stand(&[0]);
        owner.kill().unwrap();
        owner.wait().unwrap();
        counters.assert_runs(0);
        assert_all_run_and_nothing_stays(&counters, owner.id());
    }
}

/// The children of a process that are guardians.
fn guardians_of(parent: u32) -> Vec<i32> {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let is_guardian = |pid: &i32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.ends_with(b"\0guardian\0")
    };
    children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(is_guardian).collect()
}

fn kill(pid: i32, signal: i32) {
    let signal = nix::sys::signal::Signal::try_from(signal).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

fn the_guardian_cannot_be_ended_by_a_terminal() {
    let mechanism = available()[0];
    let counters = Counters::new();
    let mut owner = blocked_owner("blocks", mechanism, &counters);
    let guardians = guardians_of(owner.id());
    assert_eq!(guardians.len(), 1);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        kill(guardians[0], signal);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(guardians_of(owner.id()), guardians);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
}

fn a_dead_guardian_is_replaced() {
    for mechanism in available() {
        // Within this process, to read the notices.
        let counters = Counters::new();
        let mut blocker = open(mechanism).unwrap();
        let process = spin(&mut *blocker, JobId(0), counters.path(), 0, 1);
        let [guardian] = guardians_of(std::process::id())[..] else { panic!("one guardian") };
        kill(guardian, libc::SIGKILL);
        assert!(eventually(|| {
            blocker.block_all().unwrap();
            blocker.run_all().unwrap();
            blocker.notices().iter().any(|notice| notice.contains("another one was started"))
        }));
        assert_eq!(guardians_of(std::process::id()).len(), 1);
        blocker.block_all().unwrap();
        counters.assert_stand(&[0]);
        blocker.run_all().unwrap();
        end(&mut *blocker, JobId(0), process);
        drop(blocker);

        // An owner whose second guardian has to know what the first was told.
        let counters = Counters::new();
        let mut owner = owner("switches", mechanism, &counters);
        let at = counters.path().to_str().unwrap();
        let all_started =
            || jobs_of(at).iter().filter(|(_, args)| args[1] == "spin").count() == JOBS;
        assert!(eventually(all_started));
        let [first] = guardians_of(owner.id())[..] else { panic!("one guardian") };
        kill(first, libc::SIGKILL);
        assert!(eventually(|| guardians_of(owner.id()).iter().any(|pid| *pid != first)));
        std::thread::sleep(Duration::from_millis(50));
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
    }
}

fn leftovers_of_both_deaths_are_cleaned() {
    for mechanism in available() {
        if mechanism == Mechanism::Sigstop {
            // No group names its owner; the first processes are continued by the kernel.
            continue;
        }
        let counters = Counters::new();
        let mut owner = blocked_owner("blocks", mechanism, &counters);
        let all: Vec<usize> = (0..JOBS).collect();
        counters.assert_stand(&all);
        let [guardian] = guardians_of(owner.id())[..] else { panic!("one guardian") };
        kill(guardian, libc::SIGKILL);
        owner.kill().unwrap();
        owner.wait().unwrap();
        counters.assert_stand(&all);

        let own = format!("memweir-{}-", owner.id());
        let told = leftovers::clean();
        let ours: Vec<&String> = told.iter().filter(|line| line.contains(&own)).collect();
        assert!(ours.len() == 1 && ours[0].contains("still running"), "{told:?}");
        all.iter().for_each(|index| counters.assert_runs(*index));
        kill_jobs(counters.path().to_str().unwrap());
        assert!(eventually(|| {
            let _ = leftovers::clean();
            groups(&own).is_empty()
        }));
    }
}

fn jobs_that_are_released_run_on() {
    for mechanism in available() {
        let counters = Counters::new();
        let mut owner = owner("releases", mechanism, &counters);
        assert!(owner.wait().unwrap().success());
        assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
    }
}
