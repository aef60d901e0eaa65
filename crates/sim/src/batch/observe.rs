//! Step 2: reading the tasks' counts of the quantum that ends, and migrating their pages.

use memweir_core::{BytesPerSec, JobId, LINE_BYTES, Nanos};
use memweir_policy::{Observation, PredictorKind, Running};

use super::driver::Driver;
use super::phases::instruction_pointers;
use crate::engine::Reading;
use crate::outcome::QuantumOutcome;
use crate::record::TaskQuantum;

impl Driver<'_> {
    /// Step 2: reads every task that could run and reports the readings to the scheduler.
    pub(super) fn observe(&mut self) -> Vec<TaskQuantum> {
        let now = self.now();
        let elapsed = now - self.quantum_start;
        let (mut tasks, mut observations): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.ended).into_iter().unzip();
        let mut resumed = self.present.clone();
        resumed.retain(|task| self.slots[*task].resumed.is_some());
        for (task, reading) in resumed.iter().zip(self.kernel.execution().read_all(&resumed)) {
            let (seen, observation) = self.note(*task, now, reading);
            tasks.push(seen);
            observations.push(observation);
        }
        tasks.sort_by_key(|seen| seen.task);
        observations.sort_by_key(|observation| observation.job);
        let summary = self.scheduler.observe(elapsed, &observations);
        let everything = self.decision.running == Running::Everything;
        let chosen = tasks.iter().filter(|seen| seen.chosen && !everything);
        let quantum = QuantumOutcome {
            start: self.quantum_start - self.started(),
            elapsed,
            bandwidth: summary.bandwidth,
            memories: std::mem::take(&mut self.served).map(|moved| moved.lines().over(elapsed)),
            chosen: chosen.map(|seen| seen.task).collect(),
            predicted: self.decision.predicted,
            target: self.decision.target,
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.quantum(&quantum, &tasks);
        }
        self.quanta.push(quantum);
        tasks
    }

    fn started(&self) -> Nanos {
        self.experiment.tasks.iter().map(|task| task.arrival).min().unwrap_or_default()
    }

    /// Returns the record and the observation of a task since its last reading.
    pub(super) fn read(&mut self, task: usize, now: Nanos) -> (TaskQuantum, Observation) {
        let reading = self.kernel.execution().read(task);
        self.note(task, now, reading)
    }

    /// Returns the record and the observation of a task since its last reading, given the new one.
    fn note(&mut self, task: usize, now: Nanos, reading: Reading) -> (TaskQuantum, Observation) {
        let execution = self.kernel.execution();
        let slot = &mut self.slots[task];
        let before = std::mem::replace(&mut slot.before, reading);
        let counts = reading.counts.since(&before.counts);
        let cpu_time = Nanos((reading.cpu_time - before.cpu_time).round() as u64);
        slot.quanta += u64::from(slot.chosen);
        let job = JobId(task as u32);
        let seen = TaskQuantum {
            task: job,
            chosen: std::mem::take(&mut slot.chosen),
            running: now - slot.resumed.take().unwrap_or(now),
            cpu_time,
            counts,
            predicted: slot.predicted,
            placement: *execution.placement(task),
            node: execution.node(task),
        };
        for (sum, (after, before)) in
            self.served.iter_mut().zip(reading.moved.iter().zip(before.moved))
        {
            *sum += after.since(&before);
        }
        let observation = Observation {
            job,
            cpu_time,
            counts: Some(counts),
            instruction_pointers: self.sample(task, &before, &reading),
            forecast: self.forecast(task, &reading),
        };
        (seen, observation)
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

    /// Stores the predicted demands for the current quantum if a hook needs them.
    pub(super) fn note_predictions(&mut self) {
        if self.recorder.is_none() && self.migrator.is_none() {
            return;
        }
        for task in &self.present {
            self.slots[*task].predicted = self.scheduler.demand(JobId(*task as u32));
        }
    }

    /// Moves pages if a migrator is hooked in.
    pub(super) fn migrate(&mut self, tasks: &[TaskQuantum]) {
        let Some(migrator) = &mut self.migrator else { return };
        let elapsed = self.quanta.last().map_or(Nanos::ZERO, |quantum| quantum.elapsed);
        for migration in migrator.migrate(elapsed, tasks) {
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
