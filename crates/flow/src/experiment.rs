//! Description of an experiment: a machine, tasks and a scheduler.

use std::collections::HashSet;
use std::sync::Arc;

use memweir_core::Nanos;
use memweir_core::input::Refusal;
use memweir_policy::{Bus, SchedulerConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::machine::{Impossible, Machine, View};
use crate::program::Program;
use crate::task::Task;

/// One batch on one machine under one scheduler. Equal experiments have equal outcomes.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The machine.
    pub machine: Machine,
    /// Tasks to submit; at least one.
    pub tasks: Vec<Task>,
    /// Job of each task, counted from zero in the order of the tasks; empty if each task is a job
    /// of its own. The tasks of a job arrive together, and a policy gives cores to all of them or
    /// to none.
    pub jobs: Arc<[u32]>,
    /// Configuration of the scheduler, which is the one that schedules live. Its cores are the
    /// first ones of the machine.
    pub scheduler: SchedulerConfig,
    /// Knowledge that the scheduler has of the tasks at submission.
    pub knowledge: Knowledge,
    /// Its error.
    pub knowledge_error: KnowledgeError,
    /// Factors on the known times of the jobs, beside that error; empty for none.
    pub time_factors: Vec<f64>,
    /// Costs of scheduling.
    pub overheads: Overheads,
    /// Behavior of the operating system below.
    pub kernel: KernelConfig,
    /// Admission of arriving tasks to the scheduler.
    pub admission: Admission,
    /// Seed of the differences between real runs of one batch: where tasks start and when the
    /// timers of the cores fire. The scheduler has a seed of its own.
    pub seed: u64,
}

/// A scheduler's knowledge of a task at submission (iabw section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// The task's time and mean bandwidth when it runs alone on the machine.
    #[default]
    Alone,
    /// The figures that the first run of the same program has shown, once that has ended; nothing
    /// before.
    FirstRun,
    /// Nothing.
    Nothing,
}

memweir_core::named! {
    pub Knowledge, "knowledge": Alone = "alone", FirstRun = "first-run", Nothing = "nothing"
}

/// Error of a time or a bandwidth that is known at submission: the standard deviation of the
/// natural logarithm of the factor by which it is wrong, from 0 to [`KnowledgeError::MOST`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KnowledgeError(pub f64);

impl KnowledgeError {
    /// Largest error: factors of 20 are common then.
    pub const MOST: f64 = 3.0;

    /// Returns the factors by which the time and the bandwidth of a job are wrong. Equal seeds give
    /// equal factors.
    #[must_use]
    pub fn factors(self, seed: u64, job: usize) -> (f64, f64) {
        if self.0 == 0.0 {
            return (1.0, 1.0);
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(job as u64);
        // Two independent normal variates (Box and Muller, 1958).
        let (uniform, angle): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
        let radius = self.0 * (-2.0 * uniform.ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * angle).sin_cos();
        ((radius * cosine).exp(), (radius * sine).exp())
    }
}

/// Admission of arriving tasks to the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Each at its arrival.
    #[default]
    Immediate,
    /// In the order of their arrival, with at most this many tasks in the system; a job of more
    /// tasks is admitted when there is no other.
    Limited(u32),
}

/// Costs of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overheads {
    /// Time between two quanta, from blocking the tasks to resuming the next ones, in which all
    /// cores stand still. Not charged where the operating system schedules.
    pub quantum_switch: Nanos,
    /// Time that a core loses when it switches to another task.
    pub context_switch: Nanos,
}

impl Default for Overheads {
    /// A switch of 8 of 16 jobs as measured in `docs/performance.md`, 0.149 ms; context switches
    /// are free because they were not measured.
    fn default() -> Self {
        Self { quantum_switch: Nanos(149_000), context_switch: Nanos::ZERO }
    }
}

