//! Options, results and errors of `profile`.

use std::io;
use std::path::PathBuf;

use memweir_abi::softpmu::Sampling;
use memweir_core::cache::CacheHierarchy;
use memweir_core::input::InputError;
use memweir_core::placement::Placement;
use memweir_core::{Media, Nanos};
use memweir_linux::launch::LaunchError;
use memweir_linux::qemu::QemuPaths;
use memweir_linux::record::RecordError;
use memweir_linux::{MeterError, MeterKind, OsError};
use serde::{Deserialize, Serialize};

use super::ends::DifferentEnd;
use super::workspace::Isolation;
use crate::recording::Recording;
use crate::report::LostOutput;
use crate::store::{InputFile, MediumLines, ProgramKey, Provenance, Store, StoreError};

/// Options of a profile.
#[derive(Clone, Debug)]
pub struct ProfileOptions {
    /// The meter; the first native one that works, else the software meter, if absent.
    pub meter: Option<MeterKind>,
    /// Length of an interval; the fine interval of iabw section 2.2 is 1 ms.
    pub interval: Nanos,
    /// Part of the program that the software meter simulates.
    pub sampling: Sampling,
    /// Method to find the error of a sampled profile.
    pub check: Check,
    /// The caches that the software meter simulates; those of the machine if absent.
    pub caches: Option<CacheHierarchy>,
    /// Isolation of the runs' files; the first that works if absent.
    pub isolation: Option<Isolation>,
    /// Paths of the emulator and the plugin.
    pub qemu: QemuPaths,
    /// A file of perf events to use instead of the built-in table.
    pub perf_events: Option<PathBuf>,
    /// The media that counts tell apart.
    pub media: Media,
    /// Placement of the program's pages for the software meter; all in local DRAM if absent.
    pub placement: Option<Placement>,
    /// File for a trace of the lines that the program moves between memory and its last-level
    /// cache; needs the software meter and a program that is simulated as a whole.
    pub addresses: Option<PathBuf>,
}

impl Default for ProfileOptions {
    fn default() -> Self {
        Self {
            meter: None,
            interval: Nanos::MILLI,
            sampling: Sampling::All,
            check: Check::Estimate,
            caches: None,
            isolation: None,
            qemu: QemuPaths::default(),
            perf_events: None,
            media: Media::dram_only(),
            placement: None,
            addresses: None,
        }
    }
}

/// Method to find the error of a sampled profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// From the variance between the bursts.
    #[default]
    Estimate,
    /// Against a second run in which everything is simulated.
    FullRun,
}

/// Progress of a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProfileProgress {
    /// The program runs natively.
    Native {
        /// Time so far.
        elapsed: Nanos,
    },
    /// The program runs under the emulator.
    Emulated {
        /// Instructions so far.
        instructions: u64,
        /// Instructions in all, by the time of the native run: a rough guess.
        expected: u64,
    },
    /// The program runs under the emulator once more, as [`Check::FullRun`] asks.
    Checking {
        /// Instructions so far.
        instructions: u64,
    },
}

/// A profile as a report, and as what the store and files keep.
#[derive(Clone, Debug)]
pub struct Profiled {
    /// For people and for `--json`.
    pub report: ProfileReport,
    /// For the store and for Parquet.
    pub recording: Recording,
    /// The files that the program was given and did not write to.
    pub inputs: Vec<InputFile>,
    /// The trace of addresses, if it could not be written to its end.
    pub lost: Option<LostOutput>,
}

impl Profiled {
    /// Puts the profile into the store, in place of an earlier one of the same invocation. A
    /// profile whose runs are [unusable](ProfileReport::unusable) is left out. The key must be from
    /// before the runs.
    ///
    /// # Errors
    /// Those of the store.
    pub fn keep(&self, store: &Store, key: &ProgramKey) -> Result<(), StoreError> {
        if self.report.unusable.is_some() {
            return Ok(());
        }
        let provenance =
            Provenance { exit_code: self.report.exit_code, inputs: self.inputs.clone() };
        store.put(key, &self.recording, &provenance)
    }
}

