//! The decisions of the queue: which jobs may start, in which order, and why the others wait.
//!
//! A [`Queue`] holds every job that was submitted and not pruned. It has neither clock nor I/O: the
//! service writes a change to the store and then applies it here. A job's life is in
//! `queue/job.rs`, the reasons to wait and to refuse are in `queue/reason.rs`, the choice of old
//! jobs that are no longer kept is in `queue/prune.rs`.

mod job;
mod prune;
mod reason;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use memweir_core::JobId;

pub use job::{End, Job, Loss, Membership, Moment, Source, State};
pub use prune::Retention;
pub use reason::{Reason, WrongState};

/// Cores that the jobs of a queue share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Cores that jobs may occupy at the same time.
    pub cores: u32,
    /// Cores' worth of jobs that are started and take turns; at least `cores`.
    pub admit: u32,
}

/// Position of a pending job: the highest priority first, then the oldest.
type Place = (Reverse<i32>, JobId);

/// All jobs, and the order in which the pending ones start.
#[derive(Clone, Debug)]
pub struct Queue {
    capacity: Capacity,
    jobs: BTreeMap<JobId, Job>,
    /// Pending jobs that are neither admitted nor held.
    waiting: BTreeSet<Place>,
    /// Jobs that were admitted and have not ended.
    admitted: BTreeSet<JobId>,
    /// Cores that the admitted jobs occupy.
    busy: u32,
    /// Admitted jobs of each array that has any.
    of_arrays: BTreeMap<JobId, u32>,
    /// Number of pending jobs.
    pending: usize,
    /// Number of jobs that have not ended, of each user who has any.
    of_users: BTreeMap<u32, u32>,
    draining: bool,
}

