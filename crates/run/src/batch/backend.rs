//! Processes of this host as a backend of the quantum loop: live, emulated, or over fakes.
//!
//! Its parts own what they know: [`Slots`] the stages of the jobs, [`QuantumRecorder`] the rows and
//! events, [`Ledger`] the accounts. `backend/end.rs` handles the ends of jobs and of the batch,
//! `backend/report.rs` reports on it.
//!
//! A job's process is created when the job is first selected. The run queue is the same as if all
//! processes had been created at submission, and five hundred jobs do not fill memory and the
//! process table with processes that wait for exec.

mod end;
mod report;

use std::collections::BTreeSet;
use std::error::Error;

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_linux::MeterError;
use memweir_linux::blocker::Demand;
use memweir_policy::quantum_loop::{self, Backend, Quantum, Start};
use memweir_policy::record::{Call, RecordingScheduler};
use memweir_policy::{Decision, JobSpec, Observation};

use super::launcher::{self, Failure};
use super::ledger::Ledger;
use super::pinning::CoreMap;
use super::plan::Plan;
use super::recorder::{QuantumRecorder, RowSubject};
use super::slots::Slots;
use super::{Mechanisms, RunError, Totals};
use crate::jobs::Job;
use crate::logs::Logs;
use crate::observer;
use crate::options::{OnFailure, Pinning};
use crate::policy_program::PolicyFailure;
use crate::report::{BatchReport, Outcome};

/// One batch of processes while it runs.
pub(super) struct ProcessBackend<'a> {
    plan: &'a Plan<'a>,
    mechanisms: Mechanisms,
    logs: &'a Logs,
    recorder: QuantumRecorder<'a>,
    ledger: Ledger,
    slots: Slots,
    /// Jobs that have not been submitted yet.
    arrivals: Vec<JobSpec>,
    /// Gives single-core jobs cores of their own; absent if that was not requested.
    cores: Option<CoreMap>,
    /// Jobs that were resumed, and may have ended since.
    running: Vec<JobId>,
    /// True if a job has failed.
    failed: bool,
    /// Failure of a policy in another process.
    policy_failure: PolicyFailure,
    outcome: Outcome,
    /// Bandwidth predicted for each job when the quantum began; empty if no row shows it.
    predicted: Vec<Option<BytesPerSec>>,
    /// Target of the last decision.
    target: Option<BytesPerSec>,
    notices: Vec<String>,
}

impl<'a> ProcessBackend<'a> {
    /// Takes over the mechanisms, and passes their notices on.
    pub(super) fn new(
        plan: &'a Plan<'a>,
        mut mechanisms: Mechanisms,
        logs: &'a Logs,
        mut recorder: QuantumRecorder<'a>,
        policy_failure: PolicyFailure,
    ) -> Self {
        let totals = Totals { metered: mechanisms.meter.is_some(), ..Totals::default() };
        let expected: Vec<_> = plan.knowledge.jobs.iter().map(|known| known.time).collect();
        let mut notices = plan.notices.clone();
        notices.append(&mut mechanisms.notices);
        recorder.event(observer::Event::BusKnown(plan.frame.bus));
        for notice in &notices {
            recorder.event(observer::Event::Notice(notice));
        }
        Self {
            mechanisms,
            logs,
            recorder,
            ledger: Ledger::new(plan.batch, &expected, plan.cores(), plan.options.quantum),
            slots: Slots::new(plan.batch.jobs.len(), totals),
            arrivals: plan.knowledge.specs(plan.batch),
            cores: (plan.pinning == Pinning::OneJobPerCore)
                .then(|| CoreMap::new(plan.frame.cpus.clone())),
            running: Vec::new(),
            failed: false,
            policy_failure,
            outcome: Outcome::Finished,
            predicted: Vec::new(),
            target: None,
            notices,
            plan,
        }
    }

    /// Ends the records after the last calls to the scheduler, and reports all but what the
    /// scheduler alone knows.
    pub(super) fn finish(mut self, calls: &[Call]) -> BatchReport {
        let notices = [self.recorder.decided(calls), self.recorder.finish()].concat();
        self.notify(notices);
        let jobs = (0..self.plan.batch.jobs.len() as u32).map(JobId);
        let blocker = &mut self.mechanisms.blocker;
        let limits: Vec<_> = jobs.map(|job| blocker.take_limit_use(job)).collect();
        self.tell_limit_failures();
        self.report(limits)
    }

    /// Ends the records of a batch that failed. No job stays blocked, whatever goes wrong.
    pub(super) fn abandon(mut self, calls: &[Call]) {
        let notices = self.recorder.decided(calls);
        self.notify(notices);
        let _ = self.mechanisms.blocker.run_all();
    }

