//! The simulated machine as a backend of the quantum loop.

use std::cmp::Reverse;
use std::collections::HashMap;

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, MAX_MEDIA, Nanos, Stop, Traffic};
use memweir_policy::quantum_loop::{Backend, Event, Quantum, Start};
use memweir_policy::record::{Call, RecordingScheduler};
use memweir_policy::{Decision, Ending, JobSpec, Kind, Observation, Running};

use super::jobs::Jobs;
use super::observe::tasks_of;
use crate::engine::{Execution, Reading, execution};
use crate::experiment::{Admission, Experiment, Knowledge, SimError};
use crate::kernel::Kernel;
use crate::outcome::{Outcome, QuantumOutcome, TaskOutcome};
use crate::record::{Migrator, Recorder};
use crate::task::{Placement, Task};

/// State of a task.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) over: bool,
    pub(super) predicted: Option<BytesPerSec>,
    /// Its last reading.
    pub(super) before: Reading,
    /// CPU time and counts between that reading and the one before.
    pub(super) latest: (Nanos, Counts),
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
    pub(super) jobs: Jobs,
    pub(super) kernel: Kernel<dyn Execution>,
    pub(super) recorder: Option<&'a mut dyn Recorder>,
    pub(super) migrator: Option<&'a mut dyn Migrator>,
    pub(super) calls: Option<&'a mut Vec<Call>>,
    pub(super) slots: Vec<Slot>,
    /// Jobs that have not been submitted yet; the next one last.
    arrivals: Vec<usize>,
    /// Tasks of the jobs that were admitted and have not ended.
    present: usize,
    /// Kinds by program, work and cores.
    kinds: HashMap<(&'a str, Nanos, usize), Kind>,
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
            latest: Default::default(),
            placement: *execution.placement(task),
            node: execution.node(task),
            admitted: Nanos::ZERO,
            started: None,
            finish: Nanos::ZERO,
            quanta: 0,
            alone: execution.alone(task),
        };
        let slots = (0..count).map(slot).collect();
        let jobs = Jobs::new(experiment);
        let mut arrivals: Vec<usize> = (0..jobs.len()).rev().collect();
        // Stable, so that jobs that arrive together come in their order.
        arrivals.sort_by_key(|job| Reverse(experiment.tasks[jobs.tasks(*job).start].arrival));
        Self {
            kernel: Kernel::new(experiment, execution),
            experiment,
            jobs,
            recorder: None,
            migrator: None,
            calls: None,
            slots,
            present: 0,
            kinds: HashMap::new(),
            start: experiment.tasks.iter().map(|task| task.arrival).min().unwrap_or_default(),
            arrivals,
            blocked: false,
            stop,
            quanta: Vec::new(),
            served: Default::default(),
            copied: Bytes::ZERO,
        }
    }

    /// Returns true if the next job finds room.
    fn has_room(&self) -> bool {
        let Some(next) = self.arrivals.last() else { return false };
        match self.experiment.admission {
            Admission::Immediate => true,
            Admission::Limited(tasks) => {
                self.present == 0 || self.present + self.jobs.tasks(*next).len() <= tasks as usize
            }
        }
    }

    /// Returns the time of submission of the next job.
    fn next_arrival(&self) -> Option<Nanos> {
        let next = self.arrivals.last()?;
        Some(self.experiment.tasks[self.jobs.tasks(*next).start].arrival)
    }

    /// Returns the time at which the next job is admitted, as far as that is known.
    fn next_admission(&mut self) -> Option<Nanos> {
        let now = self.now();
        let arrival = self.next_arrival().filter(|_| self.has_room())?;
        Some(arrival.max(now))
    }

    /// Admits the jobs that have arrived by `now` and find room.
    fn arrive(&mut self, now: Nanos) -> Vec<Event> {
        let mut events = Vec::new();
        while self.next_arrival().is_some_and(|arrival| arrival <= now)
            && self.has_room()
            && let Some(job) = self.arrivals.pop()
        {
            for task in self.jobs.tasks(job) {
                self.slots[task].admitted = now;
            }
            self.present += self.jobs.tasks(job).len();
            events.push(self.arrived(job));
        }
        events
    }

    /// Submits a job.
    fn arrived(&mut self, job: usize) -> Event {
        let tasks = self.jobs.tasks(job);
        let knowledge = self.experiment.knowledge;
        let alone = || longest(self.slots[tasks.clone()].iter().map(|slot| slot.alone));
        let known = (knowledge == Knowledge::Alone).then(alone).map(|(time, counts)| {
            let Experiment { knowledge_error, time_factors, seed, .. } = self.experiment;
            let (times, bandwidths) = knowledge_error.factors(*seed, job);
            let times = times * time_factors.get(job).unwrap_or(&1.0);
            (Nanos((time.as_f64() * times).round() as u64), counts.bandwidth(time) * bandwidths)
        });
        Event::Arrived(JobSpec {
            cores: tasks.len() as u32,
            expected_time: known.map(|(time, _)| time),
            expected_bandwidth: known.map(|(_, bandwidth)| bandwidth),
            priority: self.experiment.tasks[tasks.start].priority,
            kind: (knowledge == Knowledge::FirstRun).then(|| self.kind(job)),
            ..JobSpec::new(JobId(job as u32))
        })
    }

    /// Returns the kind of a job: the number of the first to arrive of those that run the same
    /// program for as long, on as many cores.
    fn kind(&mut self, job: usize) -> Kind {
        let tasks = self.jobs.tasks(job);
        let first = &self.experiment.tasks[tasks.start];
        let properties = (&*first.program.name, first.work, tasks.len());
        *self.kinds.entry(properties).or_insert(Kind(job as u64))
    }

    /// Records the end of a task. Returns the end of its job if that was the last of its tasks.
    fn ended(&mut self, task: usize) -> Option<Event> {
        let at = self.now();
        (self.slots[task].over, self.slots[task].finish) = (true, at);
        if let Some(migrator) = &mut self.migrator {
            migrator.ended(JobId(task as u32));
        }
        let job = self.jobs.of_task(task);
        let tasks = self.jobs.tasks(job);
        if !self.slots[tasks.clone()].iter().all(|slot| slot.over) {
            return None;
        }
        self.present -= tasks.len();
        let observation = self.observe(&[JobId(job as u32)]).pop()?;
        Some(Event::Ended { observation, at, ending: Ending::Completed })
    }

    /// Returns the time of each task alone. If pages migrate, the initial placement would take
    /// longer than one to which they come.
    fn alone(&self) -> Vec<Nanos> {
        let Some(migrator) = &self.migrator else {
            return self.slots.iter().map(|slot| slot.alone.0).collect();
        };
        let Experiment { machine, tasks, .. } = self.experiment;
        let placed = |(task, number): (&Task, u32)| {
            let placement = migrator.alone(JobId(number)).unwrap_or(task.placement);
            Task { placement, ..task.clone() }
        };
        let tasks: Vec<Task> = tasks.iter().zip(0..).map(placed).collect();
        let execution = execution(machine, &tasks);
        (0..tasks.len()).map(|task| execution.alone(task).0).collect()
    }

    pub(super) fn outcome(mut self, ideal_average: Option<BytesPerSec>) -> Outcome {
        let mut served: [Traffic; MAX_MEDIA] = Default::default();
        let alone = self.alone();
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
                alone: alone[place],
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

/// Returns the longest of the times of a job's tasks, and the sum of their counts.
fn longest(tasks: impl Iterator<Item = (Nanos, Counts)>) -> (Nanos, Counts) {
    tasks.fold(Default::default(), |(time, sum), (other, counts)| (time.max(other), sum + counts))
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
        while let Some(task) = self.kernel.run(until) {
            if let Some(ended) = self.ended(task) {
                return Ok(vec![ended]);
            }
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
        self.observe(jobs)
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
        let tasks = jobs.iter().flat_map(|job| self.jobs.tasks(job.index()));
        self.kernel.wake(&mut tasks.filter(|task| !self.slots[*task].over).collect());
        Vec::new()
    }

    fn quantum_began(&mut self, scheduler: &RecordingScheduler) {
        if self.recorder.is_none() && self.migrator.is_none() {
            return;
        }
        for (task, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| !slot.over) {
            let job = self.jobs.of_task(task);
            let cores = self.jobs.tasks(job).len() as f64;
            slot.predicted = scheduler.demand(JobId(job as u32)).map(|demand| demand / cores);
        }
    }

    fn quantum_ended(&mut self, quantum: &Quantum) {
        let everything = quantum.decision.running == Running::Everything;
        let mut chosen = 0;
        for entry in quantum.jobs.iter().filter(|entry| entry.chosen) {
            for slot in &mut self.slots[self.jobs.tasks(entry.job.index())] {
                if slot.over && slot.finish <= quantum.start {
                    continue;
                }
                slot.started.get_or_insert(quantum.start.max(slot.admitted));
                slot.quanta += 1;
                chosen += u32::from(!everything);
            }
        }
        let elapsed = quantum.summary.elapsed;
        let outcome = QuantumOutcome {
            start: quantum.start - self.start,
            elapsed,
            bandwidth: quantum.summary.bandwidth,
            memories: std::mem::take(&mut self.served).map(|moved| moved.lines().over(elapsed)),
            chosen,
            predicted: quantum.decision.predicted,
            target: quantum.decision.target,
        };
        if let Some(recorder) = &mut self.recorder {
            let tasks = tasks_of(quantum, &self.jobs, &self.slots, self.kernel.execution());
            recorder.quantum(&outcome, &tasks);
        }
        if let Some(calls) = &mut self.calls {
            calls.extend(quantum.calls.iter().cloned());
        }
        self.quanta.push(outcome);
    }
}
