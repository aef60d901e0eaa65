//! Step 2: reading the tasks' counts of the quantum that ends, and migrating their pages.

use memweir_core::{BytesPerSec, JobId, LINE_BYTES, Nanos};
use memweir_policy::quantum_loop::{JobQuantum, Quantum};
use memweir_policy::{Observation, PredictorKind};

use super::backend::{SimulatedBatch, Slot};
use super::jobs::Jobs;
use super::phases::instruction_pointers;
use crate::engine::{Execution, Reading};
use crate::record::TaskQuantum;

impl SimulatedBatch<'_> {
    /// Reads jobs and returns their observations since the last reading.
    pub(super) fn observe(&mut self, jobs: &[JobId]) -> Vec<Observation> {
        let tasks: Vec<usize> = jobs.iter().flat_map(|job| self.jobs.tasks(job.index())).collect();
        let mut readings = self.kernel.execution().read_all(&tasks).into_iter();
        let mut observations = Vec::with_capacity(jobs.len());
        for job in jobs {
            let mut sum: Option<Observation> = None;
            for (task, reading) in self.jobs.tasks(job.index()).zip(readings.by_ref()) {
                let seen = self.note(*job, task, reading);
                sum = Some(match sum {
                    Some(sum) => together(sum, seen),
                    None => seen,
                });
            }
            observations.extend(sum);
        }
        observations
    }

    /// Returns the observation of a task of a job since its last reading, given the new one.
    fn note(&mut self, job: JobId, task: usize, reading: Reading) -> Observation {
        let execution = self.kernel.execution();
        let slot = &mut self.slots[task];
        (slot.placement, slot.node) = (*execution.placement(task), execution.node(task));
        let before = std::mem::replace(&mut slot.before, reading);
        for (sum, (after, before)) in
            self.served.iter_mut().zip(reading.moved.iter().zip(before.moved))
        {
            *sum += after.since(&before);
        }
        let cpu_time = Nanos((reading.cpu_time - before.cpu_time).round() as u64);
        let counts = reading.counts.since(&before.counts);
        slot.latest = (cpu_time, counts);
        Observation {
            job,
            cpu_time: Some(cpu_time),
            counts: Some(counts),
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
        let tasks = tasks_of(ended, &self.jobs, &self.slots, self.kernel.execution());
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

/// Returns the sum of the observations of two tasks of a job.
fn together(mut sum: Observation, other: Observation) -> Observation {
    sum.cpu_time = sum.cpu_time.zip(other.cpu_time).map(|(sum, time)| sum + time);
    sum.counts = sum.counts.zip(other.counts).map(|(sum, counts)| sum + counts);
    sum.forecast = match (sum.forecast, other.forecast) {
        (Some(sum), Some(forecast)) => Some(sum + forecast),
        (sum, forecast) => sum.or(forecast),
    };
    for (sum, samples) in sum.instruction_pointers.iter_mut().zip(other.instruction_pointers) {
        *sum += samples;
    }
    sum
}

/// Returns the records of the tasks of a quantum that is over.
pub(super) fn tasks_of(
    quantum: &Quantum,
    jobs: &Jobs,
    slots: &[Slot],
    execution: &dyn Execution,
) -> Vec<TaskQuantum> {
    let record = |entry: &JobQuantum, task: usize| {
        let slot = &slots[task];
        TaskQuantum {
            task: JobId(task as u32),
            chosen: entry.chosen,
            running: entry.running,
            cpu_time: slot.latest.0,
            counts: slot.latest.1,
            predicted: slot.predicted,
            placement: slot.placement,
            node: slot.node,
            progress: execution.progress(task, slot.before.at),
        }
    };
    let ran = |task: &usize| !slots[*task].over || slots[*task].finish > quantum.start;
    let of_job = |entry: &JobQuantum| {
        let tasks = jobs.tasks(entry.job.index()).filter(ran);
        tasks.map(|task| record(entry, task)).collect::<Vec<_>>()
    };
    quantum.jobs.iter().flat_map(of_job).collect()
}
