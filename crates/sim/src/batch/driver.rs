//! The loop and its state: one quantum after another, until every task is complete.

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, MAX_MEDIA, Nanos, Traffic};
use memweir_policy::{Decision, JobSpec, Observation, QuantumScheduler, Running};

use crate::engine::{Execution, Reading};
use crate::experiment::{Experiment, Knowledge};
use crate::kernel::Kernel;
use crate::outcome::{Outcome, QuantumOutcome, TaskOutcome};
use crate::record::{Migrator, Recorder, TaskQuantum};

/// State of a task.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) over: bool,
    /// Time at which it was resumed in this quantum.
    pub(super) resumed: Option<Nanos>,
    /// True if it has had a core of its own in this quantum.
    pub(super) chosen: bool,
    pub(super) predicted: Option<BytesPerSec>,
    /// Its reading before this quantum.
    pub(super) before: Reading,
    pub(super) finish: Nanos,
    pub(super) quanta: u64,
    pub(super) alone: (Nanos, Counts),
}

/// One batch while it runs.
pub(super) struct Driver<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) scheduler: QuantumScheduler,
    pub(super) kernel: Kernel<dyn Execution>,
    pub(super) recorder: Option<&'a mut dyn Recorder>,
    pub(super) migrator: Option<&'a mut dyn Migrator>,
    pub(super) slots: Vec<Slot>,
    /// Tasks that have not been submitted yet; the next one last.
    pub(super) arrivals: Vec<usize>,
    /// Tasks that are not complete.
    pub(super) left: usize,
    /// Tasks that are submitted and not complete.
    pub(super) present: Vec<usize>,
    /// Decision for this quantum, or for the rest of it.
    pub(super) decision: Decision,
    /// Readings of tasks that were completed in this quantum.
    pub(super) ended: Vec<(TaskQuantum, Observation)>,
    pub(super) quantum_start: Nanos,
    pub(super) deadline: Nanos,
    pub(super) quanta: Vec<QuantumOutcome>,
    /// Traffic that each memory has served in this quantum.
    pub(super) served: [Traffic; MAX_MEDIA],
    pub(super) copied: Bytes,
    pub(super) ideal_average: Option<BytesPerSec>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        scheduler: QuantumScheduler,
        mut execution: Box<dyn Execution>,
    ) -> Self {
        let count = experiment.tasks.len();
        let slot = |task| Slot {
            over: false,
            resumed: None,
            chosen: false,
            predicted: None,
            before: execution.read(task),
            finish: Nanos::ZERO,
            quanta: 0,
            alone: execution.alone(task),
        };
        let slots = (0..count).map(slot).collect();
        let mut arrivals: Vec<usize> = (0..count).rev().collect();
        // Stable, so that tasks that arrive together come in their order.
        arrivals.sort_by_key(|task| std::cmp::Reverse(experiment.tasks[*task].arrival));
        let nothing = Decision {
            running: Running::Only(Vec::new()),
            chosen: Vec::new(),
            predicted: BytesPerSec::ZERO,
            target: None,
        };
        Self {
            kernel: Kernel::new(experiment, execution),
            experiment,
            scheduler,
            recorder: None,
            migrator: None,
            slots,
            arrivals,
            left: count,
            present: Vec::new(),
            decision: nothing,
            ended: Vec::new(),
            quantum_start: Nanos::ZERO,
            deadline: Nanos::ZERO,
            quanta: Vec::new(),
            served: Default::default(),
            copied: Bytes::ZERO,
            ideal_average: None,
        }
    }

    pub(super) fn now(&mut self) -> Nanos {
        Nanos(self.kernel.execution().now().round() as u64)
    }

    pub(super) fn drive(&mut self) {
        let quantum = self.experiment.scheduler.quantum;
        self.await_arrival();
        self.ideal_average = self.scheduler.ideal_average_bandwidth();
        self.select_and_resume();
        self.note_predictions();
        self.deadline = self.quantum_start + quantum;
        while self.left > 0 {
            if self.present.is_empty() {
                self.close_quantum();
                self.await_arrival();
                self.select_and_resume();
                self.note_predictions();
                self.deadline = self.quantum_start + quantum;
            }
            let arrival = self.arrivals.last().map(|task| self.experiment.tasks[*task].arrival);
            let until = self.deadline.min(arrival.unwrap_or(self.deadline));
            if let Some(task) = self.kernel.run(until) {
                self.complete(task);
                // At the very end of a quantum, the next selection fills the core.
                if self.now() < self.deadline {
                    self.fill_free_cores();
                }
            } else if arrival.is_some_and(|arrival| arrival <= until) {
                self.admit(until);
                self.join();
            }
            if self.left > 0 && !self.present.is_empty() && self.now() >= self.deadline {
                self.turn();
                self.deadline += quantum;
            }
        }
        self.close_quantum();
    }

    /// Waits for the next tasks to be submitted while there is nothing to run.
    fn await_arrival(&mut self) {
        let Some(next) = self.arrivals.last() else { return };
        let arrival = self.experiment.tasks[*next].arrival;
        self.kernel.run(arrival);
        self.admit(arrival);
    }

    /// Submits the tasks that have arrived by `now`.
    fn admit(&mut self, now: Nanos) {
        while let Some(task) = self.arrivals.pop() {
            if self.experiment.tasks[task].arrival > now {
                self.arrivals.push(task);
                return;
            }
            let (time, counts) = self.slots[task].alone;
            let known = self.experiment.knowledge == Knowledge::Alone;
            self.scheduler.admit(JobSpec {
                job: JobId(task as u32),
                cores: 1,
                expected_time: known.then_some(time),
                expected_bandwidth: known.then(|| counts.bandwidth(time)),
            });
            let place = self.present.partition_point(|other| *other < task);
            self.present.insert(place, task);
        }
    }

    /// Runs new tasks on free cores, or at once where the operating system schedules.
    fn join(&mut self) {
        if self.decision.running == Running::Everything {
            let decision = self.decision.clone();
            self.resume(decision);
        }
        self.fill_free_cores();
    }

    /// Ends a quantum and begins the next one.
    fn turn(&mut self) {
        let held_up = self.decision.running != Running::Everything;
        if held_up {
            self.kernel.block_all();
        }
        let tasks = self.observe();
        self.migrate(&tasks);
        if held_up {
            let now = self.now();
            self.kernel.run(now + self.experiment.overheads.quantum_switch);
        }
        self.select_and_resume();
        self.note_predictions();
    }

    /// Ends the last quantum.
    fn close_quantum(&mut self) {
        if self.now() > self.quantum_start {
            self.observe();
        }
    }

    fn select_and_resume(&mut self) {
        let decision = self.scheduler.select();
        self.quantum_start = self.now();
        self.resume(decision);
        self.fill_free_cores();
    }

    /// Fills cores that fell idle in the middle of a quantum, until no waiting task fits.
    fn fill_free_cores(&mut self) {
        while let Some(decision) = self.scheduler.backfill() {
            self.resume(decision);
        }
    }

    /// Resumes the decision's tasks.
    fn resume(&mut self, decision: Decision) {
        let now = self.now();
        let mut tasks: Vec<usize> = match &decision.running {
            Running::Everything => self.present.clone(),
            Running::Only(jobs) => jobs.iter().map(|job| job.index()).collect(),
        };
        let everything = decision.running == Running::Everything;
        for task in &tasks {
            self.slots[*task].resumed.get_or_insert(now);
            // Tasks that arrived in the middle of the quantum are not in the decision.
            self.slots[*task].chosen |= everything;
        }
        for job in &decision.chosen {
            self.slots[job.index()].chosen = true;
        }
        self.kernel.wake(&mut tasks);
        self.decision = decision;
    }

    /// Retires a task that is complete.
    fn complete(&mut self, task: usize) {
        let now = self.now();
        let reading = self.read(task, now);
        self.ended.push(reading);
        self.slots[task].over = true;
        self.slots[task].finish = now;
        self.left -= 1;
        self.present.retain(|other| *other != task);
        self.scheduler.retire(JobId(task as u32));
    }

    pub(super) fn outcome(mut self) -> Outcome {
        let started = self.experiment.tasks.iter().map(|task| task.arrival).min();
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
            turnaround: last.saturating_sub(started.unwrap_or_default()),
            tasks,
            quanta: self.quanta,
            served,
            copied: self.copied,
            ideal_average: self.ideal_average,
        }
    }
}
