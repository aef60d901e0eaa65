//! Processes that this program did not start, told apart from later ones with the same pid.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use serde::{Deserialize, Serialize};

use crate::blocker::processes;
use crate::clock;
use crate::pidfd::PidFd;

/// A process of this machine, and the boot in which it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessName {
    /// Its process id.
    pub pid: i32,
    /// Its start, in clock ticks since boot.
    start: u64,
    /// Random identifier of the boot.
    boot: String,
}

impl ProcessName {
    /// Returns the name of this process.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn of_this_process() -> io::Result<Self> {
        let pid = std::process::id() as i32;
        Ok(Self { pid, start: processes::start_time(pid)?, boot: clock::boot_id()? })
    }

    /// Returns true if the process ran in an earlier boot.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn is_of_earlier_boot(&self) -> io::Result<bool> {
        Ok(clock::boot_id()? != self.boot)
    }

    /// Opens the process; `None` if it has ended.
    ///
    /// # Errors
    /// If `/proc` cannot be read or the kernel refuses a descriptor.
    pub fn open(&self) -> io::Result<Option<ForeignProcess>> {
        if self.is_of_earlier_boot()? {
            return Ok(None);
        }
        let Some(pidfd) = PidFd::open(self.pid)? else { return Ok(None) };
        // The descriptor pins the process, so a matching start time cannot be a later one's.
        match processes::stat(self.pid) {
            Ok(stat) if stat.start == self.start && !stat.is_over() => {
                Ok(Some(ForeignProcess { pid: self.pid, pidfd }))
            }
            Ok(_) => Ok(None),
            Err(error) if crate::cgroup::is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A running process that this program did not start. Its exit code goes to its parent.
#[derive(Debug)]
pub struct ForeignProcess {
    pid: i32,
    pidfd: PidFd,
}

impl ForeignProcess {
    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

impl AsFd for ForeignProcess {
    /// Becomes readable when the process ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_is_opened_and_its_namesakes_are_not() {
        let me = ProcessName::of_this_process().unwrap();
        assert_eq!(me.open().unwrap().unwrap().pid(), me.pid);
        let earlier = ProcessName { start: me.start - 1, ..me.clone() };
        assert!(earlier.open().unwrap().is_none());
        let before_boot = ProcessName { boot: "x".into(), ..me.clone() };
        assert!(before_boot.open().unwrap().is_none());
        let absent = ProcessName { pid: i32::MAX, ..me };
        assert!(absent.open().unwrap().is_none());
    }

    #[test]
    fn a_zombie_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        let start = processes::start_time(pid).unwrap();
        let name = ProcessName { pid, start, boot: clock::boot_id().unwrap() };
        while !processes::stat(pid).unwrap().is_over() {
            std::thread::yield_now();
        }
        assert!(name.open().unwrap().is_none());
        child.wait().unwrap();
    }
}
