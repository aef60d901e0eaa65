//! Choosing the ended jobs that the queue no longer keeps.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use memweir_core::JobId;

use super::Queue;

/// Ended jobs that a queue keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Number of ended jobs, the latest ones.
    pub jobs: usize,
    /// Longest time since their end, in milliseconds of the machine's uptime.
    pub age_ms: u64,
}

impl Queue {
    /// Returns the jobs that ended beyond `retention` at `now`, in milliseconds of uptime. Jobs
    /// that a kept job waits for are kept, and the job with the highest number, so that no number
    /// is given twice.
    #[must_use]
    pub fn prunable(&self, retention: Retention, now_ms: u64) -> Vec<JobId> {
        let ended = self.jobs().filter_map(|job| Some((job.ended?.uptime_ms, job.id)));
        let mut latest: Vec<(u64, JobId)> = ended.collect();
        latest.sort_unstable_by_key(|key| Reverse(*key));
        let is_old = |ended: u64| now_ms.saturating_sub(ended) > retention.age_ms;
        let beyond = latest
            .iter()
            .enumerate()
            .filter(|(place, (ended, _))| *place >= retention.jobs || is_old(*ended));
        let candidates: BTreeSet<JobId> = beyond.map(|(_, (_, id))| *id).collect();
        let newest = self.jobs.last_key_value().map(|(id, _)| *id);
        let mut needed: BTreeSet<JobId> = BTreeSet::new();
        let mut prunable = Vec::new();
        let mut last: &[JobId] = &[];
        // A job waits for older ones alone.
        for job in self.jobs.values().rev() {
            let goes =
                candidates.contains(&job.id) && Some(job.id) != newest && !needed.contains(&job.id);
            if goes {
                prunable.push(job.id);
            } else if job.after != last {
                // Those of the next job of an array are the same.
                last = &job.after;
                needed.extend(last);
            }
        }
        prunable.reverse();
        prunable
    }

    /// Forgets an ended job.
    pub fn remove(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.end().is_some()) {
            self.jobs.remove(&id);
        }
    }
}
