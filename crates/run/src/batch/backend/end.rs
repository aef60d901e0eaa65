//! The ends of jobs and of the batch.

use memweir_core::{JobId, Nanos};
use memweir_linux::OsError;
use memweir_linux::signals::Signal;
use memweir_linux::world::Occurrence;
use memweir_policy::{Ending, quantum_loop};

use super::ProcessBackend;
use crate::batch::RunError;
use crate::observer;
use crate::options::OnExit;

/// Polling interval for a job whose first process has ended and whose children go on.
const CHILDREN_POLL: Nanos = Nanos::from_millis(5);
/// Time between SIGTERM and SIGKILL.
const GRACE: Nanos = Nanos::from_millis(2_000);
/// Time after SIGKILL after which the remaining jobs are left to the guardian: a process that waits
/// for a dead disk cannot be killed.
const KILL_TIMEOUT: Nanos = Nanos::from_millis(10_000);

impl ProcessBackend<'_> {
    /// Waits for processes to end, at most until `until`, and notes which did. Returns true if the
    /// user stops the batch.
    pub(super) fn watch(&mut self, until: Nanos) -> Result<bool, RunError> {
        let world = &mut self.mechanisms.world;
        let until = match self.slots.orphaned().is_empty() {
            true => until,
            false => until.min(world.now() + CHILDREN_POLL),
        };
        let occurrences = world.wait(until);
        let occurrences = occurrences.map_err(OsError::of("waiting for the end of the quantum"))?;
        let (mut stop, mut suspend) = (false, false);
        for occurrence in occurrences {
            match occurrence {
                Occurrence::Exited { job, code, cpu_time } => {
                    self.slots.first_process_ended(job, code);
                    self.slots.totals(job).ended_after = cpu_time;
                }
                Occurrence::Stop => stop = true,
                Occurrence::Suspend => suspend = true,
                // Jobs of a batch are never adopted, and nothing else changes it.
                Occurrence::Vanished(_) | Occurrence::Woken => {}
            }
        }
        if suspend && !stop {
            self.suspend();
        }
        Ok(stop)
    }

    /// Blocks the jobs while this process is stopped.
    fn suspend(&mut self) {
        let alive = self.slots.alive();
        let running: Vec<JobId> =
            self.running.iter().copied().filter(|job| alive.contains(job)).collect();
        let notices = self.mechanisms.suspend(&running);
        self.notify(notices);
    }

    /// Ends the jobs that have no process left, with a last reading.
    pub(super) fn reap(&mut self) -> Vec<quantum_loop::Event> {
        let mut ends = Vec::new();
        for (job, code) in self.slots.orphaned() {
            // A job whose processes cannot be queried counts as ended.
            if !self.mechanisms.blocker.populated(job).unwrap_or(false) {
                let at = self.mechanisms.world.now();
                let observation = self.read_job(job);
                let ending = if code == 0 { Ending::Completed } else { Ending::Unfinished };
                ends.push(quantum_loop::Event::Ended { observation, at, ending });
                self.over(job, code);
            }
        }
        ends
    }

    /// Marks the job as over and releases what it held.
    pub(super) fn over(&mut self, job: JobId, code: i32) {
        self.failed |= code != 0;
        self.detach_meter(job);
        // If the job was never prepared, or the kernel is still emptying its place, clearing it is
        // left to the guardian.
        let _ = self.mechanisms.blocker.retire(job);
        self.leave(job, Some(code));
    }

    fn detach_meter(&mut self, job: JobId) {
        let Some(meter) = &mut self.mechanisms.meter else { return };
        let notices = meter.notices(job);
        meter.detach(job);
        for notice in notices {
            self.notice(format!("{}: {notice}", self.job(job).name));
        }
    }

    /// Records the job's end and reports it to the observer.
    fn leave(&mut self, job: JobId, exit_code: Option<i32>) {
        self.slots.over(job);
        let wall = self.ledger.ended(job, exit_code, self.mechanisms.world.now());
        let name = &self.job(job).name;
        self.recorder.event(observer::Event::JobEnded { job, name, exit_code, wall });
    }

    /// Ends the batch before its jobs have ended; returns the ends of those that end meanwhile.
    pub(super) fn shut_down(&mut self) -> Result<Vec<quantum_loop::Event>, RunError> {
        if let Err(error) = self.mechanisms.blocker.run_all() {
            self.notice(format!("some jobs may stay blocked: {error}"));
        }
        self.running = self.slots.alive();
        for job in self.slots.waiting() {
            self.leave(job, None);
        }
        match self.plan.options.on_exit {
            OnExit::Release if self.outcome.is_cut_short() => {
                self.release();
                Ok(Vec::new())
            }
            _ => self.terminate(),
        }
    }

    /// Leaves the jobs running.
    fn release(&mut self) {
        for job in self.slots.alive() {
            self.detach_meter(job);
            self.unbind(job);
            self.mechanisms.world.forget(job);
            self.leave(job, None);
            self.notice(format!("{} was left running", self.job(job).name));
        }
    }

    /// Lets a job run on all CPUs of the batch again: nobody would move it from its core any more.
    fn unbind(&mut self, job: JobId) {
        if self.cores.as_ref().and_then(|cores| cores.of(job)).is_some()
            && let Err(error) = self.mechanisms.world.bind(job, &self.plan.frame.cpus)
        {
            self.notice(format!("{} stays bound to its CPU: {error}", self.job(job).name));
        }
    }

    /// Asks the jobs to end, and kills those that do not within [`GRACE`] or as soon as the user
    /// asks again.
    fn terminate(&mut self) -> Result<Vec<quantum_loop::Event>, RunError> {
        self.signal(Signal::SIGTERM);
        let grace = self.mechanisms.world.now() + GRACE;
        let mut ends = self.watch_ends(grace)?;
        let timeout = self.mechanisms.world.now() + KILL_TIMEOUT;
        while !self.slots.alive().is_empty() && self.mechanisms.world.now() < timeout {
            // Repeatedly, because a job may be forking.
            self.signal(Signal::SIGKILL);
            let soon = self.mechanisms.world.now() + CHILDREN_POLL;
            ends.extend(self.watch_ends(soon)?);
        }
        for job in self.slots.alive() {
            self.leave(job, None);
            self.notice(format!("{} could not be killed and may still run", self.job(job).name));
        }
        Ok(ends)
    }

    fn signal(&mut self, signal: Signal) {
        for job in self.slots.alive() {
            if let Err(error) = self.mechanisms.blocker.signal(job, signal as i32) {
                let name = &self.job(job).name;
                self.notice(format!("{name} could not be sent {signal}: {error}"));
            }
        }
    }

    /// Waits until every job is over, `until` comes, or the user stops the batch again.
    fn watch_ends(&mut self, until: Nanos) -> Result<Vec<quantum_loop::Event>, RunError> {
        let mut ends = Vec::new();
        while !self.slots.alive().is_empty() && self.mechanisms.world.now() < until {
            let next = self.mechanisms.world.now() + CHILDREN_POLL;
            let stopped = self.watch(next.min(until))?;
            ends.extend(self.reap());
            if stopped {
                break;
            }
        }
        Ok(ends)
    }
}
