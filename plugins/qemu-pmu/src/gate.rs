//! Virtual time: a thread of the program runs only while the coordinator of an emulation gives it
//! the turn (`memweir_abi::softpmu::gate`).
//!
//! A thread parks in one of two places: in a callback of translated code when it has used up its
//! turn, or in the callback at the end of a system call in which it has lost its turn. In the
//! second place the emulator does not count it as running. In the first it does, so that another
//! thread which needs the process for itself (a fork, the end of the process) waits for it. The
//! coordinator notices that and *nudges* the parked thread, which then runs to the point where the
//! emulator stops it.
//!
//! If the coordinator dies, parked threads notice within [`WATCH`], and everything runs freely.

mod host;
pub(crate) mod time;

use std::ffi::CStr;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use memweir_abi::kernel::stat::HostState;
use memweir_abi::softpmu::gate::{
    Blocking, Costs, FEMTOS_PER_NANO, GateHeader, GatePage, MAGIC, NATIVE, NO_LIMIT, Place,
    ThreadRecord, ThreadState, VERSION, blocking, wakes_others,
};

use crate::gate::host::{Woken, host_state, own_numbers, start_of, wait, wake};
use crate::mapping::map;
use crate::model::vcpu::Events;

/// Interval at which a parked thread checks that the coordinator lives.
const WATCH: Duration = Duration::from_secs(1);

/// Interval at which a thread checks that a new thread for which it waits lives.
const BIRTH_WATCH: Duration = Duration::from_millis(20);

/// Interval at which a thread that is about to reach the gate is checked.
const SETTLING: Duration = Duration::from_micros(100);

/// Marks the absence of a thread.
const NOBODY: usize = usize::MAX;

/// The gate of this process.
pub(crate) struct Gate {
    page: &'static GatePage,
    job: u32,
    costs: Costs,
    /// Progress in nanoseconds of the threads of this process that have ended.
    ended: AtomicU64,
    /// The record of the process or thread that is being created: by one thread at a time, the one
    /// that has the turn.
    newborn: AtomicUsize,
    /// Deadlines of waits of this process that are on the clocks of the host.
    deadlines: Mutex<Vec<time::Moved>>,
}

/// State of a vCPU's turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Absent without virtual time, or if no record was free.
    record: Option<&'static ThreadRecord>,
    /// Progress at the start of the turn.
    start: u64,
    /// System calls so far, and the current one.
    calls: u32,
    call: time::Call,
    /// The sleep that is to go on.
    interrupted: Option<time::Interrupted>,
}

impl Turn {
    /// Returns the turn for each entry of a table, of which one is in use.
    pub(crate) fn in_child(&self) -> Self {
        Self { record: self.record, ..Self::default() }
    }
}

impl Gate {
    /// Opens the page of the gate.
    pub(crate) fn open(path: &CStr, job: u32) -> io::Result<Self> {
        let (page, _) = map(path, size_of::<GatePage>())?;
        // SAFETY: the mapping is page-aligned, as large as a `GatePage`, never unmapped, and any
        // bytes are a valid `GatePage`.
        let page: &'static GatePage = unsafe { &*page.cast() };
        let header = &page.header;
        if header.magic.load(Relaxed) != MAGIC || header.version.load(Relaxed) != VERSION {
            return Err(io::Error::other("gate of another version of memweir"));
        }
        let (ended, newborn) = (AtomicU64::new(0), AtomicUsize::new(NOBODY));
        let (costs, deadlines) = (header.costs(), Mutex::default());
        Ok(Self { page, job, costs, ended, newborn, deadlines })
    }

    fn header(&self) -> &GateHeader {
        &self.page.header
    }

    /// Returns the turn of the first thread of a program: the one that this thread had before
    /// `exec`, or a new one.
    pub(crate) fn first(&self, slot: u64) -> Turn {
        let (pid, tid) = own_numbers();
        let before =
            self.page.used().iter().find(|record| {
                record.tid.load(Relaxed) == tid && record.state() != ThreadState::Free
            });
        match before {
            Some(record) => {
                record.change(ThreadState::InCall, ThreadState::Running);
                record.slot.store(slot as u32, Relaxed);
                let start = record.used.load(Relaxed);
                Turn { record: Some(record), start, ..Turn::default() }
            }
            None => {
                let turn = self.claim();
                if let Some(record) = turn.record {
                    record.slot.store(slot as u32, Relaxed);
                    record.pid.store(pid, Relaxed);
                    record.tid.store(tid, Relaxed);
                }
                self.newborn.store(NOBODY, Relaxed);
                turn
            }
        }
    }

