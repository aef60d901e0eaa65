//! Step 2: reading what the jobs did in the quantum that ends.

use memweir_core::{JobId, Nanos};
use memweir_linux::Reading;
use memweir_policy::Observation;

use super::ProcessBackend;

impl ProcessBackend<'_> {
    /// Returns what the job did since it was last read.
    pub(super) fn read_job(&mut self, job: JobId) -> Observation {
        let slot = &self.slots[job.index()];
        let (before, counted_before) = (slot.cpu_time, slot.counts);
        // The accounts of a job that has just ended may be gone.
        let total = self.mechanisms.blocker.cpu_time(job).unwrap_or(before).max(before);
        let reading = self.read_meter(job, total);
        let counts = reading.as_ref().map(|reading| reading.counts.since(&counted_before));
        let slot = &mut self.slots[job.index()];
        slot.cpu_time = total;
        let reading = reading.unwrap_or_default();
        if counts.is_some() {
            slot.counts = reading.counts;
        }
        Observation {
            job,
            cpu_time: total - before,
            counts,
            instruction_pointers: reading.instruction_pointers,
            forecast: reading.forecast,
        }
    }

    /// Returns the meter's reading of a job, or `None` once its meter has failed.
    fn read_meter(&mut self, job: JobId, cpu_time: Nanos) -> Option<Reading> {
        if !self.slots[job.index()].metered {
            return None;
        }
        let meter = self.mechanisms.meter.as_mut()?;
        match meter.read(job, cpu_time, self.plan.options.quantum) {
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
            self.ledger.counting_failed(job);
            let name = &self.job(job).name;
            self.notice(format!("{name} is no longer metered: {reason}"));
        }
    }
}
