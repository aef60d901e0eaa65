//! Test of a map on fresh pairs: predictions against measurements.

use memweir_core::PhysAddr;
use rand::RngExt;

use super::Refused;
use super::conflicts::Threshold;
use super::model::{Draw, Model, Relation};
use super::probe::Probe;

/// Numbers of fresh bases, and of partners of each by predicted relation.
const BASES: usize = 4;
const CONFLICTS: usize = 80;
const OTHER_BANKS: usize = 32;
const SAME_ROW: usize = 12;
/// Number of random addresses that define the usual latency.
const REFERENCES: usize = 48;
/// Number of passes, and of those for pairs that contradict the prediction.
const PASSES: usize = 3;
const MORE_PASSES: usize = 9;
/// Share of contradictions above which measuring again would not change the verdict.
const HOPELESS: f64 = 0.2;

/// A measured pair; `conflict` is true if it conflicts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    a: PhysAddr,
    b: PhysAddr,
    conflict: bool,
}

impl Trial {
    /// Returns the relation that `model` predicts for the pair.
    pub(super) fn relation(&self, model: &Model) -> Option<Relation> {
        model.relation(self.a, self.b)
    }
}

/// A share with its 95 % interval (Wilson's).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The share found.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Share {
    /// Returns `hits` of `all`; for an `all` of zero the interval is 0 to 1.
    #[must_use]
    pub fn of(hits: u64, all: u64) -> Self {
        if all == 0 {
            return Self { value: 0.0, low: 0.0, high: 1.0 };
        }
        const Z: f64 = 1.96;
        let (n, share) = (all as f64, hits as f64 / all as f64);
        let z2 = Z * Z / n;
        let center = (share + z2 / 2.0) / (1.0 + z2);
        let half = Z / (1.0 + z2) * (share * (1.0 - share) / n + z2 / (4.0 * n)).sqrt();
        Self { value: share, low: (center - half).max(0.0), high: (center + half).min(1.0) }
    }
}

/// Accuracy of a map's predictions of conflicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Share of predicted conflicts that are conflicts.
    pub precision: Share,
    /// Share of conflicts that were predicted, among those held back from the search for the map
    /// and those that the map missed in the trials.
    pub recall: Share,
    /// Harmonic mean of both; its interval combines both lower and both upper ends.
    pub f1: Share,
    /// Number of pairs that were tried.
    pub pairs: u64,
}

impl Score {
    pub(super) fn of(model: &Model, trials: &[Trial], held: &[(PhysAddr, PhysAddr)]) -> Self {
        let Tally { pairs, right, wrong, missed } = Tally::of(model, trials);
        let precision = Share::of(right, right + wrong);
        let conflict = |(a, b): &&(PhysAddr, PhysAddr)| {
            model.relation(*a, *b).is_none_or(|relation| relation == Relation::Conflict)
        };
        let (held, predicted) = (held.len() as u64, held.iter().filter(conflict).count() as u64);
        let recall = Share::of(predicted, held + missed);
        let harmonic = |p: f64, r: f64| if p + r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 };
        let f1 = Share {
            value: harmonic(precision.value, recall.value),
            low: harmonic(precision.low, recall.low),
            high: harmonic(precision.high, recall.high),
        };
        Self { precision, recall, f1, pairs: pairs + held }
    }
}

/// Predictions of a model compared with trials.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Trials for which the model makes a prediction.
    pub(super) pairs: u64,
    /// Predicted conflicts that are conflicts.
    pub(super) right: u64,
    /// Predicted conflicts that are not.
    pub(super) wrong: u64,
    /// Conflicts that were not predicted.
    pub(super) missed: u64,
}

impl Tally {
    pub(super) fn of(model: &Model, trials: &[Trial]) -> Self {
        let mut tally = Self::default();
        for trial in trials {
            let Some(relation) = trial.relation(model) else { continue };
            tally.pairs += 1;
            match (relation == Relation::Conflict, trial.conflict) {
                (true, true) => tally.right += 1,
                (true, false) => tally.wrong += 1,
                (false, true) => tally.missed += 1,
                (false, false) => {}
            }
        }
        tally
    }

    pub(super) fn errors(self) -> u64 {
        self.wrong + self.missed
    }

    /// Returns true if the errors do not exceed the sum of these shares of conflicts and of all
    /// pairs.
    pub(super) fn agrees(self, of_conflicts: f64, of_pairs: f64) -> bool {
        let conflicts = (self.errors() + self.right) as f64;
        self.errors() as f64 <= of_conflicts * conflicts + of_pairs * self.pairs as f64
    }
}

/// Measures fresh pairs, many of them near edges, of every relation that the model predicts.
pub(super) fn try_model(
    probe: &mut Probe<'_>,
    model: &Model,
    threshold: &Threshold,
) -> Result<Vec<Trial>, Refused> {
    let bases = probe.anywhere_times(BASES);
    let mut targets = probe.anywhere_times(REFERENCES);
    for base in &bases {
        targets.extend(partners(probe, model, *base));
    }
    let excess = probe.passes(&bases, &targets, REFERENCES, 4, PASSES)?;
    let mut trials = Vec::with_capacity(targets.len() * BASES);
    for (i, b) in targets.iter().enumerate().skip(REFERENCES) {
        for (j, a) in bases.iter().enumerate().filter(|(_, a)| *a != b) {
            trials.push(Trial { a: *a, b: *b, conflict: excess.of(i, j) > threshold.at });
        }
    }
    again(probe, model, threshold, &bases, &mut trials)?;
    Ok(trials)
}

