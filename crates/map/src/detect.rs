//! Detection of a machine's map from latencies alone (B1, B2).
//!
//! [`detect`] handles hashed maps: it finds [conflicts](self) and checks them against noise, solves
//! for functions over GF(2), searches offsets and odd channel counts, separates rows from columns,
//! and verifies the whole map on fresh pairs. It returns a verified map, or the step that failed
//! with the reason. [`bpm`] is Algorithm 1 of bpm as written, with the same verification. Both
//! access a machine only through a [`LatencyOracle`]; seeds make them repeatable.

pub mod bpm;
mod conflicts;
mod functions;
mod model;
mod probe;
mod rows;
mod shape;
mod solve;
#[cfg(test)]
mod tests;
mod verify;

use std::fmt;
use std::time::Duration;

use memweir_core::address_map::AddressMap;
use memweir_core::{LINE_BYTES, PhysAddr};

use crate::oracle::{LatencyOracle, Reach};
use conflicts::Conflicts;
use functions::Search;
use model::Model;
use probe::Probe;
use shape::{Known, Shape};
use verify::Trial;
pub use verify::{Score, Share};

/// Lower ends of the confidence intervals of precision and recall that a map must reach. A missing
/// function halves precision, an extra one halves recall, which is measured on fewer pairs.
const PRECISE: f64 = 0.98;
const COMPLETE: f64 = 0.85;
/// Number of explanations to try if fresh pairs refute one.
const ATTEMPTS: u32 = 3;
/// Fewest lines on which a detection starts.
const FEWEST_LINES: u64 = 1 << 12;

/// Options of a detection.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of all randomness.
    pub seed: u64,
    /// Time budget for measurements.
    pub budget: Duration,
}

/// The parts of a detection, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Measuring the cost of a row conflict.
    Threshold,
    /// Collecting addresses of one bank.
    Sets,
    /// Solving for functions.
    Functions,
    /// Searching for offset and interleaving.
    Shape,
    /// Separating rows from columns.
    Rows,
    /// Testing the map on fresh pairs.
    Verification,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Threshold => "threshold",
            Self::Sets => "sets",
            Self::Functions => "functions",
            Self::Shape => "offset and interleaving",
            Self::Rows => "rows and columns",
            Self::Verification => "verification",
        })
    }
}

/// Progress of a detection.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Current step.
    pub step: Step,
    /// Share of the budget that is spent, at most one.
    pub spent: f64,
}

/// Error for a detection without a map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {reason}")]
pub struct Refused {
    /// The step that failed.
    pub step: Step,
    /// Reason for the failure.
    pub reason: String,
}

/// A verified map.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The map. Its functions have no roles; it omits bits that are constant over the reach.
    pub map: AddressMap,
    /// Accuracy of its predictions.
    pub score: Score,
    /// Cycles that a row conflict adds, and the standard deviation of pairs without a conflict.
    pub conflict: (f64, f64),
}

/// Result and cost of a detection.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// A verified map, or the reason why there is none.
    pub verdict: Result<Found, Refused>,
    /// Number of measured pairs.
    pub measurements: u64,
    /// Time that measuring took, on the clock of the measured machine.
    pub elapsed: Duration,
}

/// Finds the map of the machine behind `oracle`, and names it `name`.
pub fn detect(
    oracle: &mut dyn LatencyOracle,
    name: &str,
    options: &Options,
    observer: &mut dyn FnMut(Progress),
) -> Detection {
    search(oracle, options, observer, |probe| find(probe, name))
}

/// Runs one detection method and returns its result and cost.
fn search(
    oracle: &mut dyn LatencyOracle,
    options: &Options,
    observer: &mut dyn FnMut(Progress),
    find: impl FnOnce(&mut Probe<'_>) -> Result<Found, Refused>,
) -> Detection {
    let mut probe = Probe::new(oracle, options.budget, options.seed, observer);
    let verdict = find(&mut probe);
    Detection { verdict, measurements: probe.measurements(), elapsed: probe.elapsed() }
}

fn find(probe: &mut Probe<'_>, name: &str) -> Result<Found, Refused> {
    contiguous(probe)?;
    let conflicts = conflicts::find(probe)?;
    let mut search = Search::new(probe, &conflicts);
    for attempt in 1.. {
        let mut model = search.find(probe)?;
        model.rows = Some(rows::find(probe, &model, &conflicts.threshold)?);
        match verified(probe, &model, &conflicts, name)? {
            Ok(found) => return Ok(found),
            Err(refuted) if attempt == ATTEMPTS => return Err(refuted.refusal),
            Err(refuted) => search.refute(&model, refuted.trials),
        }
    }
    unreachable!("the last attempt returns")
}

/// A model that fresh pairs refuted.
struct Refuted {
    refusal: Refused,
    trials: Vec<Trial>,
}

/// Tests the model on fresh pairs; a map is returned only if it passes.
fn verified(
    probe: &mut Probe<'_>,
    model: &Model,
    conflicts: &Conflicts,
    name: &str,
) -> Result<Result<Found, Refuted>, Refused> {
    probe.enter(Step::Verification);
    let threshold = &conflicts.threshold;
    let mut trials = verify::try_model(probe, model, threshold)?;
    trials.extend(verify::try_model(probe, model, threshold)?);
    let score = Score::of(model, &trials, &conflicts.held);
    if score.precision.low < PRECISE || score.recall.low < COMPLETE {
        let refusal = probe.refuse(format!(
            "of {} fresh pairs, {:.1} % of predicted conflicts were conflicts and {:.1} % of \
             conflicts were predicted",
            score.pairs,
            100.0 * score.precision.value,
            100.0 * score.recall.value
        ));
        return Ok(Err(Refuted { refusal, trials }));
    }
    let map = model.map(name);
    if let Err(refusal) = map.validate() {
        return Err(probe.refuse(refusal.reason));
    }
    Ok(Ok(Found { map, score, conflict: (threshold.conflict, threshold.noise) }))
}

/// Returns the values whose verdict is true, and the others.
fn split(values: &[u64], verdicts: &[bool]) -> (Vec<u64>, Vec<u64>) {
    let with = |wanted: bool| {
        let matching = values.iter().zip(verdicts).filter(move |(_, verdict)| **verdict == wanted);
        matching.map(|(value, _)| *value).collect()
    };
    (with(true), with(false))
}

/// Removes the few addresses that have a highest bit that most addresses lack: the measurements
/// could not show if functions use that bit.
fn contiguous(probe: &mut Probe<'_>) -> Result<(), Refused> {
    let Known { bits, foreign } = Shape::PLAIN.known(probe.reach());
    if foreign != 0 {
        let top = u64::BITS - bits.leading_zeros();
        let (start, end) = (probe.reach().start().0, probe.reach().end().0);
        let parts = ((start >> top)..=(end - 1) >> top)
            .map(|part| probe.reach().within(PhysAddr(part << top), PhysAddr((part + 1) << top)));
        if let Some(largest) = parts.max_by_key(Reach::lines) {
            probe.restrict(largest);
        }
    }
    if probe.reach().lines() < FEWEST_LINES {
        let bytes = probe.reach().lines() * LINE_BYTES;
        return Err(
            probe.refuse(format!("only {bytes} bytes of contiguous memory can be measured"))
        );
    }
    Ok(())
}
