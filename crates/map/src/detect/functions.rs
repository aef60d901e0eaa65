//! From pairs of one bank to a shape and functions that explain them.
//!
//! Addresses of one bank agree in every function of the true map, seen through its true shape
//! (offset and interleaving); seen through another they agree in fewer. So the shape with the most
//! functions is looked for, and what it says is tried on fresh pairs, near edges too, where a wrong
//! offset shows. What a trial refutes stays known, so the next candidate must explain it.

use memweir_core::PhysAddr;
use memweir_core::address_map::Interleave;
use rand::seq::IndexedRandom;

use super::conflicts::Conflicts;
use super::model::{Draw, Model, Relation};
use super::probe::Probe;
use super::shape::Shape;
use super::solve::{functions, nullity};
use super::verify::{Trial, agreement, try_model};
use super::{Refused, Step};

/// Share of trials that an explanation must predict.
const AGREE: f64 = 0.985;
/// Offsets are multiples of two to these, in the order in which they are tried.
const COARSE: [u32; 7] = [30, 29, 28, 27, 26, 25, 24];
const FINE: [u32; 4] = [23, 22, 21, 20];
/// Pairs on which a shape is tried, and how often: a wrong pair may be among them.
const SAMPLE: usize = 56;
const SAMPLES: usize = 3;
/// Shapes that explain equally many banks, of which the trials choose.
const COMPARED: usize = 120;
/// Shapes of one kind that are tried on fresh pairs.
const TRIED: usize = 5;
/// Pairs that may lie in different channels although they conflict.
const STRAYS: usize = 4;
/// Computed pairs on which two explanations are compared.
const COMPARISONS: usize = 4000;
/// Bits of an address within a page of 4 KiB, which virtual machines keep contiguous.
const PAGE_BITS: u32 = 12;

type Pair = (PhysAddr, PhysAddr);

/// Finds functions, and the offset and interleaving under which they are functions of bits.
pub(super) fn find(probe: &mut Probe<'_>, conflicts: &Conflicts) -> Result<Model, Refused> {
    probe.enter(Step::Functions);
    let pairs: Vec<Pair> = conflicts.pairs().collect();
    let plain = solve(probe, Shape::PLAIN, &pairs);
    let mut search = Search {
        conflicts,
        samples: samples(probe, &pairs),
        pairs,
        trials: Vec::new(),
        refuted: Vec::new(),
    };
    if let Some(model) = search.try_shapes(probe, &[Shape::PLAIN])? {
        return Ok(search.simplest(probe, model));
    }
    probe.enter(Step::Shape);
    let interleaves = Shape::interleaves(&search.pairs);
    for shapes in [
        search.best(probe, offsets(probe.reach().end().0, &COARSE)),
        search.best(probe, interleaved(&interleaves, probe.reach().start().0)),
        search.best(probe, offsets(probe.reach().end().0, &FINE)),
    ] {
        if let Some(model) = search.try_shapes(probe, &shapes)? {
            return Ok(search.simplest(probe, model));
        }
    }
    Err(probe.refuse(unexplained(plain.as_ref(), conflicts)))
}

struct Search<'a> {
    conflicts: &'a Conflicts,
    pairs: Vec<Pair>,
    /// Parts of the pairs.
    samples: Vec<Vec<Pair>>,
    trials: Vec<Trial>,
    refuted: Vec<Shape>,
}

/// Odd multiples of two to each of `steps` below `end`, as shapes.
fn offsets(end: u64, steps: &'static [u32]) -> impl Iterator<Item = Shape> {
    steps.iter().flat_map(move |step| {
        let odd = (1..).step_by(2).map(move |times: u64| times << step);
        odd.take_while(move |offset| *offset < end).map(|offset| Shape { offset, interleave: None })
    })
}

/// Each interleaving, without offset and with every offset up to where memory begins.
fn interleaved(interleaves: &[Interleave], start: u64) -> impl Iterator<Item = Shape> {
    interleaves.iter().flat_map(move |interleave| {
        let with = move |offset| Shape { offset, interleave: Some(*interleave) };
        let further = offsets(start + 1, &COARSE).chain(offsets(start + 1, &FINE));
        std::iter::once(with(0)).chain(further.map(move |shape| with(shape.offset)))
    })
}

fn samples(probe: &mut Probe<'_>, pairs: &[Pair]) -> Vec<Vec<Pair>> {
    let one = |_| pairs.sample(&mut probe.random, SAMPLE).copied().collect();
    (0..SAMPLES).map(one).collect()
}

/// The functions that the pairs obey in this shape; nothing if few of them can be seen so.
fn solve(probe: &mut Probe<'_>, shape: Shape, pairs: &[Pair]) -> Option<Model> {
    let seen = pairs.iter().filter_map(|(a, b)| shape.difference(*a, *b));
    let differences: Vec<u64> = seen.filter_map(Result::ok).collect();
    let known = shape.known(probe.reach());
    if differences.len() * 2 < pairs.len() || known == 0 {
        return None;
    }
    let banks = functions(&differences, known, &mut probe.random);
    Some(Model { shape, known, banks, rows: None })
}