/// Measures the pairs that contradict the prediction again, later and longer.
fn again(
    probe: &mut Probe<'_>,
    model: &Model,
    threshold: &Threshold,
    bases: &[PhysAddr],
    trials: &mut [Trial],
) -> Result<(), Refused> {
    let surprise = |trial: &&mut Trial| {
        let relation = model.relation(trial.a, trial.b);
        relation.is_some_and(|relation| (relation == Relation::Conflict) != trial.conflict)
    };
    let all = trials.len() as f64;
    let surprises: Vec<&mut Trial> = trials.iter_mut().filter(surprise).collect();
    if surprises.is_empty() || surprises.len() as f64 > HOPELESS * all {
        return Ok(());
    }
    let mut targets = probe.anywhere_times(REFERENCES);
    targets.extend(surprises.iter().map(|trial| trial.b));
    let excess = probe.passes(bases, &targets, REFERENCES, 4, MORE_PASSES)?;
    for (i, trial) in surprises.into_iter().enumerate() {
        let member = bases.iter().position(|base| *base == trial.a).unwrap_or(0);
        trial.conflict = excess.of(REFERENCES + i, member) > threshold.at;
    }
    Ok(())
}

fn partners(probe: &mut Probe<'_>, model: &Model, base: PhysAddr) -> Vec<PhysAddr> {
    let mut partners = Vec::with_capacity(CONFLICTS + OTHER_BANKS + SAME_ROW);
    let draw = |i: usize| if i.is_multiple_of(2) { Draw::Anywhere } else { Draw::NearEdge };
    for i in 0..CONFLICTS {
        partners.extend(model.partner(probe, base, 0, draw(i)));
    }
    let rank = model.banks.dimension();
    if rank > 0 {
        for i in 0..OTHER_BANKS {
            // Half of them differ in one function alone.
            let single = 1u64 << (i / 4 % rank);
            let any = probe.random.random_range(1..1u64 << rank);
            let pattern = if i % 4 < 2 { single } else { any };
            partners.extend(model.partner(probe, base, pattern, draw(i)));
        }
    }
    for _ in 0..SAME_ROW {
        let Some(rows) = &model.rows else { break };
        let chosen: u64 = probe.random.random();
        let members = rows.columns.basis().iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
        let difference = members.fold(0, |sum, (_, column)| sum ^ column.0);
        partners.extend(model.beside(probe, base, difference).filter(|partner| *partner != base));
    }
    partners
}

#[cfg(test)]
mod tests {
    use memweir_core::address_map::XorFunction;

    use super::*;
    use crate::detect::shape::{Known, Shape};

    #[test]
    fn a_score_counts_what_was_predicted_and_what_was_missed() {
        let known = Known { bits: (1 << 20) - 64, foreign: 1 << 20 };
        let banks = [XorFunction::of_bits(&[13, 17])].into_iter().collect();
        let model = Model { shape: Shape::PLAIN, known, banks, rows: None };
        let at = |bits: &[u8]| PhysAddr(XorFunction::of_bits(bits).0);
        let trial = |bits: &[u8], conflict| Trial { a: PhysAddr(0), b: at(bits), conflict };
        let trials = [
            // One bank: three conflicts are right, one is wrong.
            trial(&[14], true),
            trial(&[13, 17], true),
            trial(&[13, 15, 17], true),
            trial(&[16], false),
            // Another bank: one conflict is missed.
            trial(&[13], true),
            trial(&[17], false),
            // Nothing is predicted of a foreign bit.
            trial(&[20], true),
        ];
        let held = [[14, 15], [14, 20], [13, 14]].map(|bits| (PhysAddr(0), at(&bits)));
        let score = Score::of(&model, &trials, &held);
        // Of three pairs that were held back, the one with a foreign bit counts as predicted.
        let shares = [score.precision, score.recall].map(|share| share.value);
        assert_eq!((shares, score.pairs), ([0.75, 0.5], 9));
        assert!((score.f1.value - 0.6).abs() < 1e-12, "{:?}", score.f1);
        let tally = Tally::of(&model, &trials);
        assert_eq!((tally.errors(), tally.pairs), (2, 6));
        // Two errors among five conflicts, in six pairs.
        assert!(tally.agrees(0.4, 0.0) && !tally.agrees(0.39, 0.0));
        assert!(tally.agrees(0.0, 0.34) && !tally.agrees(0.0, 0.33));
    }

    #[test]
    fn wilsons_interval() {
        // Newcombe 1998: 81 of 263 is 0.2553 to 0.3662.
        let share = Share::of(81, 263);
        assert!((share.low - 0.2553).abs() < 2e-4 && (share.high - 0.3662).abs() < 2e-4);
        assert!(Share::of(200, 200).low > 0.98 && Share::of(200, 200).high == 1.0);
        assert_eq!(Share::of(0, 0), Share { value: 0.0, low: 0.0, high: 1.0 });
    }
}
