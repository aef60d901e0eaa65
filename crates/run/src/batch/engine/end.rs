//! The ends of jobs and of the batch.

use memweir_core::{JobId, Nanos};
use nix::sys::signal::Signal;

use super::{CHILDREN_POLL, Engine, OnExit, Stage};
use crate::batch::RunError;
use crate::batch::world::Occurrence;
use crate::observer::Event;

/// Time between SIGTERM and SIGKILL.
const GRACE: Nanos = Nanos::from_millis(2_000);
/// Time after SIGKILL after which the remaining jobs are left to the guardian: a process that waits
/// for a dead disk cannot be killed.
const KILL_TIMEOUT: Nanos = Nanos::from_millis(10_000);

impl Engine<'_> {
    /// Notes that the first process of a job has ended. The job is over once it has no children
    /// left.
    pub(super) fn first_process_ended(&mut self, job: JobId, code: i32) {
        if self.slots[job.index()].stage == Stage::Started {
            self.slots[job.index()].stage = Stage::ChildrenLeft(code);
        }
    }

    pub(super) fn children_left(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.stage, Stage::ChildrenLeft(_)))
    }

    /// Ends the jobs that have no process left, and fills their cores.
    pub(super) fn reap(&mut self) {
        if self.bury_the_dead() {
            self.fill_free_cores();
        }
    }

    fn bury_the_dead(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.slots.len() {
            let Stage::ChildrenLeft(code) = self.slots[index].stage else { continue };
            let job = JobId(index as u32);
            // A job whose processes cannot be queried counts as ended.
            if !self.parts.blocker.populated(job).unwrap_or(false) {
                let reading = self.read(job, self.parts.world.now());
                self.ended.push(reading);
                self.over(job, code);
                any = true;
            }
        }
        any
    }

    /// Marks the job as over and releases what it held.
    pub(super) fn over(&mut self, job: JobId, code: i32) {
        self.slots[job.index()].stage = Stage::Over;
        self.failed |= code != 0;
        self.detach_meter(job);
        // If the job was never prepared, or the kernel is still emptying its place, clearing it is
        // left to the guardian.
        let _ = self.parts.blocker.retire(job);
        self.parts.scheduler.retire(job);
        self.leave(job, Some(code));
    }

    fn detach_meter(&mut self, job: JobId) {
        let Some(meter) = &mut self.parts.meter else { return };
        let notices = meter.notices(job);
        meter.detach(job);
        for notice in notices {
            let name = &self.parts.batch.jobs[job.index()].name;
            self.notice(format!("{name}: {notice}"));
        }
    }

    /// Records the job's end and reports it to the observer.
    fn leave(&mut self, job: JobId, exit_code: Option<i32>) {
        let wall = self.parts.ledger.ended(job, exit_code, self.parts.world.now());
        let name = &self.parts.batch.jobs[job.index()].name;
        self.parts.observer.event(Event::JobEnded { job, name, exit_code, wall });
    }

    /// Ends the batch before its jobs have ended.
    pub(super) fn shut_down(&mut self, on_exit: OnExit) -> Result<(), RunError> {
        self.bury_the_dead();
        self.close_quantum();
        if let Err(error) = self.parts.blocker.run_all() {
            self.notice(format!("some jobs may stay blocked: {error}"));
        }
        for index in 0..self.slots.len() {
            if self.slots[index].stage == Stage::Waiting {
                self.slots[index].stage = Stage::Over;
                self.leave(JobId(index as u32), None);
            }
        }
        match on_exit {
            OnExit::Release => self.release(),
            OnExit::Kill => self.terminate()?,
        }
        self.close_quantum();
        Ok(())
    }

    /// Leaves the jobs running.
    fn release(&mut self) {
        for job in self.alive() {
            self.detach_meter(job);
            self.parts.world.forget(job);
            self.slots[job.index()].stage = Stage::Over;
            self.leave(job, None);
            let name = &self.parts.batch.jobs[job.index()].name;
            self.notice(format!("{name} was left running"));
        }
    }

    /// Asks the jobs to end, and kills those that do not within [`GRACE`] or as soon as the user
    /// asks again.
    fn terminate(&mut self) -> Result<(), RunError> {
        self.signal(Signal::SIGTERM);
        let grace = self.parts.world.now() + GRACE;
        self.wait_for_the_end(grace)?;
        if self.everything_over() {
            return Ok(());
        }
        let patience = self.parts.world.now() + KILL_TIMEOUT;
        while !self.everything_over() && self.parts.world.now() < patience {
            // Repeatedly, because a job may be forking.
            self.signal(Signal::SIGKILL);
            let soon = self.parts.world.now() + CHILDREN_POLL;
            self.wait_for_the_end(soon)?;
        }
        for job in self.alive() {
            self.slots[job.index()].stage = Stage::Over;
            let name = &self.parts.batch.jobs[job.index()].name;
            let text = format!("{name} could not be killed and may still run");
            self.leave(job, None);
            self.notice(text);
        }
        Ok(())
    }

    fn signal(&mut self, signal: Signal) {
        for job in self.alive() {
            if let Err(error) = self.parts.blocker.signal(job, signal as i32) {
                let name = &self.parts.batch.jobs[job.index()].name;
                self.notice(format!("{name} could not be sent {signal}: {error}"));
            }
        }
    }

    /// Waits until every job is over, `until` comes, or the user stops the batch again.
    fn wait_for_the_end(&mut self, until: Nanos) -> Result<(), RunError> {
        while !self.everything_over() && self.parts.world.now() < until {
            let next = self.parts.world.now() + CHILDREN_POLL;
            for occurrence in self.wait(next.min(until))? {
                match occurrence {
                    Occurrence::Exited(job, code) => self.first_process_ended(job, code),
                    Occurrence::Stop => return Ok(()),
                }
            }
            self.bury_the_dead();
        }
        Ok(())
    }

    fn alive(&self) -> Vec<JobId> {
        let alive = |stage| matches!(stage, Stage::Started | Stage::ChildrenLeft(_));
        (0..self.slots.len() as u32)
            .map(JobId)
            .filter(|job| alive(self.slots[job.index()].stage))
            .collect()
    }
}
