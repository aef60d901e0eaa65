//! Handing out turns to emulated threads, from the coordinator's side.
//!
//! The threads of all jobs wait at a gate in memory that they share with the coordinator
//! (`memweir_abi::softpmu::gate`). [`Gate::turn`] lets one thread run guest code up to a limit and
//! returns when it has come to rest: at the limit, asleep in virtual time, blocked in a system
//! call, or gone. A blocked thread may wait for another thread, which must have its turn first, so
//! blocking is recognized by the state that the kernel reports in `/proc`. At most one thread of a
//! process executes guest code at any time, and none without a turn, so the order of turns alone
//! determines the behavior of programs that depend on nothing else outside.
//!
//! `memweir-emulate` decides which thread has the next turn, and how far it runs.

mod host;
mod patience;

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use memweir_abi::kernel::stat::HostState;
use memweir_abi::softpmu::gate::{
    Blocking, Costs, GatePage, MAGIC, NATIVE, NO_LIMIT, Place, THREADS, ThreadRecord, ThreadState,
    VERSION, blocking,
};
use memweir_abi::softpmu::program::GateOption;
use memweir_core::Nanos;

use crate::blocker::processes::start_time;
use crate::softpmu::SharedFile;
use host::{Sleepers, wait, wake};
use patience::Patience;
pub use patience::{Listener, Stall};

/// Wait for a thread before the kernel is asked for its state.
const GLANCE: Duration = Duration::from_micros(150);

/// The same for a thread that is not in a system call: it computes, most of the time.
const LONG_GLANCE: Duration = Duration::from_millis(2);

/// Consecutive glances at which every thread of a process waits, with the thread that has the turn
/// in no system call that may block, after which that thread is taken to wait for its siblings.
const STUCK: u32 = 3;

/// Time within which a new thread must come to the gate.
const BIRTH: Duration = Duration::from_secs(10);

/// The gate of one emulation. When it is dropped, all threads run on freely.
#[derive(Debug)]
pub struct Gate {
    file: SharedFile,
    seed: u64,
    sleepers: Sleepers,
    patience: Patience,
}

/// A thread by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Its place among all births: threads are ordered by age.
    pub birth: u64,
    number: u32,
}

impl ThreadId {
    /// Returns the thread of the `birth`-th birth, with this record.
    #[must_use]
    pub fn new(birth: u64, number: u32) -> Self {
        Self { birth, number }
    }
}

/// State of a thread that does not have the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It can run.
    Ready,
    /// It sleeps until this virtual time.
    AsleepUntil(Nanos),
    /// It waits in a system call.
    Blocked,
    /// It has ended.
    Gone,
}

/// A thread as the coordinator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadView {
    /// Its id.
    pub thread: ThreadId,
    /// Its job, by its place in the batch.
    pub job: u32,
    /// Its process.
    pub pid: u32,
    /// The slot of its process among the job's counters.
    pub slot: usize,
}

/// Progress of a thread, in femtoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Total.
    pub used: u64,
    /// Part of it spent waiting for memory.
    pub stalled: u64,
}

impl Gate {
    /// Makes a gate for threads whose events have these costs. `seed` determines the random values
    /// that programs get; their clocks begin at `epoch`, counted from 1970.
    ///
    /// # Errors
    /// If the kernel gives no memory for it, or does not report when this process started.
    pub fn new(costs: Costs, seed: u64, epoch: Nanos) -> io::Result<Self> {
        let file = SharedFile::new("memweir-gate", size_of::<GatePage>())?;
        let gate = Self { file, seed, sleepers: Sleepers::find(), patience: Patience::default() };
        let header = &gate.page().header;
        let pid = std::process::id();
        let start = start_time(pid as i32)?;
        header.owner.store(pid, Relaxed);
        header.owner_start.store(start, Relaxed);
        header.tells_sleep.store(u32::from(gate.sleepers == Sleepers::ByPlace), Relaxed);
        header.epoch.store(epoch.0, Relaxed);
        header.seed.store(seed, Relaxed);
        header.set_costs(costs);
        header.magic.store(MAGIC, Relaxed);
        header.version.store(VERSION, Relaxed);
        Ok(gate)
    }

    /// Adds a listener, which is called once, for a thread for which the gate waits in vain.
    #[must_use]
    pub fn telling(mut self, listener: Listener) -> Self {
        self.patience.listener = Some(listener);
        self
    }

    /// Returns the option by which the programs of a job find this gate.
    #[must_use]
    pub fn option(&self, job: u32) -> GateOption {
        let path = self.file.path().into_os_string().into_encoded_bytes();
        GateOption { path, job, seed: self.seed }
    }

