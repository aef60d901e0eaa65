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
use super::{Refused, Step, split};

const BASES: usize = 4;
const REFERENCES: usize = 64;
const PASSES: usize = 5;
/// Number of passes for sums of several, most of which conflict.
const FEW_PASSES: usize = 3;
/// Number of column bits, including those within a line, at which the search may stop: 8 KiB.
const FULL_ROW: usize = 13;
const LINE_BITS: usize = 6;

/// Returns the rows of the model's banks; `None` if too few differences can be measured.
pub(super) fn find(
    probe: &mut Probe<'_>,
    model: &Model,
    threshold: &Threshold,
) -> Result<Option<Rows>, Refused> {
    probe.enter(Step::Rows);
    let basis = lowest_first(model);
    let Some(conflicting) = conflicts(probe, model, threshold, &basis, PASSES)? else {
        return Ok(None);
    };
    let (mut rows, columns) = split(&basis, &conflicting);
    let mut columns: Span = columns.into_iter().map(XorFunction).collect();
    for size in [2, 3] {
        if size == 3 && columns.dimension() + LINE_BITS >= FULL_ROW {
            break;
        }
        let sums = sums(&rows, size);
        let Some(first) = conflicts(probe, model, threshold, &sums, FEW_PASSES)? else {
            return Ok(None);
        };
        let (_, calm) = split(&sums, &first);
        let Some(again) = conflicts(probe, model, threshold, &calm, PASSES)? else {
            return Ok(None);
        };
        let (_, calm) = split(&calm, &again);
        for column in calm {
            columns.add(XorFunction(column));
        }
        // Of row vectors that differ only by columns, one is enough for further sums.
        let mut told = columns.clone();
        rows.retain(|row| told.add(XorFunction(*row)));
    }
    Ok(Some(Rows::new(columns, &model.banks, model.known.bits)))
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

/// Returns for each difference if addresses with it conflict, by the majority of the bases from
/// which it can be measured; `None` if a difference can be measured from fewer than two bases.
fn conflicts(
    probe: &mut Probe<'_>,
    model: &Model,
    threshold: &Threshold,
    differences: &[u64],
    passes: usize,
) -> Result<Option<Vec<bool>>, Refused> {
    const AT_ONCE: usize = 64;
    let mut verdicts = Vec::with_capacity(differences.len());
    for part in differences.chunks(AT_ONCE) {
        let bases = probe.anywhere_times(BASES);
        let mut targets: Vec<PhysAddr> = probe.anywhere_times(REFERENCES);
        let mut places: Vec<Vec<(usize, usize)>> = Vec::with_capacity(part.len());
        for difference in part {
            let mut own = Vec::new();
            for (number, base) in bases.iter().enumerate() {
                if let Some(beside) = model.beside(probe, *base, *difference) {
                    own.push((targets.len(), number));
                    targets.push(beside);
                }
            }
            if own.len() < 2 {
                return Ok(None);
            }
            places.push(own);
        }
        let excess = probe.passes(&bases, &targets, REFERENCES, 3, passes)?;
        verdicts.extend(places.iter().map(|own| {
            let conflicts = own.iter().filter(|(i, j)| excess.of(*i, *j) > threshold.at);
            2 * conflicts.count() >= own.len()
        }));
    }
    Ok(Some(verdicts))
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
