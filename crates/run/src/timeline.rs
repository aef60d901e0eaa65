//! The timeline of a batch: one row per job and quantum, as CSV or Parquet.
//!
//! Rows are on disk as soon as their quantum is over, so a batch that is killed loses at most the
//! quantum that was running. A Parquet file cannot be read before its footer is written; so its
//! rows go to `FILE.partial.csv` while the batch runs and become `FILE` at its end. A killed run
//! leaves that CSV file, whole up to its last quantum.

pub(crate) mod parquet;
mod read;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use memweir_core::names::by_ending;
use memweir_core::{BytesPerSec, Counts, Media, MediumId, Nanos};
use memweir_linux::meter::Capabilities;
use memweir_linux::private;
use memweir_policy::quantum_loop::JobQuantum;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::options::Refusal;

pub use read::read;

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

/// Format of a timeline file, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.csv`
    Csv,
    /// `.parquet`
    Parquet,
}

impl Format {
    /// The format that the ending of `path` names.
    pub fn of(path: &Path) -> Result<Self, Refusal> {
        by_ending(path, "a table", [("csv", Self::Csv), ("parquet", Self::Parquet)])
    }
}

/// A timeline that is being written.
#[derive(Debug)]
pub struct Timeline {
    path: PathBuf,
    format: Format,
    journal_path: PathBuf,
    journal: csv::Writer<File>,
}

impl Timeline {
    /// Starts the file at `path`, replacing what is there.
    pub fn create(path: &Path, format: Format) -> io::Result<Self> {
        let (journal_path, file) = match format {
            Format::Csv => (path.to_owned(), File::create(path)?),
            Format::Parquet => {
                let journal = with_ending(path, ".partial.csv");
                let file = private::create(&journal)?;
                (journal, file)
            }
        };
        let journal = csv::Writer::from_writer(file);
        Ok(Self { path: path.to_owned(), format, journal_path, journal })
    }

    /// Appends the rows of one quantum; they are in the file when this returns.
    pub fn append(&mut self, rows: &[Row]) -> io::Result<()> {
        for row in rows {
            self.journal.serialize(row).map_err(io::Error::other)?;
        }
        self.journal.flush()
    }

    /// The requested file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file up after a failure. Removes it if it holds no whole row; otherwise returns a
    /// clause that names the file with the rows so far, unless that is the requested file.
    #[must_use]
    pub fn abandon(self) -> String {
        let Self { path, journal_path, journal, .. } = self;
        // The writer tries the rest once more, which may leave half of a row.
        drop(journal);
        if !journal_path.is_file() {
            return String::new();
        }
        let rows = std::fs::read(&journal_path).unwrap_or_default();
        let whole = rows.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let head = rows.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole <= head {
            files::remove_unfinished(&journal_path);
            return String::new();
        }
        let cut = File::options().write(true).open(&journal_path);
        let _ = cut.and_then(|file| file.set_len(whole as u64));
        match journal_path == path {
            true => String::new(),
            false => format!("; the rows so far are in {}", journal_path.display()),
        }
    }

    /// Ends the file. On failure the rows stay in the journal, whose path the error names.
    pub fn finish(mut self) -> io::Result<()> {
        self.journal.flush()?;
        if self.format == Format::Parquet {
            parquet::from_journal(&self.journal_path, &self.path).map_err(|error| {
                files::remove_unfinished(&with_ending(&self.path, ".partial"));
                let journal = self.journal_path.display();
                io::Error::other(format!("{error}; the rows are in {journal}"))
            })?;
            std::fs::remove_file(&self.journal_path)?;
        }
        Ok(())
    }
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

/// `path` with more at its end: `t.csv` becomes `t.csv.partial`.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
