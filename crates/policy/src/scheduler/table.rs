//! The jobs of a batch, each in a fixed slot for its lifetime.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use memweir_core::JobId;

use super::job::Job;

/// Index of a job in the table.
pub(super) type Slot = usize;

/// Jobs by slot and by ID. Memory use follows the largest number of jobs alive at once.
#[derive(Default)]
pub(super) struct JobTable {
    slots: Vec<Option<Job>>,
    free: Vec<Slot>,
    by_id: HashMap<JobId, Slot>,
}

impl JobTable {
    /// Inserts a job; returns `None`, and drops the job, if its ID is already present.
    pub(super) fn insert(&mut self, job: Job) -> Option<Slot> {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        match self.by_id.entry(job.id()) {
            std::collections::hash_map::Entry::Occupied(_) => return None,
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(slot),
        };
        if self.free.pop().is_some() {
            self.slots[slot] = Some(job);
        } else {
            self.slots.push(Some(job));
        }
        Some(slot)
    }

    /// Removes a job; returns its slot.
    pub(super) fn remove(&mut self, job: JobId) -> Option<Slot> {
        let slot = self.by_id.remove(&job)?;
        self.slots[slot] = None;
        self.free.push(slot);
        Some(slot)
    }

    /// Returns all jobs.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.slots.iter_mut().flatten()
    }

    /// Returns the slot of a job.
    pub(super) fn slot_of(&self, job: JobId) -> Option<Slot> {
        self.by_id.get(&job).copied()
    }
}

impl Index<Slot> for JobTable {
    type Output = Job;

    fn index(&self, slot: Slot) -> &Job {
        self.slots[slot].as_ref().expect("the run queue names only jobs that are kept")
    }
}

impl IndexMut<Slot> for JobTable {
    fn index_mut(&mut self, slot: Slot) -> &mut Job {
        self.slots[slot].as_mut().expect("the run queue names only jobs that are kept")
    }
}