    /// Creates the turn of a further thread of this process, in the thread that starts it.
    pub(crate) fn further(&self, slot: u64) -> Turn {
        let turn = self.claim();
        if let Some(record) = turn.record {
            record.slot.store(slot as u32, Relaxed);
            record.pid.store(own_numbers().0, Relaxed);
        }
        turn
    }

    fn claim(&self) -> Turn {
        let number = self.page.claim(self.job);
        self.newborn.store(number.unwrap_or(NOBODY), Relaxed);
        if number.is_none() {
            self.header().unruled.fetch_add(1, Relaxed);
        }
        Turn { record: number.map(|number| &self.page.threads[number]), ..Turn::default() }
    }

    /// Creates the child's record before a fork, in the parent and thus in the order of the turns.
    pub(crate) fn before_fork(&self) {
        self.claim();
    }

    /// Returns the turn of the child's only thread after a fork.
    pub(crate) fn after_fork(&self, slot: u64) -> Turn {
        self.ended.store(0, Relaxed);
        // Another thread of the parent, which returned from a call, may have held the lock.
        // SAFETY: this process has one thread, and all of a mutex may change behind a reference.
        unsafe { std::ptr::from_ref(&self.deadlines).cast_mut().write(Mutex::default()) };
        let record = self.page.threads.get(self.newborn.swap(NOBODY, Relaxed));
        if let Some(record) = record {
            let (pid, tid) = own_numbers();
            record.slot.store(slot as u32, Relaxed);
            record.pid.store(pid, Relaxed);
            record.tid.store(tid, Release);
        }
        Turn { record, ..Turn::default() }
    }

    /// After a successful fork or thread creation, waits until the new thread is at the gate, so
    /// that it finds everything as it is now.
    fn await_newborn(&self, tid: i64) {
        let Some(record) = self.page.threads.get(self.newborn.swap(NOBODY, Relaxed)) else {
            return;
        };
        while record.state() == ThreadState::Born
            && !self.is_abandoned()
            && start_of(tid as u32).is_some()
        {
            wait(&record.state, ThreadState::Born as u32, BIRTH_WATCH);
        }
    }

    /// After a failed fork or thread creation, frees the record, which no thread will use.
    fn stillborn(&self) {
        let record = self.page.threads.get(self.newborn.swap(NOBODY, Relaxed));
        if let Some(record) = record
            && record.tid.load(Acquire) == 0
        {
            record.change(ThreadState::Born, ThreadState::Free);
        }
    }

    /// Charges a thread for its work since it was last charged.
    pub(crate) fn charge(&self, turn: &Turn, instructions: u64, events: &Events) {
        let (Some(record), Costs { instruction, l1_miss, l2_miss, read }) =
            (turn.record, self.costs)
        else {
            return;
        };
        let stalled = events.reads * read;
        let busy =
            instructions * instruction + events.l1_misses * l1_miss + events.l2_misses * l2_miss;
        let add = |word: &AtomicU64, more: u64| {
            word.store(word.load(Relaxed) + more, Relaxed);
        };
        add(&record.used, busy + stalled);
        add(&record.stalled, stalled);
    }

    /// Parks a thread whose turn is over until it has another. Returns the instructions that it may
    /// execute before it checks again, and whether its private caches are cold.
    pub(crate) fn check(&self, turn: &mut Turn) -> (u32, Caches) {
        let Some(record) = turn.record else { return (u32::MAX, Caches::Warm) };
        loop {
            if self.is_abandoned() {
                return (u32::MAX, Caches::Warm);
            }
            let left = record.limit.load(Relaxed).saturating_sub(record.used.load(Relaxed));
            if record.state() == ThreadState::Running && left > 0 {
                let cold = record.flush.load(Relaxed) != 0 && record.flush.swap(0, Relaxed) != 0;
                let caches = if cold { Caches::Cold } else { Caches::Warm };
                let fit = (left / self.costs.instruction.max(1)).clamp(1, u64::from(u32::MAX));
                return (fit as u32, caches);
            }
            if self.park(turn, record, Place::Code) == Parted::Nudged {
                return (1, Caches::Warm);
            }
        }
    }

