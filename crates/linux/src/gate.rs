//! Handing out turns to emulated threads, from the coordinator's side.
//!
//! The threads of all jobs wait at a gate in memory that they share with the coordinator
//! (`memweir_core::softpmu::gate`). [`Gate::turn`] lets one thread run guest code up to a limit and
//! returns when it has come to rest: at the limit, asleep in virtual time, blocked in a system
//! call, or gone. What a thread that blocks waits for may come from another thread, which must
//! have its turn first, so blocking is recognized by the kernel's own word for it in `/proc`. At
//! most one thread of a process executes guest code at any time, and none without a turn; so the
//! order of turns alone decides what programs do that depend on nothing else outside.
//!
//! Which thread has the next turn, and how far, is decided in `memweir-emulate`.

mod host;
mod patience;

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use memweir_core::Nanos;
use memweir_core::softpmu::gate::{
    Blocking, Costs, GatePage, HostState, MAGIC, NATIVE, NO_LIMIT, Place, THREADS, ThreadRecord,
    ThreadState, VERSION, blocking,
};
use memweir_core::softpmu::program::GateOption;

use crate::blocker::processes::start_time;
use crate::softpmu::SharedFile;
use host::{Sleepers, wait, wake};
use patience::Patience;
pub use patience::{Listener, Stall};

/// How long a thread is waited for before the kernel is asked what it does.
const GLANCE: Duration = Duration::from_micros(150);

/// The same for a thread that is not in a system call: it computes, most of the time.
const LONG_GLANCE: Duration = Duration::from_millis(2);

/// Glances in a row at which every thread of a process waits, the one with the turn not in a system
/// call that waits for others, after which it is taken to wait for its siblings.
const STUCK: u32 = 3;

/// A thread that was born must come to the gate within this time.
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
    /// The thread of the `birth`-th birth, with this record.
    #[must_use]
    pub fn new(birth: u64, number: u32) -> Self {
        Self { birth, number }
    }
}

/// How a thread stands that does not have the turn.
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
    /// Which it is.
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
    /// In all.
    pub used: u64,
    /// Of that, waiting for memory.
    pub stalled: u64,
}

impl Gate {
    /// A gate for threads whose events cost so much. Whatever programs get by chance follows from
    /// `seed`; their clocks begin at `epoch`, counted from 1970.
    ///
    /// # Errors
    /// If the kernel gives no memory for it, or does not say when this process started.
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

    /// The same, telling once of a thread for which it waits in vain.
    #[must_use]
    pub fn telling(mut self, listener: Listener) -> Self {
        self.patience.listener = Some(listener);
        self
    }

    /// How the programs of a job find this gate.
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

    /// Sets the virtual time that programs are told.
    pub fn set_time(&self, now: Nanos) {
        self.page().header.now.store(now.0, Relaxed);
    }

    /// Threads that run freely because there were too many.
    #[must_use]
    pub fn unruled(&self) -> u64 {
        self.page().header.unruled.load(Relaxed)
    }

    /// Every thread that lives or is not buried yet, the oldest first.
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

    /// Progress of a thread so far; what one that is gone had made, until another takes its record.
    #[must_use]
    pub fn spent(&self, thread: ThreadId) -> Spent {
        let record = &self.page().threads[thread.number as usize % THREADS];
        if record.birth.load(Relaxed) != thread.birth {
            return Spent::default();
        }
        Spent { used: record.used.load(Relaxed), stalled: record.stalled.load(Relaxed) }
    }

    /// As [`standing`](Self::standing), taking the word of a thread that was found blocked: it
    /// comes to the gate by itself.
    pub fn standing_at_a_glance(&self, thread: ThreadId) -> Standing {
        match self.record(thread).map(ThreadRecord::state) {
            Some(ThreadState::Blocked) => Standing::Blocked,
            _ => self.standing(thread),
        }
    }

    /// How a thread without the turn stands. Waits for one that is about to come to the gate: just
    /// born, or on its way out of a system call.
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
                    // What the kernel says of a thread that is at the gate by now means nothing.
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

    /// Waits until every thread of a job for which its system call's end has come is at the gate:
    /// what a call returns must not depend on what others do after that.
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

    /// Waits until a thread that has the turn gives it back or is found not to need it.
    fn attend(&self, record: &ThreadRecord) {
        let mut stuck = 0;
        let mut idle_since = Instant::now();
        loop {
            let word = record.state.load(Acquire);
            let state = ThreadState::of(word);
            let glance = match state {
                ThreadState::Running => LONG_GLANCE,
                ThreadState::InCall | ThreadState::Leaving => GLANCE,
                _ => return,
            };
            // A thread in a call changes its state without waking anybody.
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
                HostState::Waiting if self.sleepers.is_quiet(record.pid.load(Relaxed)) => {
                    stuck += 1
                }
                HostState::Waiting => stuck = 0,
            }
            self.patience.wait_for(record, &mut idle_since);
            if stuck >= STUCK {
                stuck = 0;
                self.nudge_siblings(record);
            }
        }
    }

    /// Lets the threads of the same process move on that stand inside of translated code, because
    /// the emulator takes them for running and waits for them.
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

    /// From now on every thread runs freely, those that will be born too.
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

/// Whose data are in the private caches of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreCaches {
    /// Those of the thread that has the next turn there.
    Own,
    /// Those of another thread.
    Others,
}

/// Whether it is known which thread of the host has the record.
fn is_known(record: &ThreadRecord) -> bool {
    record.tid.load(Acquire) != 0
}
