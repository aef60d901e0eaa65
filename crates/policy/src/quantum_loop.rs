//! The quantum loop of iabw section 4.1 without its mechanisms.
//!
//! A [`QuantumLoop`] decides which step comes when; a [`Backend`] carries the steps out. Per
//! quantum it blocks the jobs (step 1), reads what they did (step 2), selects (step 3) and resumes
//! (step 4). In between, waiting jobs fill the cores of those that end, and jobs that arrive join.
//! Live, emulated and simulated batches are backends of this one loop, so that they can differ in
//! what they measure, but not in what follows from it.
//!
//! Ends of quanta lie on a fixed grid, so that lateness does not add up. A core that falls idle
//! within a quantum is filled at once; at its very end the next selection does that. Where the
//! operating system schedules, no job is ever blocked, and quanta only set the times of readings.

mod backend;

use std::collections::BTreeMap;

use memweir_core::{BytesPerSec, JobId, Nanos};

use crate::record::{Call, RecordingScheduler};
use crate::scheduler::{Decision, Ending, JobSpec, Observation, Running};

pub use backend::{Backend, Event, JobQuantum, Quantum, Start};

#[cfg(test)]
mod tests;

/// Reason for which a [`QuantumLoop`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// Every job is over, and no more arrive.
    Finished,
    /// [`Event::Stop`] came.
    Stopped,
}

/// One job from its arrival to its end.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Time at which it was resumed in this quantum.
    resumed: Option<Nanos>,
    /// True if it has occupied a core in this quantum.
    chosen: bool,
    /// Reason for its selection in this quantum.
    reason: Option<&'static str>,
}

/// The loop around the scheduler of one batch.
pub struct QuantumLoop {
    scheduler: RecordingScheduler,
    quantum: Nanos,
    /// The jobs that have arrived and are not over.
    jobs: BTreeMap<JobId, Slot>,
    /// Decision for this quantum, or for the rest of it.
    decision: Decision,
    /// Readings of jobs that ended in this quantum.
    ended: Vec<(JobQuantum, Observation)>,
    start: Nanos,
    deadline: Nanos,
    ideal_average: Option<BytesPerSec>,
}

impl QuantumLoop {
    /// Creates the loop of a scheduler with quanta of this length, which must be the one that the
    /// scheduler was configured with.
    #[must_use]
    pub fn new(scheduler: RecordingScheduler, quantum: Nanos) -> Self {
        Self {
            scheduler,
            quantum,
            jobs: BTreeMap::new(),
            decision: Decision {
                running: Running::Only(Vec::new()),
                chosen: Vec::new(),
                predicted: BytesPerSec::ZERO,
                target: None,
            },
            ended: Vec::new(),
            start: Nanos::ZERO,
            deadline: Nanos::ZERO,
            ideal_average: None,
        }
    }

    /// Runs the jobs that arrive until none is left and no more are expected, or the backend stops
    /// the loop.
    ///
    /// # Errors
    /// The first error of the backend. Jobs may be blocked then.
    pub fn run<B: Backend>(&mut self, backend: &mut B) -> Result<Conclusion, B::Error> {
        loop {
            let idle = self.jobs.is_empty();
            if idle {
                self.close(backend);
                if !backend.expects_jobs() {
                    return Ok(Conclusion::Finished);
                }
            }
            let until = if idle { Nanos(u64::MAX) } else { self.deadline };
            let mut changes = Changes::default();
            for event in backend.wait(until)? {
                self.handle(event, &mut changes);
            }
            if changes.stop {
                self.stop(backend)?;
                return Ok(Conclusion::Stopped);
            }
            match changes {
                Changes { arrived: true, .. } if idle => self.begin(backend),
                Changes { arrived: true, .. } => self.join(backend),
                Changes { ended: true, .. } if backend.now() < self.deadline => self.fill(backend),
                _ => {}
            }
            if !self.jobs.is_empty() && backend.now() >= self.deadline {
                self.turn(backend);
            }
        }
    }

