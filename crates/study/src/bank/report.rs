//! Results of a bank-level scenario in the form in which they are written.

use memweir_bank::outcome::{Improvement, Outcome, ProgramRun};
use memweir_dram::intervals::Intervals;
use memweir_policy::quantum_loop::Quantum;
use serde::Serialize;

use crate::sweep::as_object;

/// Results of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BankReport {
    /// The scenario's file.
    pub scenario: String,
    /// `bank`.
    pub fidelity: &'static str,
    /// Points of the sweep; a single one without a sweep.
    pub points: Vec<BankPoint>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BankPoint {
    /// The swept keys and their values at this point.
    #[serde(serialize_with = "as_object")]
    pub at: Vec<(String, String)>,
    /// Name of the machine.
    pub machine: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of colors that pages can have.
    pub colors: u32,
    /// Each program alone, with pages of any color.
    pub alone: Vec<Alone>,
    /// The partitions, the baseline first; none of a batch.
    pub partitions: Vec<PartitionRun>,
    /// Bandwidth that the memories carry when every core reads as fast as it can, in bytes per
    /// second, which the policies of a batch are told; absent without a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<f64>,
    /// The batch under each policy, the baseline first; none without a batch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<BatchRun>,
}

/// Results of a batch under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchRun {
    /// Name of the policy.
    pub policy: String,
    /// Time until the last job has ended, in seconds.
    pub turnaround_s: f64,
    /// Lines read and written back over that time, in bytes per second.
    pub bandwidth: f64,
    /// Gain in throughput over the baseline; absent for the baseline.
    pub gain: Option<f64>,
    /// The jobs, in the order of the programs.
    pub jobs: Vec<BatchJob>,
    /// The quanta, in times and counts that are longer and larger by the compression.
    #[serde(skip)]
    pub quanta: Vec<Quantum>,
}

/// Results of one job of a batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchJob {
    /// Its program.
    pub program: String,
    /// Its time alone on the machine, in seconds.
    pub alone_s: f64,
    /// Time from the start of the batch to its end, in seconds.
    pub finish_s: f64,
    /// Time that its threads spent on cores, together, in seconds.
    pub running_s: f64,
}

/// Results of a program alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Its solo run.
    #[serde(flatten)]
    pub run: ProgramRun,
    /// Requested and fitted characteristics; absent without a fit.
    pub fit: Option<Fit>,
}

/// Accuracy of a synthetic program under the conditions of the fit: alone, open page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Misses per 1,000 instructions, requested and measured.
    pub mpki: [f64; 2],
    /// Row-buffer locality, requested and measured.
    pub rbl: [f64; 2],
    /// Bank-level parallelism, requested and measured.
    pub blp: [f64; 2],
    /// True if all are within the tolerance.
    pub reached: bool,
}

/// Results of all programs together under one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionRun {
    /// Name of the partition.
    pub partition: String,
    /// Colors of each program, as in `0-3,8`; absent if it may use any.
    pub colors: Vec<Option<String>>,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Improvement over the baseline; absent for the baseline.
    pub improvement: Option<Improvement>,
    /// The requests of each program over time, if the study records them.
    #[serde(skip)]
    pub over_time: Vec<Intervals>,
}
