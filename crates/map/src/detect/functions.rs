//! Search for a shape and functions that explain pairs of one bank.
//!
//! Addresses of one bank agree in every function of the true map if decoded by its true shape
//! (offset and interleaving); decoded by another shape they agree in fewer. The search therefore
//! prefers the shape with the most functions, and tests its predictions on fresh pairs, including
//! pairs near edges, where a wrong offset shows. Trials that refute a candidate are kept, so that
//! the next candidate must explain them.

use memweir_core::PhysAddr;
use memweir_core::address_map::{BASE_PAGE_BITS, Interleave};
use rand::seq::IndexedRandom;

use super::conflicts::Conflicts;
use super::model::{Draw, Model, Relation};
use super::probe::Probe;
use super::shape::{Known, Shape};
use super::solve::{functions, nullity};
use super::verify::{Tally, Trial, try_model};
use super::{Refused, Step, rows};

/// Largest share of errors among conflicts on fresh trials: two addresses of a bank may share a
/// row, and rows are not yet known.
const AGREE: f64 = 0.015;
/// Largest shares of errors on the trials that refuted other candidates, among conflicts and among
/// all pairs. Those trials were not measured again where they contradict this candidate.
const PLAUSIBLE: (f64, f64) = (0.07, 0.01);
/// Offsets are odd multiples of two to these powers, in the order in which they are tried.
const COARSE: [u32; 13] = [36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24];
const FINE: [u32; 4] = [23, 22, 21, 20];
/// Number of pairs in a sample on which a shape is tried, and number of samples: a sample may
/// contain a wrong pair.
const SAMPLE: usize = 56;
const SAMPLES: usize = 3;
/// Highest number of shapes with the same number of explained banks; trials choose among them.
const COMPARED: usize = 120;
/// Highest number of shapes of one kind that are tried on fresh pairs.
const TRIED: usize = 12;
/// Highest number of conflicting pairs that may lie in different channels.
const STRAYS: usize = 4;
/// Number of computed pairs on which two explanations are compared.
const COMPARISONS: usize = 4000;
type Pair = (PhysAddr, PhysAddr);

/// Kinds of candidates, in the order of the search. Within a kind, those that explain the most
/// banks are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Offset,
    Interleaved,
    FineOffset,
}

/// State of the search, including refuted candidates.
pub(super) struct Search<'a> {
    conflicts: &'a Conflicts,
    pairs: Vec<Pair>,
    /// Random subsets of the pairs.
    samples: Vec<Vec<Pair>>,
    trials: Vec<Trial>,
    refuted: Vec<Shape>,
}

/// Returns odd multiples of two to each of `steps`, up to `most`, as shapes.
fn offsets(most: u64, steps: &'static [u32]) -> impl Iterator<Item = Shape> {
    steps.iter().flat_map(move |step| {
        let odd = (1..).step_by(2).map(move |times: u64| times << step);
        odd.take_while(move |offset| *offset <= most)
            .map(|offset| Shape { offset, interleave: None })
    })
}

/// Returns each interleaving without an offset and with every offset up to the start of memory.
fn interleaved(interleaves: &[Interleave], start: u64) -> impl Iterator<Item = Shape> {
    interleaves.iter().flat_map(move |interleave| {
        let with = move |offset| Shape { offset, interleave: Some(*interleave) };
        let further = offsets(start, &COARSE).chain(offsets(start, &FINE));
        std::iter::once(with(0)).chain(further.map(move |shape| with(shape.offset)))
    })
}

fn samples(probe: &mut Probe<'_>, pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let one = |_| pairs.sample(&mut probe.random, SAMPLE).copied().collect();
    (0..SAMPLES).map(one).collect()
}

/// Returns the functions that the pairs obey in this shape; `None` if too few pairs are valid in
/// it.
fn solve(probe: &mut Probe<'_>, shape: Shape, pairs: &[Pair]) -> Option<Model> {
    let known = shape.known(probe.reach());
    let seen = pairs.iter().filter_map(|(a, b)| shape.difference(*a, *b));
    let differences: Vec<u64> =
        seen.filter_map(Result::ok).filter(|d| d & known.foreign == 0).collect();
    if differences.len() * 2 < pairs.len() || known.bits == 0 {
        return None;
    }
    let banks = functions(&differences, known.bits, &mut probe.random);
    Some(Model { shape, known, banks, rows: None })
}

