//! The threads' interface to the emulated cores. Real threads wait at a gate in their emulators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memweir_core::{Counts, JobId, Nanos};
use memweir_linux::gate::{CoreCaches, Gate, Spent, Standing, ThreadId, ThreadView};
use memweir_linux::meter::software::SoftwareMeter;

/// Threads that run in turns.
pub trait Threads {
    /// Returns every live thread, the oldest first.
    fn list(&self) -> Vec<ThreadView>;

    /// Returns the standing of a thread. `Glance::Short` may miss that a blocked thread was killed.
    fn standing(&self, thread: ThreadId, glance: Glance) -> Standing;

    /// Returns the thread's progress so far.
    fn spent(&self, thread: ThreadId) -> Spent;

    /// Returns the counts of its process so far.
    fn counts(&self, thread: &ThreadView) -> Counts;

    /// Sets the time that programs see.
    fn set_time(&self, now: Nanos);

    /// Lets a thread run until its progress reaches `limit`.
    fn turn(&self, thread: ThreadId, limit: u64, caches: CoreCaches) -> Standing;
}

/// Thoroughness of a look at a blocked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// Trusts the thread's own state.
    Short,
    /// Asks the kernel.
    Long,
}

/// Threads in emulators on this machine.
#[derive(Clone, Debug)]
pub struct RealThreads {
    gate: Arc<Gate>,
    meter: Arc<Mutex<SoftwareMeter>>,
}

impl RealThreads {
    /// Creates the threads behind a gate, with the meter that counts for them.
    #[must_use]
    pub fn new(gate: Arc<Gate>, meter: Arc<Mutex<SoftwareMeter>>) -> Self {
        Self { gate, meter }
    }

    /// Returns the meter that counts for them.
    pub fn meter(&self) -> MutexGuard<'_, SoftwareMeter> {
        // A panic elsewhere can leave wrong counts but break no invariant, so the lock stays
        // usable.
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the gate.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl Threads for RealThreads {
    fn list(&self) -> Vec<ThreadView> {
        self.gate.threads()
    }

    fn standing(&self, thread: ThreadId, glance: Glance) -> Standing {
        match glance {
            Glance::Short => self.gate.standing_at_a_glance(thread),
            Glance::Long => self.gate.standing(thread),
        }
    }

    fn spent(&self, thread: ThreadId) -> Spent {
        self.gate.spent(thread)
    }

    fn counts(&self, thread: &ThreadView) -> Counts {
        self.meter().totals_of(JobId(thread.job), thread.slot).counts()
    }

    fn set_time(&self, now: Nanos) {
        self.gate.set_time(now);
    }

    fn turn(&self, thread: ThreadId, limit: u64, caches: CoreCaches) -> Standing {
        self.gate.turn(thread, limit, caches)
    }
}
