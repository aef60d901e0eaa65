//! Every mechanism on the real kernel: which jobs stop, which run, what is left behind. Prints a
//! skip for mechanisms that this machine does not have.

mod support;

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use memweir_core::{JobId, Nanos};
use memweir_linux::blocker::{self, Blocker, Mechanism, SpawnTarget};
use memweir_linux::launch::{Ending, launch};
use memweir_linux::world::Live;
use support::*;

const ALL: [Mechanism; 4] =
    [Mechanism::CgroupV2, Mechanism::Sigstop, Mechanism::CgroupV1, Mechanism::SchedExt];
const GROUPS: [Mechanism; 3] = [Mechanism::CgroupV2, Mechanism::CgroupV1, Mechanism::SchedExt];

fn main() -> ExitCode {
    support::main(
        &[
            test(all_threads_of_a_job_stop_and_resume),
            test(exactly_the_chosen_of_32_jobs_run),
            test(children_in_their_own_session_stop),
            test(daemons_stop_in_groups),
            test(a_blocked_job_can_be_killed),
            test(sigterm_is_handled_when_a_blocked_job_runs),
            test(a_stop_interrupts_a_system_call_and_a_scheduler_does_not),
            test(a_job_that_ignores_sigterm_dies_by_sigkill),
            test(a_thousand_children_are_blocked_and_killed),
            test(jobs_that_end_while_others_are_blocked),
            test(cpu_time_grows_when_a_job_runs_and_only_then),
            test(groups_that_a_job_made_are_removed_with_it),
            test(five_hundred_jobs),
            test(nothing_is_left_after_an_orderly_end),
            test(probes_agree_with_opening),
            test(without_permission_signals_are_used_and_told),
            test(a_delegated_group_is_used),
            test(what_is_no_guardian_is_refused),
            test(a_job_moves_itself_where_the_kernel_refuses),
            test(jobs_keep_the_limit_of_open_files),
            test(a_world_raises_the_limit_of_open_files),
        ],
        roles,
    )
}

/// Prefix of the names of this process's groups.
fn own_groups() -> String {
    format!("memweir-{}-", std::process::id())
}

/// Runs `test` with a blocker of each mechanism that this machine has.
fn with(mechanisms: &[Mechanism], mut test: impl FnMut(&mut dyn Blocker)) {
    for mechanism in mechanisms {
        if let Some(mut blocker) = open(*mechanism) {
            eprintln!("  {mechanism}");
            test(&mut *blocker);
        }
    }
}

fn all_threads_of_a_job_stop_and_resume() {
    with(&ALL, |blocker| {
        let counters = Counters::new();
        let process = spin(blocker, JobId(0), counters.path(), 0, 4);
        for _ in 0..3 {
            (0..4).for_each(|index| counters.assert_runs(index));
            blocker.block_all().unwrap();
            counters.assert_stand(&[0, 1, 2, 3]);
            blocker.run_only(&[JobId(0)]).unwrap();
        }
        // The BPF scheduler places threads itself.
        let known = if blocker.mechanism() == Mechanism::SchedExt { 0 } else { 4 };
        assert!(blocker.threads(JobId(0)).len() >= known);
        assert_eq!(blocker.threads(JobId(1)), []);
        end(blocker, JobId(0), process);
    });
}

fn exactly_the_chosen_of_32_jobs_run() {
    with(&ALL, |blocker| {
        let counters = Counters::new();
        let jobs: Vec<JobId> = (0..32).map(JobId).collect();
        let mut processes = Vec::new();
        for job in &jobs {
            processes.push(spin(blocker, *job, counters.path(), job.index(), 1));
            // Two cores cannot start 32 busy jobs in reasonable time.
            blocker.run_only(&[]).unwrap();
        }
        let choices: [Vec<usize>; 4] =
            [(0..8).collect(), vec![3, 4, 5, 31], vec![], (0..32).step_by(3).collect()];
        for chosen in choices {
            let ids: Vec<JobId> = chosen.iter().map(|index| jobs[*index]).collect();
            blocker.block_all().unwrap();
            counters.assert_stand(&(0..32).collect::<Vec<_>>());
            blocker.run_only(&ids).unwrap();
            chosen.iter().for_each(|index| counters.assert_runs(*index));
            let others: Vec<usize> = (0..32).filter(|index| !chosen.contains(index)).collect();
            counters.assert_stand(&others);
        }
        blocker.run_all().unwrap();
        (0..32).for_each(|index| counters.assert_runs(index));
        for (job, process) in jobs.iter().zip(processes) {
            end(blocker, *job, process);
        }
    });
}

