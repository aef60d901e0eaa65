//! A running job's first process, seen by its parent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use memweir_core::Nanos;

use crate::files::{Files, KernelFiles};

/// A process that memweir has started. Dropping it neither ends nor reaps it.
#[derive(Debug)]
pub struct Process {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    exit: Option<Exit>,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It called exit with this code, 0 to 255.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// The end of a process and its resource usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code or the signal.
    pub ending: Ending,
    /// CPU time of the process and of the children that it has waited for, user and system.
    pub cpu_time: Nanos,
}

impl Exit {
    /// Returns the code as a shell reports it: 128 plus the signal for a process ended by one.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self.ending {
            Ending::Code(code) => code,
            Ending::Signal(signal) => 128 + signal,
        }
    }

    /// Returns true if it called exit with code zero.
    #[must_use]
    pub fn success(&self) -> bool {
        self.ending == Ending::Code(0)
    }
}

impl Process {
    pub(super) fn new(pid: libc::pid_t, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd, exit: None }
    }

    /// Returns its process id, which is also its session's.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns its end, or `None` while it runs. Reaps it the first time and remembers the result.
    ///
    /// # Errors
    ///
    /// ECHILD if it has been reaped elsewhere.
    pub fn try_wait(&mut self) -> io::Result<Option<Exit>> {
        self.reap(libc::WNOHANG)
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// ECHILD if it has been reaped elsewhere.
    pub fn wait(&mut self) -> io::Result<Exit> {
        loop {
            if let Some(exit) = self.reap(0)? {
                return Ok(exit);
            }
        }
    }

    /// Sends a signal to this process alone; does nothing once it is reaped.
    ///
    /// # Errors
    ///
    /// EPERM for a process that has changed its user.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        if self.exit.is_some() {
            return Ok(());
        }
        // `pid` is our child and not reaped, so the number cannot have been given to another
        // process.
        KernelFiles.signal(self.pid, signal)
    }

    /// Kills the processes of its group, which it leads, and reaps it.
    pub fn kill_group(&mut self) {
        if self.exit.is_none() {
            // SAFETY: the group's leader is our child and not reaped, so the number is still its.
            unsafe { libc::kill(-self.pid, libc::SIGKILL) };
            let _ = self.wait();
        }
    }

    fn reap(&mut self, options: i32) -> io::Result<Option<Exit>> {
        if self.exit.is_some() {
            return Ok(self.exit);
        }
        let mut status = 0;
        // SAFETY: rusage is plain integers, for which all zeroes is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live locals of the types that wait4() writes.
        match unsafe { libc::wait4(self.pid, &raw mut status, options, &raw mut usage) } {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                let interrupted = error.kind() == io::ErrorKind::Interrupted;
                return if interrupted { Ok(None) } else { Err(error) };
            }
            _ => {}
        }
        let ending = if libc::WIFEXITED(status) {
            Ending::Code(libc::WEXITSTATUS(status))
        } else {
            Ending::Signal(libc::WTERMSIG(status))
        };
        let nanos =
            |t: libc::timeval| Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000);
        self.exit = Some(Exit { ending, cpu_time: nanos(usage.ru_utime) + nanos(usage.ru_stime) });
        Ok(self.exit)
    }
}

impl AsFd for Process {
    /// Becomes readable when the process ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
