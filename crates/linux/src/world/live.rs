//! The real [`World`]: timerfd, signalfd and one pidfd per job behind one epoll, in one thread.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use memweir_core::{JobId, Nanos};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::{Occurrence, World};
use crate::blocker::SpawnTarget;
use crate::foreign::ForeignProcess;
use crate::launch::{Launch, LaunchError, Newborn, Process, launch, limits};
use crate::signals::{BlockedSignals, end_signals};
use crate::suspension::{self, Suspension};
use crate::waker::Waker;
use crate::{affinity, clock};

/// Epoll data of the timer, the signals, the waker and the suspension; smaller numbers are jobs.
const TIMER: u64 = u64::MAX;
const SIGNALS: u64 = u64::MAX - 1;
const WAKER: u64 = u64::MAX - 2;
const SUSPENSION: u64 = u64::MAX - 3;

/// Events taken from the kernel at once.
const BATCH: usize = 64;

/// Time, processes and signals of this machine.
///
/// While it lives, SIGINT, SIGTERM and SIGHUP are blocked in the thread that made it.
#[derive(Debug)]
pub struct Live {
    epoll: Epoll,
    timer: TimerFd,
    signals: SignalFd,
    _blocked: BlockedSignals,
    /// True once a signal has told the batch to end.
    stopped: bool,
    newborns: HashMap<JobId, Newborn>,
    processes: HashMap<JobId, First>,
    waker: Option<Waker>,
    suspension: Option<Suspension>,
    /// Time for which this process was suspended.
    suspended: Nanos,
}

/// The first process of a job.
#[derive(Debug)]
enum First {
    Child(Process),
    Adopted(ForeignProcess),
}

impl First {
    fn pid(&self) -> i32 {
        match self {
            Self::Child(process) => process.pid(),
            Self::Adopted(process) => process.pid(),
        }
    }
}

impl AsFd for First {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Child(process) => process.as_fd(),
            Self::Adopted(process) => process.as_fd(),
        }
    }
}