fn children_in_their_own_session_stop() {
    with(&ALL, |blocker| {
        let counters = Counters::new();
        let at = counters.path().to_str().unwrap();
        let process = start(blocker, JobId(0), &job(&["spin-apart", at, "0"]));
        counters.assert_runs(0);
        blocker.block_all().unwrap();
        counters.assert_stand(&[0]);
        blocker.run_all().unwrap();
        counters.assert_runs(0);
        end(blocker, JobId(0), process);
        counters.assert_stand(&[0]);
    });
}

fn daemons_stop_in_groups() {
    with(&GROUPS, |blocker| {
        let counters = Counters::new();
        let at = counters.path().to_str().unwrap();
        let mut process = start(blocker, JobId(0), &job(&["spin-daemon", at, "0"]));
        assert!(process.wait().unwrap().success());
        counters.assert_runs(0);
        assert!(blocker.populated(JobId(0)).unwrap(), "the daemon counts");
        blocker.block_all().unwrap();
        counters.assert_stand(&[0]);
        blocker.run_only(&[]).unwrap();
        counters.assert_stand(&[0]);
        // Its place cannot be given back, but it is not blocked any more.
        let error = blocker.retire(JobId(0)).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::EBUSY), "{error}");
        counters.assert_runs(0);
        kill_jobs(at);
    });
}

fn a_blocked_job_can_be_killed() {
    with(&[Mechanism::CgroupV2, Mechanism::Sigstop, Mechanism::SchedExt], |blocker| {
        let counters = Counters::new();
        let mut first = spin(blocker, JobId(0), counters.path(), 0, 3);
        let mut second = spin(blocker, JobId(1), counters.path(), 3, 1);
        (0..4).for_each(|index| counters.assert_runs(index));
        // Once while all are blocked, once while it is.
        blocker.block_all().unwrap();
        blocker.signal(JobId(0), libc::SIGKILL).unwrap();
        assert_eq!(first.wait().unwrap().ending, Ending::Signal(libc::SIGKILL));
        blocker.run_only(&[]).unwrap();
        blocker.signal(JobId(1), libc::SIGKILL).unwrap();
        assert_eq!(second.wait().unwrap().ending, Ending::Signal(libc::SIGKILL));
        for job in [JobId(0), JobId(1)] {
            assert!(eventually(|| !blocker.populated(job).unwrap()));
            blocker.retire(job).unwrap();
        }
    });
    with(&[Mechanism::CgroupV1], |blocker| {
        let counters = Counters::new();
        let mut process = spin(blocker, JobId(0), counters.path(), 0, 3);
        counters.assert_runs(2);
        blocker.block_all().unwrap();
        blocker.signal(JobId(0), libc::SIGKILL).unwrap();
        blocker.run_only(&[]).unwrap();
        assert_eq!(process.wait().unwrap().ending, Ending::Signal(libc::SIGKILL));
        assert!(eventually(|| !blocker.populated(JobId(0)).unwrap()));
        blocker.retire(JobId(0)).unwrap();
    });
}

fn sigterm_is_handled_when_a_blocked_job_runs() {
    with(&ALL, |blocker| {
        let mut what = job(&[]);
        what.program = "/bin/sh".into();
        what.argv =
            ["sh", "-c", "trap 'exit 7' TERM; while :; do :; done"].map(Into::into).to_vec();
        let mut process = start(blocker, JobId(0), &what);
        // The trap is set long before that.
        assert!(eventually(|| blocker.cpu_time(JobId(0)).unwrap() > Nanos::from_millis(50)));
        blocker.run_only(&[]).unwrap();
        blocker.signal(JobId(0), libc::SIGTERM).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(process.try_wait().unwrap(), None, "held while blocked");
        blocker.run_all().unwrap();
        assert_eq!(process.wait().unwrap().ending, Ending::Code(7));
        blocker.retire(JobId(0)).unwrap();
    });
}

