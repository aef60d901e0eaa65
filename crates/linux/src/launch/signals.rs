//! Waiting for programs and for signals to memweir at once.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use memweir_core::{JobId, Nanos};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{Exit, Process};
use crate::blocker::{self, Mechanism};
use crate::guardian;
use crate::signals::{BlockedSignals, end_signals};
use crate::suspension::{self, Suspension};

/// The [`end_signals`], blocked while this lives so that they can be waited for. Any number of
/// threads wait with the same one, each for a program of its own: a signal concerns all of them.
#[derive(Debug)]
pub struct Signals {
    source: SignalFd,
    caught: OnceLock<Signal>,
    _blocked: BlockedSignals,
    suspension: Option<(Suspension, guardian::Command)>,
    programs: Mutex<Programs>,
}

/// Result of a wait for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The program runs.
    Runs,
    /// It has ended.
    Ended(Exit),
    /// This signal asked memweir to end; the program is killed.
    Killed(Signal),
}

/// The programs that are waited for.
#[derive(Debug, Default)]
struct Programs {
    /// Their first processes, which are not reaped.
    running: BTreeSet<i32>,
    /// Time for which they were suspended.
    suspended: Nanos,
}

impl Signals {
    /// Blocks the signals in this thread. The others must have blocked them already.
    ///
    /// # Errors
    /// If the kernel has no descriptor left for them.
    pub fn caught() -> io::Result<Self> {
        let mask = end_signals();
        let source = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let blocked = BlockedSignals::new(&mask)?;
        let (caught, programs) = (OnceLock::new(), Mutex::default());
        Ok(Self { source, caught, _blocked: blocked, suspension: None, programs })
    }

    /// Lets Ctrl-Z (SIGTSTP) stop the programs, too, until memweir is continued; should memweir be
    /// killed meanwhile, the guardian continues them.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor or the action.
    pub fn suspendable(mut self, guardian: guardian::Command) -> io::Result<Self> {
        self.suspension = Suspension::awaited()?.map(|suspension| (suspension, guardian));
        Ok(self)
    }

    /// Waits for a signal, for the end of the process, or for `limit`.
    ///
    /// # Errors
    /// If the kernel cannot wait for the descriptors, or the programs cannot be stopped.
    pub fn wait(&self, process: &mut Process, limit: Nanos) -> io::Result<Waited> {
        self.programs().running.insert(process.pid());
        let mut files = vec![
            PollFd::new(process.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.source.as_fd(), PollFlags::POLLIN),
        ];
        let suspension = self.suspension.as_ref();
        files.extend(suspension.map(|(asked, _)| PollFd::new(asked.as_fd(), PollFlags::POLLIN)));
        let milliseconds = u16::try_from(limit.0.div_ceil(1_000_000)).unwrap_or(u16::MAX);
        match poll(&mut files, PollTimeout::from(milliseconds)) {
            Err(nix::Error::EINTR) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        drop(files);
        let info = self.source.read_signal()?;
        if let Some(signal) = info.and_then(|i| Signal::try_from(i.ssi_signo.cast_signed()).ok()) {
            let _ = self.caught.set(signal);
        }
        let mut programs = self.programs();
        if let Some((asked, guardian)) = suspension
            && asked.take()?
        {
            programs.suspend(guardian)?;
        }
        let waited = if let Some(signal) = self.caught.get() {
            process.kill_group();
            Waited::Killed(*signal)
        } else if let Some(exit) = process.try_wait()? {
            Waited::Ended(exit)
        } else {
            return Ok(Waited::Runs);
        };
        programs.running.remove(&process.pid());
        Ok(waited)
    }

    /// Returns the time for which Ctrl-Z has stopped the programs so far.
    #[must_use]
    pub fn suspended(&self) -> Nanos {
        self.programs().suspended
    }

    fn programs(&self) -> MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Programs {
    /// Stops them and this process until somebody continues it.
    fn suspend(&mut self, guardian: &guardian::Command) -> io::Result<()> {
        let opened = blocker::open(Some(Mechanism::Sigstop), "suspended", guardian);
        let mut blocker = opened.map_err(io::Error::other)?.blocker;
        for (job, first) in (0..).map(JobId).zip(&self.running) {
            blocker.adopt(job, *first).map_err(io::Error::other)?;
        }
        blocker.block_all().map_err(io::Error::other)?;
        self.suspended += suspension::stop();
        blocker.run_all().map_err(io::Error::other)
    }
}