impl Queue {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            jobs: BTreeMap::new(),
            waiting: BTreeSet::new(),
            admitted: BTreeSet::new(),
            busy: 0,
            of_arrays: BTreeMap::new(),
            pending: 0,
            of_users: BTreeMap::new(),
            draining: false,
        }
    }

    /// Adds a job, or replaces the one with its number. A job that has started is admitted; one
    /// that is pending again, or has ended, no longer is.
    pub fn insert(&mut self, job: Job) {
        let id = job.id;
        let (mut had_succeeded, mut was_pending) = (false, false);
        if let Some(old) = self.jobs.get(&id) {
            self.waiting.remove(&place(old));
            had_succeeded = old.has_succeeded();
            was_pending = old.state == State::Pending;
            self.pending -= usize::from(was_pending);
            if old.end().is_none() {
                count_down(&mut self.of_users, &old.user);
            }
        }
        self.pending += usize::from(job.state == State::Pending);
        if job.end().is_none() {
            *self.of_users.entry(job.user).or_default() += 1;
        }
        let started = matches!(job.state, State::Starting | State::Running);
        // A start that never began leaves the job to be admitted anew, or no loop would know of it.
        let still_pending = was_pending && job.state == State::Pending;
        let stays = started || (still_pending && self.may_stay(&job));
        let waits = job.state == State::Pending && !stays && job.held_by.is_none();
        if waits {
            self.waiting.insert(place(&job));
        }
        self.jobs.insert(id, job);
        if stays {
            self.admit(id);
        } else {
            self.expel(id);
        }
        if had_succeeded {
            self.recall();
        }
    }

    /// Lets admitted jobs that have not started wait again if something speaks against their start:
    /// a job that they wait for was requeued, or the queue drains.
    fn recall(&mut self) {
        let admitted = self.admitted.iter().filter_map(|id| self.jobs.get(id));
        let is_blocked = |job: &&Job| {
            job.state == State::Pending && (self.draining || self.obstacle(job).is_some())
        };
        let blocked: Vec<Place> = admitted.filter(is_blocked).map(place).collect();
        for place in blocked {
            self.expel(place.1);
            self.waiting.insert(place);
        }
    }

    /// Returns true if a pending job was admitted and nothing speaks against its start.
    fn may_stay(&self, job: &Job) -> bool {
        self.admitted.contains(&job.id) && self.obstacle(job).is_none()
    }

    /// Returns a job.
    #[must_use]
    pub fn get(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// Returns every job, the oldest first.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &Job> {
        self.jobs.values()
    }

    /// Returns the number of pending jobs.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the number of a user's jobs that have not ended.
    #[must_use]
    pub fn unfinished(&self, user: u32) -> u32 {
        self.of_users.get(&user).copied().unwrap_or(0)
    }

    /// Returns the cores that the jobs share.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Returns the cores that the admitted jobs occupy.
    #[must_use]
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// Returns the number of the next job.
    #[must_use]
    pub fn next_id(&self) -> JobId {
        JobId(self.jobs.last_key_value().map_or(1, |(id, _)| id.0.saturating_add(1)))
    }

    /// Starts or ends draining: while the queue drains, no job starts, nor does one that was
    /// admitted before.
    pub fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
        self.recall();
    }

    /// Returns true while the queue drains.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Returns true for a job that was admitted and has not ended.
    #[must_use]
    pub fn is_admitted(&self, id: JobId) -> bool {
        self.admitted.contains(&id)
    }

    /// Admits the first pending job that nothing keeps from starting, if there is room for it.
    ///
    /// A job that is too wide for the free cores keeps the room for itself: jobs behind it wait,
    /// so that narrow jobs cannot starve it.
    pub fn admit_next(&mut self) -> Option<JobId> {
        self.admit_next_of(|_| true)
    }

    /// Admits the first of the pending jobs that `may` be, as [`admit_next`](Self::admit_next)
    /// does.
    pub(crate) fn admit_next_of(&mut self, may: impl Fn(&Job) -> bool) -> Option<JobId> {
        if self.draining {
            return None;
        }
        let free = self.capacity.admit.saturating_sub(self.busy);
        if free == 0 {
            return None;
        }
        let front = self.front_of(may)?;
        // A job that is wider than the machine, because the daemon once had more cores, runs alone.
        if front.cores > free && self.busy > 0 {
            return None;
        }
        let (id, place) = (front.id, place(front));
        self.waiting.remove(&place);
        self.admit(id);
        Some(id)
    }

    fn admit(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if self.admitted.insert(id) {
            self.busy += job.cores;
            if let Some(array) = job.array {
                *self.of_arrays.entry(array.array).or_default() += 1;
            }
        }
    }

    fn expel(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if !self.admitted.remove(&id) {
            return;
        }
        self.busy -= job.cores;
        if let Some(array) = job.array {
            count_down(&mut self.of_arrays, &array.array);
        }
    }

    /// Returns the reason for which a pending job waits; `None` for other jobs.
    #[must_use]
    pub fn reason(&self, id: JobId) -> Option<Reason> {
        self.reason_behind(self.jobs.get(&id)?, self.front())
    }

    /// Returns the pending job that starts next once there is room for it.
    #[must_use]
    pub fn front(&self) -> Option<&Job> {
        self.front_of(|_| true)
    }

    fn front_of(&self, may: impl Fn(&Job) -> bool) -> Option<&Job> {
        let waiting = self.waiting.iter().filter_map(|(_, id)| self.jobs.get(id));
        let mut waiting = waiting.filter(|job| may(job));
        // The jobs of an array wait for the same ones, at which one look is enough.
        let mut unmet: &[JobId] = &[];
        waiting.find(|job| {
            if !unmet.is_empty() && job.after == unmet {
                return false;
            }
            let obstacle = self.obstacle(job);
            if let Some(Reason::After { .. } | Reason::AfterFailed { .. }) = obstacle {
                unmet = &job.after;
            }
            obstacle.is_none()
        })
    }

    /// Returns the reason for which a job waits, given the [`front`](Self::front) of the queue,
    /// which is the same for all jobs of a listing.
    #[must_use]
    pub fn reason_behind(&self, job: &Job, front: Option<&Job>) -> Option<Reason> {
        if job.state != State::Pending {
            return None;
        }
        if let Some(obstacle) = self.obstacle(job) {
            return Some(obstacle);
        }
        if self.admitted.contains(&job.id) {
            return Some(Reason::Turn);
        }
        if self.draining {
            return Some(Reason::Drains);
        }
        let Capacity { cores, admit } = self.capacity;
        let free = admit.saturating_sub(self.busy);
        match front {
            Some(front) if front.id != job.id && front.cores > free && free > 0 => {
                Some(Reason::Behind { job: front.id, cores: front.cores })
            }
            _ if admit > cores => Some(Reason::NoPlace { busy: self.busy, admit }),
            _ => Some(Reason::NoCore { busy: self.busy, cores }),
        }
    }

    /// Returns the obstacle of a job itself, whatever the cores are doing.
    fn obstacle(&self, job: &Job) -> Option<Reason> {
        if let Some(by) = &job.held_by {
            return Some(Reason::Held { by: by.clone() });
        }
        for earlier in &job.after {
            match self.jobs.get(earlier).map(|job| job.state) {
                Some(State::Ended(End::Exited(0))) => {}
                Some(State::Ended(_)) | None => {
                    return Some(Reason::AfterFailed { job: *earlier });
                }
                Some(_) => return Some(Reason::After { job: *earlier }),
            }
        }
        let Membership { array, limit: Some(limit), .. } = job.array? else { return None };
        let others = self.of_arrays.get(&array).copied().unwrap_or(0)
            - u32::from(self.admitted.contains(&job.id));
        (others >= limit).then_some(Reason::ArrayLimit { running: others, limit })
    }
}

/// Takes one from a count. Counts of zero are not kept.
fn count_down<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn place(job: &Job) -> Place {
    (Reverse(job.priority), job.id)
}

#[cfg(test)]
mod tests;
