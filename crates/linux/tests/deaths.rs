//! The owner of a batch dies at any moment, with its guardian or without: no job stays blocked, no
//! group stays behind.
//!
//! `MEMWEIR_DEATHS` sets the number of random deaths per mechanism.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use memweir_core::JobId;
use memweir_core::names::Named;
use memweir_linux::blocker::{self, Blocker, Demand, Mechanism, Opened};
use memweir_linux::private::RuntimeDirectory;
use memweir_linux::{SharedSetting, leftovers};
use support::*;

const ALL: [Mechanism; 4] =
    [Mechanism::CgroupV2, Mechanism::Sigstop, Mechanism::CgroupV1, Mechanism::SchedExt];
/// Jobs of an owner.
const JOBS: usize = 6;

fn main() -> ExitCode {
    support::main(
        &[
            test(random_deaths_leave_no_job_blocked),
            test(all_run_within_a_second_of_a_death),
            test(a_kill_of_the_owners_group_ends_its_jobs),
            test(a_kill_that_spares_jobs_frees_them),
            test(jobs_beside_the_owners_group_outlive_it),
            test(running_jobs_are_raised_and_lowered_after_a_death),
            test(strays_are_continued),
            test(the_guardian_cannot_be_ended_by_a_terminal),
            test(a_dead_guardian_is_replaced),
            test(a_guardian_that_a_message_finds_dead_leaves_no_zombie),
            test(a_stopped_guardian_delays_no_end),
            test(leftovers_of_both_deaths_are_cleaned),
            test(a_scheduler_ends_with_its_owner_without_a_guardian),
            test(jobs_that_are_released_run_on),
            test(a_setting_is_put_back_by_the_guardian),
        ],
        roles,
    )
}

fn roles(args: &[String]) -> Option<ExitCode> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ["owner", what, mechanism, at] = args.as_slice() else { return None };
    if *what == "claims" {
        let claim = SharedSetting::claim(at.as_ref(), "0", &guardian_command()).unwrap();
        println!("blocked");
        wait_for_ever();
        drop(claim);
    }
    let mechanism = Mechanism::named(mechanism).unwrap();
    let opened = blocker::open(Some(mechanism), "test", &guardian_command());
    let Ok(Opened { mut blocker, notices }) = opened else { return Some(ExitCode::FAILURE) };
    match *what {
        "displaced" => {
            assert!(notices[0].contains("outside of memweir's own group"), "{notices:?}");
            block_for_ever(&mut *blocker, at);
        }
        "switches" => {
            start_all(&mut *blocker, at);
            switch_for_ever(&mut *blocker);
        }
        "blocks" => block_for_ever(&mut *blocker, at),
        "raises" => {
            start_all(&mut *blocker, at);
            blocker.set_demand(Demand { total: JOBS as u32, running: 1 });
            blocker.block_all().unwrap();
            blocker.run_only(&[JobId(0)]).unwrap();
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
        blocker.notices().iter().for_each(|notice| println!("{notice}"));
        std::thread::sleep(Duration::from_micros(u64::from(scatter(round, 99) % 3000)));
    }
}

