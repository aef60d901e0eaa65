//! Flags of each slot and of its page.

use super::Pager;

/// The page has a copy in DRAM, and the policy knows it.
pub(super) const IN_DRAM: u8 = 1;
/// The slot has the page's content, or had it until a write brought it back.
pub(super) const IN_NVM: u8 = 2;
/// The page was found mapped in place since it was evicted.
pub(super) const READ: u8 = 4;
/// The kernel mapped the page along with a neighbor that was read: it may have been read, too.
pub(super) const AROUND: u8 = 32;
/// The helper itself has read and written the page since, to time these accesses.
pub(super) const PROBED: u8 = 8;
/// The page has a copy in DRAM, and its slot was left in the file, to be overwritten.
pub(super) const KEPT: u8 = 16;

impl Pager<'_> {
    pub(super) fn marks(&self, slot: u32) -> u8 {
        self.tables.marks[slot as usize]
    }

    /// Sets the flags of a slot; returns the previous ones.
    pub(super) fn set_marks(&mut self, slot: u32, marks: u8) -> u8 {
        let before = std::mem::replace(&mut self.tables.marks[slot as usize], marks);
        self.kept += usize::from(marks & KEPT != 0);
        self.kept -= usize::from(before & KEPT != 0);
        before
    }
}
