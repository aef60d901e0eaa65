//! Finding the map of a machine from latencies alone (B1, B2).
//!
//! [`detect`] is made for hashed maps: [conflicts](self) are found and held against noise, functions solved
//! for over GF(2), offsets and odd channel counts searched, rows told from columns, and the whole
//! map verified on fresh pairs. It returns a verified map or says which step failed and why.
//! [`bpm`] is Algorithm 1 of bpm as written, with the same verification. Everything here sees a
//! machine through a [`LatencyOracle`] and decides by nothing else; seeds make it repeatable.

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

/// The lower ends of the intervals of precision and recall that a map must reach to be found. A
/// function too few halves precision, one too many halves recall, which has fewer pairs.
const PRECISE: f64 = 0.98;
const COMPLETE: f64 = 0.85;
/// Explanations that are tried when fresh pairs refute one.
const ATTEMPTS: u32 = 3;
/// Lines below which there is nothing to find.
const FEWEST_LINES: u64 = 1 << 12;

/// What a detection may use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of everything that is chosen at random.
    pub seed: u64,
    /// Time that measuring may take.
    pub budget: Duration,
}

/// The parts of a detection, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Telling what a row conflict costs.
    Threshold,
    /// Gathering addresses of one bank.
    Sets,
    /// Solving for functions.
    Functions,
    /// Searching offset and interleaving.
    Shape,
    /// Telling rows from columns.
    Rows,
    /// Trying the map on fresh pairs.
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

/// How far a detection is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What it is at.
    pub step: Step,
    /// The share of the budget that is spent, at most one.
    pub spent: f64,
}

/// No map was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {reason}")]
pub struct Refused {
    /// The step that failed.
    pub step: Step,
    /// Why.
    pub reason: String,
}

/// A verified map.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The map. Functions have no roles; bits that vary nowhere in the reach are not in it.
    pub map: AddressMap,
    /// How well it predicts.
    pub score: Score,
    /// Cycles that a row conflict adds, and the standard deviation of what was compared with it.
    pub conflict: (f64, f64),
}

/// What a detection cost, and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// A verified map, or why there is none.
    pub verdict: Result<Found, Refused>,
    /// Pairs that were measured.
    pub measurements: u64,
    /// What measuring took, in the time of the machine that was measured.
    pub elapsed: Duration,
}

/// Finds the map of the machine behind `oracle`. `name` is what the map will be called.
pub fn detect(
    oracle: &mut dyn LatencyOracle,
    name: &str,
    options: &Options,
    observer: &mut dyn FnMut(Progress),
) -> Detection {
    search(oracle, options, observer, |probe| find(probe, name))
}

/// What one way to find a map comes to, and what it took.
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
        model.rows = rows::find(probe, &model, &conflicts.threshold)?;
        match verified(probe, &model, &conflicts, name)? {
            Ok(found) => return Ok(found),
            Err(refuted) if attempt == ATTEMPTS => return Err(refuted.refusal),
            Err(refuted) => search.refute(&model, refuted.trials),
        }
    }
    unreachable!("the last attempt returns")
}

/// A model that fresh pairs contradict.
struct Refuted {
    refusal: Refused,
    trials: Vec<Trial>,
}

/// Tries the model on fresh pairs; only what passes becomes a map.
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

/// Leaves out the few addresses that have a highest bit which most have not: whether functions use
/// that bit could not be told.
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