fn a_stop_interrupts_a_system_call_and_a_scheduler_does_not() {
    with(&ALL, |blocker| {
        let mut process = start(blocker, JobId(0), &job(&["wait-for-no-event", "3000"]));
        // The job waits during most of this.
        for _ in 0..20 {
            blocker.block_all().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            blocker.run_only(&[JobId(0)]).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        let expected = match blocker.mechanism() {
            Mechanism::SchedExt => Ending::Code(0),
            _ => Ending::Code(INTERRUPTED.into()),
        };
        assert_eq!(process.wait().unwrap().ending, expected);
        blocker.retire(JobId(0)).unwrap();
    });
}

fn a_job_that_ignores_sigterm_dies_by_sigkill() {
    with(&ALL, |blocker| {
        let counters = Counters::new();
        let at = counters.path().to_str().unwrap();
        let process = start(blocker, JobId(0), &job(&["stubborn", at, "0"]));
        counters.assert_runs(0);
        blocker.signal(JobId(0), libc::SIGTERM).unwrap();
        counters.assert_runs(0);
        end(blocker, JobId(0), process);
    });
}

fn a_thousand_children_are_blocked_and_killed() {
    with(&ALL, |blocker| {
        let process = start(blocker, JobId(0), &job(&["fork", "1000"]));
        // In the middle of the forking.
        std::thread::sleep(Duration::from_millis(30));
        blocker.block_all().unwrap();
        blocker.run_only(&[]).unwrap();
        assert!(blocker.populated(JobId(0)).unwrap());
        blocker.run_all().unwrap();
        end(blocker, JobId(0), process);
    });
}

fn jobs_that_end_while_others_are_blocked() {
    with(&ALL, |blocker| {
        let counters = Counters::new();
        let spinner = spin(blocker, JobId(0), counters.path(), 0, 1);
        for round in 1..20 {
            let mut nap = start(blocker, JobId(round), &job(&["nap", "5"]));
            blocker.block_all().unwrap();
            blocker.run_only(&[JobId(round)]).unwrap();
            assert!(nap.wait().unwrap().success());
            blocker.block_all().unwrap();
            blocker.run_only(&[JobId(round)]).unwrap();
            // Kernels may count a process until some time after its end is told.
            assert!(eventually(|| !blocker.populated(JobId(round)).unwrap()));
            blocker.cpu_time(JobId(round)).unwrap();
            blocker.retire(JobId(round)).unwrap();
        }
        blocker.run_all().unwrap();
        counters.assert_runs(0);
        end(blocker, JobId(0), spinner);
    });
}

fn cpu_time_grows_when_a_job_runs_and_only_then() {
    with(&ALL, |blocker| {
        let counters = Counters::new();
        let process = spin(blocker, JobId(0), counters.path(), 0, 2);
        let mut before = Nanos::ZERO;
        for _ in 0..3 {
            assert!(eventually(|| {
                let now = blocker.cpu_time(JobId(0)).unwrap();
                now > before + Nanos::from_millis(50)
            }));
            blocker.block_all().unwrap();
            counters.assert_stand(&[0, 1]);
            before = blocker.cpu_time(JobId(0)).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            let later = blocker.cpu_time(JobId(0)).unwrap();
            assert!(later < before + Nanos::from_millis(2), "{before:?} {later:?}");
            blocker.run_all().unwrap();
        }
        end(blocker, JobId(0), process);
    });
}

fn groups_that_a_job_made_are_removed_with_it() {
    with(&GROUPS, |blocker| {
        let counters = Counters::new();
        let process = spin(blocker, JobId(0), counters.path(), 0, 1);
        let is_of_jobs = |path: &std::path::PathBuf| path.join("job-0").exists();
        let parent = groups(&own_groups()).into_iter().find(is_of_jobs).unwrap();
        let nested = parent.join("job-0/own/deeper");
        fs::create_dir_all(&nested).unwrap();
        fs::write(nested.join("cgroup.procs"), process.pid().to_string()).unwrap();
        counters.assert_runs(0);
        blocker.run_only(&[]).unwrap();
        counters.assert_stand(&[0]);
        assert!(blocker.populated(JobId(0)).unwrap());
        assert!(blocker.cpu_time(JobId(0)).unwrap() > Nanos::ZERO);
        end(blocker, JobId(0), process);
        assert!(!nested.exists() && !parent.join("job-0").exists());
    });
}

fn five_hundred_jobs() {
    with(&ALL, |blocker| {
        let nap = job(&["nap", "1000000"]);
        let processes: Vec<_> = (0..500).map(|n| start(blocker, JobId(n), &nap)).collect();
        blocker.block_all().unwrap();
        blocker.run_only(&[JobId(7), JobId(499)]).unwrap();
        blocker.block_all().unwrap();
        blocker.run_only(&[JobId(8)]).unwrap();
        blocker.run_all().unwrap();
        for (id, mut process) in (0..).map(JobId).zip(processes) {
            process.signal(libc::SIGKILL).unwrap();
            process.wait().unwrap();
            if blocker.mechanism() != Mechanism::Sigstop {
                assert!(eventually(|| !blocker.populated(id).unwrap()));
            }
            blocker.retire(id).unwrap();
        }
    });
}

fn nothing_is_left_after_an_orderly_end() {
    with(&ALL, |blocker| {
        let counters = Counters::new();
        let process = spin(blocker, JobId(0), counters.path(), 0, 1);
        end(blocker, JobId(0), process);
    });
    assert_eq!(groups(&own_groups()), Vec::<std::path::PathBuf>::new());
    // Guardians are our children; all have ended and were reaped.
    let waited = nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
    assert_eq!(waited, Err(nix::errno::Errno::ECHILD));
}

fn probes_agree_with_opening() {
    for mechanism in ALL {
        let probe = blocker::probe(mechanism);
        eprintln!("  {mechanism}: {probe:?}");
        let opened = blocker::open(Some(mechanism), "test", &guardian_command());
        assert_eq!(probe.available, opened.is_ok());
    }
    assert!(groups("-probe").is_empty());
}

fn what_is_no_guardian_is_refused() {
    let wrong = memweir_linux::guardian::Command { program: "/bin/true".into(), args: Vec::new() };
    let error = blocker::open(Some(Mechanism::Sigstop), "test", &wrong).err().unwrap();
    assert!(error.to_string().contains("guardian"), "{error}");
    let missing = memweir_linux::guardian::Command { program: "/no/such".into(), ..wrong };
    assert!(blocker::open(None, "test", &missing).is_err());
}

fn a_job_moves_itself_where_the_kernel_refuses() {
    with(&[Mechanism::CgroupV1], |blocker| {
        let SpawnTarget::CgroupV1(group) = blocker.prepare(JobId(0)).unwrap() else {
            panic!("the v1 freezer's target")
        };
        // clone3 takes no v1 group, so this is what a kernel without CLONE_INTO_CGROUP does.
        let place = SpawnTarget::CgroupV2(fs::File::open(&group).unwrap().into());
        let newborn = launch(&job(&["nap", "1000000"]), &place).unwrap();
        let procs = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert_eq!(procs.trim(), newborn.pid().to_string());
        drop(newborn);
        assert!(eventually(|| blocker.retire(JobId(0)).is_ok()));
    });
}

fn jobs_keep_the_limit_of_open_files() {
    assert!(run_role(&["limits"]));
}

fn a_world_raises_the_limit_of_open_files() {
    assert!(run_role(&["world"]));
}

const LOW_LIMIT: u64 = 256;

fn limit_of_open_files() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live structure that getrlimit fills.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit
}

