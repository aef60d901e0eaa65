//! The queue as a backend of the quantum loop: jobs arrive for as long as the daemon lives.
//!
//! The mechanisms, and the steps that involve several of them, are those of a batch
//! ([`Mechanisms`]). Different is what surrounds them: jobs come from the [`Service`], each starts
//! under a [supervisor](crate::shim) that keeps its exit code, and jobs run on when the daemon
//! ends. `backend/start.rs` starts jobs, `backend/end.rs` ends them, `backend/record.rs` tells an
//! observer what they did.

mod end;
mod record;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;

use memweir_core::{JobId, Nanos, Priority};
use memweir_linux::blocker::Demand;
use memweir_linux::foreign::ForeignProcess;
use memweir_linux::notify::{ServiceState, notify};
use memweir_policy::quantum_loop::{Backend, Event, Quantum, Start};
use memweir_policy::{Decision, JobSpec, Observation};
use memweir_run::batch::{Mechanisms, RunError, Totals};
use memweir_run::observer::{self, Observer};
use memweir_run::profile::Observed;

use crate::profiles::{Begin, Keeper};
use crate::queue::Job;
use crate::service::Service;
use end::Stage;

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
    first_run: Option<Box<Watched>>,
}

/// A first run that is being watched.
#[derive(Debug, Default)]
struct Watched {
    /// Its files at its start; absent before that.
    begin: Option<Begin>,
    readings: Observed,
    /// Time for which it had cores, up to the last reading.
    ran: Nanos,
    /// Time since which it has cores, if it has not been read since.
    resumed: Option<Nanos>,
}

/// The jobs of a queue while the daemon runs them.
pub(crate) struct QueueBackend<'a> {
    service: Arc<Service>,
    observer: &'a mut dyn Observer,
    mechanisms: Mechanisms,
    quantum: Nanos,
    /// Quanta so far.
    quanta: u64,
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
            observer,
            mechanisms,
            quantum,
            quanta: 0,
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
        if let Err(error) = self.mechanisms.blocker.adopt(id, pid) {
            self.service.notice(format!("job {id} runs on and cannot be blocked: {error}"));
        }
        let started = Some(self.mechanisms.world.now());
        let slot = Slot { stage: Stage::Started, started, ..Slot::of(job, Totals::default()) };
        self.slots.insert(id, slot);
        self.adopted.push(spec(job));
        self.observer.event(observer::Event::JobStarted { job: id, name: &job.name });
    }

    /// Lets every job run.
    pub(crate) fn run_all(&mut self) {
        if let Err(error) = self.mechanisms.blocker.run_all() {
            self.service.notice(format!("some jobs may stay blocked: {error}"));
        }
    }

    /// Takes what clients have changed since the last call, as events of the loop.
    fn changes(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.adopted.drain(..).map(Event::Arrived).collect();
        events.extend(self.withdrawals());
        for job in self.service.admit() {
            let totals = Totals { metered: self.mechanisms.meter.is_some(), ..Totals::default() };
            events.push(Event::Arrived(spec(&job)));
            let is_first = totals.metered && self.keeper.is_some() && job.is_unknown();
            let first_run = is_first.then(Box::default);
            self.slots.insert(job.id, Slot { first_run, ..Slot::of(&job, totals) });
        }
        events
    }

    /// Reads a job. One that loses its meter runs on uncounted.
    fn read_job(&mut self, job: JobId) -> Option<Observation> {
        let slot = self.slots.get_mut(&job)?;
        let (observation, loss) = self.mechanisms.read(job, &mut slot.totals, self.quantum);
        if let Some(first_run) = &mut slot.first_run {
            first_run.read(&observation, self.mechanisms.world.now());
        }
        if let Some(loss) = loss {
            self.service.notice(format!("job {job} is no longer metered: {}", loss.text));
            self.meter_failed(&loss);
        }
        Some(observation)
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

impl Watched {
    fn read(&mut self, observation: &Observation, now: Nanos) {
        self.readings.add(observation);
        if let Some(resumed) = self.resumed.take() {
            self.ran += now.saturating_sub(resumed);
        }
    }
}

fn spec(job: &Job) -> JobSpec {
    JobSpec {
        job: job.id,
        cores: job.cores,
        expected_time: job.expected_time,
        expected_bandwidth: job.expected_bandwidth,
        priority: Priority(job.priority),
    }
}

impl Backend for QueueBackend<'_> {
    type Error = RunError;

    fn now(&mut self) -> Nanos {
        self.mechanisms.world.now()
    }

    fn wait(&mut self, until: Nanos) -> Result<Vec<Event>, RunError> {
        let changes = self.changes();
        if !changes.is_empty() {
            return Ok(changes);
        }
        self.signal_canceled();
        self.count_waiting();
        self.watch(until)
    }

    fn expects_jobs(&self) -> bool {
        true
    }

    fn can_block(&self) -> bool {
        !self.mechanisms.unblockable
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
                first_run.resumed.get_or_insert(now);
            }
        }
        self.start(&fresh)
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        self.record(quantum);
    }

    /// Leaves the jobs running for the next daemon.
    fn stop(&mut self) -> Result<Vec<Event>, RunError> {
        // A manager that is gone needs no news.
        let _ = notify(ServiceState::Stopping);
        self.run_all();
        Ok(Vec::new())
    }
}
