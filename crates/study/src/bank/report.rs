//! Results of a bank-level scenario in the form in which they are written.

use memweir_bank::outcome::{Improvement, Outcome, ProgramRun};
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
    /// The partitions, the baseline first.
    pub partitions: Vec<PartitionRun>,
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
}
