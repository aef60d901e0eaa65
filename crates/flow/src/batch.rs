//! Simulates a batch: the simulated machine as a backend of the [`QuantumLoop`], which is the loop
//! that also runs live. The [`kernel`](crate::kernel) executes the tasks that the loop resumes.
//!
//! All tasks are blocked between two quanta while the scheduler reads and decides, for as long as
//! [`Overheads`](crate::Overheads) says.

mod backend;
mod jobs;
mod observe;
mod phases;

use memweir_core::Stop;
use memweir_policy::record::{Call, RecordingScheduler};
use memweir_policy::{Policy, QuantumLoop, QuantumScheduler, SchedulerConfig};

use crate::engine::execution;
use crate::experiment::{Experiment, SimError};
use crate::outcome::Outcome;
use crate::record::{Migrator, Recorder};
use backend::SimulatedBatch;

/// Simulates an experiment.
///
/// ```
/// use std::sync::Arc;
///
/// use memweir_core::{BytesPerSec, Nanos};
/// use memweir_flow::{Demand, Experiment, Flow, Machine, Program, Span, Task, simulate};
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
/// # Ok::<(), memweir_flow::SimError>(())
/// ```
///
/// # Errors
/// If the machine, a task or a figure is impossible, or the policy is unknown.
pub fn simulate(experiment: &Experiment) -> Result<Outcome, SimError> {
    Simulation::new(experiment).run()
}

/// An experiment with its hooks.
pub struct Simulation<'a> {
    experiment: &'a Experiment,
    policy: Option<Box<dyn Policy>>,
    recorder: Option<&'a mut dyn Recorder>,
    migrator: Option<&'a mut dyn Migrator>,
    calls: Option<&'a mut Vec<Call>>,
    stop: Stop,
}

impl<'a> Simulation<'a> {
    /// Creates a simulation of the experiment without hooks.
    #[must_use]
    pub fn new(experiment: &'a Experiment) -> Self {
        Self {
            experiment,
            policy: None,
            recorder: None,
            migrator: None,
            calls: None,
            stop: Stop::default(),
        }
    }

    /// Uses a policy from outside the table; the one that the experiment names is ignored.
    #[must_use]
    pub fn policy(self, policy: Box<dyn Policy>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Reports every quantum to `recorder`.
    #[must_use]
    pub fn recorder(self, recorder: &'a mut dyn Recorder) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// Lets `migrator` move pages between quanta.
    #[must_use]
    pub fn migrator(self, migrator: &'a mut dyn Migrator) -> Self {
        Self { migrator: Some(migrator), ..self }
    }

    /// Appends every call to the scheduler to `calls`, in the form of a live batch's record.
    #[must_use]
    pub fn calls(self, calls: &'a mut Vec<Call>) -> Self {
        Self { calls: Some(calls), ..self }
    }

    /// Ends the simulation when `stop` is requested.
    #[must_use]
    pub fn stop(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Runs the simulation.
    ///
    /// # Errors
    /// If the machine, a task or a figure is impossible, the policy is unknown, or the end was
    /// requested.
    pub fn run(self) -> Result<Outcome, SimError> {
        let experiment = self.experiment;
        experiment.check()?;
        let config: SchedulerConfig = experiment.scheduler.clone();
        let scheduler = match self.policy {
            Some(policy) => QuantumScheduler::with_policy(config, policy),
            None => QuantumScheduler::new(config)?,
        };
        let scheduler = match &self.calls {
            Some(_) => RecordingScheduler::recording(scheduler),
            None => RecordingScheduler::silent(scheduler),
        };
        let execution = execution(&experiment.machine, &experiment.tasks);
        let mut batch = SimulatedBatch::new(experiment, execution, self.stop);
        (batch.recorder, batch.migrator, batch.calls) = (self.recorder, self.migrator, self.calls);
        let mut quanta = QuantumLoop::new(scheduler, experiment.scheduler.quantum);
        quanta.run(&mut batch)?;
        if let Some(calls) = &mut batch.calls {
            calls.extend(quanta.take_calls());
        }
        Ok(batch.outcome(quanta.ideal_average_bandwidth()))
    }
}