/// Sets the soft limit of open files to the low one.
fn lower_the_limit() {
    let low = libc::rlimit { rlim_cur: LOW_LIMIT, ..limit_of_open_files() };
    // SAFETY: the pointer is to a live structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const low) }, 0);
}

/// Takes a world under a low limit, without any other mechanism.
fn take_a_world_under_a_low_limit() {
    lower_the_limit();
    let _world = Live::new().unwrap();
    let limit = limit_of_open_files();
    assert_eq!(limit.rlim_cur, limit.rlim_max);
}

/// Many jobs under a low limit, which memweir raises for itself alone.
fn start_jobs_under_a_low_limit() {
    lower_the_limit();
    let Some(mut blocker) = open(Mechanism::CgroupV2) else { return };
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut what = job(&[]);
    what.program = "/bin/sh".into();
    what.argv = ["sh", "-c", "ulimit -Sn"].map(Into::into).to_vec();
    what.stdout = output.reopen().unwrap();
    let mut process = start(&mut *blocker, JobId(0), &what);
    assert!(process.wait().unwrap().success());
    let said = fs::read_to_string(output.path()).unwrap();
    assert_eq!(said.trim(), LOW_LIMIT.to_string());
    let nap = job(&["nap", "1000000"]);
    let jobs = (1..LOW_LIMIT as u32).map(JobId);
    let processes: Vec<_> = jobs.clone().map(|id| (id, start(&mut *blocker, id, &nap))).collect();
    blocker.run_only(&[]).unwrap();
    for (id, process) in processes {
        end(&mut *blocker, id, process);
    }
}

