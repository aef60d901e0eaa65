//! What came of a bank-level scenario, as it is written.

use serde::Serialize;

use crate::bank::outcome::{Improvement, Outcome, ProgramRun};
use crate::scenario::report::as_object;

/// Everything that came of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BankReport {
    /// The scenario's file.
    pub scenario: String,
    /// `bank`.
    pub fidelity: &'static str,
    /// Every point of the sweep; one without a sweep.
    pub points: Vec<BankPoint>,
}

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BankPoint {
    /// The swept keys and their values here.
    #[serde(serialize_with = "as_object")]
    pub at: Vec<(String, String)>,
    /// The machine.
    pub machine: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Colors that pages can have.
    pub colors: u32,
    /// What each program does alone, anywhere in memory.
    pub alone: Vec<Alone>,
    /// The partitions, the baseline first.
    pub partitions: Vec<PartitionRun>,
}

/// A program alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// What it did.
    #[serde(flatten)]
    pub run: ProgramRun,
    /// What was asked of it and how near its structure came.
    pub fit: Option<Fit>,
}

/// How near a synthetic program is to what was asked, under the conditions of the fit: alone, open
/// page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Misses per 1,000 instructions that were asked for, and those measured.
    pub mpki: [f64; 2],
    /// The same of the row-buffer locality.
    pub rbl: [f64; 2],
    /// The same of the bank parallelism.
    pub blp: [f64; 2],
    /// Whether all are within the tolerance.
    pub reached: bool,
}

/// All programs together under one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionRun {
    /// Its name.
    pub partition: String,
    /// The colors of each program, `0-3,8`; absent for any.
    pub colors: Vec<Option<String>>,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How much better than the baseline it is; absent for the baseline.
    pub improvement: Option<Improvement>,
}
