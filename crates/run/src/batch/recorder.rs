//! Records of the jobs of a batch or a queue: events for an observer, rows of a timeline, and the
//! decisions of the scheduler.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use memweir_core::{BytesPerSec, JobId, Media, Nanos};
use memweir_linux::{Meter, MeterError};
use memweir_policy::quantum_loop::{JobQuantum, Quantum};
use memweir_policy::record::Call;

use super::ledger::bandwidth;
use crate::decisions::DecisionLog;
use crate::observer::{Event, Observer};
use crate::report::LostOutput;
use crate::table::Table;
use crate::timeline::Row;

/// A job of which a quantum has a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSubject {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Bandwidth predicted for it when the quantum began.
    pub predicted: Option<BytesPerSec>,
}

/// Tells an observer what jobs do, and writes it to the files that were requested.
///
/// A file that cannot be written is given up, and the jobs go on. Methods that write return the
/// notices for the user about that.
pub struct QuantumRecorder<'a> {
    observer: &'a mut dyn Observer,
    media: Media,
    timeline: Option<Table>,
    decisions: Option<DecisionLog>,
    lost: Vec<LostOutput>,
    /// Number of recorded quanta.
    quanta: u64,
}

impl<'a> QuantumRecorder<'a> {
    /// Records for an observer alone, on a machine with these media.
    pub fn new(observer: &'a mut dyn Observer, media: Media) -> Self {
        Self { observer, media, timeline: None, decisions: None, lost: Vec::new(), quanta: 0 }
    }

    /// Writes to these files, too; the first is a [timeline](crate::timeline).
    #[must_use]
    pub fn with_files(self, timeline: Option<Table>, decisions: Option<DecisionLog>) -> Self {
        Self { timeline, decisions, ..self }
    }

    /// Passes an event on to the observer.
    pub fn event(&mut self, event: Event<'_>) {
        self.observer.event(event);
    }

    /// Reports that the meter has lost a job by this error.
    pub fn meter_failed(&mut self, meter: Option<&dyn Meter>, error: &MeterError) {
        if let Some(meter) = meter {
            self.event(Event::MeterFailed { kind: meter.kind(), reason: error.reason });
        }
    }

    /// Returns true if someone reads rows, which take time to make.
    #[must_use]
    pub fn wants_rows(&self) -> bool {
        self.timeline.is_some() || self.observer.wants_rows()
    }

    /// Number of the current quantum, from zero.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.quanta
    }

    /// Records a quantum that is over, with a row for each of `subjects`. `start` is its start on
    /// the clock of the timeline.
    #[must_use]
    pub fn quantum_ended(
        &mut self,
        quantum: &Quantum,
        start: Nanos,
        meter: Option<&dyn Meter>,
        subjects: impl FnOnce() -> Vec<RowSubject>,
    ) -> Vec<String> {
        let mut notices = self.decided(&quantum.calls);
        if self.wants_rows() {
            let rows = self.rows(quantum, start, meter, subjects());
            if self.observer.wants_rows() {
                self.observer.event(Event::QuantumRecorded(&rows));
            }
            notices.extend(self.append(&rows, start));
        }
        if let Some(took) = quantum.switch {
            self.observer.event(Event::Switched { took });
        }
        self.quanta += 1;
        notices
    }

    /// Records calls to the scheduler.
    #[must_use]
    pub fn decided(&mut self, calls: &[Call]) -> Vec<String> {
        self.log(|log| log.append(calls))
    }

    /// Writes to the record of decisions, and gives it up if that fails.
    fn log(&mut self, write: impl FnOnce(&mut DecisionLog) -> io::Result<()>) -> Vec<String> {
        let Some(mut log) = self.decisions.take() else { return Vec::new() };
        match write(&mut log) {
            Ok(()) => self.decisions = Some(log),
            Err(error) => {
                let reason = format!("no more decisions are recorded: {error}");
                return vec![self.lose(log.path().to_owned(), reason)];
            }
        }
        Vec::new()
    }

    fn append(&mut self, rows: &[Row], start: Nanos) -> Option<String> {
        let mut timeline = self.timeline.take()?;
        match timeline.append(rows) {
            Ok(()) => {
                self.timeline = Some(timeline);
                None
            }
            Err(error) => {
                let path = timeline.path().to_owned();
                let rest = timeline.abandon();
                let end = start.as_secs_f64();
                Some(self.lose(path, format!("the timeline ends at {end} s: {error}{rest}")))
            }
        }
    }

    /// Ends the record of decisions and the timeline.
    #[must_use]
    pub fn finish(&mut self) -> Vec<String> {
        let mut notices = self.log(DecisionLog::finish);
        let Some(timeline) = self.timeline.take() else { return notices };
        let path = timeline.path().to_owned();
        let failure = timeline
            .finish_as_appended()
            .err()
            .map(|error| self.lose(path, format!("the timeline could not be finished: {error}")));
        notices.extend(failure);
        notices
    }

    /// The files that could not be written to their end.
    #[must_use]
    pub fn lost(&self) -> &[LostOutput] {
        &self.lost
    }

    /// Notes a file that cannot be written (any more), and returns the notice about it.
    pub(crate) fn lose(&mut self, path: PathBuf, reason: String) -> String {
        let notice = format!("{}: {reason}", path.display());
        self.lost.push(LostOutput::new(&path, reason));
        notice
    }

    fn rows(
        &self,
        quantum: &Quantum,
        start: Nanos,
        meter: Option<&dyn Meter>,
        subjects: Vec<RowSubject>,
    ) -> Vec<Row> {
        let sees = meter.map(Meter::capabilities).unwrap_or_default();
        let (span, system) = (quantum.summary.elapsed, bandwidth(quantum));
        let entries: HashMap<JobId, &JobQuantum> =
            quantum.jobs.iter().map(|entry| (entry.job, entry)).collect();
        let row = |subject: RowSubject| {
            let entry = entries.get(&subject.job).copied();
            let told_apart = entry.and_then(|entry| entry.counts).filter(|_| sees.media);
            let row = Row {
                quantum: self.quanta,
                job: subject.job.0,
                name: subject.name,
                predicted: subject.predicted.map(|rate| rate.0),
                ..Row::of(entry, &sees, span)
            };
            row.at(start, span)
                .in_system(system, quantum.decision.target)
                .elsewhere(told_apart.as_ref(), &self.media)
        };
        subjects.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests;
