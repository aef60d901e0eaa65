//! Counters of the operating system.

use super::Supply;

/// Page faults of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStats {
    /// Successful page faults, one per page that it got.
    pub faults: u64,
    /// Of these, faults that got a page of another color or zone than allowed.
    pub spilled: u64,
    /// Of these, faults that got a page reclaimed from another holder.
    pub reclaimed: u64,
    /// Faults that failed.
    pub refused: u64,
    /// Free lists searched.
    pub lists_searched: u64,
}

impl ProcessStats {
    pub(super) fn count(&mut self, kind: Supply, searched: u32) {
        self.faults += 1;
        self.spilled += u64::from(kind == Supply::Spilled);
        self.reclaimed += u64::from(kind == Supply::Reclaimed);
        self.lists_searched += u64::from(searched);
    }
}
