//! The timeline of a batch: one row per job and quantum, as CSV or Parquet.
//!
//! Rows are on disk as soon as their quantum is over, so a batch that is killed loses at most the
//! quantum that was running. A Parquet file cannot be read before its footer is written; so its
//! rows go to `FILE.partial.csv` while the batch runs and become `FILE` at its end. A killed run
//! leaves that CSV file, whole up to its last quantum.

mod read;

use std::io;
use std::path::Path;

use memweir_core::{BytesPerSec, Counts, Media, MediumId, Nanos};
use memweir_linux::meter::Capabilities;
use memweir_policy::quantum_loop::JobQuantum;
use serde::{Deserialize, Serialize};

use crate::table::{Column, Format, Kind, Table};

pub use read::{Follower, read};

/// One job in one quantum. Bandwidths are in bytes per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Number of the quantum, from zero.
    pub quantum: u64,
    /// Start of the quantum in seconds since the first exec.
    pub t_start_s: f64,
    /// Length of the quantum in seconds, as it was measured.
    pub span_s: f64,
    /// Place of the job in the jobs file.
    pub job: u32,
    /// Name of the job.
    pub name: String,
    /// True if it was selected, at the start of the quantum or later in it.
    pub chosen: bool,
    /// CPU time in this quantum in seconds.
    pub cpu_s: f64,
    /// Instructions in this quantum; empty where nothing counts them.
    pub instructions: Option<u64>,
    /// 64-byte lines read; empty where nothing counts them.
    pub reads: Option<u64>,
    /// 64-byte lines written; empty where nothing counts them.
    pub writes: Option<u64>,
    /// The job's bandwidth over the quantum; empty where nothing counts it.
    pub bandwidth: Option<f64>,
    /// Bandwidth that it was predicted to require; empty for jobs that were not candidates.
    pub predicted: Option<f64>,
    /// Bandwidth of all jobs together; empty where nothing counts it.
    pub system_bandwidth: Option<f64>,
    /// Bandwidth target of the policy; empty for policies without one.
    pub target: Option<f64>,
    /// Of the lines read, those from the medium number 1; empty where there is none, or nothing
    /// tells media apart.
    pub reads_1: Option<u64>,
    /// Of the lines written, those to it.
    pub writes_1: Option<u64>,
    /// The same for the medium number 2.
    pub reads_2: Option<u64>,
    /// Of the lines written, those to it.
    pub writes_2: Option<u64>,
    /// The same for the medium number 3.
    pub reads_3: Option<u64>,
    /// Of the lines written, those to it.
    pub writes_3: Option<u64>,
    /// Reason for its selection; empty where it was not selected, or the policy gives none.
    pub reason: Option<String>,
}

/// The columns of a timeline, in the order of the fields of a [`Row`].
const COLUMNS: [(&str, Kind); 21] = [
    ("quantum", Kind::Integer),
    ("t_start_s", Kind::Float),
    ("span_s", Kind::Float),
    ("job", Kind::Integer),
    ("name", Kind::String),
    ("chosen", Kind::Boolean),
    ("cpu_s", Kind::Float),
    ("instructions", Kind::Integer),
    ("reads", Kind::Integer),
    ("writes", Kind::Integer),
    ("bandwidth", Kind::Float),
    ("predicted", Kind::Float),
    ("system_bandwidth", Kind::Float),
    ("target", Kind::Float),
    ("reads_1", Kind::Integer),
    ("writes_1", Kind::Integer),
    ("reads_2", Kind::Integer),
    ("writes_2", Kind::Integer),
    ("reads_3", Kind::Integer),
    ("writes_3", Kind::Integer),
    ("reason", Kind::String),
];

/// Starts the timeline at `path`, replacing what is there. [`Row`]s are appended to it, and
/// [`Table::finish_as_appended`] ends it.
///
/// # Errors
/// If the file cannot be made.
pub fn create(path: &Path, format: Format) -> io::Result<Table> {
    let columns = COLUMNS.map(|(name, kind)| Column { name: name.to_owned(), kind });
    Table::live(path, format, columns.into())
}

/// Setters from measurements and decisions.
impl Row {
    /// Returns the row of a job's part in a quantum of this length, as far as the meter sees it; of
    /// a job that was blocked if it had none.
    #[must_use]
    pub fn of(entry: Option<&JobQuantum>, sees: &Capabilities, span: Nanos) -> Self {
        let counts = entry.and_then(|entry| entry.counts);
        Self {
            chosen: entry.is_some_and(|entry| entry.chosen),
            cpu_s: entry.map_or(0.0, |entry| entry.cpu_time.as_secs_f64()),
            instructions: counts.filter(|_| sees.instructions).map(|counts| counts.instructions),
            reads: counts.map(|counts| counts.reads.0),
            writes: counts.filter(|_| sees.writes).map(|counts| counts.writes.0),
            bandwidth: counts.map(|counts| counts.bandwidth(span).0),
            reason: entry.and_then(|entry| entry.reason).map(str::to_owned),
            ..Self::default()
        }
    }

    /// Sets the lines of the media beside the local DRAM, where they were told apart.
    #[must_use]
    pub fn elsewhere(self, counts: Option<&Counts>, media: &Media) -> Self {
        let traffic = |number| {
            let id = MediumId::new(number).filter(|id| media.get(*id).is_some())?;
            counts.map(|counts| counts.traffic(id))
        };
        let reads = |number| traffic(number).map(|traffic| traffic.reads.0);
        let writes = |number| traffic(number).map(|traffic| traffic.writes.0);
        Self {
            reads_1: reads(1),
            writes_1: writes(1),
            reads_2: reads(2),
            writes_2: writes(2),
            reads_3: reads(3),
            writes_3: writes(3),
            ..self
        }
    }

    /// Sets the times of the quantum.
    #[must_use]
    pub fn at(self, start: Nanos, span: Nanos) -> Self {
        Self { t_start_s: start.as_secs_f64(), span_s: span.as_secs_f64(), ..self }
    }

    /// Sets the bandwidth and the target of the whole system.
    #[must_use]
    pub fn in_system(self, bandwidth: Option<BytesPerSec>, target: Option<BytesPerSec>) -> Self {
        Self {
            system_bandwidth: bandwidth.map(|rate| rate.0),
            target: target.map(|rate| rate.0),
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
