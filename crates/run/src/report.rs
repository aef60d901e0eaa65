//! Report of a batch. `run --json` is this structure, field by field.

use std::path::Path;

use jiff::Timestamp;
use memweir_core::medium::MediumKind;
use memweir_core::metrics::BandwidthBand;
use memweir_linux::blocker::LimitUse;
use serde::{Deserialize, Serialize, Serializer};

use crate::policy_program::FailedPolicy;
use crate::recording::Recording;
use crate::store::MediumLines;

/// One batch under one policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BatchReport {
    /// Name of the policy.
    pub policy: String,
    /// Name of the predictor, with its parameter (`window:3`).
    pub predictor: String,
    /// Name of the meter that served.
    pub meter: String,
    /// Name of the blocking mechanism.
    pub mechanism: String,
    /// Cores that the batch could use.
    pub cores: u32,
    /// Length of a quantum in milliseconds.
    #[serde(serialize_with = "whole_if_it_is")]
    pub quantum_ms: f64,
    /// From the first exec to the end of the last job, in seconds.
    pub turnaround_s: f64,
    /// CPU time that memweir itself used while the batch ran, in seconds. Its guardian sleeps.
    #[serde(default)]
    pub scheduler_s: f64,
    /// Mean number of processors, of those that the batch could use, that something else used while
    /// it ran: other programs, or the host of a virtual machine. Absent where the jobs ran in
    /// virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_cores: Option<f64>,
    /// Mean over the quanta of the system's bandwidth, in bytes per second; absent where nothing
    /// was counted.
    pub bandwidth_mean: Option<f64>,
    /// Standard deviation over the quanta of the system's bandwidth (iabw Fig. 9b).
    pub bandwidth_std: Option<f64>,
    /// Number of quanta.
    pub quanta: u64,
    /// Share of the quanta per band of system bandwidth (the BTR breakdown of iabw Fig. 10).
    pub bandwidth_breakdown: Vec<BandwidthBand>,
    /// Ideal average bandwidth of the workload, eq. (10), where times and bandwidths were known.
    pub ideal_average_bandwidth: Option<f64>,
    /// The scheduling bandwidth target that was used last.
    pub target: Option<f64>,
    /// Peak bandwidth of the machine as calibrated.
    pub peak_bandwidth: Option<f64>,
    /// The machine's media, the local DRAM first; absent where there is one alone or the meter does
    /// not tell them apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediumReport>,
    /// End of the batch.
    pub outcome: Outcome,
    /// Failure of the policy, which ended the batch; absent unless it was a program that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_failure: Option<FailedPolicy>,
    /// Notices for the user: fallbacks taken, meters that failed.
    pub notices: Vec<String>,
    /// Requested files that could not be written to their end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostOutput>,
    /// The jobs, in the order of the jobs file.
    pub jobs: Vec<JobReport>,
}

/// A file of results that could not be written to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostOutput {
    /// The file.
    pub path: String,
    /// The error, and the place of the results so far.
    pub reason: String,
}

impl LostOutput {
    pub(crate) fn new(path: &Path, reason: String) -> Self {
        Self { path: path.display().to_string(), reason }
    }
}

/// End of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every job is over.
    #[default]
    Finished,
    /// A signal ended it; jobs were killed or released.
    Interrupted,
    /// A job failed and the others were killed.
    FailedFast,
    /// The policy, a program, failed; jobs were killed or released.
    PolicyFailed,
}

impl Outcome {
    /// Returns true if the batch was cut short for no reason of its own.
    #[must_use]
    pub fn is_cut_short(self) -> bool {
        matches!(self, Self::Interrupted | Self::PolicyFailed)
    }
}

/// One medium of the machine, and the traffic of all jobs with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediumReport {
    /// Its name.
    pub name: String,
    /// Its kind of memory.
    pub kind: MediumKind,
    /// Read latency over that of the local DRAM (hmmsched Table III).
    pub gamma: f64,
    /// Write latency over that of the local DRAM (hmmsched Table III).
    pub delta: f64,
    /// 64-byte lines read.
    pub memory_reads: u64,
    /// 64-byte lines written; absent where the meter sees reads alone.
    pub memory_writes: Option<u64>,
}

