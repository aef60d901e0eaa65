//! Processes of this host as a backend of the quantum loop: live, emulated, or over fakes.
//!
//! `backend/start.rs` starts jobs, `backend/observe.rs` reads them, `backend/record.rs` records
//! what they did, `backend/end.rs` handles the ends of jobs and of the batch.
//!
//! A job's process is created when the job is first selected. The run queue is the same as if all
//! processes had been created at submission, and five hundred jobs do not fill memory and the
//! process table with processes that wait for exec.

mod end;
mod observe;
mod record;
mod start;

use std::collections::HashMap;

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_linux::blocker::Demand;
use memweir_policy::quantum_loop::{self, Backend, Quantum, Start};
use memweir_policy::record::RecordingScheduler;
use memweir_policy::{Decision, JobSpec, Observation};

use super::ledger::Ledger;
use super::pinning::CoreMap;
use super::plan::Plan;
use super::{Mechanisms, Outputs, RunError, Totals};
use crate::jobs::Job;
use crate::observer::{Event, Observer};
use crate::options::{OnFailure, Pinning};
use crate::report::{LostOutput, Outcome};

/// State of a job.
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

/// One job while the batch runs.
#[derive(Clone, Debug)]
struct Slot {
    stage: Stage,
    /// Readings before this quantum.
    totals: Totals,
    /// Bandwidth predicted for it when the quantum began; kept for the timeline alone.
    predicted: Option<BytesPerSec>,
}

/// One batch of processes while it runs.
pub(super) struct ProcessBackend<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) mechanisms: Mechanisms,
    pub(super) outputs: Outputs,
    observer: &'a mut dyn Observer,
    pub(super) ledger: Ledger,
    slots: Vec<Slot>,
    /// Jobs that have not been submitted yet.
    arrivals: Vec<JobSpec>,
    /// Gives single-core jobs cores of their own; absent if that was not requested.
    cores: Option<CoreMap>,
    /// CPUs that jobs are bound to, one for each job.
    bound: HashMap<JobId, usize>,
    /// True if a job has failed.
    failed: bool,
    pub(super) outcome: Outcome,
    /// Target of the last decision.
    pub(super) target: Option<BytesPerSec>,
    pub(super) notices: Vec<String>,
    pub(super) lost: Vec<LostOutput>,
}

impl<'a> ProcessBackend<'a> {
    /// Takes over the mechanisms, and passes their notices on.
    pub(super) fn new(
        plan: &'a Plan<'a>,
        mut mechanisms: Mechanisms,
        outputs: Outputs,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let slot = Slot {
            stage: Stage::Waiting,
            totals: Totals { metered: mechanisms.meter.is_some(), ..Totals::default() },
            predicted: None,
        };
        let expected: Vec<_> = plan.knowledge.jobs.iter().map(|known| known.time).collect();
        let mut notices = plan.notices.clone();
        notices.append(&mut mechanisms.notices);
        observer.event(Event::BusKnown(plan.frame.bus));
        for notice in &notices {
            observer.event(Event::Notice(notice));
        }
        Self {
            mechanisms,
            outputs,
            observer,
            ledger: Ledger::new(plan.batch, &expected, plan.cores(), plan.options.quantum),
            slots: vec![slot; plan.batch.jobs.len()],
            arrivals: plan.knowledge.specs(plan.batch),
            cores: (plan.pinning == Pinning::OneJobPerCore)
                .then(|| CoreMap::new(plan.frame.cpus.clone())),
            bound: HashMap::new(),
            failed: false,
            outcome: Outcome::Finished,
            target: None,
            notices,
            lost: Vec::new(),
            plan,
        }
    }

    fn job(&self, job: JobId) -> &'a Job {
        &self.plan.batch.jobs[job.index()]
    }

    /// The jobs in a stage for which `is` holds, in ascending order.
    fn jobs_in(&self, is: impl Fn(Stage) -> bool) -> Vec<JobId> {
        let jobs = (0..self.slots.len() as u32).map(JobId);
        jobs.filter(|job| is(self.slots[job.index()].stage)).collect()
    }

    /// Sum of the cores that the jobs occupy.
    fn cores_of(&self, jobs: &[JobId]) -> u32 {
        jobs.iter().map(|job| self.job(*job).cores).sum()
    }

    /// Binds the selected single-core jobs to cores of their own, if that was requested.
    fn place(&mut self, chosen: &[JobId]) {
        let single: Vec<JobId> =
            chosen.iter().copied().filter(|job| self.job(*job).cores == 1).collect();
        let Some(cores) = &mut self.cores else { return };
        for (job, cpu) in cores.place(&single) {
            self.bound.insert(job, cpu);
            if let Err(error) = self.mechanisms.world.bind(job, &[cpu]) {
                let name = &self.job(job).name;
                self.notice(format!("{name} could not be bound to CPU {cpu}: {error}"));
            }
        }
    }

    /// Shows the user a notice, now and in the report; equal texts only once.
    fn notice(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.notices.contains(&text) {
            return;
        }
        self.observer.event(Event::Notice(&text));
        self.notices.push(text);
    }
}

impl Backend for ProcessBackend<'_> {
    type Error = RunError;

    fn now(&mut self) -> Nanos {
        self.mechanisms.world.now()
    }

    fn wait(&mut self, until: Nanos) -> Result<Vec<quantum_loop::Event>, RunError> {
        if !self.arrivals.is_empty() {
            return Ok(self.arrivals.drain(..).map(quantum_loop::Event::Arrived).collect());
        }
        if self.failed && self.plan.options.on_failure == OnFailure::FailFast {
            self.outcome = Outcome::FailedFast;
            return Ok(vec![quantum_loop::Event::Stop]);
        }
        let stopped = self.watch(until)?;
        let mut events = self.reap();
        if stopped {
            self.outcome = Outcome::Interrupted;
            events.push(quantum_loop::Event::Stop);
        }
        Ok(events)
    }

    fn expects_jobs(&self) -> bool {
        !self.arrivals.is_empty()
    }

    fn can_block(&self) -> bool {
        !self.mechanisms.unblockable
    }

    fn block(&mut self) {
        let notices = self.mechanisms.block();
        notices.into_iter().for_each(|notice| self.notice(notice));
    }

    fn read(&mut self, jobs: &[JobId]) -> Vec<Observation> {
        jobs.iter().map(|job| self.read_job(*job)).collect()
    }

    fn resume(&mut self, decision: &Decision, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        self.target = decision.target;
        let (fresh, started): (Vec<JobId>, Vec<JobId>) =
            jobs.iter().partition(|job| self.slots[job.index()].stage == Stage::Waiting);
        let unfinished = self.jobs_in(|stage| stage != Stage::Over);
        let demand = Demand { total: self.cores_of(&unfinished), running: self.cores_of(jobs) };
        let notices = self.mechanisms.resume(decision, &started, demand);
        notices.into_iter().for_each(|notice| self.notice(notice));
        self.place(&decision.chosen);
        self.start(&fresh)
    }

    fn quantum_began(&mut self, scheduler: &RecordingScheduler) {
        if self.wants_rows() {
            for (index, slot) in self.slots.iter_mut().enumerate() {
                slot.predicted = scheduler.demand(JobId(index as u32));
            }
        }
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        self.record(quantum);
    }

    fn stop(&mut self) -> Result<Vec<quantum_loop::Event>, RunError> {
        self.shut_down()
    }
}

#[cfg(test)]
mod tests;
