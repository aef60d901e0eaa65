//! The queue as a backend of the quantum loop: jobs arrive for as long as the daemon lives.
//!
//! The mechanisms, and the steps that involve several of them, are those of a batch
//! ([`Mechanisms`]). Different is what surrounds them: jobs come from the [`Service`], each starts
//! under a [`supervisor`](crate::supervisor) that keeps its exit code, and jobs run on when the
//! daemon ends. `backend/end.rs` ends them.

mod end;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

use memweir_core::{JobId, Media, Nanos, Priority};
use memweir_linux::MeterError;
use memweir_linux::blocker::Demand;
use memweir_linux::foreign::ForeignProcess;
use memweir_linux::notify::{ServiceState, notify};
use memweir_policy::quantum_loop::{self, Backend, Quantum, Start};
use memweir_policy::{Decision, JobSpec, Kind, Observation};
use memweir_run::batch::{Mechanisms, QuantumRecorder, RowSubject, RunError, Totals};
use memweir_run::observer::{self, Observer};

use crate::launcher;
use crate::profiles::{Keeper, Watch};
use crate::queue::Job;
use crate::service::{Begun, Service};
use crate::view::quantum_view;
use end::Stage;

/// Longest time for which an observer of an idle queue is not called.
const IDLE_CALL: Nanos = Nanos::from_millis(60_000);

/// One job that was admitted and has not ended.
#[derive(Debug)]
struct Slot {
    stage: Stage,
    cores: u32,
    totals: Totals,
    /// Time at which this daemon started or adopted it.
    started: Option<Nanos>,
    /// Time of the next signal to a job that was canceled.
    next_signal: Option<Nanos>,
    signals: u32,
    /// The first run of its program; absent for programs that are known.
    first_run: Option<Box<Watch>>,
}

/// The jobs of a queue while the daemon runs them.
pub(crate) struct QueueBackend<'a> {
    service: Arc<Service>,
    recorder: QuantumRecorder<'a>,
    mechanisms: Mechanisms,
    quantum: Nanos,
    slots: BTreeMap<JobId, Slot>,
    /// Writes first runs to the profile store, if there is one.
    keeper: Option<Keeper>,
    /// Jobs that an earlier daemon had started, until the loop knows of them.
    adopted: Vec<JobSpec>,
}

impl<'a> QueueBackend<'a> {
    /// Takes over the mechanisms.
    pub(crate) fn new(
        service: Arc<Service>,
        mut mechanisms: Mechanisms,
        quantum: Nanos,
        keeper: Option<Keeper>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        mechanisms.notices.drain(..).for_each(|notice| service.notice(notice));
        Self {
            service,
            recorder: QuantumRecorder::new(observer, Media::dram_only()),
            mechanisms,
            quantum,
            slots: BTreeMap::new(),
            keeper,
            adopted: Vec::new(),
        }
    }

    /// Takes over a job that an earlier daemon has started. Its traffic is not counted: a meter
    /// sees processes from their start on.
    pub(crate) fn adopt(&mut self, job: &Job, process: ForeignProcess) {
        let (id, pid) = (job.id, process.pid());
        // First, since its end must be noticed even if it comes before the next step.
        if let Err(error) = self.mechanisms.world.adopt(id, process) {
            self.service.notice(format!("the end of job {id} will not be noticed: {error}"));
        }
        self.limit(job);
        if let Err(error) = self.mechanisms.blocker.adopt(id, pid) {
            self.service.notice(format!("job {id} runs on and cannot be blocked: {error}"));
        }
        let started = Some(self.mechanisms.world.now());
        // A mechanism without a group of its own reads the time before as well, of which no quantum
        // is a part.
        let cpu_time = self.mechanisms.blocker.cpu_time(id).unwrap_or_default();
        let totals = Totals { cpu_time, ..Totals::default() };
        let slot = Slot { stage: Stage::Started, started, ..Slot::of(job, totals) };
        self.slots.insert(id, slot);
        // Its progress, and so what its end shows, is unknown.
        self.adopted.push(JobSpec { kind: None, ..spec(job) });
        self.recorder.event(observer::Event::JobStarted { job: id, name: &job.name });
    }

    /// Lets every job run.
    pub(crate) fn run_all(&mut self) {
        if let Err(error) = self.mechanisms.blocker.run_all() {
            self.service.notice(format!("some jobs may stay blocked: {error}"));
        }
    }

