//! The queue and its copy on disk.

use std::collections::{BTreeMap, BTreeSet};

use memweir_core::JobId;
use memweir_linux::peer::Credentials;

use crate::protocol::Work;
use crate::queue::{Job, Queue, Retention, State};
use crate::store::{Store, StoreError};
use crate::uptime::Reading;

/// Calls of [`catch_up`](StoredQueue::catch_up) from a refused start to the next one of the same
/// job. Others are tried meanwhile, should the job itself be the cause.
pub(super) const PAUSE: u32 = 5;

/// A cause for which the daemon itself holds a job, until it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The start of the job cannot be written.
    Disk,
    /// The machine refuses the job's supervisor.
    Machine,
}

impl Holder {
    /// Returns the name by which people know it.
    fn name(self) -> &'static str {
        match self {
            Self::Disk => "memweir, which cannot write its state",
            Self::Machine => "memweir, which cannot start it yet",
        }
    }
}

/// Returns a job from the store without the hold of an earlier daemon, which nobody would release:
/// other changes of the job may have been written while it lasted.
pub(super) fn unheld(job: Job) -> Job {
    let is_of_daemon = |by: &String| [Holder::Disk, Holder::Machine].iter().any(|h| h.name() == by);
    Job { held_by: job.held_by.filter(|by| !is_of_daemon(by)), ..job }
}

/// A queue of which each change goes to a store first. A request that cannot be written changes
/// nothing. Events cannot be refused: theirs hold in memory alone until they are written again.
#[derive(Debug)]
pub(super) struct StoredQueue {
    queue: Queue,
    store: Store,
    /// Jobs whose last change is not in the store, as of a disk that was full.
    unwritten: BTreeSet<JobId>,
    /// Jobs that the daemon holds, with the calls of `catch_up` that are left until their release.
    held: BTreeMap<JobId, (Holder, u32)>,
    /// Jobs that may be admitted; absent where all may. After a refused start they are tried one by
    /// one, or all of a long queue would be refused in turn.
    trials: Option<u32>,
}

impl StoredQueue {
    /// Returns the queue that `store` keeps.
    pub(super) fn new(queue: Queue, store: Store) -> Self {
        Self { queue, store, unwritten: BTreeSet::new(), held: BTreeMap::new(), trials: None }
    }

    /// Returns the queue.
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Adds new jobs of a user of this group.
    pub(super) fn add(
        &mut self,
        jobs: Vec<Job>,
        group: u32,
        work: &Work,
    ) -> Result<(), StoreError> {
        self.store.add(&jobs, group, work)?;
        jobs.into_iter().for_each(|job| self.queue.insert(job));
        Ok(())
    }

    /// Replaces changed jobs.
    pub(super) fn apply(&mut self, changed: Vec<Job>) -> Result<(), StoreError> {
        self.store.update(&changed)?;
        changed.into_iter().for_each(|job| self.queue.insert(job));
        Ok(())
    }

    /// Sets whether the queue starts no further job.
    pub(super) fn set_draining(&mut self, draining: bool) -> Result<(), StoreError> {
        self.store.set_draining(draining)?;
        self.queue.set_draining(draining);
        Ok(())
    }

    /// Writes the clock of ages.
    pub(super) fn set_uptime(&mut self, reading: &Reading) -> Result<(), StoreError> {
        self.store.set_uptime(reading)
    }

    /// Admits as many pending jobs as there is room for. Admissions last as long as the daemon.
    pub(super) fn admit(&mut self) -> Vec<Job> {
        let mut admitted = Vec::new();
        while self.trials != Some(0)
            && let Some(id) = self.admit_next()
        {
            self.trials = self.trials.map(|left| left - 1);
            admitted.extend(self.queue.get(id).cloned());
        }
        admitted
    }

    /// Admits the next job. While the machine refuses jobs of a user, those of others go first: the
    /// user may be the cause, and has more jobs than can be tried in turn.
    fn admit_next(&mut self) -> Option<JobId> {
        let held = self.held.iter().filter(|(_, (holder, _))| *holder == Holder::Machine);
        let refused: BTreeSet<u32> =
            held.filter_map(|(id, _)| Some(self.queue.get(*id)?.user)).collect();
        if !refused.is_empty()
            && let Some(id) = self.queue.admit_next_of(|job| !refused.contains(&job.user))
        {
            return Some(id);
        }
        self.queue.admit_next()
    }

