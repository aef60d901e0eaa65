//! Records of a quantum that is over, written while the next one runs.

use std::path::PathBuf;

use memweir_linux::Meter;
use memweir_policy::quantum_loop::{JobQuantum, Quantum};
use memweir_policy::record::Call;

use super::{ProcessBackend, Stage};
use crate::batch::ledger::bandwidth;
use crate::observer::Event;
use crate::report::LostOutput;
use crate::timeline::Row;

impl ProcessBackend<'_> {
    /// Records a quantum that is over, while the next one runs.
    pub(super) fn record(&mut self, quantum: &Quantum) {
        self.ledger.quantum_ended(quantum);
        self.write_decisions(&quantum.calls);
        self.write_timeline(quantum);
        for notice in self.mechanisms.blocker.notices() {
            self.notice(notice);
        }
        if let Some(took) = quantum.switch {
            self.observer.event(Event::Switched { took });
        }
        let progress = self.ledger.progress();
        self.observer.event(Event::QuantumEnded(&progress));
    }

    /// Writes calls to the scheduler to the record, if one was requested.
    pub(in crate::batch) fn write_decisions(&mut self, calls: &[Call]) {
        let Some(log) = &mut self.outputs.decisions else { return };
        if let Err(error) = log.append(calls) {
            let path = log.path().to_owned();
            self.outputs.decisions = None;
            self.lose(path, format!("no more decisions are recorded: {error}"));
        }
    }

    pub(super) fn wants_rows(&self) -> bool {
        self.outputs.timeline.is_some() || self.observer.wants_rows()
    }

    fn write_timeline(&mut self, quantum: &Quantum) {
        if !self.wants_rows() {
            return;
        }
        let rows = self.rows(quantum);
        if self.observer.wants_rows() {
            self.observer.event(Event::QuantumRecorded(&rows));
        }
        let Some(mut timeline) = self.outputs.timeline.take() else { return };
        match timeline.append(&rows) {
            Ok(()) => self.outputs.timeline = Some(timeline),
            Err(error) => {
                let path = timeline.path().to_owned();
                let rest = timeline.abandon();
                let end = self.ledger.elapsed(quantum.start).as_secs_f64();
                self.lose(path, format!("the timeline ends at {end} s: {error}{rest}"));
            }
        }
    }

    pub(in crate::batch) fn finish_timeline(&mut self) {
        let Some(timeline) = self.outputs.timeline.take() else { return };
        let path = timeline.path().to_owned();
        if let Err(error) = timeline.finish() {
            self.lose(path, format!("the timeline could not be finished: {error}"));
        }
    }

    /// Records a file that can no longer be written, and tells the user.
    fn lose(&mut self, path: PathBuf, reason: String) {
        self.notice(format!("{}: {reason}", path.display()));
        self.lost.push(LostOutput { path, reason });
    }

    /// The timeline's rows: one per job that ran in the quantum or still waits after it.
    fn rows(&self, quantum: &Quantum) -> Vec<Row> {
        let meter = self.mechanisms.meter.as_deref();
        let sees = meter.map(Meter::capabilities).unwrap_or_default();
        let (span, system) = (quantum.summary.elapsed, bandwidth(quantum));
        let start = self.ledger.elapsed(quantum.start);
        let mut entries = vec![None; self.slots.len()];
        for entry in &quantum.jobs {
            entries[entry.job.index()] = Some(entry);
        }
        let row = |index: usize| {
            let entry: Option<&JobQuantum> = entries[index];
            let counts = entry.and_then(|entry| entry.counts);
            let row = Row {
                quantum: self.ledger.quanta() - 1,
                job: index as u32,
                name: self.plan.batch.jobs[index].name.clone(),
                predicted: self.slots[index].predicted.map(|rate| rate.0),
                ..Row::of(entry, &sees, span)
            };
            let told_apart = counts.filter(|_| sees.media);
            row.at(start, span)
                .in_system(system, quantum.decision.target)
                .elsewhere(told_apart.as_ref(), &self.plan.options.media)
        };
        (0..self.slots.len())
            .filter(|index| entries[*index].is_some() || self.slots[*index].stage != Stage::Over)
            .map(row)
            .collect()
    }
}
