//! Step 2: reading what the jobs did in the quantum that ends.

use memweir_core::JobId;
use memweir_policy::Observation;

use super::ProcessBackend;
use crate::batch::MeterLoss;
use crate::observer::Event;

impl ProcessBackend<'_> {
    /// Returns what the job did since it was last read.
    pub(super) fn read_job(&mut self, job: JobId) -> Observation {
        let totals = &mut self.slots[job.index()].totals;
        let (observation, loss) = self.mechanisms.read(job, totals, self.plan.options.quantum);
        if let Some(loss) = loss {
            self.lose_meter(job, &loss);
        }
        observation
    }

    /// Stops metering a job, and tells the user.
    pub(super) fn lose_meter(&mut self, job: JobId, MeterLoss { reason, text }: &MeterLoss) {
        self.slots[job.index()].totals.metered = false;
        if let Some(meter) = &self.mechanisms.meter {
            let (kind, reason) = (meter.kind(), *reason);
            self.observer.event(Event::MeterFailed { kind, reason });
        }
        self.ledger.counting_failed(job);
        let name = &self.job(job).name;
        self.notice(format!("{name} is no longer metered: {text}"));
    }
}