    /// Takes what clients have changed since the last call, as events of the loop.
    fn changes(&mut self) -> Vec<quantum_loop::Event> {
        let mut events: Vec<quantum_loop::Event> =
            self.adopted.drain(..).map(quantum_loop::Event::Arrived).collect();
        events.extend(self.withdrawals());
        for job in self.service.admit() {
            let totals = Totals { metered: self.mechanisms.meter.is_some(), ..Totals::default() };
            events.push(quantum_loop::Event::Arrived(spec(&job)));
            let is_first = totals.metered && self.keeper.is_some() && job.is_unknown();
            let first_run = is_first.then(Box::default);
            self.slots.insert(job.id, Slot { first_run, ..Slot::of(&job, totals) });
        }
        events
    }

    /// Reads a job. One that loses its meter runs on uncounted.
    fn read_job(&mut self, job: JobId) -> Option<Observation> {
        let slot = self.slots.get_mut(&job)?;
        let (observation, error) = self.mechanisms.read(job, &mut slot.totals, self.quantum);
        if let Some(first_run) = &mut slot.first_run {
            first_run.read(&observation, self.mechanisms.world.now());
        }
        if let Some(error) = error {
            self.service.notice(format!("job {job} is no longer metered: {error}"));
            self.recorder.meter_failed(self.mechanisms.meter.as_deref(), &error);
        }
        Some(observation)
    }

    /// Starts jobs: creates all supervisors first and runs them then.
    pub(super) fn start(&mut self, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let (mut born, mut starts) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.begin(*job) {
                true => born.push(*job),
                false => starts.push((*job, Start::Failed)),
            }
        }
        for job in born {
            // A short program may be over before this process learns that it runs.
            let now = self.mechanisms.world.now();
            let start = match self.mechanisms.world.exec(job) {
                Ok(()) => self.started(job, now),
                Err(error) => self.failed(job, &error),
            };
            starts.push((job, start));
        }
        starts
    }

    /// Creates the supervisor of a job. Returns false if it does not start.
    fn begin(&mut self, job: JobId) -> bool {
        let Some(begun) = self.service.begin(job) else {
            // A client has held or canceled it in this very moment, or its start is not on disk.
            self.slots.remove(&job);
            return false;
        };
        match self.spawn(&begun) {
            Ok(None) => {}
            Ok(Some(error)) => {
                self.service.notice(format!("job {job} is not metered: {error}"));
                self.recorder.meter_failed(self.mechanisms.meter.as_deref(), &error);
                if let Some(slot) = self.slots.get_mut(&job) {
                    slot.totals.metered = false;
                }
            }
            Err(error) => {
                self.failed(job, &error);
                return false;
            }
        }
        true
    }

    fn spawn(&mut self, begun: &Begun) -> Result<Option<MeterError>, Box<dyn Error>> {
        let slot = self.slots.get(&begun.job.id);
        let first_run = slot.and_then(|slot| slot.first_run.as_deref());
        let launch = launcher::launch(&self.service, begun, first_run);
        let mut launch =
            launch.map_err(|error| format!("the files of its start cannot be made: {error}"))?;
        self.limit(&begun.job);
        self.mechanisms.spawn(begun.job.id, &mut launch)
    }

    /// Limits the bandwidth of a job that is about to start or to be adopted. The daemon that took
    /// the limit may have had a mechanism that keeps it, and this one none.
    fn limit(&mut self, job: &Job) {
        let Some(rate) = job.bandwidth_limit else { return };
        let refused = match self.service.no_limits() {
            Some(reason) => Some(reason.to_owned()),
            None => self.mechanisms.blocker.limit(job.id, rate).err().map(|e| e.to_string()),
        };
        if let Some(reason) = refused {
            self.service
                .notice(format!("the bandwidth of job {} is not limited: {reason}", job.id));
        }
    }

    /// Records that the supervisor of a job was let run at `now`.
    fn started(&mut self, job: JobId, now: Nanos) -> Start {
        if let Some(slot) = self.slots.get_mut(&job) {
            slot.stage = Stage::Started;
            slot.started = Some(now);
        }
        self.service.runs(job);
        let name = self.service.name_of(job);
        self.recorder.event(observer::Event::JobStarted { job, name: &name });
        Start::At(now)
    }

    /// Holds a job for which the machine had no room. A program that cannot be executed is another
    /// matter: its job ends with the exit code that a shell gives.
    fn failed(&mut self, job: JobId, why: &dyn Display) -> Start {
        self.mechanisms.world.forget(job);
        self.release(job);
        self.service.hold_unstarted(job);
        self.service.notice(format!("job {job} does not start: {why}"));
        Start::Failed
    }

    /// Returns the jobs that ran in a quantum or are blocked after it.
    fn jobs_of(&self, quantum: &Quantum) -> Vec<JobId> {
        let ran = quantum.jobs.iter().map(|entry| entry.job);
        let started = self.slots.iter().filter(|(_, slot)| slot.stage != Stage::Admitted);
        let jobs: BTreeSet<JobId> = ran.chain(started.map(|(job, _)| *job)).collect();
        jobs.into_iter().collect()
    }

    fn notify(&self, notices: Vec<String>) {
        notices.into_iter().for_each(|notice| self.service.notice(notice));
    }

    fn cores_of(&self, jobs: impl Iterator<Item = JobId>) -> u32 {
        jobs.filter_map(|job| self.slots.get(&job)).map(|slot| slot.cores).sum()
    }
}

