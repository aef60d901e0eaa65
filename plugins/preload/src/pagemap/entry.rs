//! Entries of the pagemap.

/// An entry of the pagemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// Returns the page frame; zero if the page is not in memory.
    pub(crate) const fn frame(self) -> u64 {
        if self.0 >> 63 == 1 { self.0 & ((1 << 55) - 1) } else { 0 }
    }

    /// Returns true if the page is neither in memory nor swapped.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 >> 62 == 0
    }

    /// Returns true if the page is in swap.
    pub(crate) const fn is_swapped(self) -> bool {
        self.0 >> 62 == 1
    }

    /// Returns true if the page belongs to a file or to shared memory.
    pub(crate) const fn is_file(self) -> bool {
        self.0 >> 61 & 1 == 1
    }

    /// Returns true if no other process has the page mapped.
    pub(crate) const fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_tell_what_is_at_a_page() {
        let own = Entry(1 << 63 | 1 << 56 | 0x1234);
        assert_eq!((own.frame(), own.is_empty()), (0x1234, false));
        assert!(own.is_exclusive() && !own.is_file());
        let soft_dirty_file = Entry(1 << 63 | 1 << 61 | 1 << 55 | 5);
        assert!(soft_dirty_file.is_file() && !soft_dirty_file.is_exclusive());
        assert_eq!(soft_dirty_file.frame(), 5);
        let swapped = Entry(1 << 62 | 0x77);
        assert_eq!((swapped.frame(), swapped.is_empty()), (0, false));
        assert!(swapped.is_swapped() && !own.is_swapped());
        assert!(Entry(1 << 55).is_empty(), "only known to be clean");
    }
}
