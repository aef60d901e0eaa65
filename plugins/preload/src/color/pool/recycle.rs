//! Fills the lane if the kernel cannot move pages: a frame is freed in the search area, and the
//! kernel uses the frame that this processor freed last for the next page that is populated, which
//! is one of the lane.
//!
//! The kernel may use another frame: if frames of that zone, node or kind of block are not used
//! next, or if another allocation was faster. So the lane's frames are checked, too, and only those
//! that can be recycled enter the pool.

use memweir_abi::preload::Counter;

use super::{NONE, Pool, SEGMENT, give_back};
use crate::color::choice::Set;
use crate::color::counters::Counters;
use crate::color::palette::Palette;
use crate::pagemap::Pagemap;
use crate::sys;
use crate::uffd::PAGE;

/// Frames that are free at the same time: few compared with a processor's free list.
const GROUP: usize = 32;

/// `MADV_COLD`, by which the kernel first releases the new pages of this processor that it has yet
/// to list. Otherwise the frames of such pages would not be free at once if the helper frees them
/// on another processor.
const DRAIN: i32 = sys::MADV_COLD;

impl Pool {
    /// Recycles the requested ones of `known` pages into the lane. Returns false if the lane is
    /// full or memory is short.
    pub(super) fn recycle_wanted(
        &mut self,
        palette: &Palette,
        set: &Set,
        start: usize,
        known: usize,
        counters: Counters,
    ) -> bool {
        let mut page = 0;
        loop {
            let left = self.colors[page..known].iter();
            let wanted = left.filter(|color| **color != NONE).take(GROUP).count();
            if wanted == 0 {
                break;
            }
            let Some((slot, count)) = self.room(wanted) else { return false };
            page = self.free_frames(start, page, count);
            if !self.catch(palette, set, slot, count, counters) {
                return false;
            }
        }
        let _ = sys::advise(self.lane, PAGE, DRAIN);
        true
    }

    /// Frees the frames of the next `count` requested pages from `page` on; returns the page after
    /// them.
    fn free_frames(&mut self, start: usize, page: usize, count: usize) -> usize {
        let (mut page, mut left) = (page, count);
        while left > 0 {
            page += self.colors[page..].iter().take_while(|color| **color == NONE).count();
            let run = self.colors[page..].iter().take_while(|color| **color != NONE);
            let run = run.take(left).count();
            give_back(start + page * PAGE, run * PAGE);
            (page, left) = (page + run, left - run);
        }
        self.held -= count;
        page
    }

    /// Populates slots and keeps the pages of a requested color.
    fn catch(
        &mut self,
        palette: &Palette,
        set: &Set,
        slot: usize,
        count: usize,
        counters: Counters,
    ) -> bool {
        let at = self.lane + slot * PAGE;
        let mut frames = [0; GROUP];
        let known = match sys::advise(at, count * PAGE, sys::MADV_POPULATE_WRITE) {
            Ok(()) => Pagemap(self.pagemap).frames(at, &mut frames[..count]),
            Err(_) => 0,
        };
        let mut caught = 0;
        for (i, frame) in frames[..count].iter().enumerate() {
            let color = (*frame >= self.lowest()).then(|| palette.color_in(*frame, set)).flatten();
            if let Some(color) = color {
                self.put((slot + i) as u32, color);
                caught += 1;
            } else {
                give_back(at + i * PAGE, PAGE);
                self.in_use[slot / SEGMENT] -= 1;
            }
        }
        counters.add(Counter::Gathered, caught);
        known == count
    }
}

#[cfg(test)]
mod tests {
    use memweir_abi::preload::{Delivery, Order};

    use super::super::STEP;
    use super::*;
    use crate::color::choice::tests::set;
    use crate::pagemap::Entry;
    use crate::uffd::Uffd;

    /// Returns a pool that searches, with its palette and set: colors 0 and 1 of four.
    fn searching() -> (Box<Pool>, Palette, Set) {
        let order = "offset=0;bank=1000,2000;colors=0-1;shortage=spill;delivery=recycle;pool=1;\
                     limit=0;counters=";
        let order: Order = order.parse().unwrap();
        let mut pool = crate::all_zero::<Pool>();
        let pagemap = Pagemap(sys::open(c"/proc/self/pagemap", libc::O_RDONLY).unwrap());
        pool.prepare(Delivery::Recycle, Uffd(-1), &pagemap, 4 * SEGMENT).unwrap();
        pool.begin(4 * STEP).unwrap();
        (pool, Palette::of(&order).unwrap(), set(&[0, 1]))
    }

    #[test]
    fn only_wanted_frames_are_freed() {
        let (mut pool, _, _) = searching();
        sys::protect(pool.raw, 8 * PAGE, sys::READ_WRITE).unwrap();
        sys::advise(pool.raw, 8 * PAGE, sys::MADV_POPULATE_WRITE).unwrap();
        pool.held = 8;
        pool.colors[..8].copy_from_slice(&[NONE, 1, 1, NONE, 0, NONE, 1, NONE]);
        let mut entries = [Entry(0); 8];
        let mut there = |pool: &Pool| {
            Pagemap(pool.pagemap).entries(pool.raw, &mut entries);
            entries.map(|entry| u8::from(!entry.is_empty()))
        };
        let behind = pool.free_frames(pool.raw, 0, 3);
        assert_eq!((behind, pool.held), (5, 5));
        assert_eq!(there(&pool), [1, 0, 0, 1, 0, 1, 1, 1]);
        assert_eq!(pool.free_frames(pool.raw, behind, 1), 7);
        assert_eq!(there(&pool), [1, 0, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn what_is_in_the_pool_has_the_color_that_it_is_listed_under() {
        let (mut pool, palette, set) = searching();
        if Pagemap(pool.pagemap).entry(&raw const set as usize).frame() == 0 {
            return memweir_test_support::skip!(Privilege, "page frames are visible to root only");
        }
        let moved = crate::memory::moved_by_kernel();
        while pool.step(&palette, &set, Counters::NONE) {}
        let (mut taken, mut wrong) = (0, 0);
        while let Some(page) = pool.take(&set) {
            let color = pool.slot(((page - pool.lane) / PAGE) as u32).color as usize;
            let frame = Pagemap(pool.pagemap).entry(page).frame();
            wrong += usize::from(palette.color(frame) != Some(color));
            taken += 1;
        }
        // Frames that compaction exchanged meanwhile are not the pool's fault.
        assert!(wrong == 0 || crate::memory::moved_by_kernel() != moved, "{wrong} of {taken}");
        assert!(taken > 0 && pool.free == 0);
        assert!(pool.in_use.iter().all(|slots| *slots == 0));
    }
}
