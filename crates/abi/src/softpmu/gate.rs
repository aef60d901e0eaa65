//! State shared by the plugin and the coordinator of an emulation: the turns of threads and their
//! limits.
//!
//! In virtual time every thread of every job has a [`ThreadRecord`] in one file. A thread runs
//! guest code only while it has the *turn*: the coordinator sets the limit of its progress
//! ([`ThreadRecord::limit`]), hands the turn over by its [`state`](ThreadRecord::state), on which
//! both sides wait, and takes the turn back when the thread parks at its limit, sleeps, blocks in a
//! system call or ends. Progress is time on a machine where the thread is alone and every memory is
//! as fast as the local DRAM, in femtoseconds, so that the cost of an instruction is a whole number
//! without a noticeable error.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// First word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"memwgate");

/// Version of the layout. Two sides with different versions refuse each other.
pub const VERSION: u64 = 2;

/// Number of threads of all jobs that can exist at the same time.
pub const THREADS: usize = 8192;

/// Femtoseconds per nanosecond.
pub const FEMTOS_PER_NANO: u64 = 1_000_000;

/// A limit that no thread reaches: the thread runs freely.
pub const NO_LIMIT: u64 = u64::MAX;

/// Layout of the file.
#[repr(C)]
pub struct GatePage {
    /// Configuration and clock.
    pub header: GateHeader,
    /// Threads; a free record has the state [`ThreadState::Free`].
    pub threads: [ThreadRecord; THREADS],
}

/// Configuration of an emulation and its clock.
#[repr(C, align(4096))]
#[derive(Debug, Default)]
pub struct GateHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// ID of the process that hands out turns.
    pub owner: AtomicU32,
    /// Nonzero once no process hands out turns any more: all threads run freely.
    pub abandoned: AtomicU32,
    /// Start time of the owner, in the kernel's clock ticks since boot: a process ID alone can be
    /// reused.
    pub owner_start: AtomicU64,
    /// Virtual time in nanoseconds since the batch began.
    pub now: AtomicU64,
    /// Nonzero if `/proc/PID/task/TID/wchan` shows whether a thread has left its processor. The
    /// state alone is ambiguous: it reads as sleeping while the thread is about to sleep, or just
    /// checks whether it must.
    pub tells_sleep: AtomicU32,
    /// Unused.
    pub reserved: AtomicU32,
    /// The latest virtual time that any program has read.
    pub told: AtomicU64,
    /// Virtual time at which the batch began, in nanoseconds since 1970.
    pub epoch: AtomicU64,
    /// Seed of the random bytes that programs get.
    pub seed: AtomicU64,
    /// Costs of events: [`Costs`].
    pub costs: [AtomicU64; 4],
    /// One more than the highest record that was ever used.
    pub threads_used: AtomicU64,
    /// Number of threads created so far.
    pub births: AtomicU64,
    /// Threads that found no record and run freely, uncounted in virtual time.
    pub unruled: AtomicU64,
}

/// One thread. Its owner writes everything but `limit` and, as the table of states says, `state`.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct ThreadRecord {
    /// A [`ThreadState`] in the lowest byte and, in a system call, the number of the call above it;
    /// both sides wait on this word.
    pub state: AtomicU32,
    /// A [`Place`].
    pub place: AtomicU32,
    /// The job, by its place in the batch.
    pub job: AtomicU32,
    /// ID of its process; zero if unknown.
    pub pid: AtomicU32,
    /// ID of the thread; zero if unknown.
    pub tid: AtomicU32,
    /// Number of the system call that it is in, or was in last.
    pub call: AtomicU32,
    /// Its process's slot in the job's page.
    pub slot: AtomicU32,
    /// Nonzero if its core has run another thread, so that its private caches are cold.
    pub flush: AtomicU32,
    /// Its number among all created threads: an order that does not depend on the host.
    pub birth: AtomicU64,
    /// Progress so far, in femtoseconds.
    pub used: AtomicU64,
    /// Part of `used` that was spent waiting for memory.
    pub stalled: AtomicU64,
    /// Progress at which it gives the turn back.
    pub limit: AtomicU64,
    /// Virtual time at which a sleeping thread wakes, in nanoseconds.
    pub wake: AtomicU64,
    /// Number of its system calls that requested random bytes.
    pub draws: AtomicU64,
}