    /// Gives the turn back and waits for the next.
    fn park(&self, turn: &mut Turn, record: &ThreadRecord, place: Place) -> Parted {
        if record.tid.load(Relaxed) == 0 {
            record.tid.store(own_numbers().1, Relaxed);
        }
        record.place.store(place as u32, Relaxed);
        record.state.store(ThreadState::Waiting as u32, Release);
        wake(&record.state);
        loop {
            match record.state() {
                ThreadState::Waiting => {}
                ThreadState::Nudged => return Parted::Nudged,
                _ => break,
            }
            if wait(&record.state, ThreadState::Waiting as u32, WATCH) == Woken::TimedOut
                && !self.owner_lives()
            {
                self.header().abandoned.store(1, Relaxed);
            }
            if self.is_abandoned() {
                record.limit.store(NO_LIMIT, Relaxed);
                record.state.store(ThreadState::Running as u32, Release);
                break;
            }
        }
        self.begin(turn, record);
        Parted::Called
    }

    /// Begins a turn. The other threads of the process do nothing now.
    fn begin(&self, turn: &mut Turn, record: &ThreadRecord) {
        self.put_back(|_| true);
        turn.start = record.used.load(Relaxed);
    }

    /// Handles the start of a system call.
    pub(crate) fn enter(&self, turn: &mut Turn, number: i64, arguments: [u64; 4]) {
        let Some(record) = turn.record else { return };
        let before = record.call.swap(number as u32, Relaxed);
        turn.calls = turn.calls.wrapping_add(1);
        while !record.begin_call(turn.calls) {
            if self.is_abandoned() {
                return;
            }
            let _ = self.park(turn, record, Place::Call);
        }
        turn.call = time::Call { arguments, before, changed: None };
        match number {
            libc::SYS_exit | libc::SYS_exit_group => {
                self.ended.fetch_add(record.used.load(Relaxed) / FEMTOS_PER_NANO, Relaxed);
                record.state.store(ThreadState::Leaving as u32, Release);
                wake(&record.state);
            }
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => self.sleep(turn, record, number),
            _ if blocking(number as u32) == Blocking::Likely => {
                if number == libc::SYS_futex {
                    self.move_deadline(turn, record);
                }
                wake(&record.state);
            }
            _ => {}
        }
    }

    /// Records that an `execve` replaces the process by a program that cannot be emulated, unless
    /// it fails.
    pub(crate) fn goes_native(&self, turn: &Turn) {
        if let Some(record) = turn.record {
            record.call.store(NATIVE, Release);
        }
    }

    /// Handles the end of a system call.
    pub(crate) fn leave(&self, turn: &mut Turn, number: i64, result: i64) {
        let Some(record) = turn.record else { return };
        turn.call.restore();
        let birth = record.birth.load(Relaxed);
        self.put_back(|other| other == birth);
        // An exec that has failed made nothing native.
        record.call.store(number as u32, Relaxed);
        // Without the turn nothing changes here, nor below.
        record.change(ThreadState::InCall, ThreadState::Settling);
        match number {
            libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => match result {
                ..0 => self.stillborn(),
                0 => {}
                tid => self.await_newborn(tid),
            },
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Self::slept(turn, result),
            _ => {}
        }
        if self.is_abandoned() {
            return;
        }
        if record.state() == ThreadState::Settling && wakes_others(number as u32) {
            self.settle();
        }
        if !record.change(ThreadState::Settling, ThreadState::Running) {
            while self.park(turn, record, Place::Call) == Parted::Nudged {}
        }
        self.fake(turn, record, number, result);
    }

    /// Waits until all threads of this job are at the gate whose system calls were ended by the one
    /// that has just ended: their results must not depend on what this thread does next.
    fn settle(&self) {
        for other in self.page.used() {
            let (pid, tid) = (other.pid.load(Relaxed), other.tid.load(Relaxed));
            while other.job.load(Relaxed) == self.job
                && other.state() == ThreadState::Blocked
                && other.call.load(Relaxed) != NATIVE
                && !self.is_abandoned()
                && host_state(pid, tid, self.tells_sleep()) == HostState::Busy
            {
                wait(&other.state, ThreadState::Blocked as u32, SETTLING);
            }
        }
    }

    fn tells_sleep(&self) -> bool {
        self.header().tells_sleep.load(Relaxed) != 0
    }

    fn is_abandoned(&self) -> bool {
        self.header().abandoned.load(Relaxed) != 0
    }

    fn owner_lives(&self) -> bool {
        let header = self.header();
        start_of(header.owner.load(Relaxed)) == Some(header.owner_start.load(Relaxed))
    }
}

/// The way in which a thread leaves its parking place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parted {
    /// It has the turn.
    Called,
    /// It must move on a little.
    Nudged,
}

/// State of a thread's private caches when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caches {
    /// They hold the thread's own lines.
    Warm,
    /// They hold another thread's lines.
    Cold,
}