/// One job of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobReport {
    /// Its name.
    pub name: String,
    /// Its command, one string per argument.
    pub command: Vec<String>,
    /// Exit code; 128 + signal if a signal ended it; absent if it was left running
    /// or never started.
    pub exit_code: Option<i32>,
    /// True if the batch ended before the job could start; absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_started: bool,
    /// From its exec to its end, in seconds.
    pub wall_s: f64,
    /// CPU time of all its processes, in seconds.
    pub running_s: f64,
    /// Quanta in which it was chosen.
    pub quanta: u64,
    /// Instructions; absent where the meter counts none.
    pub instructions: Option<u64>,
    /// 64-byte lines read from memory; absent where the meter failed.
    pub memory_reads: Option<u64>,
    /// 64-byte lines written to memory; absent where the meter sees reads alone.
    pub memory_writes: Option<u64>,
    /// Mean bandwidth while it was chosen, in bytes per second; absent where nothing was counted.
    pub bandwidth_mean: Option<f64>,
    /// Highest bandwidth of a quantum, in bytes per second.
    pub bandwidth_peak: Option<f64>,
    /// Mean speed beside the others that was predicted, over its speed alone; absent where nothing
    /// was blocked or counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_speed: Option<f64>,
    /// The same as measured: its expected time over the time that it had cores; absent also where
    /// its length was not known or it failed. Includes the error of the expected time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_speed: Option<f64>,
    /// Lines by medium, the local DRAM first; absent where media were not told apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<MediumLines>,
    /// Its limit of bandwidth; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitUse>,
    /// The recorded profile from which its behavior is expected; absent where there is none, or the
    /// jobs file states figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileSource>,
    /// File with its standard output, with replacement characters for what is no UTF-8.
    pub stdout: Option<String>,
    /// File with its standard error.
    pub stderr: Option<String>,
}

/// A recorded profile that a batch uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileSource {
    /// Its source.
    pub source: SourceKind,
    /// Its key in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The file that the jobs file names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Name of the meter that counted.
    pub meter: String,
    /// Time of the recording.
    pub recorded: Timestamp,
    /// Its age at the start of the batch, in seconds.
    pub age_s: f64,
}

impl ProfileSource {
    /// The source of a recording that is read now.
    pub(crate) fn of(source: SourceKind, recording: &Recording) -> Self {
        let age = Timestamp::now().duration_since(recording.date);
        Self {
            source,
            key: None,
            file: None,
            meter: recording.meter.clone(),
            recorded: recording.date,
            // A clock that was set back must not make the age negative.
            age_s: age.as_secs_f64().max(0.0),
        }
    }
}

/// Source of a recorded profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// The profile store.
    Store,
    /// A recording that the jobs file names.
    File,
}

impl BatchReport {
    /// Returns true if the batch finished and every job ended with exit code zero.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == Outcome::Finished && self.jobs.iter().all(|job| job.exit_code == Some(0))
    }
}

/// Writes a number that is whole as an integer, which it was in every report before quanta had
/// fractions of a millisecond.
fn whole_if_it_is<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match *value as u64 {
        whole if whole as f64 == *value => serializer.serialize_u64(whole),
        _ => serializer.serialize_f64(*value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_keeps_its_fraction_and_a_whole_one_has_none() {
        let written = |quantum_ms| {
            let report = BatchReport { quantum_ms, ..BatchReport::default() };
            let json = serde_json::to_value(&report).expect("JSON");
            let read: BatchReport = serde_json::from_value(json.clone()).expect("a report");
            assert_eq!(read.quantum_ms, quantum_ms);
            json["quantum_ms"].to_string()
        };
        assert_eq!([12.5, 100.0].map(written), ["12.5", "100"]);
    }
}