fn block_for_ever(blocker: &mut dyn Blocker, at: &str) {
    start_all(blocker, at);
    blocker.block_all().unwrap();
    println!("blocked");
    wait_for_ever();
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

fn command(what: &str, mechanism: Mechanism, counters: &Counters) -> Command {
    let at = counters.path().to_str().unwrap();
    let (program, argv) = this(&["owner", what, mechanism.name(), at]);
    let mut command = Command::new(program);
    command.args(&argv[1..]).stdout(Stdio::piped());
    command
}

fn owner(what: &str, mechanism: Mechanism, counters: &Counters) -> Child {
    command(what, mechanism, counters).spawn().unwrap()
}

/// Starts an owner and waits until it has said "blocked".
fn blocked_owner(what: &str, mechanism: Mechanism, counters: &Counters) -> Child {
    until_blocked(owner(what, mechanism, counters))
}

fn until_blocked(mut owner: Child) -> Child {
    let mut line = [0; 8];
    std::io::Read::read_exact(owner.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert_eq!(&line, b"blocked\n");
    owner
}

/// A group of the unified hierarchy in which an owner runs, as a service manager makes one.
struct UnitGroup(PathBuf);

impl UnitGroup {
    /// Makes a group below this process's own; `None`, with a message, where groups cannot be made.
    fn new(name: &str) -> Option<Self> {
        if !blocker::probe(Mechanism::CgroupV2).available {
            memweir_test_support::skip!(Privilege, "no groups can be made in a unified hierarchy");
            return None;
        }
        let path = own_group().join(format!("unit-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Some(Self(path))
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap();
    }

    /// Starts an owner in this group and waits until it has said "blocked".
    fn blocked_owner(&self, what: &str, mechanism: Mechanism, counters: &Counters) -> Child {
        let members = fs::File::options().write(true).open(self.0.join("cgroup.procs")).unwrap();
        let mut command = command(what, mechanism, counters);
        let enter = move || nix::unistd::write(&members, b"0").map(drop).map_err(Into::into);
        // SAFETY: write is async-signal-safe.
        unsafe { command.pre_exec(enter) };
        until_blocked(command.spawn().unwrap())
    }

    fn kill(&self, kill: Kill) {
        match kill {
            Kill::Group => self.set("cgroup.kill", "1"),
            Kill::EachProcess => while kill_members(&self.0, &children) {},
            Kill::DirectMembers => assert!(kill_members(&self.0, &|_| Vec::new())),
        }
    }
}

impl Drop for UnitGroup {
    fn drop(&mut self) {
        let removed = eventually(|| fs::remove_dir(&self.0).is_ok());
        assert!(removed || std::thread::panicking(), "{} stays", self.0.display());
    }
}

/// The ways in which a group's processes are killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// All at once: `cgroup.kill`, as an OOM kill of a whole group does.
    Group,
    /// One after the other in the group and those below it, until none is left, as
    /// `systemctl kill -s KILL` and the stop of a unit do.
    EachProcess,
    /// Those of the group itself, not those of groups below it.
    DirectMembers,
}

/// Sends SIGKILL to the processes of a group and of those that `below` names. Returns false if it
/// has none.
fn kill_members(group: &Path, below: &dyn Fn(&Path) -> Vec<PathBuf>) -> bool {
    let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines() {
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGKILL);
    }
    let below = below(group).iter().filter(|group| kill_members(group, below)).count();
    !members.is_empty() || below > 0
}

fn children(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn available() -> Vec<Mechanism> {
    ALL.into_iter().filter(|mechanism| open(*mechanism).is_some()).collect()
}

/// Checks that every job of a dead owner runs, ends them, and checks that nothing is left.
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
        // From before the guardian starts to long after the last job did, on a machine that lets
        // the owner run; where it does not, no owner of the first rounds has any job.
        let mut longest = 120_000;
        for round in 0..deaths {
            let counters = Counters::new();
            let mut owner = owner("switches", mechanism, &counters);
            let micros = scatter(round, mechanism as u32) % longest;
            std::thread::sleep(Duration::from_micros(u64::from(micros)));
            owner.kill().unwrap();
            assert_eq!(owner.wait().unwrap().signal(), Some(libc::SIGKILL));
            jobs += assert_all_run_and_nothing_stays(&counters, owner.id());
            if jobs == 0 && longest < 8_000_000 {
                longest *= 2;
            }
        }
        eprintln!("  {mechanism}: {deaths} deaths, {jobs} jobs ran on");
        assert!(jobs > 0, "no owner lived long enough to start a job");
    }
}

/// Longest time from memweir's death until every job runs on.
const THAW_LIMIT: Duration = Duration::from_secs(1);
/// Longest time between two polls of this process for its measurement to count. A poll needs no
/// more CPU time than a guardian does, so a machine that delays polls delays thaws too.
const LATENESS_LIMIT: Duration = Duration::from_millis(200);
/// Deaths that may be measured in vain on a busy machine.
const DISTURBED_DEATHS: usize = 20;

fn all_run_within_a_second_of_a_death() {
    for mechanism in available() {
        let measured = (0..=DISTURBED_DEATHS).find_map(|_| {
            let counters = Counters::new();
            let mut owner = blocked_owner("blocks", mechanism, &counters);
            counters.assert_stand(&(0..JOBS).collect::<Vec<_>>());
            let (took, lateness) = time_until_all_run(&counters, || owner.kill().unwrap());
            owner.wait().unwrap();
            assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
            eprintln!("  {mechanism}: all run after {took:?}, polls at most {lateness:?} apart");
            (took <= THAW_LIMIT || lateness <= LATENESS_LIMIT).then_some(took)
        });
        let Some(took) = measured else {
            memweir_test_support::skip!(Busy, "{mechanism}: a second cannot be measured");
            continue;
        };
        assert!(took <= THAW_LIMIT, "{mechanism}: jobs stood for {took:?}");
    }
}

/// Returns the time from before `death` until every counter has moved, and the longest time between
/// two polls of them.
fn time_until_all_run(counters: &Counters, death: impl FnOnce()) -> (Duration, Duration) {
    let values = || (0..JOBS).map(|index| counters.get(index)).collect::<Vec<_>>();
    let (before, start) = (values(), Instant::now());
    let (mut last, mut lateness) = (start, Duration::ZERO);
    death();
    let all_run = eventually(|| {
        lateness = lateness.max(last.elapsed());
        last = Instant::now();
        values().iter().zip(&before).all(|(now, before)| now != before)
    });
    assert!(all_run, "some jobs never run");
    (start.elapsed(), lateness)
}

fn a_kill_of_the_owners_group_ends_its_jobs() {
    for mechanism in available() {
        for kill in [Kill::Group, Kill::EachProcess] {
            let Some(unit) = UnitGroup::new("killed") else { return };
            let counters = Counters::new();
            let mut owner = unit.blocked_owner("blocks", mechanism, &counters);
            counters.assert_stand(&(0..JOBS).collect::<Vec<_>>());
            let [guardian] = guardians_of(owner.id())[..] else { panic!("one guardian") };
            unit.kill(kill);
            assert_eq!(owner.wait().unwrap().signal(), Some(libc::SIGKILL));
            let at = counters.path().to_str().unwrap();
            let what = format!("{mechanism}, {kill:?}");
            assert!(eventually(|| jobs_of(at).is_empty()), "{what}: jobs survive");
            let is_gone = || own_processes().iter().all(|(pid, _)| *pid != guardian);
            assert!(eventually(is_gone), "{what}: the guardian stays");
            let _ = leftovers::clean();
            let own = format!("memweir-{}-", owner.id());
            assert!(groups(&own).is_empty(), "{what}: {:?} stay", groups(&own));
        }
    }
}

fn a_kill_that_spares_jobs_frees_them() {
    let Some(unit) = UnitGroup::new("spared") else { return };
    let counters = Counters::new();
    let mut owner = unit.blocked_owner("blocks", Mechanism::CgroupV2, &counters);
    counters.assert_stand(&(0..JOBS).collect::<Vec<_>>());
    unit.kill(Kill::DirectMembers);
    owner.wait().unwrap();
    assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
}

fn jobs_beside_the_owners_group_outlive_it() {
    for (file, value) in [("cgroup.max.descendants", "0"), ("cgroup.type", "threaded")] {
        let Some(unit) = UnitGroup::new("displacing") else { return };
        unit.set(file, value);
        let counters = Counters::new();
        let mut owner = unit.blocked_owner("displaced", Mechanism::CgroupV2, &counters);
        counters.assert_stand(&(0..JOBS).collect::<Vec<_>>());
        match value {
            // The kernel kills no threaded group as a whole. No other process is in this one.
            "threaded" => owner.kill().unwrap(),
            _ => unit.kill(Kill::Group),
        }
        owner.wait().unwrap();
        assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
    }
}

/// Returns the nice values of the jobs with this counter file, by counter.
fn nice_values(counters: &Counters) -> Vec<i32> {
    let mut jobs = jobs_of(counters.path().to_str().unwrap());
    jobs.retain(|(_, args)| args[1] == "spin");
    jobs.sort_by_key(|(_, args)| args[3].parse::<usize>().unwrap());
    jobs.iter().map(|(pid, _)| nice(*pid)).collect()
}

/// Field 19 of `/proc/<pid>/stat`.
fn nice(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(16).unwrap().parse().unwrap()
}

fn running_jobs_are_raised_and_lowered_after_a_death() {
    if !nix::unistd::geteuid().is_root() {
        return memweir_test_support::skip!(Privilege, "only root can lower nice values");
    }
    let weighed = |mechanism: &Mechanism| {
        let controllers = fs::read_to_string(own_group().join("cgroup.controllers"));
        // The scheduler takes tasks of a class that knows no nice values.
        *mechanism == Mechanism::SchedExt
            || *mechanism == Mechanism::CgroupV2
                && controllers.is_ok_and(|names| names.split_whitespace().any(|name| name == "cpu"))
    };
    for mechanism in available().into_iter().filter(|mechanism| !weighed(mechanism)) {
        let counters = Counters::new();
        let mut owner = blocked_owner("raises", mechanism, &counters);
        let own = nice(std::process::id() as i32);
        // 1.25^8 = 5.96: as much as all six.
        let mut raised = vec![own; JOBS];
        raised[0] = own - 8;
        assert_eq!(nice_values(&counters), raised, "{mechanism}");
        owner.kill().unwrap();
        owner.wait().unwrap();
        let lowered = || nice_values(&counters) == vec![own; JOBS];
        assert!(eventually(lowered), "{mechanism}: {:?}", nice_values(&counters));
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

/// Returns the children of a process that are guardians.
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

        // The second guardian of this owner has to know what the first was told.
        let counters = Counters::new();
        let mut owner = owner("switches", mechanism, &counters);
        let at = counters.path().to_str().unwrap();
        let all_started =
            || jobs_of(at).iter().filter(|(_, args)| args[1] == "spin").count() == JOBS;
        assert!(eventually(all_started));
        let [first] = guardians_of(owner.id())[..] else { panic!("one guardian") };
        kill(first, libc::SIGKILL);
        // Only then does the second guardian know everything.
        let mut said = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(said.any(|line| line.contains("another one was started")));
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
    }
}

fn a_guardian_that_a_message_finds_dead_leaves_no_zombie() {
    let Some(mut blocker) = open(Mechanism::Sigstop) else { return };
    let [guardian] = guardians_of(std::process::id())[..] else { panic!("one guardian") };
    kill(guardian, libc::SIGKILL);
    // A zombie has no command line.
    assert!(eventually(|| guardians_of(std::process::id()).is_empty()));
    let counters = Counters::new();
    let process = spin(&mut *blocker, JobId(0), counters.path(), 0, 1);
    assert_eq!(guardians_of(std::process::id()).len(), 1, "it was told of the job");
    assert!(!Path::new(&format!("/proc/{guardian}")).exists());
    end(&mut *blocker, JobId(0), process);
}

fn a_stopped_guardian_delays_no_end() {
    let blocker = open(available()[0]).unwrap();
    let [guardian] = guardians_of(std::process::id())[..] else { panic!("one guardian") };
    kill(guardian, libc::SIGSTOP);
    drop(blocker);
    assert!(guardians_of(std::process::id()).is_empty());
}

fn leftovers_of_both_deaths_are_cleaned() {
    for mechanism in available() {
        if [Mechanism::Sigstop, Mechanism::SchedExt].contains(&mechanism) {
            // No group names its owner, and the kernel continues the first processes; or it ends
            // the scheduler with its owner, and no job stays blocked.
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

fn a_scheduler_ends_with_its_owner_without_a_guardian() {
    if open(Mechanism::SchedExt).is_none() {
        return;
    }
    let counters = Counters::new();
    let mut owner = blocked_owner("blocks", Mechanism::SchedExt, &counters);
    let all: Vec<usize> = (0..JOBS).collect();
    counters.assert_stand(&all);
    let [guardian] = guardians_of(owner.id())[..] else { panic!("one guardian") };
    kill(guardian, libc::SIGKILL);
    owner.kill().unwrap();
    owner.wait().unwrap();
    all.iter().for_each(|index| counters.assert_runs(*index));
    kill_jobs(counters.path().to_str().unwrap());
    let own = format!("memweir-{}-", owner.id());
    assert!(eventually(|| {
        let _ = leftovers::clean();
        groups(&own).is_empty()
    }));
    // The place is free again.
    assert!(open(Mechanism::SchedExt).is_some());
}

fn jobs_that_are_released_run_on() {
    for mechanism in available() {
        let counters = Counters::new();
        let mut owner = owner("releases", mechanism, &counters);
        assert!(owner.wait().unwrap().success());
        assert_eq!(assert_all_run_and_nothing_stays(&counters, owner.id()), JOBS);
    }
}

/// Two owners claim a setting: it keeps its value while one of them lives, though the first is
/// killed.
fn a_setting_is_put_back_by_the_guardian() {
    let setting = Counters::new();
    std::fs::write(setting.path(), "1").unwrap();
    let value = || std::fs::read_to_string(setting.path()).unwrap();
    let mut first = blocked_owner("claims", Mechanism::Sigstop, &setting);
    let mut second = blocked_owner("claims", Mechanism::Sigstop, &setting);
    assert_eq!(value(), "0");
    let name = setting.path().to_string_lossy().trim_start_matches('/').replace('/', "-");
    let directory = RuntimeDirectory::open().unwrap();
    let ledger = || std::fs::read_to_string(directory.path().join(&name)).unwrap_or_default();
    let claims = |owner: &Child| ledger().contains(&format!("memweir-{}-", owner.id()));
    assert!(claims(&first) && claims(&second), "{}", ledger());
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(eventually(|| !claims(&first)), "the claim of the dead stays");
    assert_eq!(value(), "0");
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(eventually(|| value() == "1" && ledger().is_empty()), "it was not put back");
}
