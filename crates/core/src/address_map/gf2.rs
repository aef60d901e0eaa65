//! Linear algebra over the field of two elements, on functions of address bits.

use std::fmt;

/// The exclusive or of some bits of an address.
///
/// ```
/// use memweir_core::address_map::XorFunction;
///
/// let function = XorFunction::of_bits(&[14, 18]);
/// assert_eq!(function.value(1 << 14), 1);
/// assert_eq!(function.value(1 << 14 | 1 << 18), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XorFunction(pub u64);

impl XorFunction {
    /// Returns the function of these bits, counted from the least significant; each below 64. A bit
    /// that is named twice cancels itself.
    #[must_use]
    pub fn of_bits(bits: &[u8]) -> Self {
        Self(bits.iter().fold(0, |mask, bit| mask ^ 1 << bit))
    }

    /// Returns the bits in ascending order.
    pub fn bits(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |bit| self.0 >> bit & 1 == 1)
    }

    /// Returns the value at `address`: 0 or 1.
    #[must_use]
    pub fn value(self, address: u64) -> u64 {
        u64::from((self.0 & address).count_ones() & 1)
    }

    /// Returns the lowest bit; 64 for the function of no bits.
    #[must_use]
    pub fn lowest(self) -> u32 {
        self.0.trailing_zeros()
    }
}

impl fmt::Display for XorFunction {
    /// `14^18`; `0` for the function of no bits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits: Vec<String> = self.bits().map(|bit| bit.to_string()).collect();
        if bits.is_empty() { f.write_str("0") } else { f.write_str(&bits.join("^")) }
    }
}

/// All sums of some functions. Two lists of functions distinguish the same addresses exactly if
/// they have the same span, so maps are compared by their spans and never by their lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Reduced basis: the lowest bit of each function is in no other; ascending by lowest bit.
    basis: Vec<XorFunction>,
}

impl Span {
    /// Returns the span of `functions`.
    pub fn new(functions: impl IntoIterator<Item = XorFunction>) -> Self {
        let mut span = Self::default();
        for function in functions {
            span.add(function);
        }
        span
    }

    /// Adds a function; returns true if it was not in the span before.
    pub fn add(&mut self, function: XorFunction) -> bool {
        let rest = self.reduce(function);
        if rest.0 == 0 {
            return false;
        }
        let lowest = 1 << rest.lowest();
        for other in self.basis.iter_mut().filter(|other| other.0 & lowest != 0) {
            other.0 ^= rest.0;
        }
        let place = self.basis.partition_point(|other| other.lowest() < rest.lowest());
        self.basis.insert(place, rest);
        true
    }

    /// Returns the remainder of `function` after reduction by the span: zero if it lies in the
    /// span.
    fn reduce(&self, function: XorFunction) -> XorFunction {
        let by = |rest: u64, other: &XorFunction| {
            if rest >> other.lowest() & 1 == 1 { rest ^ other.0 } else { rest }
        };
        XorFunction(self.basis.iter().fold(function.0, by))
    }

    /// Returns true if `function` is a sum of functions of the span.
    #[must_use]
    pub fn contains(&self, function: XorFunction) -> bool {
        self.reduce(function).0 == 0
    }

    /// Returns the number of independent functions.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.basis.len()
    }

    /// Returns the unique basis in which the lowest bit of each function is in no other, ascending
    /// by it.
    #[must_use]
    pub fn basis(&self) -> &[XorFunction] {
        &self.basis
    }

    /// Returns the span of the functions that use no bit below `bit`: those that are constant over
    /// a naturally aligned block of `2^bit` bytes.
    #[must_use]
    pub fn above(&self, bit: u32) -> Self {
        // In the reduced basis a sum contains the lowest bit of each of its members.
        Self { basis: self.basis.iter().copied().filter(|f| f.lowest() >= bit).collect() }
    }

    /// Returns the functions that lie in both spans.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        // Zassenhaus: reduce the rows (a, a) of one span and (b, 0) of the other. Rows whose left
        // half vanishes have the intersection on their right.
        let rows =
            self.basis.iter().map(|a| (a.0, a.0)).chain(other.basis.iter().map(|b| (b.0, 0)));
        let mut reduced: Vec<(u64, u64)> = Vec::new();
        let mut common = Self::default();
        for mut row in rows {
            for known in &reduced {
                if row.0 >> known.0.trailing_zeros() & 1 == 1 {
                    row = (row.0 ^ known.0, row.1 ^ known.1);
                }
            }
            match row {
                (0, right) => {
                    common.add(XorFunction(right));
                }
                _ => reduced.push(row),
            }
        }
        common
    }
}

impl FromIterator<XorFunction> for Span {
    fn from_iter<I: IntoIterator<Item = XorFunction>>(functions: I) -> Self {
        Self::new(functions)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(lists: &[&[u8]]) -> Span {
        lists.iter().map(|bits| XorFunction::of_bits(bits)).collect()
    }

    #[test]
    fn lists_with_the_same_sums_are_the_same_span() {
        let listed = span(&[&[7, 14], &[8, 9, 12, 13, 18, 19], &[15, 19]]);
        let other = span(&[&[15, 19], &[7, 14, 15, 19], &[8, 9, 12, 13, 15, 18]]);
        assert_eq!(listed, other);
        assert_ne!(listed, span(&[&[7, 14], &[15, 19]]));
        let [in_span, outside] = [[7, 14], [7, 15]].map(|bits| XorFunction::of_bits(&bits));
        assert!(listed.contains(in_span) && !listed.contains(outside));
    }

    #[test]
    fn bits_that_are_named_twice_cancel() {
        assert_eq!(XorFunction::of_bits(&[3, 5, 3]).to_string(), "5");
        assert_eq!(XorFunction::of_bits(&[3, 3]).to_string(), "0");
    }

    #[test]
    fn functions_above_a_page_may_be_sums_of_functions_that_reach_below() {
        let both_reach_below = span(&[&[6, 13], &[6, 14]]);
        assert_eq!(both_reach_below.above(12), span(&[&[13, 14]]));
    }

    #[test]
    fn intersects() {
        let banks = span(&[&[13], &[14], &[15], &[21], &[22]]);
        let cache = span(&[&[12], &[13], &[14], &[15], &[16]]);
        assert_eq!(banks.intersection(&cache), span(&[&[13], &[14], &[15]]));
        let sums = span(&[&[6, 13], &[6, 14]]);
        assert_eq!(sums.intersection(&cache), span(&[&[13, 14]]));
    }

    proptest! {
        #[test]
        fn a_span_contains_every_sum(
            masks in prop::collection::vec(any::<u64>(), 0..12), chosen: u16,
        ) {
            let span = Span::new(masks.iter().copied().map(XorFunction));
            let sum = masks.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
            prop_assert!(span.contains(XorFunction(sum.fold(0, |sum, (_, mask)| sum ^ mask))));
            prop_assert_eq!(&span, &Span::new(masks.iter().rev().copied().map(XorFunction)));
        }

        #[test]
        fn dimensions_add_up(
            a in prop::collection::vec(0u64..4096, 0..9),
            b in prop::collection::vec(0u64..4096, 0..9),
        ) {
            let of = |masks: &[u64]| Span::new(masks.iter().copied().map(XorFunction));
            let both = Span::new(a.iter().chain(&b).copied().map(XorFunction));
            let (a, b) = (of(&a), of(&b));
            let common = a.intersection(&b);
            prop_assert!(common.basis().iter().all(|f| a.contains(*f) && b.contains(*f)));
            prop_assert_eq!(common.dimension() + both.dimension(), a.dimension() + b.dimension());
        }
    }
}
