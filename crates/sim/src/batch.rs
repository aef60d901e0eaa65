//! Simulates a batch: the quantum loop of iabw section 4.1 over the simulated machine.
//!
//! Here lives what memweir does live: admit, block, observe, select, let run, backfill, retire. Who
//! runs is decided by the very [`QuantumScheduler`] that decides live; what is let run is executed by
//! the [`kernel`](crate::kernel).
//!
//! As live, all tasks stand still between two quanta, while the scheduler reads and decides; ends of
//! quanta lie on a fixed grid; a core that falls free in mid-quantum is filled at once. Where the
//! operating system schedules, nobody is ever held up, and the quanta only say when to look.

mod observe;
mod phases;

use memweir_core::{Bytes, BytesPerSec, Counts, JobId, MAX_MEDIA, Nanos, Traffic};
use memweir_policy::{
    Decision, JobSpec, Observation, Policy, QuantumScheduler, Running, SchedulerConfig,
};

use crate::engine::{Execution, Reading, execution};
use crate::experiment::{Experiment, Knowledge, SimError};
use crate::kernel::Kernel;
use crate::outcome::{Outcome, QuantumOutcome, TaskOutcome};
use crate::record::{Migrator, Recorder, TaskQuantum};

/// Simulates an experiment.
///
/// ```
/// use std::sync::Arc;
///
/// use memweir_core::{BytesPerSec, Nanos};
/// use memweir_sim::{Demand, Experiment, Flow, Machine, Program, Span, Task, simulate};
///
/// // Two tasks that draw 8 GB/s for one second, and two that draw nothing.
/// let program = |gigabytes: f64| {
///     let mut demand = Demand { stall: 0.8, ..Demand::default() };
///     demand.flows[0] = Flow { reads: BytesPerSec::from_gb(gigabytes), ..Flow::default() };
///     let span = Span { length: Nanos::from_millis(1000), demand };
///     Arc::new(Program { name: format!("{gigabytes} GB/s"), spans: vec![span] })
/// };
/// let (heavy, light) = (program(8.0), program(0.0));
/// let tasks: Vec<Task> = [&heavy, &heavy, &light, &light]
///     .map(|program| Task::once(program.name.clone(), program.clone()))
///     .into();
///
/// // On two cores that share 10 GB/s, whoever pairs the heavy with the light loses nothing.
/// let machine = Machine::uniform("example", 2, BytesPerSec::from_gb(10.0));
/// let outcome = simulate(&Experiment::new(machine, tasks, "ideal-average"))?;
/// assert!(outcome.turnaround < Nanos::from_millis(2010));
/// assert!(outcome.weighted_speedup() > 3.98);
/// # Ok::<(), memweir_sim::SimError>(())
/// ```
///
/// # Errors
/// If there can be no such machine, task or figure, or there is no such policy.
pub fn simulate(experiment: &Experiment) -> Result<Outcome, SimError> {
    Simulation::new(experiment).run()
}

/// An experiment with what may be hooked into it.
pub struct Simulation<'a> {
    experiment: &'a Experiment,
    policy: Option<Box<dyn Policy>>,
    recorder: Option<&'a mut dyn Recorder>,
    migrator: Option<&'a mut dyn Migrator>,
}

impl<'a> Simulation<'a> {
    /// The experiment, with nothing hooked into it.
    #[must_use]
    pub fn new(experiment: &'a Experiment) -> Self {
        Self { experiment, policy: None, recorder: None, migrator: None }
    }