impl<'a> Search<'a> {
    pub(super) fn new(probe: &mut Probe<'_>, conflicts: &'a Conflicts) -> Self {
        let pairs = conflicts.pairs.clone();
        let samples = samples(probe, &pairs);
        Self { conflicts, pairs, samples, trials: Vec::new(), refuted: Vec::new() }
    }

    /// Finds functions, with the offset and interleaving under which they are functions of bits,
    /// that explain all trials so far and fresh pairs. Call it again for another explanation.
    pub(super) fn find(&mut self, probe: &mut Probe<'_>) -> Result<Model, Refused> {
        probe.enter(Step::Functions);
        // Addresses below the offset are not memory.
        let start = probe.reach().start().0;
        for kind in [Kind::Plain, Kind::Offset, Kind::Interleaved, Kind::FineOffset] {
            let shapes = match kind {
                Kind::Plain => vec![Shape::PLAIN],
                Kind::Offset => self.best(probe, offsets(start, &COARSE)),
                Kind::Interleaved => self.best(probe, interleaved(&self.interleaves(probe), start)),
                Kind::FineOffset => self.best(probe, offsets(start, &FINE)),
            };
            if let Some(model) = self.try_shapes(probe, &shapes)? {
                return Ok(self.simplest(probe, model));
            }
            probe.enter(Step::Shape);
        }
        let plain = solve(probe, Shape::PLAIN, &self.pairs);
        Err(probe.refuse(unexplained(plain.as_ref(), self.conflicts)))
    }

    /// Records that a later verification refuted a model.
    pub(super) fn refute(&mut self, model: &Model, trials: Vec<Trial>) {
        self.refuted.push(model.shape);
        let of_rows = |trial: &Trial| trial.relation(model) != Some(Relation::SameRow);
        self.trials.extend(trials.into_iter().filter(of_rows));
    }

    /// Returns interleavings in which nearly all pairs agree in the channel, with a round over all
    /// channels of at most a quarter of memory.
    fn interleaves(&self, probe: &Probe<'_>) -> Vec<Interleave> {
        let memory = probe.reach().end().0 - probe.reach().start().0;
        let mut interleaves = Shape::interleaves(&self.pairs);
        interleaves.retain(|i| i.granule.0 * u64::from(i.channels) * 4 <= memory);
        interleaves
    }

    /// Returns those of `shapes` that explain the most banks.
    fn best(&self, probe: &Probe<'_>, shapes: impl Iterator<Item = Shape>) -> Vec<Shape> {
        let (mut best, mut most) = (Vec::new(), 0.0);
        for shape in shapes {
            let known = shape.known(probe.reach());
            let ways = f64::from(shape.channels()).log2();
            let least = (most - ways).ceil().max(0.0) as u32;
            let rank = self.samples.iter().filter_map(|pairs| rank(shape, pairs, known, least));
            let Some(rank) = rank.max() else { continue };
            let explained = ways + f64::from(rank);
            if explained > most + 1e-9 {
                (best, most) = (Vec::new(), explained);
            }
            if explained >= most - 1e-9 && best.len() < COMPARED {
                best.push(shape);
            }
        }
        best
    }

