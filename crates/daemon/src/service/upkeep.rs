//! Upkeep: trying again what failed, and removing old jobs.
//!
//! It runs in a thread of its own, in transactions that hold the lock for a short time.

use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use super::events::MOST_AT_ONCE;
use super::{Service, thread};
use crate::queue::Retention;

/// Time between two tries of what failed.
const RETRY: Duration = Duration::from_secs(1);

/// Retries between two looks for old jobs.
const PRUNE_EVERY: u32 = 10;

/// Retries between two readings of the clock of ages that are put on disk: a restart of the machine
/// loses what came after the last one, and ages count in days.
const KEEP_UPTIME_EVERY: u32 = 3600;

impl Service {
    /// Keeps the queue in order until the process ends.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start_upkeep(self: &Arc<Self>, retention: Retention) -> io::Result<()> {
        let service = Arc::clone(self);
        thread("upkeep", move || {
            service.remove_strays();
            for turn in 0_u32.. {
                service.catch_up();
                if turn % KEEP_UPTIME_EVERY == 0 {
                    service.keep_uptime();
                }
                if turn % PRUNE_EVERY == 0 {
                    service.prune(retention);
                }
                std::thread::sleep(RETRY);
            }
        })
    }

    /// Writes the changes that could not be written, and releases the jobs that the daemon has held
    /// for long enough.
    pub(crate) fn catch_up(&self) {
        let mut stored = self.lock();
        if !stored.is_behind() {
            return;
        }
        let is_unwritten = stored.is_unwritten();
        let Ok(over) = stored.catch_up() else { return };
        self.changed(stored);
        for job in over {
            self.attempt(&job).remove();
        }
        if is_unwritten {
            self.notice("what could not be written before is on disk now");
        }
    }

    /// Puts the clock of ages on disk.
    fn keep_uptime(&self) {
        let now = self.uptime();
        if let Err(error) = self.lock().set_uptime(&now) {
            self.notice(format!("the age of jobs is not on disk: {error}"));
        }
    }

    /// Removes jobs that ended long ago, with their logs.
    pub(crate) fn prune(&self, retention: Retention) {
        let prunable = self.lock().queue().prunable(retention, self.uptime().total_ms);
        for some in prunable.chunks(MOST_AT_ONCE) {
            let removed = self.lock().remove(some, retention, self.uptime().total_ms);
            match removed {
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

    /// Removes the files of jobs that an earlier daemon removed without having the time for these.
    pub(super) fn remove_strays(&self) {
        for (id, path) in self.attempts.files() {
            let stored = self.lock();
            let is_gone = stored.queue().get(id).is_none() && id < stored.queue().next_id();
            drop(stored);
            if is_gone {
                let _ = fs::remove_file(path);
            }
        }
    }
}
