//! Search for the differences within a bank that stay in one row.
//!
//! Of the differences that keep the bank, those that do not conflict are the columns. A random one
//! practically never is: all bits of the row would have to agree. So the search tries the basis
//! with the lowest possible highest bits one by one, then sums of two and of three: rows consist of
//! higher bits than columns on every known machine, and sums find the columns that do not deviate
//! far from that. Larger sums would take thousands of readings: a reading tells of one difference
//! alone if it is a column, so that no algebra saves trying each.

use memweir_core::PhysAddr;
use memweir_core::address_map::{Span, XorFunction};

use super::conflicts::Threshold;
use super::model::{Model, Rows};
use super::probe::Probe;
use super::solve::null_space;
use super::{Refused, Step};

const BASES: usize = 4;
const REFERENCES: usize = 64;
const PASSES: usize = 5;
/// Number of passes for sums of several, most of which conflict.
const FEW_PASSES: usize = 3;
/// Number of column bits, including those within a line, at which the search may stop: 8 KiB.
const FULL_ROW: usize = 13;
const LINE_BITS: usize = 6;

/// Returns the rows of the model's banks. Differences that cannot be measured count as rows.
pub(super) fn find(
    probe: &mut Probe<'_>,
    model: &Model,
    threshold: &Threshold,
) -> Result<Rows, Refused> {
    probe.enter(Step::Rows);
    let basis = lowest_first(model);
    let Verdicts { mut rows, columns, mut unknown } =
        conflicts(probe, model, threshold, &basis, PASSES)?;
    let mut columns: Span = columns.into_iter().map(XorFunction).collect();
    for size in [2, 3] {
        if size == 3 && columns.dimension() + LINE_BITS >= FULL_ROW {
            break;
        }
        let first = conflicts(probe, model, threshold, &sums(&rows, size), FEW_PASSES)?;
        let again = conflicts(probe, model, threshold, &first.columns, PASSES)?;
        unknown += first.unknown + again.unknown;
        for column in again.columns {
            columns.add(XorFunction(column));
        }
        // Of row vectors that differ only by columns, one is enough for further sums.
        let mut told = columns.clone();
        rows.retain(|row| told.add(XorFunction(*row)));
    }
    let rows = Rows::new(columns, &model.banks, model.known.bits);
    Ok(Rows { complete: unknown == 0, ..rows })
}

/// Differences within a bank, by what measurements say of them.
#[derive(Default)]
struct Verdicts {
    rows: Vec<u64>,
    columns: Vec<u64>,
    /// Number of those that can be measured from fewer than two bases.
    unknown: usize,
}

/// Returns a basis of the differences that keep the bank, in which the highest bit of each is in no
/// other, ascending by it.
fn lowest_first(model: &Model) -> Vec<u64> {
    let keep = null_space(model.banks.basis().iter().map(|f| f.0), model.known.bits);
    let mirrored: Span = keep.iter().map(|v| XorFunction(v.0.reverse_bits())).collect();
    let mut basis: Vec<u64> = mirrored.basis().iter().map(|v| v.0.reverse_bits()).collect();
    basis.sort_unstable();
    basis
}

fn sums(vectors: &[u64], size: usize) -> Vec<u64> {
    match size {
        1 => vectors.to_vec(),
        _ => (0..vectors.len())
            .flat_map(|i| sums(&vectors[..i], size - 1).into_iter().map(move |sum| (i, sum)))
            .map(|(i, sum)| vectors[i] ^ sum)
            .collect(),
    }
}

/// Sorts the differences by the majority of the bases from which each can be measured: those of
/// rows conflict.
fn conflicts(
    probe: &mut Probe<'_>,
    model: &Model,
    threshold: &Threshold,
    differences: &[u64],
    passes: usize,
) -> Result<Verdicts, Refused> {
    const AT_ONCE: usize = 64;
    let mut verdicts = Verdicts::default();
    for part in differences.chunks(AT_ONCE) {
        let bases = probe.anywhere_times(BASES);
        let mut targets: Vec<PhysAddr> = probe.anywhere_times(REFERENCES);
        let mut places: Vec<(u64, Vec<(usize, usize)>)> = Vec::with_capacity(part.len());
        for difference in part {
            let mut own = Vec::new();
            for (number, base) in bases.iter().enumerate() {
                if let Some(beside) = model.beside(probe, *base, *difference) {
                    own.push((targets.len(), number));
                    targets.push(beside);
                }
            }
            if own.len() < 2 {
                verdicts.unknown += 1;
            } else {
                places.push((*difference, own));
            }
        }
        let excess = probe.passes(&bases, &targets, REFERENCES, 3, passes)?;
        let conflict = |(_, own): &(u64, Vec<(usize, usize)>)| {
            let conflicts = own.iter().filter(|(i, j)| excess.of(*i, *j) > threshold.at);
            2 * conflicts.count() >= own.len()
        };
        for place in &places {
            let sort = if conflict(place) { &mut verdicts.rows } else { &mut verdicts.columns };
            sort.push(place.0);
        }
    }
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_two_and_three() {
        assert_eq!(sums(&[1, 2, 4], 2), [3, 5, 6]);
        assert_eq!(sums(&[1, 2, 4, 8], 3), [7, 11, 13, 14]);
        assert!(sums(&[1], 2).is_empty());
    }
}