    fn page(&self) -> &GatePage {
        // SAFETY: the mapping is page-aligned, exactly as large as a `GatePage`, cannot shrink
        // (sealed), and lives as long as `self`. A `GatePage` is atomics only, so that any content
        // is valid and other processes may write it.
        unsafe { &*self.file.as_ptr().cast::<GatePage>() }
    }

    fn record(&self, thread: ThreadId) -> Option<&ThreadRecord> {
        let record = &self.page().threads[thread.number as usize % THREADS];
        let same = record.birth.load(Relaxed) == thread.birth;
        (same && record.state() != ThreadState::Free).then_some(record)
    }

    /// Sets the virtual time that programs see.
    pub fn set_time(&self, now: Nanos) {
        self.page().header.now.store(now.0, Relaxed);
    }

    /// Returns the number of threads that run freely because there were too many.
    #[must_use]
    pub fn unruled(&self) -> u64 {
        self.page().header.unruled.load(Relaxed)
    }

    /// Returns every thread whose record is in use, the oldest first.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadView> {
        let view = |(number, record): (usize, &ThreadRecord)| {
            (record.state() != ThreadState::Free).then(|| ThreadView {
                thread: ThreadId { birth: record.birth.load(Relaxed), number: number as u32 },
                job: record.job.load(Relaxed),
                pid: record.pid.load(Relaxed),
                slot: record.slot.load(Relaxed) as usize,
            })
        };
        let mut threads: Vec<ThreadView> =
            self.page().used().iter().enumerate().filter_map(view).collect();
        threads.sort_by_key(|view| view.thread);
        threads
    }

    /// Returns the progress of a thread so far; for a thread that is gone, its final progress until
    /// another thread takes its record.
    #[must_use]
    pub fn spent(&self, thread: ThreadId) -> Spent {
        let record = &self.page().threads[thread.number as usize % THREADS];
        if record.birth.load(Relaxed) != thread.birth {
            return Spent::default();
        }
        Spent { used: record.used.load(Relaxed), stalled: record.stalled.load(Relaxed) }
    }

    /// Works like [`standing`](Self::standing), but takes a thread that was found blocked to be
    /// blocked still: it comes to the gate by itself.
    pub fn standing_at_a_glance(&self, thread: ThreadId) -> Standing {
        match self.record(thread).map(ThreadRecord::state) {
            Some(ThreadState::Blocked) => Standing::Blocked,
            _ => self.standing(thread),
        }
    }

    /// Returns the state of a thread without the turn. Waits for a thread that is about to come to
    /// the gate: just born, or on its way out of a system call.
    pub fn standing(&self, thread: ThreadId) -> Standing {
        let Some(record) = self.record(thread) else { return Standing::Gone };
        let began = Instant::now();
        let mut idle_since = began;
        loop {
            let word = record.state.load(Acquire);
            match ThreadState::of(word) {
                ThreadState::Free => return Standing::Gone,
                ThreadState::Waiting => return Standing::Ready,
                ThreadState::Asleep => {
                    return Standing::AsleepUntil(Nanos(record.wake.load(Relaxed)));
                }
                state => {
                    let host = self.host_of(record);
                    // The host state of a thread that has reached the gate by now means nothing.
                    if record.state.load(Acquire) != word {
                        continue;
                    }
                    if host == HostState::Gone && (state != ThreadState::Born || is_known(record)) {
                        record.state.store(ThreadState::Free as u32, Relaxed);
                        return Standing::Gone;
                    }
                    let waits = matches!(host, HostState::Waiting | HostState::Stopped);
                    let native = record.call.load(Relaxed) == NATIVE;
                    if state == ThreadState::Blocked && (waits || native) {
                        return Standing::Blocked;
                    }
                    if state == ThreadState::Born && began.elapsed() > BIRTH {
                        record.state.store(ThreadState::Free as u32, Relaxed);
                        return Standing::Gone;
                    }
                    match host {
                        HostState::Busy => idle_since = Instant::now(),
                        _ => self.patience.wait_for(record, &mut idle_since),
                    }
                    wait(&record.state, word, GLANCE);
                }
            }
        }
    }

    /// Lets a thread run until its progress reaches `limit`, and waits until it has come to rest.
    /// Only for a thread that is [`Standing::Ready`], or asleep until a time that has come.
    pub fn turn(&self, thread: ThreadId, limit: u64, caches: CoreCaches) -> Standing {
        let Some(record) = self.record(thread) else { return Standing::Gone };
        record.limit.store(limit, Relaxed);
        record.flush.store(u32::from(caches == CoreCaches::Others), Relaxed);
        let called = [ThreadState::Waiting, ThreadState::Asleep]
            .into_iter()
            .any(|state| record.change(state, ThreadState::Running));
        if called {
            wake(&record.state);
            self.attend(record);
        }
        self.settle(record.job.load(Relaxed));
        self.standing(thread)
    }

    /// Waits until every thread of a job whose system call has ended is at the gate: the result of
    /// a call must not depend on later actions of other threads.
    fn settle(&self, job: u32) {
        for record in self.page().used() {
            let of_job = record.job.load(Relaxed) == job;
            while of_job
                && record.state() == ThreadState::Blocked
                && record.call.load(Relaxed) != NATIVE
            {
                match self.host_of(record) {
                    HostState::Busy => wait(&record.state, ThreadState::Blocked as u32, GLANCE),
                    HostState::Gone => record.change(ThreadState::Blocked, ThreadState::Free),
                    HostState::Waiting | HostState::Stopped => break,
                };
            }
        }
    }

    /// Waits until the thread that has the turn gives it back or is found not to need it.
    fn attend(&self, record: &ThreadRecord) {
        let mut stuck = 0;
        let mut idle_since = Instant::now();
        loop {
            let word = record.state.load(Acquire);
            let state = ThreadState::of(word);
            let glance = match state {
                ThreadState::Running => LONG_GLANCE,
                ThreadState::InCall | ThreadState::Leaving | ThreadState::Settling => GLANCE,
                _ => return,
            };
            // A thread in a call changes its state without waking the coordinator.
            let likely = state == ThreadState::InCall
                && blocking(record.call.load(Relaxed)) == Blocking::Likely;
            if !likely && !wait(&record.state, word, glance) {
                (stuck, idle_since) = (0, Instant::now());
                continue;
            }
            let calls = state == ThreadState::InCall
                && blocking(record.call.load(Relaxed)) != Blocking::Never;
            // A change that does not succeed means that the thread has moved on.
            match self.host_of(record) {
                HostState::Busy => (stuck, idle_since) = (0, Instant::now()),
                HostState::Gone => _ = record.change_word(word, ThreadState::Free),
                HostState::Stopped => _ = record.change_word(word, ThreadState::Blocked),
                HostState::Waiting if calls => _ = record.change_word(word, ThreadState::Blocked),
                HostState::Waiting if self.is_stuck(record, state) => stuck += 1,
                HostState::Waiting => stuck = 0,
            }
            self.patience.wait_for(record, &mut idle_since);
            if stuck >= STUCK {
                stuck = 0;
                self.nudge_siblings(record);
            }
        }
    }

    /// Returns true if a thread that sleeps with the turn seems to sleep until others move: nothing
    /// in its process computes, nor, if it waits for other threads of its job, do their processes.
    fn is_stuck(&self, record: &ThreadRecord, state: ThreadState) -> bool {
        let job = record.job.load(Relaxed);
        let comes = |other: &ThreadRecord| {
            let ruled = other.call.load(Relaxed) != NATIVE && other.state() != ThreadState::Free;
            // The child of a fork has no number before it is there.
            ruled
                && other.job.load(Relaxed) == job
                && match other.pid.load(Relaxed) {
                    0 => true,
                    pid => !self.sleepers.is_quiet(pid),
                }
        };
        match state {
            ThreadState::Settling => !self.page().used().iter().any(comes),
            _ => self.sleepers.is_quiet(record.pid.load(Relaxed)),
        }
    }

    /// Lets the sibling threads that stand inside translated code move on, because the emulator
    /// takes them for running and waits for them.
    fn nudge_siblings(&self, record: &ThreadRecord) {
        let pid = record.pid.load(Relaxed);
        for other in self.page().used() {
            let sibling = other.pid.load(Relaxed) == pid && !std::ptr::eq(other, record);
            if sibling
                && other.place.load(Relaxed) == Place::Code as u32
                && other.change(ThreadState::Waiting, ThreadState::Nudged)
            {
                wake(&other.state);
            }
        }
        wait(&record.state, record.state.load(Relaxed), GLANCE);
    }

    fn host_of(&self, record: &ThreadRecord) -> HostState {
        match (record.pid.load(Acquire), record.tid.load(Acquire)) {
            (0, _) | (_, 0) => HostState::Busy,
            (pid, tid) => self.sleepers.state(pid, tid),
        }
    }

    /// Lets every thread run freely from now on, including those born later.
    pub fn abandon(&self) {
        let page = self.page();
        page.header.abandoned.store(1, Relaxed);
        for record in page.used() {
            record.limit.store(NO_LIMIT, Relaxed);
            for state in [ThreadState::Waiting, ThreadState::Nudged, ThreadState::Asleep] {
                record.change(state, ThreadState::Running);
            }
            wake(&record.state);
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Owner of the data in a core's private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreCaches {
    /// The thread that has the next turn there.
    Own,
    /// Another thread.
    Others,
}

/// Returns true if the host thread that has the record is known.
fn is_known(record: &ThreadRecord) -> bool {
    record.tid.load(Acquire) != 0
}

#[cfg(test)]
mod tests;
