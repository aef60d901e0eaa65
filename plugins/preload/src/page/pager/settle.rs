//! Waits for page faults in progress.

use super::Pager;
use crate::page::spans::Span;
use crate::page::vmas;
use crate::sys;

impl Pager<'_> {
    /// Returns true if slots of the range stay in the file while their pages are in DRAM. Slots
    /// that are parts of larger pages do; others do only if the budget can absorb a long wait. The
    /// holder of a lock may have to wait for a processor, while other threads fill memory.
    pub(super) fn keeps_slots(&self, range: Span) -> bool {
        self.start.budget.bears_waits() || self.store.may_be_large(range)
    }

    /// Performs step 2 of the protocol that [`page`](crate::page) argues for: when this returns
    /// true, no fault that began before is in progress in any mapping that contains part of a run.
    pub(super) fn await_faults(&mut self, runs: &[Span]) -> bool {
        let mut waited = Span::default();
        runs.iter().all(|run| {
            let mut rest = Span::new(run.start.max(waited.end), run.end);
            while !rest.is_empty() {
                let mapping = vmas::at(self.maps, &mut self.tables.maps, rest.start);
                let Some(mapping) = mapping.map(vmas::span) else { return false };
                let done = self.await_faults_of(mapping);
                if self.check(done).is_none() {
                    return false;
                }
                waited = mapping;
                rest.start = mapping.end;
            }
            true
        })
    }

    /// Does the same for a whole mapping. Advice that changes a mapping's flags locks the mapping,
    /// and a fault holds that lock from its first look at the page table until the entry is set.
    /// Advice about the order of accesses changes nothing else for a file in memory.
    fn await_faults_of(&self, mapping: Span) -> Result<(), sys::Errno> {
        let (start, length) = (mapping.start, mapping.length());
        sys::advise(start, length, libc::MADV_SEQUENTIAL)?;
        sys::advise(start, length, libc::MADV_NORMAL)
    }
}