    fn job(&self, job: JobId) -> &'a Job {
        &self.plan.batch.jobs[job.index()]
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
            if let Err(error) = self.mechanisms.world.bind(job, &[cpu]) {
                let name = &self.job(job).name;
                self.notice(format!("{name} could not be bound to CPU {cpu}: {error}"));
            }
        }
    }

    /// Starts jobs: creates all their processes first and runs them then, so that the first ones do
    /// not compete with the setup of the others. A job that cannot be started is over at once; the
    /// batch goes on.
    fn start(&mut self, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let (mut born, mut starts) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.spawn(*job) {
                Ok(()) => born.push(*job),
                Err(failure) => starts.push((*job, self.never_started(*job, &failure))),
            }
        }
        for job in born {
            // A short program may be over before this process learns that it runs.
            let now = self.mechanisms.world.now();
            let start = match self.mechanisms.world.exec(job) {
                Ok(()) => self.started(job, now),
                Err(error) => self.never_started(job, &Failure::of_launch(error)),
            };
            starts.push((job, start));
        }
        starts
    }

    /// Creates the job's process, metered and waiting before exec.
    fn spawn(&mut self, job: JobId) -> Result<(), Failure> {
        let cpu = self.cores.as_ref().and_then(|cores| cores.of(job));
        let (mut launch, trouble) = launcher::launch(self.plan, self.logs, job, cpu)?;
        if let Some((path, error)) = trouble {
            let notice = self.recorder.lose(path, format!("the output is not kept: {error}"));
            self.notice(notice);
        }
        let spawned = self.mechanisms.spawn(job, &mut launch);
        let failure = |error: Box<dyn Error>| match error.downcast() {
            Ok(error) => Failure::of_launch(*error),
            Err(error) => Failure::new(&error),
        };
        if let Some(error) = spawned.map_err(failure)? {
            self.lose_meter(job, &error);
        }
        Ok(())
    }

    /// Records that the job's program was let run at `now`.
    fn started(&mut self, job: JobId, now: Nanos) -> Start {
        self.slots.started(job);
        self.ledger.started(job, now);
        self.recorder.event(observer::Event::JobStarted { job, name: &self.job(job).name });
        Start::At(now)
    }

    /// Records a job that could not be started as over.
    fn never_started(&mut self, job: JobId, failure: &Failure) -> Start {
        let name = &self.job(job).name;
        self.notice(format!("{name} could not be started: {}", failure.reason));
        self.mechanisms.world.forget(job);
        self.over(job, failure.exit_code);
        Start::Failed
    }

    /// Returns what the job did since it was last read.
    fn read_job(&mut self, job: JobId) -> Observation {
        let totals = self.slots.totals(job);
        let (observation, error) = self.mechanisms.read(job, totals, self.plan.options.quantum);
        self.ledger.count(job, std::mem::take(&mut totals.unobserved));
        if let Some(error) = error {
            self.lose_meter(job, &error);
        }
        observation
    }

    /// Stops metering a job, and tells the user.
    fn lose_meter(&mut self, job: JobId, error: &MeterError) {
        self.slots.totals(job).metered = false;
        self.recorder.meter_failed(self.mechanisms.meter.as_deref(), error);
        self.ledger.counting_failed(job);
        let name = &self.job(job).name;
        self.notice(format!("{name} is no longer metered: {error}"));
    }

    fn notify(&mut self, notices: Vec<String>) {
        notices.into_iter().for_each(|notice| self.notice(notice));
    }

    fn tell_limit_failures(&mut self) {
        for failure in self.mechanisms.blocker.limit_failures() {
            let notice = failure.notice(&format!("`{}`", self.job(failure.job).name));
            self.notice(notice);
        }
    }

    /// Shows the user a notice, now and in the report; equal texts only once.
    fn notice(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.notices.contains(&text) {
            return;
        }
        self.recorder.event(observer::Event::Notice(&text));
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
        if self.policy_failure.get().is_some() {
            self.outcome = Outcome::PolicyFailed;
            return Ok(vec![quantum_loop::Event::Stop]);
        }
        // Bound jobs are apart already.
        if self.cores.is_none() {
            self.mechanisms.spread();
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
        self.mechanisms.can_block()
    }

    fn block(&mut self) {
        let notices = self.mechanisms.block();
        self.notify(notices);
    }

    fn read(&mut self, jobs: &[JobId]) -> Vec<Observation> {
        jobs.iter().map(|job| self.read_job(*job)).collect()
    }

    fn resume(&mut self, decision: &Decision, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        self.target = decision.target;
        self.running = jobs.to_vec();
        let (fresh, started): (Vec<JobId>, Vec<JobId>) =
            jobs.iter().partition(|job| self.slots.is_waiting(**job));
        let total = self.cores_of(&self.slots.unfinished());
        let demand = Demand { total, running: self.cores_of(jobs) };
        let notices = self.mechanisms.resume(decision, &started, demand);
        self.notify(notices);
        self.place(&decision.chosen);
        self.start(&fresh)
    }

    fn quantum_began(&mut self, scheduler: &RecordingScheduler) {
        if self.recorder.wants_rows() {
            let jobs = (0..self.plan.batch.jobs.len() as u32).map(JobId);
            self.predicted = jobs.map(|job| scheduler.demand(job)).collect();
        }
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        self.ledger.quantum_ended(quantum);
        let notices = self.mechanisms.blocker.notices();
        self.notify(notices);
        self.tell_limit_failures();
        let start = self.ledger.elapsed(quantum.start);
        let meter = self.mechanisms.meter.as_deref();
        let (plan, slots, predicted) = (self.plan, &self.slots, &self.predicted);
        let subjects = || subjects(plan, slots, predicted, quantum);
        let notices = self.recorder.quantum_ended(quantum, start, meter, subjects);
        self.notify(notices);
        let progress = self.ledger.progress(&self.slots);
        self.recorder.event(observer::Event::QuantumEnded(&progress));
    }

    fn stop(&mut self) -> Result<Vec<quantum_loop::Event>, RunError> {
        self.shut_down()
    }
}

/// Returns the jobs that ran in a quantum or still wait after it.
fn subjects(
    plan: &Plan<'_>,
    slots: &Slots,
    predicted: &[Option<BytesPerSec>],
    quantum: &Quantum,
) -> Vec<RowSubject> {
    let ran = quantum.jobs.iter().map(|entry| entry.job);
    let jobs: BTreeSet<JobId> = slots.unfinished().into_iter().chain(ran).collect();
    let subject = |job: JobId| RowSubject {
        job,
        name: plan.batch.jobs[job.index()].name.clone(),
        predicted: predicted.get(job.index()).copied().flatten(),
    };
    jobs.into_iter().map(subject).collect()
}

#[cfg(test)]
mod tests;