/// Result of a profile. `profile --json` is this structure, field by field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileReport {
    /// The command, one string per argument.
    pub command: Vec<String>,
    /// Name of the meter that counted.
    pub meter: String,
    /// Exit code of the native run; 128 + signal if a signal ended it.
    pub exit_code: i32,
    /// The ends of the runs where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub different_end: Option<DifferentEnd>,
    /// Reason for which the runs make no profile of the program's work, so that it is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// Isolation of the runs' files.
    pub isolation: Isolation,
    /// Reason for a weaker isolation than an overlay; absent where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_reason: Option<String>,
    /// The directories of which each run had a copy of its own.
    pub private: Vec<String>,
    /// Wall-clock time of the native run, in seconds.
    pub wall_s: f64,
    /// CPU time of the native run with all children, in seconds.
    pub cpu_s: f64,
    /// Instructions; absent where the meter counts none.
    pub instructions: Option<u64>,
    /// 64-byte lines read from memory.
    pub memory_reads: u64,
    /// 64-byte lines written to memory; absent where the meter sees reads alone.
    pub memory_writes: Option<u64>,
    /// Mean bandwidth over the CPU time, in bytes per second.
    pub bandwidth_mean: f64,
    /// Highest bandwidth of an interval, in bytes per second.
    pub bandwidth_peak: f64,
    /// Lines by medium, the local DRAM first; absent where media were not told apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediumLines>,
    /// Length of an interval in milliseconds of CPU time.
    pub interval_ms: f64,
    /// The intervals, in order.
    pub intervals: Vec<IntervalReport>,
    /// The phases that were found, the longest first.
    pub phases: Vec<PhaseReport>,
    /// Sampling of the software meter; absent for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingReport>,
    /// Notices for the user: blind spots of the meter, differences between the runs.
    pub notices: Vec<String>,
}

/// One interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalReport {
    /// CPU time at its start, in seconds.
    pub time_s: f64,
    /// Instructions in it; absent where the meter counts none.
    pub instructions: Option<u64>,
    /// 64-byte lines read in it.
    pub memory_reads: u64,
    /// 64-byte lines written in it; absent where the meter sees reads alone.
    pub memory_writes: Option<u64>,
    /// Bandwidth in both directions, in bytes per second.
    pub bandwidth: f64,
}

/// One phase (iabw section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Share of the CPU time spent in it, 0 to 1.
    pub share: f64,
    /// Mean bandwidth in it, in bytes per second.
    pub bandwidth_mean: f64,
    /// CPU time at which it was first entered, in seconds.
    pub first_s: f64,
    /// Number of times that it was entered.
    pub visits: u64,
}

/// Sampling of the software meter, and its error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplingReport {
    /// The requested sampling: `all` or a share.
    pub requested: String,
    /// The sample that sufficed: larger than `requested` where its error was too large.
    pub used: String,
    /// Share of the instructions that went through the cache model and were counted, 0 to 1.
    pub simulated_share: f64,
    /// Half the width of the 95 % confidence interval of the traffic, as a share of it; zero where
    /// everything was simulated, absent where fewer than two bursts were. The bias of cold caches
    /// is not part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_error: Option<f64>,
    /// The same in bytes per second of the mean bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bandwidth: Option<f64>,
    /// Difference to a run in which everything was simulated, as a share of that run's memory
    /// transactions; absent where none was made. Signed: positive where sampling counts too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_error: Option<f64>,
}

/// Error that prevented a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The request cannot be served as it stands.
    #[error(transparent)]
    Invalid(#[from] InputError),
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A native meter failed before the program ran.
    #[error(transparent)]
    Meter(#[from] MeterError),
    /// The software meter failed.
    #[error(transparent)]
    Record(RecordError),
    /// A signal asked for the end; the program was killed.
    #[error("ended by {0}")]
    Interrupted(&'static str),
    /// No meter can count on this machine.
    #[error("no meter can profile here: {0}")]
    NoMeter(String),
    /// The trace of addresses cannot be written.
    #[error("writing {path}: {source}", path = path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The operating system refused.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl From<RecordError> for ProfileError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Interrupted(signal) => Self::Interrupted(signal),
            RecordError::Launch(error) => Self::Launch(error),
            other => Self::Record(other),
        }
    }
}
