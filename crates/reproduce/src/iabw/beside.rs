//! Endless programs side by side, as the paper's Hogs and HogSims.

use std::sync::Arc;

use memweir_core::{BytesPerSec, Counts, Nanos};
use memweir_flow::{
    Experiment, Machine, Program, QuantumOutcome, Recorder, SimError, Simulation, Task, TaskQuantum,
};

/// Instructions per second of progress of the programs of [`beside`], whose counted instructions
/// tell their progress.
pub(super) const CLOCK: f64 = 1e9;

/// Result of programs that ran side by side all the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Beside {
    /// Bandwidth of all together.
    pub(super) bandwidth: BytesPerSec,
    /// Weighted speedup, iabw eq. (1).
    pub(super) speedup: f64,
}

/// Runs the programs, each from an offset of its own, on a core each for at least `time`. They must
/// count [`CLOCK`] instructions per second of progress.
///
/// # Errors
/// If the engine refuses a program.
pub(super) fn beside(
    machine: &Machine,
    programs: &[(Arc<Program>, Nanos)],
    time: Nanos,
) -> Result<Beside, SimError> {
    let tasks = programs.iter().enumerate().map(|(number, (program, offset))| Task {
        offset: *offset,
        work: time,
        ..Task::once(format!("{}#{number}", program.name), Arc::clone(program))
    });
    let experiment = Experiment::new(machine.clone(), tasks.collect(), "os");
    let mut meter = Meter { ends: Vec::new(), counts: vec![Counts::default(); programs.len()] };
    let outcome = Simulation::new(&experiment).recorder(&mut meter).run()?;
    // From the first completion on, the other programs have the memory for themselves.
    let together = outcome.tasks.iter().map(|task| task.finish).min().unwrap_or_default();
    let (span, counts) = meter.until(together);
    let alone = outcome.tasks.iter().map(|task| time.as_f64() / task.alone.as_f64());
    let speedup = counts
        .iter()
        .zip(alone)
        .map(|(counts, alone)| counts.instructions as f64 / CLOCK / span.as_secs_f64() / alone)
        .sum();
    let total = counts.iter().fold(Counts::default(), |sum, counts| sum + *counts);
    Ok(Beside { bandwidth: total.bandwidth(span), speedup })
}

/// Sums of each task's counts at the end of each quantum.
struct Meter {
    ends: Vec<(Nanos, Vec<Counts>)>,
    counts: Vec<Counts>,
}

impl Meter {
    /// Returns the end of the last quantum that ended by `time`, and the counts of each task at it.
    fn until(self, time: Nanos) -> (Nanos, Vec<Counts>) {
        let within = self.ends.into_iter().take_while(|(end, _)| *end <= time).last();
        within.unwrap_or((Nanos(1), self.counts))
    }
}

impl Recorder for Meter {
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]) {
        for task in tasks {
            self.counts[task.task.0 as usize] += task.counts;
        }
        self.ends.push((quantum.start + quantum.elapsed, self.counts.clone()));
    }
}
