//! Stages of the jobs of a batch.

use memweir_core::JobId;

use super::Totals;

/// Stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its process does not exist yet.
    Waiting,
    /// Its first process runs or is blocked.
    Started,
    /// Its first process has ended with this code, its children have not.
    ChildrenLeft(i32),
    /// It has ended, or the batch no longer follows it.
    Over,
}

#[derive(Clone, Debug)]
struct Slot {
    stage: Stage,
    /// Readings before this quantum.
    totals: Totals,
}

/// The jobs of a batch, in its order. A job passes through its stages in one direction.
#[derive(Debug)]
pub(super) struct Slots(Vec<Slot>);

impl Slots {
    /// Returns `count` jobs that wait.
    pub(super) fn new(count: usize, totals: Totals) -> Self {
        Self(vec![Slot { stage: Stage::Waiting, totals }; count])
    }

    fn jobs_in(&self, is: impl Fn(Stage) -> bool) -> Vec<JobId> {
        let jobs = (0..).map(JobId).zip(&self.0);
        jobs.filter(|(_, slot)| is(slot.stage)).map(|(job, _)| job).collect()
    }

    /// Returns the jobs that have no process yet.
    pub(super) fn waiting(&self) -> Vec<JobId> {
        self.jobs_in(|stage| stage == Stage::Waiting)
    }

    /// Returns the jobs that have a process.
    pub(super) fn alive(&self) -> Vec<JobId> {
        self.jobs_in(|stage| matches!(stage, Stage::Started | Stage::ChildrenLeft(_)))
    }

    /// Returns the jobs that are not over.
    pub(super) fn unfinished(&self) -> Vec<JobId> {
        self.jobs_in(|stage| stage != Stage::Over)
    }

    /// Returns the jobs of which only children are left, with the exit codes of their first
    /// processes.
    pub(super) fn orphaned(&self) -> Vec<(JobId, i32)> {
        let code = |(job, slot): (JobId, &Slot)| match slot.stage {
            Stage::ChildrenLeft(code) => Some((job, code)),
            _ => None,
        };
        (0..).map(JobId).zip(&self.0).filter_map(code).collect()
    }

    /// Returns true if the job has no process yet.
    pub(super) fn is_waiting(&self, job: JobId) -> bool {
        self.0[job.index()].stage == Stage::Waiting
    }

    /// Returns true if the job is over.
    pub(super) fn is_over(&self, job: JobId) -> bool {
        self.0[job.index()].stage == Stage::Over
    }

    /// Notes that the job's first process runs its program.
    pub(super) fn started(&mut self, job: JobId) {
        self.0[job.index()].stage = Stage::Started;
    }

    /// Notes that the first process of a job has ended; of one that is over, nothing is noted.
    pub(super) fn first_process_ended(&mut self, job: JobId, code: i32) {
        let stage = &mut self.0[job.index()].stage;
        if *stage == Stage::Started {
            *stage = Stage::ChildrenLeft(code);
        }
    }

    /// Notes that the job is over.
    pub(super) fn over(&mut self, job: JobId) {
        self.0[job.index()].stage = Stage::Over;
    }

    /// Returns the readings of a job.
    pub(super) fn totals(&mut self, job: JobId) -> &mut Totals {
        &mut self.0[job.index()].totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: JobId = JobId(0);
    const B: JobId = JobId(1);

    #[test]
    fn a_job_is_alive_from_its_start_to_the_end_of_its_children() {
        let mut slots = Slots::new(2, Totals::default());
        assert_eq!((slots.waiting(), slots.alive()), (vec![A, B], vec![]));
        slots.started(A);
        slots.first_process_ended(A, 3);
        assert_eq!(
            (slots.waiting(), slots.alive(), slots.orphaned()),
            (vec![B], vec![A], vec![(A, 3)])
        );
        slots.over(A);
        assert_eq!((slots.alive(), slots.unfinished()), (vec![], vec![B]));
    }

    #[test]
    fn an_end_that_comes_late_changes_nothing() {
        let mut slots = Slots::new(1, Totals::default());
        slots.started(A);
        slots.over(A);
        slots.first_process_ended(A, 0);
        assert_eq!((slots.orphaned(), slots.unfinished()), (vec![], vec![]));
    }
}