/// State of a thread. `C` marks changes that the coordinator makes, `T` those of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum ThreadState {
    /// No thread has this record. `T` to `Born`.
    #[default]
    Free = 0,
    /// It will reach the gate soon. `T` to `Waiting`.
    Born = 1,
    /// It waits for the turn. `C` to `Running` or `Nudged`.
    Waiting = 2,
    /// It has the turn and runs guest code. `T` to any other, `C` to `Blocked` if an external event
    /// has stopped it.
    Running = 3,
    /// It has the turn and is in a system call. `T` to `Settling`, `C` to `Blocked`.
    InCall = 4,
    /// It lost the turn while it was in a system call. `T` to `Waiting` when it returns.
    Blocked = 5,
    /// It sleeps until `wake`. `C` to `Running`; `T` to `Waiting` if a signal ends the sleep.
    Asleep = 6,
    /// It ends. `C` to `Free` when the kernel has forgotten it.
    Leaving = 7,
    /// It runs as far as the emulator needs to give another thread of its process exclusive use of
    /// the machine. `T` to `Waiting`.
    Nudged = 8,
    /// It has the turn and waits until the threads that its system call has created or woken are at
    /// the gate. `T` to `Running`, `C` to `Blocked` as above.
    Settling = 9,
}

impl ThreadState {
    /// Returns the state in the lowest byte of a word; [`Free`](Self::Free) for any other number.
    #[must_use]
    pub fn of(word: u32) -> Self {
        match word & 0xff {
            1 => Self::Born,
            2 => Self::Waiting,
            3 => Self::Running,
            4 => Self::InCall,
            5 => Self::Blocked,
            6 => Self::Asleep,
            7 => Self::Leaving,
            8 => Self::Nudged,
            9 => Self::Settling,
            _ => Self::Free,
        }
    }
}

/// Place at which a thread waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Place {
    /// Between two instructions of the program, inside translated code: the emulator considers it
    /// running.
    #[default]
    Code = 0,
    /// In a system call, outside translated code.
    Call = 1,
}

/// Possibility that a thread waits in a system call for an action of another thread or of the
/// outside world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// The call returns by itself; it may wait for a disk.
    Never,
    /// Reads, writes and their kin, on pipes and sockets.
    Perhaps,
    /// The purpose of the call is to wait.
    Likely,
}

/// Value of [`ThreadRecord::call`] for a thread whose process has become a program that cannot be
/// emulated. It runs without turns and takes no virtual time.
pub const NATIVE: u32 = 1 << 20;

/// Returns the possibility that the x86-64 system call with this number waits for others.
#[must_use]
pub fn blocking(call: u32) -> Blocking {
    match call {
        // poll, select, pause, accept, recvfrom, recvmsg, wait4, semop, msgrcv, sigtimedwait,
        // sigsuspend, futex, io_getevents, semtimedop, epoll_wait, mq_timedreceive, waitid,
        // pselect6, ppoll, epoll_pwait, accept4, epoll_pwait2, futex_waitv.
        7 | 23 | 34 | 43 | 45 | 47 | 61 | 65 | 70 | 128 | 130 | 202 | 208 | 220 | 232 | 243
        | 247 | 270 | 271 | 281 | 288 | 441 | 449 => Blocking::Likely,
        // read, write, open, readv, writev, nanosleep, sendfile, connect, sendto, sendmsg, msgsnd,
        // fcntl, flock, creat, clock_nanosleep, mq_timedsend, openat, splice, tee, vmsplice,
        // recvmmsg, sendmmsg, preadv2, pwritev2, openat2.
        NATIVE | 0 | 1 | 2 | 19 | 20 | 35 | 40 | 42 | 44 | 46 | 69 | 72 | 73 | 85 | 230 | 242
        | 257 | 275 | 276 | 278 | 299 | 307 | 327 | 328 | 437 => Blocking::Perhaps,
        _ => Blocking::Never,
    }
}

