//! Whether chunks go to huge pages or to single ones.

use crate::page::budget::Budget;

/// Nanoseconds for a page, as the last full chunk took. Huge pages take a fifth of the time that
/// single ones do, or five times as much in a virtual machine whose host has yet to provide them:
/// free memory is taken away from there in such pieces. While it does, nobody looks who fills memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    chunks: usize,
    single: u64,
    huge: u64,
}

impl Pace {
    /// One chunk in so many is tried in the other way.
    const TRIAL: usize = 64;

    /// Whether the next chunk is to be a huge page. Once they were slow they are not tried again where
    /// the budget would be passed by much meanwhile.
    pub(super) fn prefers_huge(&mut self, budget: Budget) -> bool {
        self.chunks += 1;
        let again = budget.bears_stalls() && self.chunks.is_multiple_of(Self::TRIAL);
        self.huge <= self.single || again
    }

    /// So long did a page of a full chunk take.
    pub(super) fn took(&mut self, huge: bool, nanos: u64) {
        *(if huge { &mut self.huge } else { &mut self.single }) = nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Budget = Budget::new(1 << 20, 2);

    #[test]
    fn huge_pages_are_preferred_as_long_as_they_are_faster() {
        let mut pace = Pace::default();
        assert!(pace.prefers_huge(LARGE), "tried first");
        pace.took(true, 260);
        assert!(!pace.prefers_huge(LARGE), "the other way is tried then");
        pace.took(false, 1500);
        assert!(pace.prefers_huge(LARGE));
        pace.took(true, 10_000);
        let mut later = |budget| (0..Pace::TRIAL).filter(|_| pace.prefers_huge(budget)).count();
        assert_eq!(later(LARGE), 1);
        assert_eq!(later(Budget { pages: 1 << 14, ..LARGE }), 0);
    }
}