impl Live {
    /// Takes the signals of the calling thread, and raises this process's limit of open files, of
    /// which each job needs some.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor or the signal mask.
    pub fn new() -> io::Result<Self> {
        limits::raise_open_files();
        let mask = end_signals();
        let blocked = BlockedSignals::new(&mask)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        epoll.add(&signals, EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS))?;
        Ok(Self {
            epoll,
            timer,
            signals,
            _blocked: blocked,
            stopped: false,
            newborns: HashMap::new(),
            processes: HashMap::new(),
            waker: None,
            suspension: None,
            suspended: Nanos::ZERO,
        })
    }

    /// Reports SIGTSTP as [`Occurrence::Suspend`], unless this process ignores it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn suspendable(mut self) -> io::Result<Self> {
        self.suspension = Suspension::awaited()?;
        if let Some(suspension) = &self.suspension {
            self.epoll.add(suspension, EpollEvent::new(EpollFlags::EPOLLIN, SUSPENSION))?;
        }
        Ok(self)
    }

    /// Returns a handle by which other threads end a wait.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor.
    pub fn waker(&mut self) -> io::Result<Waker> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        let waker = Waker::new()?;
        self.epoll.add(&waker, EpollEvent::new(EpollFlags::EPOLLIN, WAKER))?;
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Watches the first process of a job.
    fn watch(&self, job: JobId, first: impl AsFd) -> nix::Result<()> {
        self.epoll.add(first, EpollEvent::new(EpollFlags::EPOLLIN, u64::from(job.0)))
    }

    /// Returns the occurrence behind the readable descriptor `mark`; `None` for the timer or a
    /// false alarm.
    fn occurrence(&mut self, mark: u64) -> io::Result<Option<Occurrence>> {
        match mark {
            TIMER => Ok(None),
            SIGNALS => {
                let signal = self.signals.read_signal()?;
                self.stopped |= signal.is_some();
                Ok(signal.map(|_| Occurrence::Stop))
            }
            WAKER => {
                let woken = self.waker.as_ref().map_or(Ok(false), Waker::reset)?;
                Ok(woken.then_some(Occurrence::Woken))
            }
            SUSPENSION => {
                let asked = self.suspension.as_ref().map_or(Ok(false), Suspension::take)?;
                Ok(asked.then_some(Occurrence::Suspend))
            }
            mark => {
                let job = JobId(u32::try_from(mark).unwrap_or(u32::MAX));
                let occurrence = match self.processes.get_mut(&job) {
                    Some(First::Child(process)) => match process.try_wait()? {
                        Some(exit) => {
                            let cpu_time = Some(exit.cpu_time);
                            Occurrence::Exited { job, code: exit.code(), cpu_time }
                        }
                        None => return Ok(None),
                    },
                    Some(First::Adopted(_)) => Occurrence::Vanished(job),
                    None => return Ok(None),
                };
                self.forget(job);
                Ok(Some(occurrence))
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Once a signal has stopped the batch, further ones have been obeyed too, and are consumed.
        // Otherwise a signal that came after the end of the last job stays pending for the caller.
        while self.stopped && matches!(self.signals.read_signal(), Ok(Some(_))) {}
    }
}

impl World for Live {
    fn now(&self) -> Nanos {
        clock::monotonic() - self.suspended
    }

    fn suspend(&mut self) {
        self.suspended += suspension::stop();
    }

    fn wait(&mut self, until: Nanos) -> io::Result<Vec<Occurrence>> {
        // A zero expiration would disarm the timer.
        let at = Nanos(until.0.saturating_add(self.suspended.0)).max(Nanos(1));
        let at = TimeSpec::from_duration(at.into());
        self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        loop {
            let mut events = [EpollEvent::empty(); BATCH];
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                // Stopping and continuing memweir itself interrupts the wait.
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            let mut occurrences = Vec::new();
            for event in &events[..ready] {
                occurrences.extend(self.occurrence(event.data())?);
            }
            if !occurrences.is_empty() || self.now() >= until {
                return Ok(occurrences);
            }
        }
    }

    fn spawn(
        &mut self,
        job: JobId,
        command: &Launch,
        target: &SpawnTarget,
    ) -> Result<i32, LaunchError> {
        let newborn = launch(command, target)?;
        let pid = newborn.pid();
        self.newborns.insert(job, newborn);
        Ok(pid)
    }

    fn exec(&mut self, job: JobId) -> Result<(), LaunchError> {
        let Some(newborn) = self.newborns.remove(&job) else { return Ok(()) };
        // Before it runs: nobody would see its end, and the job would be started again.
        self.watch(job, &newborn)
            .map_err(|error| LaunchError::new("watching the new process", error.into()))?;
        self.processes.insert(job, First::Child(newborn.exec()?));
        Ok(())
    }

    fn adopt(&mut self, job: JobId, process: ForeignProcess) -> io::Result<()> {
        self.watch(job, &process)?;
        self.processes.insert(job, First::Adopted(process));
        Ok(())
    }

    fn bind(&mut self, job: JobId, cpus: &[usize]) -> io::Result<()> {
        match self.processes.get(&job) {
            Some(process) => affinity::bind_all(process.pid(), cpus),
            None => Ok(()),
        }
    }

    fn forget(&mut self, job: JobId) {
        self.newborns.remove(&job);
        if let Some(process) = self.processes.remove(&job) {
            let _ = self.epoll.delete(process.as_fd());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocker::processes;

    #[test]
    fn a_process_that_cannot_be_watched_ends_before_it_runs() {
        let command = Launch::silent("/bin/true".into(), vec!["true".into()]).unwrap();
        let (mut world, job) = (Live::new().unwrap(), JobId(0));
        let pid = world.spawn(job, &command, &SpawnTarget::Session).unwrap();
        // The kernel refuses to watch a descriptor twice.
        world.watch(job, &world.newborns[&job]).unwrap();
        let error = world.exec(job).unwrap_err();
        assert!(error.to_string().starts_with("watching the new process"), "{error}");
        assert!(processes::stat(pid).is_err(), "it was killed and reaped");
    }
}