    /// Returns the ideal average bandwidth of the batch when the first jobs had arrived, iabw eq.
    /// (10); `None` if it was unknown.
    #[must_use]
    pub fn ideal_average_bandwidth(&self) -> Option<BytesPerSec> {
        self.ideal_average
    }

    /// Returns the recorded calls to the scheduler that no [`Quantum`] has passed on.
    pub fn take_calls(&mut self) -> Vec<Call> {
        self.scheduler.take_calls()
    }

    fn handle(&mut self, event: Event, changes: &mut Changes) {
        match event {
            Event::Arrived(spec) => {
                self.admit(spec);
                changes.arrived = true;
            }
            Event::Ended { observation, at, ending } => {
                self.retire(observation, at, ending);
                changes.ended = true;
            }
            Event::Stop => changes.stop = true,
        }
    }

    fn admit(&mut self, spec: JobSpec) {
        self.scheduler.admit(spec);
        self.jobs.entry(spec.job).or_default();
    }

    fn retire(&mut self, observation: Observation, at: Nanos, ending: Ending) {
        let job = observation.job;
        let Some(mut slot) = self.jobs.remove(&job) else { return };
        let speed = self.scheduler.speed(job);
        let entry = slot.close(&observation, at, speed);
        if ending == Ending::Completed {
            self.scheduler.learn(entry.running, &observation);
        }
        self.ended.push((entry, observation));
        self.scheduler.retire(job);
    }

    /// Begins the first quantum after a time without jobs.
    fn begin(&mut self, backend: &mut impl Backend) {
        let of_batch = || self.scheduler.ideal_average_bandwidth();
        self.ideal_average = self.ideal_average.or_else(of_batch);
        self.select(backend);
        // The time to start the first jobs is not part of the quantum.
        let resumed = self.jobs.values().filter_map(|slot| slot.resumed).min();
        self.start = resumed.unwrap_or(self.start);
        self.deadline = self.start + self.quantum;
        backend.quantum_began(&self.scheduler);
    }

    /// Ends one quantum and begins the next.
    fn turn(&mut self, backend: &mut impl Backend) {
        let began = backend.now();
        let blocks = backend.can_block() && self.decision.running != Running::Everything;
        if blocks {
            backend.block();
        }
        let mut quantum = self.observe(backend);
        backend.switch(&quantum);
        self.select(backend);
        let now = backend.now();
        self.deadline = next_deadline(self.deadline, now, self.quantum);
        quantum.switch = blocks.then(|| now.saturating_sub(began));
        self.pass_on(quantum, backend);
        backend.quantum_began(&self.scheduler);
    }

    /// Ends the last quantum, if anything happened in it.
    fn close(&mut self, backend: &mut impl Backend) {
        let ran = self.jobs.values().any(|slot| slot.resumed.is_some()) || !self.ended.is_empty();
        if ran && backend.now() > self.start {
            let quantum = self.observe(backend);
            self.pass_on(quantum, backend);
        }
    }

    fn pass_on(&mut self, mut quantum: Quantum, backend: &mut impl Backend) {
        quantum.calls = self.scheduler.take_calls();
        backend.quantum_ended(&quantum);
    }

    /// Ends the batch before its jobs have ended. They all run until their end or their release,
    /// which is one more quantum.
    fn stop<B: Backend>(&mut self, backend: &mut B) -> Result<(), B::Error> {
        self.close(backend);
        self.start = backend.now();
        for slot in self.jobs.values_mut() {
            slot.resumed = Some(self.start);
        }
        for event in backend.stop()? {
            self.handle(event, &mut Changes::default());
        }
        self.jobs.clear();
        self.close(backend);
        Ok(())
    }