/// Returns true if the system call with this number can end another thread's wait.
#[must_use]
pub fn wakes_others(call: u32) -> bool {
    // close, dup2, shutdown, kill, semctl, msgctl, rt_sigqueueinfo, tkill, tgkill, dup3,
    // rt_tgsigqueueinfo, pidfd_send_signal, close_range; timers aside. The end of a flock comes
    // with close.
    matches!(call, 3 | 33 | 48 | 62 | 66 | 71 | 129 | 200 | 234 | 292 | 297 | 424 | 436)
        || blocking(call) != Blocking::Never
}

/// Costs of events in progress, in femtoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// An instruction.
    pub instruction: u64,
    /// A miss of the first level.
    pub l1_miss: u64,
    /// A miss of the second level, on top of that.
    pub l2_miss: u64,
    /// A line read from memory, on top of that: the time spent waiting for memory.
    pub read: u64,
}

impl GateHeader {
    /// Writes the costs of events.
    pub fn set_costs(&self, costs: Costs) {
        let Costs { instruction, l1_miss, l2_miss, read } = costs;
        for (word, cost) in self.costs.iter().zip([instruction, l1_miss, l2_miss, read]) {
            word.store(cost, Relaxed);
        }
    }

    /// Returns the costs of events.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let [instruction, l1_miss, l2_miss, read] =
            [0, 1, 2, 3].map(|index| self.costs[index].load(Relaxed));
        Costs { instruction, l1_miss, l2_miss, read }
    }
}

impl ThreadRecord {
    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> ThreadState {
        ThreadState::of(self.state.load(Acquire))
    }

    /// Changes the state if it is `from`; returns true if it was.
    pub fn change(&self, from: ThreadState, to: ThreadState) -> bool {
        let word = self.state.load(Acquire);
        ThreadState::of(word) == from && self.change_word(word, to)
    }

    /// Changes the state if the word still equals `word`, which also excludes the end of one system
    /// call and the start of another; returns true if it did.
    pub fn change_word(&self, word: u32, to: ThreadState) -> bool {
        self.state.compare_exchange(word, to as u32, AcqRel, Acquire).is_ok()
    }

    /// Begins system call `number` of the thread, if it has the turn; returns true if it does. Its
    /// [`call`](Self::call) must be set already.
    pub fn begin_call(&self, number: u32) -> bool {
        let (from, to) = (ThreadState::Running as u32, ThreadState::InCall as u32 | number << 8);
        self.state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }
}

impl GatePage {
    /// Takes a free record for a thread of `job` that is about to be created. `None` if all are in
    /// use.
    pub fn claim(&self, job: u32) -> Option<usize> {
        let number =
            self.threads.iter().position(|t| t.change(ThreadState::Free, ThreadState::Born))?;
        let thread = &self.threads[number];
        thread.job.store(job, Relaxed);
        for word in [&thread.pid, &thread.tid, &thread.call, &thread.place, &thread.flush] {
            word.store(0, Relaxed);
        }
        for word in [&thread.used, &thread.stalled, &thread.limit, &thread.wake, &thread.draws] {
            word.store(0, Relaxed);
        }
        thread.birth.store(self.header.births.fetch_add(1, AcqRel), Relaxed);
        self.header.threads_used.fetch_max(number as u64 + 1, AcqRel);
        Some(number)
    }

    /// Returns the records that were ever used.
    #[must_use]
    pub fn used(&self) -> &[ThreadRecord] {
        let used = self.header.threads_used.load(Acquire) as usize;
        &self.threads[..used.min(THREADS)]
    }
}

const _: () = assert!(size_of::<GateHeader>() == 4096);
const _: () = assert!(size_of::<ThreadRecord>() == 128);

#[cfg(test)]
mod tests;
