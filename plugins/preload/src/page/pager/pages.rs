//! Sets of pages that lie close to each other, in the form in which scans of the page table find
//! them.

/// Pages in a set: as many as in a huge page.
pub(super) const CLUSTER: usize = 512;

/// Some of up to [`CLUSTER`] pages.
#[derive(Clone)]
pub(super) struct Pages([u64; CLUSTER / 64]);

impl Pages {
    pub(super) const NONE: Self = Self([0; CLUSTER / 64]);

    pub(super) fn add(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    pub(super) fn has(&self, page: usize) -> bool {
        self.0.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the first run of pages at or after `page`.
    pub(super) fn run(&self, page: usize) -> Option<(usize, usize)> {
        let start = self.next(page, 0)?;
        Some((start, self.next(start, !0).unwrap_or(CLUSTER)))
    }

    /// Returns the first page at or after `page` that is in the set (`flipped` zero) or not in it
    /// (`flipped` all ones).
    fn next(&self, page: usize, flipped: u64) -> Option<usize> {
        let mut word = page / 64;
        let mut bits = (self.0.get(word)? ^ flipped) & (!0 << (page % 64));
        while bits == 0 {
            word += 1;
            bits = self.0.get(word)? ^ flipped;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_all_that_is_in_a_set(
            chosen in prop::collection::btree_set(0..CLUSTER, 0..CLUSTER),
        ) {
            let mut pages = Pages::NONE;
            chosen.iter().for_each(|page| pages.add(*page));
            prop_assert_eq!(pages.count(), chosen.len());
            let (mut seen, mut at) = (BTreeSet::new(), 0);
            while let Some((start, end)) = pages.run(at) {
                prop_assert!(start < end && (at == 0 || start > at));
                seen.extend(start..end);
                at = end;
            }
            prop_assert_eq!(seen, chosen);
        }
    }

    #[test]
    fn runs_end_with_the_set() {
        let mut pages = Pages::NONE;
        (63..130).chain([CLUSTER - 1]).for_each(|page| pages.add(page));
        assert_eq!(pages.run(0), Some((63, 130)));
        assert_eq!(pages.run(100), Some((100, 130)));
        assert_eq!(pages.run(130), Some((CLUSTER - 1, CLUSTER)));
        assert_eq!(pages.run(CLUSTER), None);
        assert!(pages.has(129) && !pages.has(130) && !pages.has(CLUSTER));
    }
}
