//! Upkeep: writing what could not be written before, and removing old jobs.
//!
//! It runs in a thread of its own, in transactions that hold the lock for a short time.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use memweir_core::JobId;

use super::events::{DAEMON, MOST_AT_ONCE};
use super::{Inner, Service};
use crate::queue::{Job, Retention, State};
use crate::store::StoreError;

/// Time between two tries to write what could not be written.
const RETRY: Duration = Duration::from_secs(1);

/// Retries between two looks for old jobs.
const PRUNE_EVERY: u32 = 10;

/// Retries between two readings of the clock of ages that are put on disk: a restart of the machine
/// loses what came after the last one, and ages count in days.
const KEEP_UPTIME_EVERY: u32 = 3600;

/// Differences between the queue and its store, as of a disk that was full.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// Jobs whose last change is not in the store.
    pub(super) changed: BTreeSet<JobId>,
    /// Jobs that the daemon holds because their start could not be written.
    pub(super) held: BTreeSet<JobId>,
}

impl Service {
    /// Keeps the queue in order until the process ends.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start_upkeep(self: &Arc<Self>, retention: Retention) -> io::Result<()> {
        let service = Arc::clone(self);
        let builder = std::thread::Builder::new().name("upkeep".to_owned());
        let upkeep = move || {
            service.remove_strays();
            for turn in 0_u32.. {
                service.write_again();
                if turn % KEEP_UPTIME_EVERY == 0 {
                    service.keep_uptime();
                }
                if turn % PRUNE_EVERY == 0 {
                    service.prune(retention);
                }
                std::thread::sleep(RETRY);
            }
        };
        builder.spawn(upkeep).map(drop)
    }

    /// Writes the changes that could not be written, and releases the jobs that waited for that.
    pub(crate) fn write_again(&self) {
        let mut inner = self.lock();
        if inner.unwritten.changed.is_empty() && inner.unwritten.held.is_empty() {
            return;
        }
        let Ok(over) = inner.write_again() else { return };
        self.changed(inner);
        for job in over {
            self.attempt(&job).remove();
        }
        self.notice("what could not be written before is on disk now");
    }

    /// Puts the clock of ages on disk.
    fn keep_uptime(&self) {
        let now = self.uptime();
        if let Err(error) = self.lock().store.set_uptime(&now) {
            self.notice(format!("the age of jobs is not on disk: {error}"));
        }
    }

    /// Removes jobs that ended long ago, with their logs.
    pub(crate) fn prune(&self, retention: Retention) {
        let prunable = self.lock().queue.prunable(retention, self.uptime().total_ms);
        for some in prunable.chunks(MOST_AT_ONCE) {
            match self.remove(some, retention) {
                Ok(removed) => {
                    for job in removed {
                        self.attempts.remove_all(job.id, job.attempt);
                    }
                }
                Err(error) => {
                    self.notice(format!("old jobs cannot be removed: {error}"));
                    return;
                }
            }
        }
    }

    /// Removes jobs from the store and the queue; clients may have changed them meanwhile.
    fn remove(&self, jobs: &[JobId], retention: Retention) -> Result<Vec<Job>, StoreError> {
        let mut inner = self.lock();
        let still: BTreeSet<JobId> =
            inner.queue.prunable(retention, self.uptime().total_ms).into_iter().collect();
        let jobs: Vec<JobId> = jobs.iter().copied().filter(|id| still.contains(id)).collect();
        inner.store.remove(&jobs)?;
        let removed = jobs.iter().filter_map(|id| inner.queue.get(*id).cloned()).collect();
        jobs.into_iter().for_each(|id| inner.queue.remove(id));
        Ok(removed)
    }

    /// Removes the logs of jobs that an earlier daemon removed without having the time for these.
    fn remove_strays(&self) {
        for id in self.attempts.logged() {
            let inner = self.lock();
            let is_gone = inner.queue.get(id).is_none() && id < inner.queue.next_id();
            drop(inner);
            if is_gone {
                self.attempts.remove_all(id, 0);
            }
        }
    }
}

impl Inner {
    /// Returns the jobs that are over and were not in the store as such.
    fn write_again(&mut self) -> Result<Vec<Job>, StoreError> {
        let changed = self.unwritten.changed.iter().filter_map(|id| self.queue.get(*id));
        let changed: Vec<Job> = changed.cloned().collect();
        let held = self.unwritten.held.iter().filter_map(|id| self.queue.get(*id));
        let held = held.filter(|job| job.held_by.as_deref() == Some(DAEMON));
        let released: Vec<Job> = held.filter_map(|job| job.released().ok()).collect();
        self.store.update(&changed)?;
        self.apply(released)?;
        self.unwritten = Unwritten::default();
        Ok(changed.into_iter().filter(|job| matches!(job.state, State::Ended(_))).collect())
    }
}
