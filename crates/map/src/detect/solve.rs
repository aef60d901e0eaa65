//! Solver for functions over GF(2) that are constant on a set with a few wrong members.

use memweir_core::address_map::{Span, XorFunction};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Largest share of differences that may violate a function.
const TOLERATED: f64 = 0.025;
/// Number of subsets that are solved. Each loses a function with probability one half per wrong
/// member.
const TRIALS: usize = 16;
/// Number of members of a subset beyond the unknown bits: a chance function survives one in 16,000
/// times.
const SPARE: usize = 14;

/// Returns the functions of bits of `known` that are zero on all of `differences`.
pub(super) fn null_space(differences: impl Iterator<Item = u64>, known: u64) -> Vec<XorFunction> {
    let reduced: Span = differences.map(|difference| XorFunction(difference & known)).collect();
    let pivots: u64 = reduced.basis().iter().map(|row| 1 << row.lowest()).sum();
    let function = |free: u8| {
        let with = reduced.basis().iter().filter(|row| row.0 >> free & 1 == 1);
        XorFunction(with.fold(1 << free, |mask, row| mask | 1 << row.lowest()))
    };
    XorFunction(known & !pivots).bits().map(function).collect()
}

/// Returns the functions of bits of `known` that nearly all of `differences` obey: those found on
/// random subsets that also hold on the rest.
pub(super) fn functions(differences: &[u64], known: u64, random: &mut ChaCha8Rng) -> Span {
    let size = known.count_ones() as usize + SPARE;
    let mut found = Span::default();
    for _ in 0..TRIALS {
        let functions = if differences.len() <= size {
            null_space(differences.iter().copied(), known)
        } else {
            let pick = |_| differences[random.random_range(0..differences.len())];
            null_space((0..size).map(pick), known)
        };
        for function in functions {
            if !found.contains(function) && disobey(differences, function) <= TOLERATED {
                found.add(function);
            }
        }
    }
    found
}

/// Returns the share of `differences` on which `function` is one.
fn disobey(differences: &[u64], function: XorFunction) -> f64 {
    let ones: u64 = differences.iter().map(|difference| function.value(*difference)).sum();
    ones as f64 / differences.len().max(1) as f64
}

/// Returns the rank of the functions of bits of `known` that are zero on all of `differences`;
/// `None` if it falls below `least`. Fast enough to try thousands of shapes.
pub(super) fn nullity(
    differences: impl Iterator<Item = u64>,
    known: u64,
    least: u32,
) -> Option<u32> {
    let mut rows = [0u64; 64];
    let mut left = known.count_ones();
    for difference in differences {
        let mut rest = difference & known;
        while rest != 0 {
            let lowest = rest.trailing_zeros() as usize;
            if rows[lowest] == 0 {
                rows[lowest] = rest;
                left -= 1;
                break;
            }
            rest ^= rows[lowest];
        }
        if left < least {
            return None;
        }
    }
    Some(left)
}

/// Returns a basis whose functions have as few bits as possible, for people to read; the reduced
/// basis if there are more than 14 functions.
pub(super) fn shortest(span: &Span) -> Vec<XorFunction> {
    const ENUMERABLE: usize = 14;
    let basis = span.basis();
    if basis.len() > ENUMERABLE {
        return basis.to_vec();
    }
    let sum = |chosen: u64| {
        let members = basis.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
        XorFunction(members.fold(0, |sum, (_, function)| sum ^ function.0))
    };
    let mut sums: Vec<XorFunction> = (1..1 << basis.len()).map(sum).collect();
    // Among independent sets, taking the lightest first gives the lightest basis.
    sums.sort_by_key(|function| (function.0.count_ones(), function.0));
    let mut taken = Span::default();
    let mut shortest: Vec<XorFunction> = sums.into_iter().filter(|f| taken.add(*f)).collect();
    shortest.sort_by_key(|function| (function.lowest(), function.0));
    shortest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn span(lists: &[&[u8]]) -> Span {
        lists.iter().map(|bits| XorFunction::of_bits(bits)).collect()
    }

    /// Makes differences that `truth` does not distinguish: the lowest bits of its functions
    /// correct the others.
    fn obeying(truth: &Span, known: u64, count: usize, random: &mut ChaCha8Rng) -> Vec<u64> {
        let correct = |value: u64| {
            let wrong = truth.basis().iter().filter(|f| f.value(value) == 1);
            wrong.fold(value, |value, f| value ^ 1 << f.lowest())
        };
        (0..count).map(|_| correct(random.next_u64() & known)).collect()
    }

    proptest! {
        #[test]
        fn finds_what_all_but_a_few_obey(
            masks in prop::collection::vec(64u64..1 << 30, 1..11),
            wrong in 0usize..4,
            seed: u64,
        ) {
            let known = (1 << 30) - 64;
            let truth = Span::new(masks.iter().map(|mask| XorFunction(mask & known)));
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut differences = obeying(&truth, known, 120, &mut random);
            for difference in &mut differences[..wrong] {
                *difference = random.next_u64() & known;
            }
            prop_assert_eq!(functions(&differences, known, &mut random), truth.clone());
            let clean = differences[wrong..].iter().copied();
            let rank = truth.dimension() as u32;
            prop_assert_eq!(nullity(clean.clone(), known, 0), Some(rank));
            prop_assert_eq!(nullity(clean, known, rank + 1), None);
        }
    }

    #[test]
    fn the_shortest_basis_is_the_published_one() {
        let span = span(&[&[14, 18], &[15, 19, 14, 18], &[8, 9, 12, 13, 14, 15]]);
        let lists: Vec<String> = shortest(&span).iter().map(ToString::to_string).collect();
        assert_eq!(lists[1..], ["14^18", "15^19"]);
        assert_eq!(lists[0].split('^').count(), 6);
    }
}
