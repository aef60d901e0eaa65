//! Location of a page's slot in NVM: an offset of the file that is linear in the address within
//! each window, so that neighboring pages form one mapping and one write.

use crate::page::spans::Span;
use crate::uffd::PAGE;

/// Bytes of address space that get room in the file together. Small, because some programs (V8)
/// spread blocks of a few hundred KiB over the whole address space.
const WINDOW: usize = 64 << 20;
pub(crate) const WINDOW_PAGES: usize = WINDOW / PAGE;
/// Windows of the address space of a program.
const WINDOWS: usize = (1 << 47) / WINDOW;
/// Windows that can have room.
const EXTENTS: usize = 1 << 13;

/// Pages that can have slots.
pub(crate) const SLOTS: usize = EXTENTS * WINDOW_PAGES;
/// Bytes of the file, which is sparse.
pub(crate) const FILE_BYTES: usize = EXTENTS * WINDOW;

/// The table in both directions. All zero means that no window has room.
#[repr(C)]
pub(crate) struct Slots {
    extents: [u16; WINDOWS],
    windows: [u32; EXTENTS],
    used: usize,
    /// Where the next search for room that is no longer used begins.
    search_from: usize,
}

impl Slots {
    /// Returns the slot of the page at `address`, if its window has room already.
    pub(crate) fn slot(&self, address: usize) -> Option<u32> {
        let extent = *self.extents.get(address / WINDOW)?;
        let within = address % WINDOW / PAGE;
        (extent != 0).then(|| ((extent as usize - 1) * WINDOW_PAGES + within) as u32)
    }

    /// Does the same, and gives room to the window if there is some left, or if `is_unused` returns
    /// true for a window that has some.
    pub(crate) fn make(&mut self, address: usize, is_unused: impl Fn(Span) -> bool) -> Option<u32> {
        let window = address / WINDOW;
        if *self.extents.get(window)? == 0 {
            let extent = self.room(is_unused)?;
            self.windows[extent] = window as u32;
            self.extents[window] = extent as u16 + 1;
        }
        self.slot(address)
    }

    fn room(&mut self, is_unused: impl Fn(Span) -> bool) -> Option<usize> {
        if self.used < EXTENTS {
            self.used += 1;
            return Some(self.used - 1);
        }
        let window = |extent: usize| Span::of(self.windows[extent] as usize * WINDOW, WINDOW);
        let mut extents = (self.search_from..EXTENTS).chain(0..self.search_from);
        let extent = extents.find(|extent| is_unused(window(*extent)))?;
        self.extents[self.windows[extent] as usize] = 0;
        self.search_from = extent + 1;
        Some(extent)
    }

    /// Returns the address of the page that has the slot.
    pub(crate) fn address(&self, slot: u32) -> usize {
        let extent = slot as usize / WINDOW_PAGES;
        let window = self.windows.get(extent).map_or(0, |window| *window as usize);
        window * WINDOW + slot as usize % WINDOW_PAGES * PAGE
    }

    /// Returns the end of the window of `address`.
    pub(crate) const fn window_end(address: usize) -> usize {
        (address / WINDOW + 1) * WINDOW
    }
}

/// Returns the offset of a slot in the file.
pub(crate) const fn offset(slot: u32) -> usize {
    slot as usize * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_addresses_belong_to_each_other() {
        let mut slots = crate::all_zero::<Slots>();
        let addresses = [0x5555_5555_6000, 0x7fff_f7ff_f000, 0x7fff_f7ff_e000, 0x1000];
        assert_eq!(slots.slot(addresses[0]), None);
        for address in addresses {
            let slot = slots.make(address, |_| false).unwrap();
            assert_eq!(slots.address(slot), address);
            assert_eq!(slots.make(address, |_| true), Some(slot));
        }
        let (above, below) = (slots.slot(addresses[1]), slots.slot(addresses[2]));
        assert_eq!(above.unwrap(), below.unwrap() + 1);
        assert_eq!(slots.make(usize::MAX, |_| true), None);
    }

    #[test]
    fn room_ends() {
        let mut slots = crate::all_zero::<Slots>();
        assert!((0..EXTENTS).all(|window| slots.make(window * WINDOW, |_| true).is_some()));
        assert_eq!(slots.make(EXTENTS * WINDOW, |_| false), None);
        assert_eq!(slots.make(0, |_| false), Some(0));
    }

    #[test]
    fn room_that_is_not_used_is_given_to_another_window() {
        let mut slots = crate::all_zero::<Slots>();
        (0..EXTENTS).for_each(|window| assert!(slots.make(window * WINDOW, |_| false).is_some()));
        let unused = [3, 5].map(|window| Span::of(window * WINDOW, WINDOW));
        for (new, extent) in [(EXTENTS, 3), (EXTENTS + 1, 5)] {
            let slot = slots.make(new * WINDOW, |window| unused.contains(&window));
            assert_eq!(slot, Some((extent * WINDOW_PAGES) as u32));
            assert_eq!(slots.address((extent * WINDOW_PAGES) as u32), new * WINDOW);
            assert_eq!(slots.slot(extent * WINDOW), None);
        }
        assert_eq!(slots.make(3 * WINDOW, |window| unused.contains(&window)), None);
    }
}
