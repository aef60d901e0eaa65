//! The simulated machine as a backend of the quantum loop.

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, MAX_MEDIA, Nanos, Traffic};
use memweir_policy::quantum_loop::{Backend, Event, Quantum, Start};
use memweir_policy::record::{Call, RecordingScheduler};
use memweir_policy::{Decision, JobSpec, Observation, Running};

use super::observe::tasks_of;
use crate::engine::{Execution, Reading};
use crate::experiment::{Experiment, Knowledge, SimError};
use crate::kernel::Kernel;
use crate::outcome::{Outcome, QuantumOutcome, TaskOutcome};
use crate::record::{Migrator, Recorder};
use crate::stop::Stop;
use crate::task::Placement;

/// State of a task.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) over: bool,
    pub(super) predicted: Option<BytesPerSec>,
    /// Its last reading.
    pub(super) before: Reading,
    /// Its placement and its node at that time.
    pub(super) placement: Placement,
    pub(super) node: usize,
    pub(super) finish: Nanos,
    pub(super) quanta: u64,
    pub(super) alone: (Nanos, Counts),
}

/// A batch on the simulated machine.
pub(super) struct SimulatedBatch<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) kernel: Kernel<dyn Execution>,
    pub(super) recorder: Option<&'a mut dyn Recorder>,
    pub(super) migrator: Option<&'a mut dyn Migrator>,
    pub(super) calls: Option<&'a mut Vec<Call>>,
    pub(super) slots: Vec<Slot>,
    /// Tasks that have not been submitted yet; the next one last.
    arrivals: Vec<usize>,
    /// True while all tasks are blocked.
    blocked: bool,
    stop: Stop,
    pub(super) quanta: Vec<QuantumOutcome>,
    /// Traffic that each memory has served in this quantum.
    pub(super) served: [Traffic; MAX_MEDIA],
    pub(super) copied: Bytes,
}

impl<'a> SimulatedBatch<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        mut execution: Box<dyn Execution>,
        stop: Stop,
    ) -> Self {
        let count = experiment.tasks.len();
        let slot = |task| Slot {
            over: false,
            predicted: None,
            before: execution.read(task),
            placement: *execution.placement(task),
            node: execution.node(task),
            finish: Nanos::ZERO,
            quanta: 0,
            alone: execution.alone(task),
        };
        let slots = (0..count).map(slot).collect();
        let mut arrivals: Vec<usize> = (0..count).rev().collect();
        // Stable, so that tasks that arrive together come in their order.
        arrivals.sort_by_key(|task| std::cmp::Reverse(experiment.tasks[*task].arrival));
        Self {
            kernel: Kernel::new(experiment, execution),
            experiment,
            recorder: None,
            migrator: None,
            calls: None,
            slots,
            arrivals,
            blocked: false,
            stop,
            quanta: Vec::new(),
            served: Default::default(),
            copied: Bytes::ZERO,
        }
    }

    /// Returns the time at which the next tasks are submitted.
    fn next_arrival(&self) -> Option<Nanos> {
        self.arrivals.last().map(|task| self.experiment.tasks[*task].arrival)
    }

    /// Submits the tasks that have arrived by `now`.
    fn arrive(&mut self, now: Nanos) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(task) = self.arrivals.pop_if(|task| arrival(self.experiment, *task) <= now) {
            let (time, counts) = self.slots[task].alone;
            let known = self.experiment.knowledge == Knowledge::Alone;
            events.push(Event::Arrived(JobSpec {
                expected_time: known.then_some(time),
                expected_bandwidth: known.then(|| counts.bandwidth(time)),
                priority: self.experiment.tasks[task].priority,
                ..JobSpec::new(JobId(task as u32))
            }));
        }
        events
    }

    pub(super) fn outcome(mut self, ideal_average: Option<BytesPerSec>) -> Outcome {
        let started = self.started();
        let mut served: [Traffic; MAX_MEDIA] = Default::default();
        let mut tasks = Vec::with_capacity(self.slots.len());
        for (place, task) in self.experiment.tasks.iter().enumerate() {
            let reading = self.kernel.execution().read(place);
            for (sum, traffic) in served.iter_mut().zip(reading.moved) {
                *sum += traffic;
            }
            let slot = &self.slots[place];
            tasks.push(TaskOutcome {
                name: task.name.clone(),
                arrival: task.arrival,
                finish: slot.finish,
                running: Nanos(reading.cpu_time.round() as u64),
                alone: slot.alone.0,
                counts: reading.counts,
                quanta: slot.quanta,
            });
        }
        let last = tasks.iter().map(|task| task.finish).max().unwrap_or_default();
        Outcome {
            turnaround: last.saturating_sub(started),
            tasks,
            quanta: self.quanta,
            served,
            copied: self.copied,
            ideal_average,
        }
    }
}

