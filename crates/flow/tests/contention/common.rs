//! Machines and programs that the tests share.

use std::sync::Arc;

use memweir_core::{BytesPerSec, Nanos};
use memweir_flow::{
    Demand, Experiment, Flow, Machine, Outcome, Overheads, Program, Span, Task, simulate,
};

/// Peak bandwidth of one core that only accesses memory, in GB/s. A program of `gb` GB/s waits for
/// memory for `gb / CORE_PEAK` of its time.
pub(crate) const CORE_PEAK: f64 = 10.0;

pub(crate) fn gb(value: f64) -> BytesPerSec {
    BytesPerSec::from_gb(value)
}

pub(crate) fn ms(value: u64) -> Nanos {
    Nanos::from_millis(value)
}

/// Creates a span of `length` that reads `rate` GB/s.
pub(crate) fn span(length: Nanos, rate: f64) -> Span {
    let stall = (rate / CORE_PEAK).min(1.0);
    let mut demand = Demand { instructions: 1e9, stall, ..Demand::default() };
    demand.flows[0] = Flow { reads: gb(rate), ..Flow::default() };
    Span { length, demand }
}

/// Creates a program with these rates, 1 ms each.
pub(crate) fn program(rates: &[f64]) -> Arc<Program> {
    let spans = rates.iter().map(|rate| span(ms(1), *rate)).collect();
    Arc::new(Program { name: "test".to_owned(), spans })
}

/// Creates a task that executes `work_ms` of the program, starting at `offset_ms`.
pub(crate) fn task(program: &Arc<Program>, offset_ms: u64, work_ms: u64) -> Task {
    Task { offset: ms(offset_ms), work: ms(work_ms), ..Task::once("task", program.clone()) }
}

pub(crate) fn machine(cores: u32, capacity: f64) -> Machine {
    Machine { core_peak: gb(CORE_PEAK), ..Machine::uniform("test", cores, gb(capacity)) }
}

/// Creates an experiment with contention only: scheduling costs no time, and blocked tasks resume
/// without a random delay.
pub(crate) fn experiment(machine: Machine, tasks: Vec<Task>, policy: &str) -> Experiment {
    let mut experiment = Experiment::new(machine, tasks, policy);
    experiment.overheads = Overheads { quantum_switch: Nanos::ZERO, context_switch: Nanos::ZERO };
    experiment.kernel.jitter = Nanos::ZERO;
    experiment
}

/// Runs all of the tasks at once, each with a core of its own.
pub(crate) fn together(capacity: f64, tasks: Vec<Task>) -> Outcome {
    let cores = tasks.len() as u32;
    simulate(&experiment(machine(cores, capacity), tasks, "os")).expect("a possible experiment")
}
