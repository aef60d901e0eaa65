//! The state of each slot and of its page, as far as the helper has found out.

use crate::page::slots::SLOTS;

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

/// Flags of each slot. All zero means that nothing is known of any.
///
/// `kept` is the number of slots with the flag [`KEPT`]. Step 2 of the protocol that
/// [`page`](crate::page) argues for may be skipped for slots without it: they were removed from the
/// file since their pages came to DRAM.
#[repr(C)]
pub(super) struct Residency {
    flags: [u8; SLOTS],
    kept: usize,
}

impl Residency {
    /// Returns the flags of a slot.
    pub(super) fn of(&self, slot: u32) -> u8 {
        self.flags[slot as usize]
    }

    /// Returns true if the slot was left in the file when its page came to DRAM.
    pub(super) fn is_kept(&self, slot: u32) -> bool {
        self.of(slot) & KEPT != 0
    }

    /// Returns the number of slots that were left in the file and whose pages are in DRAM.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Sets the flags of a slot; returns the previous ones.
    pub(super) fn set(&mut self, slot: u32, flags: u8) -> u8 {
        let before = std::mem::replace(&mut self.flags[slot as usize], flags);
        self.kept += usize::from(flags & KEPT != 0);
        self.kept -= usize::from(before & KEPT != 0);
        before
    }

    /// Adds flags to those of a slot.
    pub(super) fn add(&mut self, slot: u32, flags: u8) {
        self.set(slot, self.of(slot) | flags);
    }

    /// Removes flags from those of a slot.
    pub(super) fn remove(&mut self, slot: u32, flags: u8) {
        self.set(slot, self.of(slot) & !flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_slots_are_counted() {
        let layout = std::alloc::Layout::new::<Residency>();
        // SAFETY: the layout is not empty; all zero is valid for the flags.
        let mut residency = unsafe {
            let residency = std::alloc::alloc_zeroed(layout) as *mut Residency;
            assert!(!residency.is_null());
            Box::from_raw(residency)
        };
        let last = SLOTS as u32 - 1;
        assert_eq!(residency.set(3, IN_DRAM | KEPT), 0);
        assert_eq!(residency.set(3, IN_DRAM | KEPT), IN_DRAM | KEPT);
        residency.add(last, KEPT);
        assert_eq!(residency.kept(), 2);
        residency.remove(3, KEPT);
        assert_eq!((residency.of(3), residency.is_kept(3)), (IN_DRAM, false));
        assert_eq!(residency.set(last, IN_NVM), KEPT);
        assert_eq!(residency.kept(), 0);
    }
}
