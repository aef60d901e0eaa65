//! The simulated machine as a backend of the quantum loop.

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, MAX_MEDIA, Nanos, Traffic};
use memweir_policy::quantum_loop::{Backend, Event, Quantum, Start};
use memweir_policy::record::{Call, RecordingScheduler};
use memweir_policy::{Decision, JobSpec, Observation, Running};

use super::observe::tasks_of;
use crate::engine::{Execution, Reading};
use crate::experiment::{Admission, Experiment, Knowledge, SimError};
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
    /// Time of its admission to the scheduler.
    admitted: Nanos,
    /// Start of its first turn on a core.
    started: Option<Nanos>,
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
    /// Tasks that were admitted and have not ended.
    present: usize,
    /// Time of the first arrival.
    pub(super) start: Nanos,
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
            admitted: Nanos::ZERO,
            started: None,
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
            present: 0,
            start: experiment.tasks.iter().map(|task| task.arrival).min().unwrap_or_default(),
            arrivals,
            blocked: false,
            stop,
            quanta: Vec::new(),
            served: Default::default(),
            copied: Bytes::ZERO,
        }
    }

    /// Returns the number of tasks that are admitted next, together; zero if they find no room.
    fn next_together(&self) -> usize {
        let Some(next) = self.arrivals.last() else { return 0 };
        let Admission::Limited { tasks, jobs } = &self.experiment.admission else { return 1 };
        let of_job = |task: &&usize| jobs[**task] == jobs[*next];
        let together = self.arrivals.iter().rev().take_while(of_job).count();
        let room = self.present == 0 || self.present + together <= *tasks as usize;
        if room { together } else { 0 }
    }

    /// Returns the time at which the next tasks are admitted, as far as that is known.
    fn next_admission(&mut self) -> Option<Nanos> {
        let now = self.now();
        let next = self.arrivals.last().filter(|_| self.next_together() > 0)?;
        Some(arrival(self.experiment, *next).max(now))
    }

    /// Admits the tasks that have arrived by `now` and find room.
    fn arrive(&mut self, now: Nanos) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(next) = self.arrivals.last()
            && arrival(self.experiment, *next) <= now
        {
            let together = self.next_together();
            if together == 0 {
                break;
            }
            let admitted = self.arrivals.split_off(self.arrivals.len() - together);
            self.present += together;
            for task in admitted.into_iter().rev() {
                self.slots[task].admitted = now;
                events.push(self.arrived(task));
            }
        }
        events
    }

    /// Submits a task.
    fn arrived(&self, task: usize) -> Event {
        let (time, counts) = self.slots[task].alone;
        let known = self.experiment.knowledge == Knowledge::Alone;
        Event::Arrived(JobSpec {
            expected_time: known.then_some(time),
            expected_bandwidth: known.then(|| counts.bandwidth(time)),
            priority: self.experiment.tasks[task].priority,
            ..JobSpec::new(JobId(task as u32))
        })
    }

    pub(super) fn outcome(mut self, ideal_average: Option<BytesPerSec>) -> Outcome {
        let mut served: [Traffic; MAX_MEDIA] = Default::default();
        let mut tasks = Vec::with_capacity(self.slots.len());
        for (place, task) in self.experiment.tasks.iter().enumerate() {
            let reading = self.kernel.execution().read(place);
            for (sum, traffic) in served.iter_mut().zip(reading.moved) {
                *sum += traffic;
            }
            let slot = &self.slots[place];
            let running = Nanos(reading.cpu_time.round() as u64);
            tasks.push(TaskOutcome {
                name: task.name.clone(),
                arrival: task.arrival,
                started: slot.started.unwrap_or(slot.finish.saturating_sub(running)),
                finish: slot.finish,
                running,
                alone: slot.alone.0,
                counts: reading.counts,
                quanta: slot.quanta,
            });
        }
        let last = tasks.iter().map(|task| task.finish).max().unwrap_or_default();
        Outcome {
            turnaround: last.saturating_sub(self.start),
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
        let admission = self.next_admission();
        let until = until.min(admission.unwrap_or(until));
        if let Some(task) = self.kernel.run(until) {
            let at = self.now();
            let reading = self.kernel.execution().read(task);
            let observation = self.note(task, reading);
            self.present -= 1;
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
            let slot = &mut self.slots[entry.job.index()];
            if entry.chosen && slot.started.is_none() {
                slot.started = Some(quantum.start.max(slot.admitted));
            }
            slot.quanta += u64::from(entry.chosen);
        }
        let everything = quantum.decision.running == Running::Everything;
        let chosen = quantum.jobs.iter().filter(|entry| entry.chosen && !everything);
        let elapsed = quantum.summary.elapsed;
        let outcome = QuantumOutcome {
            start: quantum.start - self.start,
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
