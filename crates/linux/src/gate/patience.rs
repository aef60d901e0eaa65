//! Detects that threads keep the coordinator waiting although none computes. A turn takes a few
//! milliseconds of host time, so an emulation that waits for seconds again and again is stuck, and
//! its user should know for which thread.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use memweir_abi::softpmu::gate::{ThreadRecord, ThreadState};

/// Shortest wait that counts; no thread computes during it.
const LONG: Duration = Duration::from_millis(500);

/// Total of such waits after which the stall is reported, in milliseconds.
const LIMIT: u64 = 10_000;

/// A thread for which an emulation waits in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Its job, by its place in the batch.
    pub job: u32,
    /// Its process.
    pub pid: u32,
    /// The thread; zero while that is not known.
    pub tid: u32,
    /// Number of the system call that it is in, or was in last.
    pub call: u32,
    /// Its state.
    pub state: ThreadState,
}

/// Callback for a stall.
pub type Listener = Box<dyn Fn(&Stall) + Send + Sync>;

/// Reports, once, a thread for which the coordinator has waited too long.
#[derive(Default)]
pub(super) struct Patience {
    /// Milliseconds in long waits.
    waited: AtomicU64,
    told: AtomicBool,
    pub(super) listener: Option<Listener>,
}

impl Patience {
    /// Counts the wait for this thread, which does not compute, once it is long; then sets `since`
    /// to now.
    pub(super) fn wait_for(&self, record: &ThreadRecord, since: &mut Instant) {
        let waited = since.elapsed();
        if waited < LONG {
            return;
        }
        *since = Instant::now();
        let waited = waited.as_millis() as u64;
        if self.waited.fetch_add(waited, Relaxed) + waited < LIMIT || self.told.swap(true, Relaxed)
        {
            return;
        }
        if let Some(tell) = &self.listener {
            tell(&Stall {
                job: record.job.load(Relaxed),
                pid: record.pid.load(Relaxed),
                tid: record.tid.load(Relaxed),
                call: record.call.load(Relaxed),
                state: record.state(),
            });
        }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("waited", &self.waited).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn many_long_waits_are_told_of_once_and_short_ones_never() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener: Listener = {
            let told = told.clone();
            Box::new(move |stall| told.lock().expect("no panic").push(*stall))
        };
        let patience = Patience { listener: Some(listener), ..Patience::default() };
        let record = ThreadRecord::default();
        record.job.store(3, Relaxed);
        record.state.store(ThreadState::Nudged as u32, Relaxed);
        let wait = |length: Duration| {
            let began = Instant::now() - length;
            let mut since = began;
            patience.wait_for(&record, &mut since);
            since > began
        };
        assert!((0..1000).all(|_| !wait(LONG / 2)));
        assert!((0..9).all(|_| wait(Duration::from_secs(1))));
        assert!(told.lock().expect("no panic").is_empty());
        assert!((0..30).all(|_| wait(Duration::from_secs(1))));
        let told = told.lock().expect("no panic");
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].job, told[0].state), (3, ThreadState::Nudged));
    }
}
