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

#[cfg(test)]
mod tests {
    use memweir_core::Nanos;

    use super::*;
    use crate::predictor::PredictorKind;
    use crate::scheduler::JobSpec;

    #[test]
    fn the_slot_of_a_job_that_is_gone_is_used_again() {
        let mut table = JobTable::default();
        let job = |id| Job::new(JobSpec::new(JobId(id)), PredictorKind::Last, Nanos::ZERO);
        assert_eq!([0, 1].map(|id| table.insert(job(id))), [Some(0), Some(1)]);
        assert_eq!(table.insert(job(1)), None);
        assert_eq!((table.remove(JobId(0)), table.remove(JobId(0))), (Some(0), None));
        assert_eq!(table.iter_mut().map(|job| job.id()).collect::<Vec<_>>(), [JobId(1)]);
        assert_eq!((table.insert(job(2)), table.slot_of(JobId(2))), (Some(0), Some(0)));
    }
}
