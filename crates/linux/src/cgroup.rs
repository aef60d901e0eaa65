//! Control groups as files: their location, ownership, freezing and removal.
//!
//! Which job is blocked when is decided in [`crate::blocker`].

mod cpu;
mod locate;
pub(crate) mod names;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memweir_core::Nanos;

use crate::files::Files;
use crate::owner::Owner;

pub(crate) use cpu::{disable_cpu, enable_cpu, is_weighed, may_enable_cpu, weigh};
pub(crate) use locate::{Hierarchy, HierarchyKind, group_of, locate, unescape};

/// The two interfaces that can freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// The unified hierarchy, `cgroup.freeze`.
    V2,
    /// The freezer controller, `freezer.state`.
    V1,
}

impl Version {
    /// Returns the file that freezes and thaws a group.
    pub(crate) fn switch(self) -> &'static str {
        match self {
            Self::V2 => "cgroup.freeze",
            Self::V1 => "freezer.state",
        }
    }

    /// Returns the value that freezes a group.
    pub(crate) fn frozen(self) -> &'static str {
        match self {
            Self::V2 => "1",
            Self::V1 => "FROZEN",
        }
    }

    /// Returns the value that thaws a group.
    pub(crate) fn thawed(self) -> &'static str {
        match self {
            Self::V2 => "0",
            Self::V1 => "THAWED",
        }
    }

    /// Returns the file that shows whether a group itself, not only one above it, is set to freeze,
    /// and its content then.
    fn own_state(self) -> (&'static str, &'static str) {
        match self {
            Self::V2 => ("cgroup.freeze", "1"),
            Self::V1 => ("freezer.self_freezing", "1"),
        }
    }
}

/// Returns true if `error` means that a group or process is gone, which is never a failure here.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ESRCH))
}

/// Replaces the error that something is gone with the default value.
pub(crate) fn unless_gone<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if is_gone(&error) => Ok(T::default()),
        other => other,
    }
}

/// Thaws an owned parent and its leaves. Groups further down are the jobs' own, and a job may have
/// frozen them on purpose.
///
/// Goes through all of them even if some fail; reports the first failure.
pub(crate) fn thaw_owned(files: &dyn Files, version: Version, parent: &Path) -> io::Result<()> {
    let (state, set) = version.own_state();
    let mut result = Ok(());
    let mut groups = unless_gone(files.children(parent)).unwrap_or_default();
    groups.push(parent.to_owned());
    for group in groups {
        let is_set = files.read(&group.join(state)).map_or(true, |text| text.trim() == set);
        if is_set {
            let thawed = files.write(&group.join(version.switch()), version.thawed());
            result = result.and(unless_gone(thawed));
        }
    }
    result
}

/// Removes a group with every group below it. Fails with `EBUSY` while processes are left; groups
/// without processes are removed all the same.
pub(crate) fn remove_tree(files: &dyn Files, group: &Path) -> io::Result<()> {
    let mut result = Ok(());
    for child in unless_gone(files.children(group))? {
        result = result.and(remove_tree(files, &child));
    }
    result.and(unless_gone(files.remove_dir(group)))
}

/// Repeats [`remove_tree`] for a while where processes are just about to end.
pub(crate) fn remove_tree_patiently(files: &dyn Files, group: &Path) -> io::Result<()> {
    const TRIES: u32 = 6;
    let mut wait = Duration::from_millis(1);
    for _ in 1..TRIES {
        match remove_tree(files, group) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            other => return other,
        }
        std::thread::sleep(wait);
        wait *= 2;
    }
    remove_tree(files, group)
}

/// Returns the processes in a group and in those below it.
pub(crate) fn pids(files: &dyn Files, group: &Path) -> io::Result<Vec<i32>> {
    listed(files, group, "cgroup.procs")
}

/// Returns the threads in a group and in those below it.
pub(crate) fn threads(files: &dyn Files, version: Version, group: &Path) -> io::Result<Vec<i32>> {
    let file = match version {
        Version::V2 => "cgroup.threads",
        Version::V1 => "tasks",
    };
    listed(files, group, file)
}

/// Parses the text of `cgroup.procs` or `cgroup.threads`. Processes and threads that this pid
/// namespace cannot name, for which the kernel writes 0, are left out: signalling 0 would hit our
/// own group.
pub fn parse_ids(text: &str) -> impl Iterator<Item = i32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|id| *id > 0)
}

