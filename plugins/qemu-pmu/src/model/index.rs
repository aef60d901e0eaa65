//! Maps a number to a set: remainders without division.

/// The remainder by a fixed number of sets, after Lemire, Kaser and Kurz, "Faster remainder by
/// direct computation" (2019): exact for 32-bit numbers.
#[derive(Clone, Copy, Debug)]
pub struct SetIndex {
    sets: u64,
    reciprocal: u64,
}

impl SetIndex {
    /// Prepares for `sets` sets, 1 to `u32::MAX`.
    #[must_use]
    pub fn new(sets: u64) -> Self {
        assert!((1..=u64::from(u32::MAX)).contains(&sets), "{sets} sets");
        Self { sets, reciprocal: (u64::MAX / sets).wrapping_add(1) }
    }

    /// Returns the set of `number`, of which the lower 32 bits are used: 256 GiB in lines.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, number: u64) -> usize {
        let fraction = self.reciprocal.wrapping_mul(u64::from(number as u32));
        ((u128::from(fraction) * u128::from(self.sets)) >> 64) as usize
    }

    /// Returns one less than the number of sets if that is a power of two.
    #[must_use]
    pub fn mask(&self) -> Option<u64> {
        self.sets.is_power_of_two().then_some(self.sets - 1)
    }

    /// Returns the number of sets.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.sets as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_remainder(sets in 1_u64..=u64::from(u32::MAX), number: u32) {
            let expected = (u64::from(number) % sets) as usize;
            prop_assert_eq!(SetIndex::new(sets).of(u64::from(number)), expected);
        }

        #[test]
        fn is_the_remainder_by_small_numbers(sets in 1_u64..100_000, number: u32) {
            let expected = (u64::from(number) % sets) as usize;
            prop_assert_eq!(SetIndex::new(sets).of(u64::from(number)), expected);
        }
    }
}