    /// Lets a policy from outside the table decide; the one that the experiment names is not looked
    /// at.
    #[must_use]
    pub fn policy(self, policy: Box<dyn Policy>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Tells somebody of every quantum.
    #[must_use]
    pub fn recorder(self, recorder: &'a mut dyn Recorder) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// Lets somebody move pages between quanta.
    #[must_use]
    pub fn migrator(self, migrator: &'a mut dyn Migrator) -> Self {
        Self { migrator: Some(migrator), ..self }
    }

    /// Simulates it.
    ///
    /// # Errors
    /// If there can be no such machine, task or figure, or there is no such policy.
    pub fn run(self) -> Result<Outcome, SimError> {
        let experiment = self.experiment;
        experiment.check()?;
        let config: SchedulerConfig = experiment.scheduler.clone();
        let scheduler = match self.policy {
            Some(policy) => QuantumScheduler::with_policy(config, policy),
            None => QuantumScheduler::new(config)?,
        };
        let execution = execution(&experiment.machine, &experiment.tasks);
        let mut driver = Driver::new(experiment, scheduler, execution);
        (driver.recorder, driver.migrator) = (self.recorder, self.migrator);
        driver.drive();
        Ok(driver.outcome())
    }
}

/// How a task stands.
#[derive(Clone, Debug)]
struct Slot {
    over: bool,
    /// Since when it has been let run in this quantum.
    resumed: Option<Nanos>,
    /// Whether it has had a core of its own in this quantum.
    chosen: bool,
    predicted: Option<BytesPerSec>,
    /// What had been read of it before this quantum.
    before: Reading,
    finish: Nanos,
    quanta: u64,
    alone: (Nanos, Counts),
}

/// One batch while it runs.
struct Driver<'a> {
    experiment: &'a Experiment,
    scheduler: QuantumScheduler,
    kernel: Kernel,
    recorder: Option<&'a mut dyn Recorder>,
    migrator: Option<&'a mut dyn Migrator>,
    slots: Vec<Slot>,
    /// Tasks that are not submitted yet; the next one last.
    arrivals: Vec<usize>,
    /// Tasks that are not complete.
    left: usize,
    /// Tasks that are submitted and not complete.
    present: Vec<usize>,
    /// What was decided for this quantum, or for the rest of it.
    decision: Decision,
    /// Readings of tasks that were completed in this quantum.
    ended: Vec<(TaskQuantum, Observation)>,
    quantum_start: Nanos,
    deadline: Nanos,
    quanta: Vec<QuantumOutcome>,
    /// What every memory had served before this quantum.
    served: [Traffic; MAX_MEDIA],
    copied: Bytes,
    ideal_average: Option<BytesPerSec>,
}

impl<'a> Driver<'a> {
    fn new(
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

    fn now(&mut self) -> Nanos {
        Nanos(self.kernel.execution().now().round() as u64)
    }

    fn drive(&mut self) {
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
                // At the very end of a quantum the next one's selection fills the core.
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

    /// Lets time pass, while there is nothing to do, until tasks are submitted.
    fn await_arrival(&mut self) {
        let Some(next) = self.arrivals.last() else { return };
        let arrival = self.experiment.tasks[*next].arrival;
        self.kernel.run(arrival);
        self.admit(arrival);
    }

    /// Submits the tasks that have arrived by now.
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

    /// Lets newcomers run where there is room for them, or at once where the operating system
    /// schedules.
    fn join(&mut self) {
        if self.decision.running == Running::Everything {
            let decision = self.decision.clone();
            self.resume(decision);
        }
        self.fill_free_cores();
    }

    /// One quantum ends, the next begins.
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

    /// The last quantum ends, and none begins.
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

    /// Fills cores that fell free in mid-quantum, until no waiting task fits.
    fn fill_free_cores(&mut self) {
        while let Some(decision) = self.scheduler.backfill() {
            self.resume(decision);
        }
    }

    /// Lets the decision's tasks run.
    fn resume(&mut self, decision: Decision) {
        let now = self.now();
        let mut tasks: Vec<usize> = match &decision.running {
            Running::Everything => self.present.clone(),
            Running::Only(jobs) => jobs.iter().map(|job| job.index()).collect(),
        };
        let everything = decision.running == Running::Everything;
        for task in &tasks {
            self.slots[*task].resumed.get_or_insert(now);
            // Those that came in mid-quantum are not in the decision.
            self.slots[*task].chosen |= everything;
        }
        for job in &decision.chosen {
            self.slots[job.index()].chosen = true;
        }
        self.kernel.wake(&mut tasks);
        self.decision = decision;
    }

    /// A task is complete.
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

    fn outcome(mut self) -> Outcome {
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