fn listed(files: &dyn Files, group: &Path, file: &str) -> io::Result<Vec<i32>> {
    let text = unless_gone(files.read(&group.join(file)))?;
    let mut ids: Vec<i32> = parse_ids(&text).collect();
    for child in unless_gone(files.children(group))? {
        ids.extend(listed(files, &child, file)?);
    }
    Ok(ids)
}

/// Moves every process of a group, and of those below it, to another group.
///
/// # Errors
/// If a process cannot be moved, or new ones appear faster than they can be moved.
pub(crate) fn move_all(files: &dyn Files, from: &Path, to: &Path) -> io::Result<()> {
    // A process that forks during a round leaves a child for the next one.
    const ROUNDS: u32 = 100;
    for _ in 0..ROUNDS {
        let pids = pids(files, from)?;
        if pids.is_empty() {
            return Ok(());
        }
        move_pids(files, &pids, to)?;
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Moves processes to a group; those that are gone need no move.
pub(crate) fn move_pids(files: &dyn Files, pids: &[i32], to: &Path) -> io::Result<()> {
    let procs = to.join("cgroup.procs");
    pids.iter().try_for_each(|pid| unless_gone(files.write(&procs, &pid.to_string())))
}

/// Returns true if any process is in a group or below it. Zombies do not count.
///
/// Newer kernels, such as Linux 7.3, call a group populated until its last process has left the CPU
/// for good, which can be after the end of that process was reported. Its list of processes is
/// empty by then.
pub(crate) fn populated(files: &dyn Files, version: Version, group: &Path) -> io::Result<bool> {
    if version == Version::V2 {
        let events = unless_gone(files.read(&group.join("cgroup.events")))?;
        if value_of(&events, "populated") != Some(1) {
            return Ok(false);
        }
    }
    Ok(!pids(files, group)?.is_empty())
}

/// Returns the CPU time of all processes that were ever in a v2 group.
pub(crate) fn cpu_time(files: &dyn Files, group: &Path) -> io::Result<Nanos> {
    let stat = files.read(&group.join("cpu.stat"))?;
    let micros = value_of(&stat, "usage_usec").ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "cpu.stat has no line `usage_usec`")
    })?;
    Ok(Nanos(micros.saturating_mul(1000)))
}

/// Returns the lines `key number` of a flat keyed file.
pub(crate) fn flat_keyed(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, number) = line.split_once(' ')?;
        Some((key, number.trim().parse().ok()?))
    })
}

/// Returns the number in the line of a flat keyed file that has this key.
pub(crate) fn value_of(text: &str, key: &str) -> Option<u64> {
    flat_keyed(text).find(|(name, _)| *name == key).map(|(_, number)| number)
}

/// Sends SIGKILL to every process of a group, those forked meanwhile included.
pub(crate) fn kill_all(files: &dyn Files, version: Version, group: &Path) -> io::Result<()> {
    if version == Version::V2 {
        match files.write(&group.join("cgroup.kill"), "1") {
            Ok(()) => return Ok(()),
            // Kernels before 5.14, or a group that is gone: the walk below handles both.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let mut killed = std::collections::BTreeSet::new();
    loop {
        let fresh: Vec<i32> =
            pids(files, group)?.into_iter().filter(|pid| killed.insert(*pid)).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        for pid in fresh {
            unless_gone(files.signal(pid, libc::SIGKILL))?;
        }
    }
}

/// Sends a signal to the processes that are in a group now.
pub(crate) fn signal_all(files: &dyn Files, group: &Path, signal: i32) -> io::Result<()> {
    signal_pids(files, &pids(files, group)?, signal)
}

/// Sends a signal to processes; those that are gone need none.
pub(crate) fn signal_pids(files: &dyn Files, pids: &[i32], signal: i32) -> io::Result<()> {
    let sent = pids.iter().map(|pid| unless_gone(files.signal(*pid, signal)));
    sent.fold(Ok(()), io::Result::and)
}

/// Returns the groups below `directory`, however deep, that a memweir made, with their owners. A
/// group comes after those inside it, which a memweir makes that is itself a job.
pub(crate) fn owned_groups(files: &dyn Files, directory: &Path) -> Vec<(PathBuf, Owner)> {
    let mut found = Vec::new();
    // A group that is gone, or that may not be read, shows nothing.
    for path in files.children(directory).unwrap_or_default() {
        found.extend(owned_groups(files, &path));
        found.extend(names::owner_of_group(&path).map(|owner| (path, owner)));
    }
    found
}

#[cfg(test)]
mod tests;
