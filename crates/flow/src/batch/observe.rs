//! Step 2: reading the tasks' counts of the quantum that ends, and migrating their pages.

use memweir_core::{BytesPerSec, JobId, LINE_BYTES, Nanos};
use memweir_policy::quantum_loop::{JobQuantum, Quantum};
use memweir_policy::{Observation, PredictorKind};

use super::backend::{SimulatedBatch, Slot};
use super::phases::instruction_pointers;
use crate::engine::{Execution, Reading};
use crate::record::TaskQuantum;

impl SimulatedBatch<'_> {
    /// Returns the observation of a task since its last reading, given the new one.
    pub(super) fn note(&mut self, task: usize, reading: Reading) -> Observation {
        let execution = self.kernel.execution();
        let slot = &mut self.slots[task];
        (slot.placement, slot.node) = (*execution.placement(task), execution.node(task));
        let before = std::mem::replace(&mut slot.before, reading);
        for (sum, (after, before)) in
            self.served.iter_mut().zip(reading.moved.iter().zip(before.moved))
        {
            *sum += after.since(&before);
        }
        Observation {
            job: JobId(task as u32),
            cpu_time: Nanos((reading.cpu_time - before.cpu_time).round() as u64),
            counts: Some(reading.counts.since(&before.counts)),
            instruction_pointers: self.sample(task, &before, &reading),
            forecast: self.forecast(task, &reading),
        }
    }

    /// Returns samples of the instruction pointer if the predictor uses them.
    fn sample(&self, task: usize, before: &Reading, after: &Reading) -> Vec<u32> {
        match self.experiment.scheduler.predictor {
            PredictorKind::Phase { .. } => {
                let program = &self.experiment.tasks[task].program;
                instruction_pointers(program, self.experiment.machine.core_peak, before, after)
            }
            _ => Vec::new(),
        }
    }

    /// Returns a task's demand in the next quantum as its program defines it, if the predictor uses
    /// it.
    fn forecast(&mut self, task: usize, reading: &Reading) -> Option<BytesPerSec> {
        let quantum = self.experiment.scheduler.quantum;
        if self.experiment.scheduler.predictor != PredictorKind::Profile {
            return None;
        }
        let (lines, nanos) = self.kernel.execution().ahead(task, reading.at, quantum);
        (nanos > 0.0).then(|| BytesPerSec(lines * LINE_BYTES as f64 / (nanos / 1e9)))
    }

    /// Moves pages if a migrator is hooked in.
    pub(super) fn migrate(&mut self, ended: &Quantum) {
        let Some(migrator) = &mut self.migrator else { return };
        let tasks = tasks_of(ended, &self.slots, self.kernel.execution());
        for migration in migrator.migrate(ended.summary.elapsed, &tasks) {
            let task = migration.task.index();
            if self.slots.get(task).is_none_or(|slot| slot.over) {
                continue;
            }
            self.copied += migration.copies.iter().map(|copy| copy.bytes).sum();
            self.kernel.block(task);
            self.kernel.execution().migrate(task, migration.placement, &migration.copies);
        }
    }
}

/// Returns the records of the tasks of a quantum that is over.
pub(super) fn tasks_of(
    quantum: &Quantum,
    slots: &[Slot],
    execution: &dyn Execution,
) -> Vec<TaskQuantum> {
    let task = |entry: &JobQuantum| {
        let slot = &slots[entry.job.index()];
        TaskQuantum {
            task: entry.job,
            chosen: entry.chosen,
            running: entry.running,
            cpu_time: entry.cpu_time,
            counts: entry.counts.unwrap_or_default(),
            predicted: slot.predicted,
            placement: slot.placement,
            node: slot.node,
            progress: execution.progress(entry.job.index(), slot.before.at),
        }
    };
    quantum.jobs.iter().map(task).collect()
}