    /// Step 2: reads every job that could run, and reports to the scheduler.
    fn observe(&mut self, backend: &mut impl Backend) -> Quantum {
        let now = backend.now();
        let resumed = self.jobs.iter().filter(|(_, slot)| slot.resumed.is_some());
        let resumed: Vec<JobId> = resumed.map(|(job, _)| *job).collect();
        let mut readings = std::mem::take(&mut self.ended);
        for observation in backend.read(&resumed) {
            if let Some(slot) = self.jobs.get_mut(&observation.job) {
                let speed = self.scheduler.speed(observation.job);
                readings.push((slot.close(&observation, now, speed), observation));
            }
        }
        readings.sort_by_key(|(entry, _)| entry.job);
        let (jobs, observations): (Vec<_>, Vec<_>) = readings.into_iter().unzip();
        let elapsed = now.saturating_sub(self.start);
        Quantum {
            start: self.start,
            summary: self.scheduler.observe(elapsed, &observations),
            jobs,
            decision: self.decision.clone(),
            switch: None,
            calls: Vec::new(),
        }
    }

    /// Steps 3 and 4: selects jobs and resumes them.
    fn select(&mut self, backend: &mut impl Backend) {
        let decision = self.scheduler.select();
        self.start = backend.now();
        self.resume(decision, backend);
        self.fill(backend);
    }

    /// Runs new jobs on free cores, or at once where nothing can be blocked.
    fn join(&mut self, backend: &mut impl Backend) {
        if self.decision.running == Running::Everything || !backend.can_block() {
            self.resume(self.decision.clone(), backend);
        }
        self.fill(backend);
    }

    /// Fills cores that fell idle in the middle of a quantum, until no waiting job fits.
    fn fill(&mut self, backend: &mut impl Backend) {
        while let Some(decision) = self.scheduler.backfill() {
            self.resume(decision, backend);
        }
    }

    /// Step 4: resumes the decision's jobs.
    fn resume(&mut self, decision: Decision, backend: &mut impl Backend) {
        let now = backend.now();
        let jobs: Vec<JobId> = match &decision.running {
            Running::Only(jobs) if backend.can_block() => jobs.clone(),
            _ => self.jobs.keys().copied().collect(),
        };
        // Jobs that arrived within the quantum are not among the decision's chosen ones.
        let everything = decision.running == Running::Everything;
        for job in &jobs {
            if let Some(slot) = self.jobs.get_mut(job) {
                slot.resumed.get_or_insert(now);
                slot.chosen |= everything;
            }
        }
        for job in &decision.chosen {
            if let Some(slot) = self.jobs.get_mut(job) {
                (slot.chosen, slot.reason) = (true, self.scheduler.reason(*job));
            }
        }
        let starts = backend.resume(&decision, &jobs);
        self.decision = decision;
        for (job, start) in starts {
            match (start, self.jobs.get_mut(&job)) {
                (Start::At(time), Some(slot)) => slot.resumed = Some(time),
                _ => {
                    self.jobs.remove(&job);
                    self.scheduler.retire(job);
                }
            }
        }
    }
}

impl Slot {
    /// Ends the job's part in a quantum, at the time of its reading.
    fn close(&mut self, observation: &Observation, now: Nanos, speed: Option<f64>) -> JobQuantum {
        let Self { resumed, chosen, reason } = std::mem::take(self);
        JobQuantum {
            job: observation.job,
            chosen,
            reason,
            running: now.saturating_sub(resumed.unwrap_or(now)),
            speed,
            cpu_time: observation.cpu_time.unwrap_or_default(),
            counts: observation.counts,
        }
    }
}

/// Kinds of events that one wait returned.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    arrived: bool,
    ended: bool,
    stop: bool,
}

/// Returns the end of the next quantum. Ends lie on a fixed grid, so that lateness does not add up;
/// a quantum that a late wake-up would cut to less than half is joined with the next.
fn next_deadline(deadline: Nanos, now: Nanos, quantum: Nanos) -> Nanos {
    let late = now.saturating_sub(deadline).0;
    let next = Nanos(deadline.0 + quantum.0 * (late / quantum.0 + 1));
    if next.saturating_sub(now).0 < quantum.0 / 2 { next + quantum } else { next }
}
