//! Nice values of processes that belong to others.
//!
//! With autogroups (sched(7)) a session is weighed as a whole, by a nice value of its own, as long
//! as its processes lie in the root of the cpu controller. Which of the two counts is not visible,
//! so both are changed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use crate::blocker::processes::threads;
use crate::cgroup::unless_gone;

/// Returns the nice value of the calling process.
pub(crate) fn own() -> i32 {
    of_thread(0).unwrap_or(0)
}

/// Changes every thread of `pids` whose nice value is `base` plus one of `from` to `base` plus
/// `to`, and their sessions likewise from zero. Threads with other values chose them themselves
/// and are left alone.
///
/// # Errors
/// The first failure; the other threads are changed all the same.
pub(crate) fn change(pids: &[i32], base: i32, from: &BTreeSet<i32>, to: i32) -> io::Result<()> {
    let mut result = Ok(());
    for pid in pids {
        result = result.and(change_process(*pid, base, from, to));
    }
    result
}

fn change_process(pid: i32, base: i32, from: &BTreeSet<i32>, to: i32) -> io::Result<()> {
    let mut result = Ok(());
    for thread in unless_gone(threads(pid))? {
        result = result.and(unless_gone(change_thread(thread, base, from, to)));
    }
    let session = format!("/proc/{pid}/autogroup");
    result.and(unless_gone(change_session(Path::new(&session), from, to)))
}

fn change_thread(thread: i32, base: i32, from: &BTreeSet<i32>, to: i32) -> io::Result<()> {
    let nice = of_thread(thread)?;
    let value = |raise: i32| (base + raise).clamp(-20, 19);
    if nice == value(to) || !from.iter().any(|raise| value(*raise) == nice) {
        return Ok(());
    }
    let id = libc::id_t::try_from(thread).unwrap_or_default();
    // SAFETY: setpriority touches no memory.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, id, value(to)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn of_thread(thread: i32) -> io::Result<i32> {
    // SAFETY: getpriority touches no memory. The system call, unlike the function, answers with
    // 20 minus the nice value, which no error can be mistaken for.
    match unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(20 - answer as i32),
    }
}

fn change_session(file: &Path, from: &BTreeSet<i32>, to: i32) -> io::Result<()> {
    // `/autogroup-25 nice 0`; empty where the process has none.
    let text = fs::read_to_string(file)?;
    let nice = text.trim().rsplit_once(' ').and_then(|(_, nice)| nice.parse::<i32>().ok());
    match nice {
        Some(nice) if nice != to && from.contains(&nice) => fs::write(file, to.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use super::*;

    /// A process in a session of its own.
    fn sleeper(command: &mut Command) -> Child {
        // SAFETY: setsid is async-signal-safe.
        unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(Into::into)) };
        command.spawn().unwrap()
    }

    #[test]
    fn values_that_were_given_are_changed_and_those_that_were_chosen_are_not() {
        if !nix::unistd::geteuid().is_root() {
            return memweir_test_support::skip!(Privilege, "only root can lower nice values");
        }
        let mut plain = sleeper(Command::new("sleep").arg("1000"));
        let mut chosen = sleeper(Command::new("nice").args(["-n", "7", "sleep", "1000"]));
        let (base, pids) = (own(), [plain.id() as i32, chosen.id() as i32]);
        while of_thread(pids[1]).unwrap() != base + 7 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut raises = BTreeSet::from([0]);
        let session = || fs::read_to_string(format!("/proc/{}/autogroup", pids[0]));
        for raise in [-6, -3, 0] {
            raises.insert(raise);
            change(&pids, base, &raises, raise).unwrap();
            assert_eq!(of_thread(pids[0]).unwrap(), base + raise);
            assert_eq!(of_thread(pids[1]).unwrap(), base + 7);
            if let Ok(session) = session() {
                assert!(session.trim().ends_with(&format!("nice {raise}")), "{session}");
            }
        }
        for child in [&mut plain, &mut chosen] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        change(&pids, base, &raises, -6).expect("processes that are gone are no failure");
    }
}
