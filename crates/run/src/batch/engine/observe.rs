//! Step 2: reading what the jobs did in the quantum that ends.

use memweir_core::{JobId, Nanos};
use memweir_linux::Reading;
use memweir_policy::Observation;

use super::{Engine, Stage};
use crate::batch::ledger::{JobQuantum, Quantum};

impl Engine<'_> {
    /// Step 2: reads every job that could run, and reports to the scheduler.
    pub(super) fn observe(&mut self) -> Quantum {
        let now = self.parts.world.now();
        let span = now.saturating_sub(self.quantum_start);
        let mut readings = std::mem::take(&mut self.ended);
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let alive = matches!(slot.stage, Stage::Started | Stage::ChildrenLeft(_));
            if alive && slot.resumed.is_some() {
                readings.push(self.read(JobId(index as u32), now));
            }
        }
        for slot in &mut self.slots {
            (slot.resumed, slot.chosen) = (None, false);
        }
        let (jobs, observations): (Vec<_>, Vec<_>) = readings.into_iter().unzip();
        self.parts.scheduler.observe(span, &observations);
        let start = self.parts.ledger.elapsed(self.quantum_start);
        let quantum =
            Quantum { number: self.quantum, start, span, jobs, target: self.decision.target };
        self.quantum += 1;
        quantum
    }

    /// Returns what the job did since it was last read.
    pub(super) fn read(&mut self, job: JobId, now: Nanos) -> (JobQuantum, Observation) {
        let slot = &self.slots[job.index()];
        let (before, counted_before) = (slot.cpu_time, slot.counts);
        let running = now.saturating_sub(slot.resumed.unwrap_or(now));
        let (chosen, reason) = (slot.chosen, slot.reason);
        // The accounts of a job that has just ended may be gone.
        let total = self.parts.blocker.cpu_time(job).unwrap_or(before).max(before);
        let reading = self.read_meter(job, total);
        let counts = reading.as_ref().map(|reading| reading.counts.since(&counted_before));
        let slot = &mut self.slots[job.index()];
        slot.cpu_time = total;
        let cpu_time = total - before;
        let reading = reading.unwrap_or_default();
        if counts.is_some() {
            slot.counts = reading.counts;
        }
        let entry = JobQuantum { job, chosen, reason, running, cpu_time, counts };
        let observation = Observation {
            job,
            cpu_time,
            counts,
            instruction_pointers: reading.instruction_pointers,
            forecast: reading.forecast,
        };
        (entry, observation)
    }

    /// Returns the meter's reading of a job, or `None` once its meter has failed.
    fn read_meter(&mut self, job: JobId, cpu_time: Nanos) -> Option<Reading> {
        if !self.slots[job.index()].metered {
            return None;
        }
        let meter = self.parts.meter.as_mut()?;
        match meter.read(job, cpu_time, self.parts.rules.quantum) {
            Ok(reading) => Some(reading),
            Err(error) => {
                self.lose_meter(job, &error.to_string());
                None
            }
        }
    }

    /// Stops metering a job, and tells the user.
    pub(super) fn lose_meter(&mut self, job: JobId, reason: &str) {
        if std::mem::replace(&mut self.slots[job.index()].metered, false) {
            self.parts.ledger.counting_failed(job);
            let name = &self.parts.batch.jobs[job.index()].name;
            self.notice(format!("{name} is no longer metered: {reason}"));
        }
    }
}