impl Search<'_> {
    /// Of `shapes` those that explain the most banks.
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

    /// The first of `shapes` that explains all that was tried, and fresh pairs too.
    fn try_shapes(
        &mut self,
        probe: &mut Probe<'_>,
        shapes: &[Shape],
    ) -> Result<Option<Model>, Refused> {
        let models = shapes.iter().filter_map(|shape| solve(probe, *shape, &self.pairs));
        let mut models: Vec<Model> = models.filter(|model| model.banks() > 1).collect();
        for _ in 0..TRIED {
            models.retain(|model| !self.refuted.contains(&model.shape));
            let of = |model: &Model| agreement(model, &self.trials);
            let Some(best) = models.iter().map(of).max_by(f64::total_cmp) else { break };
            let Some(model) = models.iter().find(|m| of(m) >= best).filter(|_| best >= AGREE)
            else {
                break;
            };
            let fresh = try_model(probe, model, &self.conflicts.threshold)?;
            if agreement(model, &fresh) >= AGREE {
                return Ok(Some(model.clone()));
            }
            self.refuted.push(model.shape);
            self.trials.extend(fresh);
        }
        Ok(None)
    }

    /// The same banks with an offset of where memory begins, if no measurement can tell the two
    /// apart and the map then speaks of all memory with fewer bits.
    fn simplest(&self, probe: &mut Probe<'_>, model: Model) -> Model {
        let start = probe.reach().start().0;
        let bits = u64::BITS - model.known.leading_zeros();
        let last = PhysAddr(probe.reach().end().0 - 1);
        let covers = |shape: Shape, known: u64| {
            let top = shape.enter(last).map_or(0, |(_, inner)| u64::BITS - inner.leading_zeros());
            top <= u64::BITS - known.leading_zeros()
        };
        if model.shape.offset == start || covers(model.shape, model.known) && start == 0 {
            return model;
        }
        let shape = Shape { offset: start, ..model.shape };
        let Some(other) = solve(probe, shape, &self.pairs) else { return model };
        let other_bits = u64::BITS - other.known.leading_zeros();
        let better = other_bits < bits || other_bits == bits && !covers(model.shape, model.known);
        if better && covers(shape, other.known) && same_banks(probe, &model, &other) {
            return other;
        }
        model
    }
}

/// The rank of the functions that `pairs` obey, if it is at least `least`.
fn rank(shape: Shape, pairs: &[Pair], known: u64, least: u32) -> Option<u32> {
    let seen = || pairs.iter().filter_map(|(a, b)| shape.difference(*a, *b));
    let strays = seen().filter(Result::is_err).count();
    if strays > STRAYS || 2 * seen().count() < pairs.len() {
        return None;
    }
    nullity(seen().filter_map(Result::ok), known, least)
}

/// Whether both models say the same of many pairs, half of which the first puts in one bank.
fn same_banks(probe: &mut Probe<'_>, model: &Model, other: &Model) -> bool {
    if model.banks.dimension() != other.banks.dimension() {
        return false;
    }
    (0..COMPARISONS as u64).all(|i| {
        let base = probe.anywhere();
        let draw = if i % 4 < 2 { Draw::Anywhere } else { Draw::NearEdge };
        let pattern = if i % 2 == 0 { 0 } else { i / 4 };
        let Some(partner) = model.partner(probe, base, pattern, draw) else { return true };
        let apart = |model: &Model| model.relation(base, partner) == Some(Relation::OtherBank);
        apart(model) == apart(other)
    })
}

/// Why nothing explains the pairs.
fn unexplained(plain: Option<&Model>, conflicts: &Conflicts) -> String {
    let (pairs, per_conflict) = (conflicts.pairs().count(), conflicts.pairs_per_conflict);
    let (found, highest) = plain.map_or((0, 0), |plain| {
        let highest = plain.banks.basis().iter().map(|f| u64::BITS - f.0.leading_zeros()).max();
        (plain.banks.dimension(), highest.unwrap_or(0))
    });
    let seen = format!("{pairs} pairs conflict, one of {per_conflict:.0} tried");
    if highest <= PAGE_BITS && per_conflict > 3.0 * f64::from(1 << found) {
        return format!(
            "no physical contiguity behind the guest's memory: {seen}, but they agree in {found} \
             functions of bits below {PAGE_BITS} and in none of higher bits"
        );
    }
    format!(
        "no map of a known shape explains what was measured: {seen}, and they agree in {found} \
         functions; offsets down to 1 MiB and channels in threes, fives and so on were tried"
    )
}