    /// Tries the models of `shapes` on fresh pairs, those with the fewest errors on earlier trials
    /// first, and returns the first that explains them.
    fn try_shapes(
        &mut self,
        probe: &mut Probe<'_>,
        shapes: &[Shape],
    ) -> Result<Option<Model>, Refused> {
        let models = shapes.iter().filter_map(|shape| solve(probe, *shape, &self.pairs));
        let mut models: Vec<Model> = models.filter(|model| model.banks() > 1).collect();
        for _ in 0..TRIED {
            models.retain(|model| !self.refuted.contains(&model.shape));
            let of = |model: &Model| Tally::of(model, &self.trials);
            let Some(model) = models.iter().min_by_key(|model| of(model).errors()) else { break };
            if !of(model).agrees(PLAUSIBLE.0, PLAUSIBLE.1) {
                break;
            }
            let (mut model, threshold) = (model.clone(), &self.conflicts.threshold);
            let fresh = try_model(probe, &model, threshold)?;
            let agrees = |model: &Model, share| Tally::of(model, &fresh).agrees(share, 0.0);
            if !agrees(&model, AGREE) && agrees(&model, PLAUSIBLE.0) {
                // In a small memory many pairs of a bank share a row.
                model.rows = Some(rows::find(probe, &model, threshold)?);
            }
            if agrees(&model, AGREE) {
                return Ok(Some(model));
            }
            self.refuted.push(model.shape);
            self.trials.extend(fresh);
        }
        Ok(None)
    }

    /// Replaces the offset by the start of memory if no measurement can distinguish the two maps
    /// and the new one covers all of memory with no more bits.
    fn simplest(&self, probe: &mut Probe<'_>, model: Model) -> Model {
        let start = probe.reach().start().0;
        let last = PhysAddr(probe.reach().end().0 - 1);
        let covers = |shape: Shape, known: Known| {
            shape.enter(last).is_some_and(|(_, inner)| inner >> known.width() == 0)
        };
        if model.shape.offset == start {
            return model;
        }
        let shape = Shape { offset: start, ..model.shape };
        let Some(other) = solve(probe, shape, &self.pairs) else { return model };
        let (width, other_width) = (model.known.width(), other.known.width());
        let better =
            other_width < width || other_width == width && !covers(model.shape, model.known);
        if better && covers(shape, other.known) && same_banks(probe, &model, &other) {
            return other;
        }
        model
    }
}

/// Returns the rank of the functions that `pairs` obey, if it is at least `least`.
fn rank(shape: Shape, pairs: &[Pair], known: Known, least: u32) -> Option<u32> {
    let seen = || pairs.iter().filter_map(|(a, b)| shape.difference(*a, *b));
    let strays = seen().filter(Result::is_err).count();
    if strays > STRAYS || 2 * seen().count() < pairs.len() {
        return None;
    }
    nullity(seen().filter_map(Result::ok).filter(|d| d & known.foreign == 0), known.bits, least)
}

/// Returns true if both models agree on many pairs, half of which the first model puts in one bank.
fn same_banks(probe: &mut Probe<'_>, model: &Model, other: &Model) -> bool {
    if model.banks.dimension() != other.banks.dimension() {
        return false;
    }
    (0..COMPARISONS as u64).all(|i| {
        let base = probe.anywhere();
        let draw = if i % 4 < 2 { Draw::Anywhere } else { Draw::NearEdge };
        let pattern = if i.is_multiple_of(2) { 0 } else { i / 4 };
        let Some(partner) = model.partner(probe, base, pattern, draw) else { return true };
        let apart = |model: &Model| model.relation(base, partner) == Some(Relation::OtherBank);
        apart(model) == apart(other)
    })
}

/// Returns the reason why no model explains the pairs.
fn unexplained(plain: Option<&Model>, conflicts: &Conflicts) -> String {
    let (pairs, per_conflict) = (conflicts.pairs.len(), conflicts.pairs_per_conflict);
    let (found, highest) = plain.map_or((0, 0), |plain| {
        let highest = plain.banks.basis().iter().map(|f| u64::BITS - f.0.leading_zeros()).max();
        (plain.banks.dimension(), highest.unwrap_or(0))
    });
    let seen = format!("{pairs} pairs conflict, one of {per_conflict:.0} tried");
    if highest <= BASE_PAGE_BITS && per_conflict > 3.0 * f64::from(1 << found) {
        return format!(
            "no physical contiguity behind the guest's memory: {seen}, but they agree in {found} \
             functions of bits below {BASE_PAGE_BITS} and in none of higher bits; on a machine that is no \
             guest, its channels are interleaved in a way that was not searched"
        );
    }
    format!(
        "no map of a known shape explains what was measured: {seen}, and they agree in {found} \
         functions; offsets down to 1 MiB and channels in threes, fives and so on were tried"
    )
}
