//! The ends of jobs, by themselves or because a client canceled them.

use memweir_core::{JobId, Nanos};
use memweir_linux::OsError;
use memweir_linux::signals::Signal;
use memweir_linux::world::Occurrence;
use memweir_policy::{Ending, Observation, quantum_loop};
use memweir_run::batch::RunError;
use memweir_run::observer;

use super::{IDLE_CALL, QueueBackend};
use crate::queue::{End, Loss};

/// Polling interval for a job whose supervisor has ended and whose other processes go on.
const CHILDREN_POLL: Nanos = Nanos::from_millis(5);
/// Time between SIGTERM and SIGKILL to a canceled job, and between further SIGKILLs.
const GRACE: Nanos = Nanos::from_millis(2_000);

/// State of a job that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has no process yet.
    Admitted,
    /// Its supervisor runs or is blocked.
    Started,
    /// Its supervisor has ended, other processes of it have not. Without an end it never began.
    ChildrenLeft(Option<End>),
}

impl QueueBackend<'_> {
    /// Removes the jobs that clients have held or canceled before their first quantum.
    pub(super) fn withdrawals(&mut self) -> Vec<quantum_loop::Event> {
        let is_withdrawn = |(job, slot): (&JobId, &super::Slot)| {
            let gone = slot.stage == Stage::Admitted && !self.service.is_admitted(*job);
            gone.then_some(*job)
        };
        let gone: Vec<JobId> = self.slots.iter().filter_map(is_withdrawn).collect();
        let at = self.mechanisms.world.now();
        gone.into_iter()
            .map(|job| {
                self.slots.remove(&job);
                let (observation, ending) = (nothing_of(job), Ending::Unfinished);
                quantum_loop::Event::Ended { observation, at, ending }
            })
            .collect()
    }

    /// Sends the due signals to canceled jobs: SIGTERM first, SIGKILL until they are gone.
    pub(super) fn signal_canceled(&mut self) {
        let now = self.mechanisms.world.now();
        let is_due = |(job, slot): (&JobId, &super::Slot)| {
            let due = slot.stage != Stage::Admitted && slot.next_signal.is_none_or(|at| at <= now);
            (due && self.service.is_canceled(*job)).then_some(*job)
        };
        let due: Vec<JobId> = self.slots.iter().filter_map(is_due).collect();
        for job in due {
            let Some(slot) = self.slots.get_mut(&job) else { continue };
            let signal = if slot.signals == 0 { Signal::SIGTERM } else { Signal::SIGKILL };
            slot.signals += 1;
            slot.next_signal = Some(now + GRACE);
            if let Err(error) = self.mechanisms.blocker.signal(job, signal as i32) {
                self.service.notice(format!("job {job} could not be sent {signal}: {error}"));
            }
        }
    }

    /// Waits for the ends of jobs, changes by clients, and signals, at most until `until`.
    pub(super) fn watch(&mut self, until: Nanos) -> Result<Vec<quantum_loop::Event>, RunError> {
        let now = self.mechanisms.world.now();
        let until = self.slots.values().fold(until, |until, slot| match slot.stage {
            Stage::ChildrenLeft(_) => until.min(now + CHILDREN_POLL),
            _ => slot.next_signal.map_or(until, |at| until.min(at)),
        });
        let until = match self.recorder.wants_rows() {
            true => until.min(now + IDLE_CALL),
            false => until,
        };
        let occurrences = self.mechanisms.world.wait(until);
        let occurrences = occurrences.map_err(OsError::of("waiting for jobs and clients"))?;
        let mut stop = None;
        for occurrence in occurrences {
            match occurrence {
                Occurrence::Exited { job, cpu_time, .. } => {
                    self.supervisor_ended(job, cpu_time);
                }
                Occurrence::Vanished(job) => self.supervisor_ended(job, None),
                Occurrence::Stop => stop = Some(quantum_loop::Event::Stop),
                // A daemon does not ask to be told of requests to suspend it.
                Occurrence::Woken | Occurrence::Suspend => {}
            }
        }
        Ok(self.reap().into_iter().chain(stop).collect())
    }

    /// Reads the end that a supervisor has left.
    fn supervisor_ended(&mut self, job: JobId, cpu_time: Option<Nanos>) {
        let Some(found) = self.service.job(job) else { return };
        let end = self.service.attempt(&found).outcome().unwrap_or_else(|error| {
            self.service.notice(format!("the end of job {job} cannot be read: {error}"));
            Some(End::Lost(Loss::Files))
        });
        if let Some(slot) = self.slots.get_mut(&job) {
            slot.stage = Stage::ChildrenLeft(end);
            slot.totals.ended_after = cpu_time;
        }
    }

    /// Ends the jobs that have no process left.
    fn reap(&mut self) -> Vec<quantum_loop::Event> {
        let left = |(job, slot): (&JobId, &super::Slot)| match slot.stage {
            Stage::ChildrenLeft(end) => Some((*job, end)),
            _ => None,
        };
        let ending: Vec<(JobId, Option<End>)> = self.slots.iter().filter_map(left).collect();
        let mut events = Vec::new();
        for (job, end) in ending {
            // A job whose processes cannot be queried counts as ended.
            if self.mechanisms.blocker.populated(job).unwrap_or(false) {
                continue;
            }
            let at = self.mechanisms.world.now();
            let observation = self.read_job(job).unwrap_or_else(|| nothing_of(job));
            let ending = end.map_or(Ending::Unfinished, |end| self.ending(job, end));
            events.push(quantum_loop::Event::Ended { observation, at, ending });
            match end {
                Some(end) => self.over(job, end),
                None => {
                    self.tell_end(job, None);
                    self.failed(job, &"its supervisor had no room, or was killed");
                }
            }
        }
        events
    }

    /// Returns the kind of a job's end, for the scheduler.
    fn ending(&self, job: JobId, end: End) -> Ending {
        match end {
            End::Exited(0) if !self.service.is_canceled(job) => Ending::Completed,
            _ => Ending::Unfinished,
        }
    }

    /// Releases what a job held, and records its end.
    fn over(&mut self, job: JobId, end: End) {
        self.keep_first_run(job, end);
        self.tell_end(job, Some(end.exit_code()));
        if let Some(meter) = &mut self.mechanisms.meter {
            for notice in meter.notices(job) {
                self.service.notice(format!("job {job}: {notice}"));
            }
        }
        self.release(job);
        self.service.over(job, end);
    }

    /// Tells the observer of the end of a job that it was told had started; without an exit code,
    /// the job never began.
    fn tell_end(&mut self, job: JobId, exit_code: Option<i32>) {
        let name = self.service.name_of(job);
        let started = self.slots.get(&job).and_then(|slot| slot.started);
        let wall = started.map_or(Nanos::ZERO, |at| self.mechanisms.world.now().saturating_sub(at));
        self.recorder.event(observer::Event::JobEnded { job, name: &name, exit_code, wall });
    }

    /// Gives back what a job has of meter, blocker and cores.
    pub(super) fn release(&mut self, job: JobId) {
        if let Some(meter) = &mut self.mechanisms.meter {
            meter.detach(job);
        }
        // If the kernel is still emptying its place, clearing it is left to the guardian.
        let _ = self.mechanisms.blocker.retire(job);
        let _ = self.mechanisms.blocker.take_limit_use(job);
        self.slots.remove(&job);
    }

    /// Hands the first run of a program over to the profile store, if it ended well.
    fn keep_first_run(&mut self, job: JobId, end: End) {
        let slot = self.slots.get_mut(&job);
        let Some(watch) = slot.and_then(|slot| slot.first_run.take()) else { return };
        let (Some(keeper), Some(meter)) = (&self.keeper, &self.mechanisms.meter) else { return };
        if self.ending(job, end) != Ending::Completed {
            return;
        }
        let begin = self.service.job(job).map(|found| self.service.attempt(&found).read_begin());
        if let Some(Ok(begin)) = begin
            && let Some(run) = watch.first_run(job, begin, meter.kind())
        {
            keeper.keep(run);
        }
    }
}

/// Returns the observation of a job that has done nothing.
fn nothing_of(job: JobId) -> Observation {
    Observation::new(job, Nanos::ZERO, None)
}
