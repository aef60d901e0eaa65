//! Records of a quantum that is over, written while the next one runs.

use std::path::PathBuf;

use memweir_core::{JobId, Media};
use memweir_linux::Meter;

use super::{Engine, Slot, Stage};
use crate::batch::ledger::{JobQuantum, Quantum};
use crate::jobs::Batch;
use crate::observer::Event;
use crate::report::LostOutput;
use crate::timeline::Row;

impl Engine<'_> {
    /// Records a quantum that is over, while the next one runs.
    pub(super) fn book(&mut self, quantum: &Quantum) {
        self.parts.ledger.quantum_ended(quantum);
        self.write_decisions();
        self.write_timeline(quantum);
        for notice in self.parts.blocker.notices() {
            self.notice(notice);
        }
        let progress = self.parts.ledger.progress();
        self.parts.observer.event(Event::QuantumEnded(&progress));
    }

    /// Keeps the bandwidth predicted for each job in the quantum that runs.
    pub(super) fn note_predictions(&mut self) {
        if !self.rows_wanted() {
            return;
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            slot.predicted = self.parts.scheduler.demand(JobId(index as u32));
        }
    }

    /// Writes the decisions since the last call.
    pub(super) fn write_decisions(&mut self) {
        let calls = self.parts.scheduler.take_calls();
        let Some(log) = &mut self.parts.decisions else { return };
        if let Err(error) = log.append(&calls) {
            let path = log.path().to_owned();
            self.parts.decisions = None;
            self.lose(path, format!("no more decisions are recorded: {error}"));
        }
    }

    fn rows_wanted(&self) -> bool {
        self.parts.timeline.is_some() || self.parts.observer.wants_rows()
    }

    fn write_timeline(&mut self, quantum: &Quantum) {
        if !self.rows_wanted() {
            return;
        }
        let meter = self.parts.meter.as_deref();
        let rows = rows(quantum, self.parts.batch, &self.slots, meter, &self.parts.media);
        if self.parts.observer.wants_rows() {
            self.parts.observer.event(Event::QuantumRecorded(&rows));
        }
        let Some(mut timeline) = self.parts.timeline.take() else { return };
        match timeline.append(&rows) {
            Ok(()) => self.parts.timeline = Some(timeline),
            Err(error) => {
                let path = timeline.path().to_owned();
                let rest = timeline.abandon();
                let end = quantum.start.as_secs_f64();
                self.lose(path, format!("the timeline ends at {end} s: {error}{rest}"));
            }
        }
    }

    pub(super) fn finish_timeline(&mut self) {
        let Some(timeline) = self.parts.timeline.take() else { return };
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
}

/// The timeline's rows: one per job that ran in the quantum or still waits after it.
fn rows(
    quantum: &Quantum,
    batch: &Batch,
    slots: &[Slot],
    meter: Option<&dyn Meter>,
    media: &Media,
) -> Vec<Row> {
    let sees = meter.map(Meter::capabilities).unwrap_or_default();
    let system = quantum.bandwidth();
    let mut entries = vec![None; slots.len()];
    for entry in &quantum.jobs {
        entries[entry.job.index()] = Some(entry);
    }
    let row = |index: usize| {
        let entry: Option<&JobQuantum> = entries[index];
        let counts = entry.and_then(|entry| entry.counts);
        let row = Row {
            quantum: quantum.number,
            job: index as u32,
            name: batch.jobs[index].name.clone(),
            chosen: entry.is_some_and(|entry| entry.chosen),
            cpu_s: entry.map_or(0.0, |entry| entry.cpu_time.as_secs_f64()),
            instructions: counts.filter(|_| sees.instructions).map(|c| c.instructions),
            reads: counts.map(|c| c.reads.0),
            writes: counts.filter(|_| sees.writes).map(|c| c.writes.0),
            bandwidth: counts.map(|c| c.bandwidth(quantum.span).0),
            predicted: slots[index].predicted.map(|rate| rate.0),
            ..Row::default()
        };
        let told_apart = counts.filter(|_| sees.media);
        row.at(quantum.start, quantum.span)
            .in_system(system, quantum.target)
            .elsewhere(told_apart.as_ref(), media)
            .because(entry.filter(|entry| entry.chosen).and_then(|entry| entry.reason))
    };
    (0..slots.len())
        .filter(|index| entries[*index].is_some() || slots[*index].stage != Stage::Over)
        .map(row)
        .collect()
}