impl Slot {
    fn of(job: &Job, totals: Totals) -> Self {
        let (stage, cores) = (Stage::Admitted, job.cores);
        Self { stage, cores, totals, started: None, next_signal: None, signals: 0, first_run: None }
    }
}

fn spec(job: &Job) -> JobSpec {
    JobSpec {
        job: job.id,
        cores: job.cores,
        expected_time: job.expected_time,
        expected_bandwidth: job.expected_bandwidth,
        priority: Priority(job.priority),
        kind: kind(job),
    }
}

/// Returns the kind of a job: runs of one command on as many cores, by the key of the command in
/// the profile store, which is a digest.
fn kind(job: &Job) -> Option<Kind> {
    let digits = job.program.as_deref()?.get(..16)?;
    let command = u64::from_str_radix(digits, 16).ok()?;
    Some(Kind(command.wrapping_add(u64::from(job.cores))))
}

impl Backend for QueueBackend<'_> {
    type Error = RunError;

    fn now(&mut self) -> Nanos {
        self.mechanisms.world.now()
    }

    fn wait(&mut self, until: Nanos) -> Result<Vec<quantum_loop::Event>, RunError> {
        let changes = self.changes();
        if !changes.is_empty() {
            return Ok(changes);
        }
        self.signal_canceled();
        if self.recorder.wants_rows() {
            self.recorder.event(observer::Event::Queued(self.service.pending()));
        }
        self.mechanisms.spread();
        self.watch(until)
    }

    fn expects_jobs(&self) -> bool {
        true
    }

    fn can_block(&self) -> bool {
        self.mechanisms.can_block()
    }

    fn block(&mut self) {
        let notices = self.mechanisms.block();
        self.notify(notices);
    }

    fn read(&mut self, jobs: &[JobId]) -> Vec<Observation> {
        jobs.iter().filter_map(|job| self.read_job(*job)).collect()
    }

    fn resume(&mut self, decision: &Decision, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let is_fresh =
            |job: &JobId| self.slots.get(job).is_some_and(|slot| slot.stage == Stage::Admitted);
        let (fresh, started): (Vec<JobId>, Vec<JobId>) = jobs.iter().partition(|job| is_fresh(job));
        let demand = Demand {
            total: self.cores_of(self.slots.keys().copied()),
            running: self.cores_of(jobs.iter().copied()),
        };
        let notices = self.mechanisms.resume(decision, &started, demand);
        self.notify(notices);
        self.service.set_on_cores(jobs.iter().copied());
        let now = self.mechanisms.world.now();
        for job in jobs {
            let slot = self.slots.get_mut(job);
            if let Some(first_run) = slot.and_then(|slot| slot.first_run.as_mut()) {
                first_run.resume(now);
            }
        }
        self.start(&fresh)
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        let notices = self.mechanisms.blocker.notices();
        self.notify(notices);
        for failure in self.mechanisms.blocker.limit_failures() {
            self.service.notice(failure.notice(&format!("job {}", failure.job)));
        }
        let jobs = self.jobs_of(quantum);
        if self.service.is_watched() {
            self.service.quantum_ended(quantum_view(self.recorder.number(), quantum, &jobs));
        }
        let (meter, service) = (self.mechanisms.meter.as_deref(), &self.service);
        let subject = |job| RowSubject { job, name: service.name_of(job), predicted: None };
        let subjects = || jobs.into_iter().map(subject).collect();
        let notices = self.recorder.quantum_ended(quantum, quantum.start, meter, subjects);
        self.notify(notices);
    }

    /// Leaves the jobs running for the next daemon.
    fn stop(&mut self) -> Result<Vec<quantum_loop::Event>, RunError> {
        // A manager that is gone needs no news.
        let _ = notify(ServiceState::Stopping);
        self.run_all();
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests;
