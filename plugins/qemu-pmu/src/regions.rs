//! Code regions for the instruction-pointer vectors of iabw section 4.2.

use memweir_abi::softpmu::layout::{OTHER_REGIONS, TEXT_REGIONS};

/// Logarithm of the pieces in which code outside the executable is folded.
const FOLD_SHIFT: u32 = 14;

/// The regions of one program: its text divided evenly, all other code folded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regions {
    start: u64,
    end: u64,
    length: u64,
}

impl Regions {
    /// Builds the regions of an executable with its text from `start` to `end`.
    pub(crate) fn new(start: u64, end: u64) -> Self {
        let length = end.saturating_sub(start).div_ceil(TEXT_REGIONS as u64).max(1);
        Self { start, end, length }
    }

    /// Returns the region of a code address.
    pub(crate) fn of(&self, address: u64) -> usize {
        if (self.start..self.end).contains(&address) {
            ((address - self.start) / self.length) as usize
        } else {
            TEXT_REGIONS + (address >> FOLD_SHIFT) as usize % OTHER_REGIONS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_abi::softpmu::layout::REGIONS;

    #[test]
    fn text_is_divided_evenly_and_the_rest_folded() {
        let regions = Regions::new(0x40_0000, 0x40_0000 + 3200);
        assert_eq!(regions.of(0x40_0000), 0);
        assert_eq!(regions.of(0x40_0000 + 99), 0);
        assert_eq!(regions.of(0x40_0000 + 100), 1);
        assert_eq!(regions.of(0x40_0000 + 3199), 31);
        assert_eq!(regions.of(0x40_0000 + 3200), 32, "outside");
        assert_eq!(regions.of(1 << 14), 33);
        assert_eq!(regions.of(33 << 14), 33, "folded");
    }

    #[test]
    fn no_text_and_odd_text_stay_in_range() {
        for (start, end) in [(0, 0), (5, 5), (9, 3), (0, 1), (7, 40)] {
            let regions = Regions::new(start, end);
            assert!((0..100).all(|address| regions.of(address) < REGIONS));
        }
    }
}
