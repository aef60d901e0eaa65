//! Telling an observer what the jobs do, while the next quantum runs.

use memweir_core::{JobId, Nanos};
use memweir_linux::Meter;
use memweir_policy::quantum_loop::Quantum;
use memweir_run::batch::{MeterLoss, bandwidth};
use memweir_run::observer::Event;
use memweir_run::timeline::Row;

use super::QueueBackend;
use super::end::Stage;
use crate::protocol::{JobActivity, QuantumView};

/// Longest time for which an observer of an idle queue is not called.
pub(super) const IDLE_CALL: Nanos = Nanos::from_millis(60_000);

impl QueueBackend<'_> {
    /// Records a quantum that is over.
    pub(super) fn record(&mut self, quantum: &Quantum) {
        for notice in self.mechanisms.blocker.notices() {
            self.service.notice(notice);
        }
        if let Some(took) = quantum.switch {
            self.observer.event(Event::Switched { took });
        }
        if self.observer.wants_rows() {
            let rows = self.rows(quantum);
            self.observer.event(Event::QuantumRecorded(&rows));
        }
        if self.service.is_watched() {
            self.service.quantum_ended(self.view(quantum));
        }
        self.quanta += 1;
    }

    /// Returns a quantum as clients see it.
    fn view(&self, quantum: &Quantum) -> QuantumView {
        let span = quantum.summary.elapsed;
        let activity = |id: JobId| {
            let entry = quantum.jobs.iter().find(|entry| entry.job == id);
            JobActivity {
                id,
                chosen: entry.is_some_and(|entry| entry.chosen),
                cpu_ns: entry.map_or(0, |entry| entry.cpu_time.0),
                bandwidth: entry.and_then(|e| e.counts).map(|counts| counts.bandwidth(span).0),
                reason: entry.and_then(|entry| entry.reason).map(str::to_owned),
            }
        };
        QuantumView {
            number: self.quanta,
            span_ns: span.0,
            bandwidth: bandwidth(quantum).map(|rate| rate.0),
            target: quantum.decision.target.map(|rate| rate.0),
            jobs: self.jobs_of(quantum).into_iter().map(activity).collect(),
        }
    }

    /// Returns the jobs that ran in a quantum or are blocked after it.
    fn jobs_of(&self, quantum: &Quantum) -> Vec<JobId> {
        let ran = quantum.jobs.iter().map(|entry| entry.job);
        let started = self.slots.iter().filter(|(_, slot)| slot.stage != Stage::Admitted);
        let mut jobs: Vec<JobId> = ran.chain(started.map(|(job, _)| *job)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Returns a row for each job of a quantum.
    fn rows(&self, quantum: &Quantum) -> Vec<Row> {
        let meter = self.mechanisms.meter.as_deref();
        let sees = meter.map(Meter::capabilities).unwrap_or_default();
        let (span, system) = (quantum.summary.elapsed, bandwidth(quantum));
        let row = |job: JobId| {
            let entry = quantum.jobs.iter().find(|entry| entry.job == job);
            Row {
                quantum: self.quanta,
                job: job.0,
                name: self.service.name_of(job),
                ..Row::of(entry, &sees, span)
            }
            .at(quantum.start, span)
            .in_system(system, quantum.decision.target)
        };
        self.jobs_of(quantum).into_iter().map(row).collect()
    }

    /// Tells how many jobs wait for their start, if that is of interest.
    pub(super) fn count_waiting(&mut self) {
        if self.observer.wants_rows() {
            self.observer.event(Event::Queued(self.service.pending()));
        }
    }

    pub(super) fn meter_failed(&mut self, loss: &MeterLoss) {
        if let Some(meter) = &self.mechanisms.meter {
            let (kind, reason) = (meter.kind(), loss.reason);
            self.observer.event(Event::MeterFailed { kind, reason });
        }
    }

    /// Tells of the end of a job.
    pub(super) fn ended(&mut self, job: JobId, exit_code: i32) {
        let (name, exit_code) = (self.service.name_of(job), Some(exit_code));
        let ran = self.slots.get(&job).and_then(|slot| slot.started);
        let wall = ran.map_or(Nanos::ZERO, |at| self.mechanisms.world.now().saturating_sub(at));
        self.observer.event(Event::JobEnded { job, name: &name, exit_code, wall });
    }
}