const NOBODY: u32 = 65534;

/// Runs a role of this program and returns whether it succeeded.
fn run_role(args: &[&str]) -> bool {
    let (program, argv) = this(args);
    std::process::Command::new(program).args(&argv[1..]).status().unwrap().success()
}

fn without_permission_signals_are_used_and_told() {
    if !nix::unistd::geteuid().is_root() {
        return memweir_test_support::skip!(Privilege, "only root can give up its permissions");
    }
    assert!(run_role(&["as-nobody"]));
}

fn a_delegated_group_is_used() {
    let root = nix::unistd::geteuid().is_root();
    if !root || !blocker::probe(Mechanism::CgroupV2).available {
        return memweir_test_support::skip!(
            Privilege,
            "only root can delegate a group, and only where there are groups"
        );
    }
    assert!(run_role(&["delegated"]));
}

fn become_nobody() {
    nix::unistd::setgid(NOBODY.into()).unwrap();
    nix::unistd::setuid(NOBODY.into()).unwrap();
    // Changing the user makes /proc/self root's, and with it /proc/self/exe unreadable.
    // SAFETY: prctl with these arguments touches no memory.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
}

fn roles(args: &[String]) -> Option<ExitCode> {
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["as-nobody"] => {
            become_nobody();
            let probe = blocker::probe(Mechanism::CgroupV2);
            assert!(!probe.available && probe.help.unwrap().contains("Delegate"));
            assert!(blocker::open(Some(Mechanism::CgroupV2), "x", &guardian_command()).is_err());
            let opened = blocker::open(None, "x", &guardian_command()).unwrap();
            assert_eq!(opened.blocker.mechanism(), Mechanism::Sigstop);
            assert_eq!(opened.notices.len(), 1);
            eprintln!("  {}", opened.notices[0]);
            assert!(opened.notices[0].contains("cgroup-v2 does not work here"));
        }
        ["limits"] => start_jobs_under_a_low_limit(),
        ["world"] => take_a_world_under_a_low_limit(),
        ["delegated"] => use_a_delegated_group(),
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

fn use_a_delegated_group() {
    // Has the effect of `systemd-run --user -p Delegate=yes`.
    let me = std::process::id().to_string();
    let top = own_group();
    let delegated = top.join(format!("delegated-{me}"));
    fs::create_dir(&delegated).unwrap();
    for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(delegated.join(file), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::write(delegated.join("cgroup.procs"), &me).unwrap();
    let counters = Counters::new();
    std::os::unix::fs::chown(counters.path(), Some(NOBODY), Some(NOBODY)).unwrap();

    // A parent that stays root cleans up.
    // SAFETY: this process has one thread.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            become_nobody();
            let opened = blocker::open(None, "x", &guardian_command()).unwrap();
            let mut blocker = opened.blocker;
            assert_eq!(blocker.mechanism(), Mechanism::CgroupV2);
            assert_eq!(opened.notices, Vec::<String>::new());
            let place = blocker.prepare(JobId(0)).unwrap();
            let at = counters.path().to_str().unwrap();
            let newborn = launch(&job(&["spin", at, "0", "1"]), &place).unwrap();
            blocker.spawned(JobId(0), newborn.pid()).unwrap();
            let process = newborn.exec().unwrap();
            counters.assert_runs(0);
            blocker.block_all().unwrap();
            counters.assert_stand(&[0]);
            end(&mut *blocker, JobId(0), process);
            drop(blocker);
            std::process::exit(0);
        }
        nix::unistd::ForkResult::Parent { child } => {
            let status = nix::sys::wait::waitpid(child, None).unwrap();
            fs::write(top.join("cgroup.procs"), &me).unwrap();
            assert!(eventually(|| fs::remove_dir(&delegated).is_ok()));
            assert_eq!(status, nix::sys::wait::WaitStatus::Exited(child, 0));
        }
    }
}