    /// Notes that the machine has let a job start.
    pub(super) fn has_room(&mut self) {
        self.trials = None;
    }

    /// Notes that a job is about to start at `wall_ms`; `None` if it no longer is to. A job whose
    /// start cannot be written is held.
    pub(super) fn begin(
        &mut self,
        id: JobId,
        wall_ms: u64,
    ) -> Option<Result<(Job, Work, Credentials), StoreError>> {
        let job = self.queue.get(id).filter(|job| job.state == State::Pending)?;
        if !self.queue.is_admitted(id) {
            return None;
        }
        let starting = job.starting(wall_ms);
        let read = self.store.work(id);
        let written = read.and_then(|read| self.apply(vec![starting.clone()]).map(|()| read));
        if written.is_err() {
            self.hold(id, Holder::Disk);
        }
        Some(written.map(|(work, user)| (starting, work, user)))
    }

    /// Holds a job for a while, if it is pending and nobody else holds it.
    pub(super) fn hold(&mut self, id: JobId, holder: Holder) {
        if holder == Holder::Machine {
            self.trials = Some(0);
        }
        let free = self.queue.get(id).filter(|job| job.held_by.is_none());
        if let Some(held) = free.and_then(|job| job.held(holder.name()).ok()) {
            self.queue.insert(held);
            let pause = if holder == Holder::Machine { PAUSE } else { 1 };
            self.held.insert(id, (holder, pause));
        }
    }

    /// Changes a job, in memory alone if that cannot be written; `None` if there is no such job.
    pub(super) fn set(
        &mut self,
        id: JobId,
        change: impl Fn(&Job) -> Job,
    ) -> Option<Result<(), StoreError>> {
        let changed = self.queue.get(id).map(change)?;
        let written = self.store.update(std::slice::from_ref(&changed));
        self.queue.insert(changed);
        match written {
            Ok(()) => self.unwritten.remove(&id),
            Err(_) => self.unwritten.insert(id),
        };
        Some(written)
    }

    /// Returns true if a job is held by the daemon, or a change is in memory alone.
    pub(super) fn is_behind(&self) -> bool {
        self.is_unwritten() || !self.held.is_empty() || self.trials.is_some()
    }

    /// Returns true if something could not be written.
    pub(super) fn is_unwritten(&self) -> bool {
        !self.unwritten.is_empty() || self.held.values().any(|(holder, _)| *holder == Holder::Disk)
    }

    /// Writes the changes that could not be written, and releases the jobs that the daemon has held
    /// for long enough. Returns the jobs that are over and were not in the store as such.
    pub(super) fn catch_up(&mut self) -> Result<Vec<Job>, StoreError> {
        let changed = self.unwritten.iter().filter_map(|id| self.queue.get(*id));
        let changed: Vec<Job> = changed.cloned().collect();
        let due = self.held.iter().filter(|(_, (_, left))| *left <= 1);
        let due = due.filter_map(|(id, (by, _))| Some((self.queue.get(*id)?, by)));
        let due = due.filter(|(job, by)| job.held_by.as_deref() == Some(by.name()));
        let released: Vec<Job> = due.filter_map(|(job, _)| job.released().ok()).collect();
        self.store.update(&changed)?;
        self.apply(released)?;
        self.unwritten.clear();
        self.held.retain(|_, (_, left)| {
            *left -= 1;
            *left > 0
        });
        self.trials = self.trials.map(|_| 1);
        Ok(changed.into_iter().filter(|job| matches!(job.state, State::Ended(_))).collect())
    }

    /// Removes those of `jobs` that are old; clients may have changed them meanwhile.
    pub(super) fn remove(
        &mut self,
        jobs: &[JobId],
        retention: Retention,
        uptime_ms: u64,
    ) -> Result<Vec<Job>, StoreError> {
        let old: BTreeSet<JobId> = self.queue.prunable(retention, uptime_ms).into_iter().collect();
        let jobs: Vec<JobId> = jobs.iter().copied().filter(|id| old.contains(id)).collect();
        self.store.remove(&jobs)?;
        let removed = jobs.iter().filter_map(|id| self.queue.get(*id).cloned()).collect();
        jobs.into_iter().for_each(|id| self.queue.remove(id));
        Ok(removed)
    }
}