/// Behavior of the operating system's scheduler; see [`crate::kernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelConfig {
    /// Time slice, after which the next task of the core's queue runs; more than zero.
    pub slice: Nanos,
    /// Time between two attempts of a busy core to balance its load; more than zero. `None` for the
    /// interval of Linux, 16 ms per core of the scheduling domain.
    pub balance: Option<Nanos>,
    /// Longest delay, drawn at random, before a task that was blocked runs again.
    pub jitter: Nanos,
}

impl Default for KernelConfig {
    /// 3 ms, the slice of Linux on eight CPUs and more (0.75 ms * (1 + log2 CPUs), at most 3 ms),
    /// rounded up to the ticks of 4 ms that most distributions have: 4 ms. Blocked tasks run again
    /// within the time in which they are resumed one by one, 0.089 ms (`docs/performance.md`).
    fn default() -> Self {
        Self { slice: Nanos::from_millis(4), balance: None, jitter: Nanos(89_000) }
    }
}

/// Reason for which an experiment has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The machine, a task or a figure is impossible.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// There is no such policy.
    #[error("{}", .0.sentence())]
    UnknownPolicy(#[from] Refusal),
    /// Its end was requested ([`memweir_core::Stop`]).
    #[error("stopped before its end")]
    Stopped,
}

impl Experiment {
    /// Creates an experiment in which the named policy has all cores of the machine and quanta of
    /// 100 ms, and knows the memories' peaks: the capacity of all DRAM is the peak of the bus.
    #[must_use]
    pub fn new(machine: Machine, tasks: Vec<Task>, policy: &str) -> Self {
        let view = View::new(&machine);
        let scheduler = SchedulerConfig {
            policy: policy.to_owned(),
            cores: machine.cores(),
            machine_cores: Some(machine.cores()),
            bus: Bus { peak: Some(machine.bus_peak()), ..Bus::default() },
            medium_peaks: view.peaks(&machine),
            line_costs: view.line_costs(&machine),
            media: view.media().clone(),
            ..SchedulerConfig::default()
        };
        Self {
            machine,
            tasks,
            jobs: Arc::default(),
            scheduler,
            knowledge: Knowledge::default(),
            knowledge_error: KnowledgeError::default(),
            time_factors: Vec::new(),
            overheads: Overheads::default(),
            kernel: KernelConfig::default(),
            admission: Admission::default(),
            seed: 0,
        }
    }

    /// Checks that the experiment can be simulated.
    ///
    /// # Errors
    /// Names the first impossible value.
    pub fn check(&self) -> Result<(), Impossible> {
        self.machine.check()?;
        let cores = self.machine.cores();
        if !(1..=cores).contains(&self.scheduler.cores) {
            let reason = format!("must be from 1 to the machine's {cores}");
            return Err(Impossible::new("scheduler.cores", reason));
        }
        let timers = [
            ("scheduler.quantum", Some(self.scheduler.quantum)),
            ("kernel.slice", Some(self.kernel.slice)),
            ("kernel.balance", self.kernel.balance),
        ];
        for (key, span) in timers {
            if span == Some(Nanos::ZERO) {
                return Err(Impossible::new(key, "must be more than zero"));
            }
        }
        if self.overheads.quantum_switch >= self.scheduler.quantum {
            let reason = "must be shorter than a quantum";
            return Err(Impossible::new("overheads.quantum_switch", reason));
        }
        if !(0.0..=KnowledgeError::MOST).contains(&self.knowledge_error.0) {
            let reason = format!("must be from 0 to {}", KnowledgeError::MOST);
            return Err(Impossible::new("knowledge_error", reason));
        }
        if self.tasks.is_empty() {
            return Err(Impossible::new("tasks", "there is nothing to execute"));
        }
        if self.admission == Admission::Limited(0) {
            return Err(Impossible::new("admission", "needs room for a task"));
        }
        self.check_jobs()?;
        let memories = self.machine.memories.len();
        let mut checked = HashSet::new();
        for (place, task) in self.tasks.iter().enumerate() {
            let refuse = |(key, reason)| Impossible::new(format!("tasks[{place}].{key}"), reason);
            check_task(task, memories).map_err(refuse)?;
            if checked.insert(Arc::as_ptr(&task.program)) {
                check_program(&task.program, memories).map_err(refuse)?;
            }
        }
        Ok(())
    }

