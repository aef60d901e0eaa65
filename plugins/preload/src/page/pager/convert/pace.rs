//! Decides whether a chunk goes to a huge page or to single pages.

use crate::page::budget::Budget;

/// Nanoseconds per page for the last full chunk of each kind. Huge pages take a fifth of the time
/// of single ones, or five times as much in a virtual machine whose host has yet to provide them:
/// the host takes free memory away in pieces of that size. Meanwhile, nothing checks whether memory
/// fills up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    chunks: usize,
    single: u64,
    huge: u64,
}

impl Pace {
    /// One chunk in this many tries the other kind.
    const TRIAL: usize = 64;

    /// Returns true if the next chunk should be a huge page. After slow huge pages, they are not
    /// tried again if the budget would be exceeded by much meanwhile.
    pub(super) fn prefers_huge(&mut self, budget: Budget) -> bool {
        self.chunks += 1;
        let again = budget.can_absorb_stalls() && self.chunks.is_multiple_of(Self::TRIAL);
        self.huge <= self.single || again
    }

    /// Records the time per page of a full chunk.
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