fn arrival(experiment: &Experiment, task: usize) -> Nanos {
    experiment.tasks[task].arrival
}

impl Backend for SimulatedBatch<'_> {
    type Error = SimError;

    fn now(&mut self) -> Nanos {
        Nanos(self.kernel.execution().now().round() as u64)
    }

    fn wait(&mut self, until: Nanos) -> Result<Vec<Event>, SimError> {
        if self.stop.is_requested() {
            return Err(SimError::Stopped);
        }
        let arrival = self.next_arrival();
        let until = until.min(arrival.unwrap_or(until));
        if let Some(task) = self.kernel.run(until) {
            let at = self.now();
            let reading = self.kernel.execution().read(task);
            let observation = self.note(task, reading);
            (self.slots[task].over, self.slots[task].finish) = (true, at);
            return Ok(vec![Event::Ended { observation, at }]);
        }
        Ok(self.arrive(until))
    }

    fn expects_jobs(&self) -> bool {
        !self.arrivals.is_empty()
    }

    fn block(&mut self) {
        self.kernel.block_all();
        self.blocked = true;
    }

    fn read(&mut self, jobs: &[JobId]) -> Vec<Observation> {
        let tasks: Vec<usize> = jobs.iter().map(|job| job.index()).collect();
        let readings = self.kernel.execution().read_all(&tasks);
        tasks.into_iter().zip(readings).map(|(task, reading)| self.note(task, reading)).collect()
    }

    /// Moves pages, and spends the time of the switch.
    fn switch(&mut self, ended: &Quantum) {
        self.migrate(ended);
        if std::mem::take(&mut self.blocked) {
            let now = self.now();
            self.kernel.run(now + self.experiment.overheads.quantum_switch);
        }
    }

    fn resume(&mut self, _: &Decision, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        self.kernel.wake(&mut jobs.iter().map(|job| job.index()).collect());
        Vec::new()
    }

    fn quantum_began(&mut self, scheduler: &RecordingScheduler) {
        if self.recorder.is_none() && self.migrator.is_none() {
            return;
        }
        for (task, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| !slot.over) {
            slot.predicted = scheduler.demand(JobId(task as u32));
        }
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        for entry in &quantum.jobs {
            self.slots[entry.job.index()].quanta += u64::from(entry.chosen);
        }
        let everything = quantum.decision.running == Running::Everything;
        let chosen = quantum.jobs.iter().filter(|entry| entry.chosen && !everything);
        let elapsed = quantum.summary.elapsed;
        let outcome = QuantumOutcome {
            start: quantum.start - self.started(),
            elapsed,
            bandwidth: quantum.summary.bandwidth,
            memories: std::mem::take(&mut self.served).map(|moved| moved.lines().over(elapsed)),
            chosen: chosen.map(|entry| entry.job).collect(),
            predicted: quantum.decision.predicted,
            target: quantum.decision.target,
        };
        if let Some(recorder) = &mut self.recorder {
            let tasks = tasks_of(quantum, &self.slots, self.kernel.execution());
            recorder.quantum(&outcome, &tasks);
        }
        if let Some(calls) = &mut self.calls {
            calls.extend(quantum.calls.iter().cloned());
        }
        self.quanta.push(outcome);
    }
}