    fn check_jobs(&self) -> Result<(), Impossible> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        if self.jobs.len() != self.tasks.len() {
            return Err(Impossible::new("jobs", "must have one for each task, or none"));
        }
        let (mut last, mut arrival) = (None, Nanos::ZERO);
        for (place, (job, task)) in self.jobs.iter().zip(&self.tasks).enumerate() {
            let same = last == Some(*job);
            if !same && *job != last.map_or(0, |last| last + 1) {
                let reason = "jobs are counted from zero in the order of the tasks";
                return Err(Impossible::new(format!("jobs[{place}]"), reason));
            }
            if same && task.arrival != arrival {
                let reason = "the tasks of a job arrive together";
                return Err(Impossible::new(format!("jobs[{place}]"), reason));
            }
            (last, arrival) = (Some(*job), task.arrival);
        }
        Ok(())
    }
}

/// An impossible key of a task and the reason.
type Wrong = (String, &'static str);

/// Checks that a machine with this number of memories can execute the program.
fn check_program(program: &Program, memories: usize) -> Result<(), Wrong> {
    if program.spans.is_empty() {
        return Err(("program.spans".to_owned(), "a program has at least one span"));
    }
    for (place, span) in program.spans.iter().enumerate() {
        let key = |field: &str| format!("program.spans[{place}].{field}");
        if span.length == Nanos::ZERO {
            return Err((key("length"), "must be more than zero"));
        }
        if !(0.0..=1.0).contains(&span.demand.stall) {
            return Err((key("stall"), "must be from 0 to 1"));
        }
        let is_rate = |rate: f64| (0.0..1e18).contains(&rate);
        let flows = &span.demand.flows;
        let traffic = flows.iter().all(|flow| is_rate(flow.reads.0) && is_rate(flow.writes.0));
        if !traffic || !is_rate(span.demand.instructions) {
            return Err((key("demand"), "a rate is a number and not negative"));
        }
        if flows[memories..].iter().any(|flow| flow.reads.0 + flow.writes.0 > 0.0) {
            return Err((key("flows"), "the machine has no such memory"));
        }
    }
    Ok(())
}

/// Checks that a machine with this number of memories can execute the task, apart from its program.
fn check_task(task: &Task, memories: usize) -> Result<(), Wrong> {
    if task.work == Nanos::ZERO {
        return Err(("work".to_owned(), "must be more than zero"));
    }
    for (key, shares) in [("reads", task.placement.reads), ("writes", task.placement.writes)] {
        let key = format!("placement.{key}");
        if !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
            return Err((key, "a share is from 0 to 1"));
        }
        if shares[1..].iter().sum::<f64>() > 1.0 + 1e-9 {
            return Err((key, "the shares of the other memories add up to more than 1"));
        }
        if shares[memories..].iter().any(|share| *share > 0.0) {
            return Err((key, "the machine has no such memory"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Node;
    use crate::program::{Demand, Flow, Span};
    use crate::service::GrowthPoint;
    use crate::task::Placement;
    use memweir_core::{BytesPerSec, Picos};

    fn possible() -> Experiment {
        let span = Span { length: Nanos::MILLI, demand: Demand::default() };
        let program = Arc::new(Program { name: "idle".to_owned(), spans: vec![span] });
        let machine = Machine::uniform("one", 2, BytesPerSec::from_gb(10.0));
        Experiment::new(machine, vec![Task::once("task", program)], "os")
    }

    fn change_span(experiment: &mut Experiment, change: impl FnOnce(&mut Span)) {
        let mut program = Program::clone(&experiment.tasks[0].program);
        change(&mut program.spans[0]);
        experiment.tasks[0].program = Arc::new(program);
    }

    #[test]
    fn known_figures_are_wrong_by_the_error_that_was_asked_for() {
        assert_eq!(KnowledgeError(0.0).factors(7, 3), (1.0, 1.0));
        let error = KnowledgeError(0.3);
        assert_eq!(error.factors(7, 3), error.factors(7, 3));
        assert_ne!(error.factors(7, 3), error.factors(8, 3));
        let logarithms: Vec<[f64; 2]> = (0..10_000)
            .map(|job| error.factors(7, job))
            .map(|(time, bandwidth)| [time.ln(), bandwidth.ln()])
            .collect();
        let mean = |of: &dyn Fn(&[f64; 2]) -> f64| logarithms.iter().map(of).sum::<f64>() / 1e4;
        for place in [0, 1] {
            assert!(mean(&|l| l[place]).abs() < 0.01);
            assert!((mean(&|l| l[place] * l[place]).sqrt() - 0.3).abs() < 0.01);
        }
        assert!(mean(&|l| l[0] * l[1]).abs() < 0.003, "the two are independent");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        type Change = fn(&mut Experiment);
        let changes: [(&str, Change); 24] = [
            ("nodes[0].cores", |e| e.machine.nodes[0].cores = 0),
            ("nodes", |e| e.machine.nodes.clear()),
            ("nodes[1]", |e| e.machine.nodes.push(Node { cores: 1 })),
            ("memories", |e| e.machine.memories.clear()),
            ("memories[0].node", |e| e.machine.memories[0].node = 1),
            ("memories[0].read_latency", |e| e.machine.memories[0].read_latency = Picos(0)),
            ("memories[0].capacity", |e| e.machine.memories[0].service.capacity.0 = -1.0),
            ("memories[0].write_cost", |e| e.machine.memories[0].service.write_cost = f64::NAN),
            ("memories[0].growth[0].points[0].stretch", |e| {
                let shrinks = GrowthPoint { utilization: 0.5, stretch: 0.9 };
                e.machine.memories[0].service.growth = vec![shrinks].into();
            }),
            ("memories[0].growth[0].points[0].stretch", |e| {
                let idle = GrowthPoint { utilization: 0.0, stretch: 1.5 };
                e.machine.memories[0].service.growth = vec![idle].into();
            }),
            ("core_peak", |e| e.machine.core_peak.0 = 0.0),
            ("scheduler.cores", |e| e.scheduler.cores = 3),
            ("scheduler.quantum", |e| e.scheduler.quantum = Nanos::ZERO),
            ("kernel.slice", |e| e.kernel.slice = Nanos::ZERO),
            ("overheads.quantum_switch", |e| e.overheads.quantum_switch = e.scheduler.quantum),
            ("knowledge_error", |e| e.knowledge_error = KnowledgeError(f64::NAN)),
            ("admission", |e| e.admission = Admission::Limited(0)),
            ("jobs", |e| e.jobs = [0, 1].into()),
            ("jobs[0]", |e| e.jobs = [1].into()),
            ("jobs[1]", |e| {
                let later = Task { arrival: Nanos::MILLI, ..e.tasks[0].clone() };
                e.tasks.push(later);
                e.jobs = [0, 0].into();
            }),
            ("tasks", |e| e.tasks.clear()),
            ("tasks[0].work", |e| e.tasks[0].work = Nanos::ZERO),
            ("tasks[0].placement.reads", |e| e.tasks[0].placement = Placement::all_in(1)),
            ("tasks[0].program.spans[0].stall", |e| change_span(e, |s| s.demand.stall = 1.5)),
        ];
        assert_eq!(possible().check(), Ok(()));
        for (key, change) in changes {
            let mut experiment = possible();
            change(&mut experiment);
            let error = experiment.check().expect_err(key);
            assert_eq!(error.key, key, "{error}");
        }
        let mut experiment = possible();
        change_span(&mut experiment, |span| {
            span.demand.flows[2] = Flow { reads: BytesPerSec(1.0), writes: BytesPerSec(0.0) }
        });
        let error = experiment.check().expect_err("no such memory");
        assert_eq!(
            error.to_string(),
            "tasks[0].program.spans[0].flows: the machine has no such memory"
        );
    }
}
