//! Ownership of groups: memweir names what it makes in shared trees after itself, so that a later
//! start can recognize the leftovers of a dead one.
//!
//! Callers that make the groups choose the rest of the names and the treatment of the dead.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::blocker::processes::{self, Stat};
use crate::cgroup::is_gone;
use crate::files::{Files, KernelFiles};

/// A proc file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proc<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) root: &'a Path,
}

impl Proc<'static> {
    /// Returns the kernel's, at `/proc`.
    pub(crate) fn kernel() -> Self {
        Self { files: &KernelFiles, root: Path::new("/proc") }
    }
}

/// A memweir that made a group. Its process id is not enough, since process ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: i32,
    /// In clock ticks since boot.
    start_time: u64,
    /// Inode of its pid namespace: a container's pids mean nothing outside of it.
    pid_namespace: u64,
}

/// State of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerState {
    Alive,
    Dead,
    /// It lives, or lived, in another pid namespace, or its state cannot be read.
    Unknown,
}

impl Owner {
    /// Returns the owner that this process is, if `pid` is its own in `proc`.
    pub(crate) fn of_process(proc: Proc<'_>, pid: i32) -> io::Result<Self> {
        Ok(Self { pid, start_time: stat(proc, pid)?.start, pid_namespace: pid_namespace(proc)? })
    }

    /// Returns the owner that this process is.
    pub(crate) fn current() -> io::Result<Self> {
        Self::of_process(Proc::kernel(), std::process::id() as i32)
    }

    /// Splits a name into the owner that begins it and the part after the next hyphen; `None` for
    /// names that no memweir has given.
    pub(crate) fn of_name(name: &str) -> Option<(Self, &str)> {
        let mut fields = name.strip_prefix("memweir-")?.splitn(4, '-');
        let owner = Self {
            pid: fields.next()?.parse().ok().filter(|pid| *pid > 0)?,
            start_time: fields.next()?.parse().ok()?,
            pid_namespace: fields.next()?.parse().ok()?,
        };
        fields.next().map(|rest| (owner, rest))
    }

    /// Parses an owner as it is [displayed](fmt::Display).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::of_name(&format!("{text}-")).filter(|(_, rest)| rest.is_empty()).map(|found| found.0)
    }

    /// Returns the state of the owner. A zombie has ended.
    pub(crate) fn state(&self, proc: Proc<'_>) -> OwnerState {
        if pid_namespace(proc).ok() != Some(self.pid_namespace) {
            return OwnerState::Unknown;
        }
        match stat(proc, self.pid) {
            Ok(stat) if stat.start == self.start_time && !stat.is_over() => OwnerState::Alive,
            Ok(_) => OwnerState::Dead,
            Err(error) if is_gone(&error) => OwnerState::Dead,
            Err(_) => OwnerState::Unknown,
        }
    }
}

/// The beginning of the names that the owner gives.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memweir-{}-{}-{}", self.pid, self.start_time, self.pid_namespace)
    }
}

fn stat(proc: Proc<'_>, pid: i32) -> io::Result<Stat> {
    let path = PathBuf::from(format!("{pid}/stat"));
    processes::parse(&proc.files.read(&proc.root.join(&path))?).ok_or_else(|| odd(&path))
}

/// Parses `pid:[4026531836]`; zero under a kernel without namespaces, where all processes are of
/// one.
fn pid_namespace(proc: Proc<'_>) -> io::Result<u64> {
    let path = Path::new("self/ns/pid");
    let link = match proc.files.read_link(&proc.root.join(path)) {
        Err(error) if is_gone(&error) => return Ok(0),
        link => link?,
    };
    let number = link.to_str().and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']'));
    number.and_then(|number| number.parse().ok()).ok_or_else(|| odd(path))
}

fn odd(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("odd /proc/{}", path.display()))
}

#[cfg(test)]
mod tests;
