//! The pool: pages of the requested colors, found by populating memory and checking its frames.
//!
//! Pages of other colors are held until the search ends; otherwise the kernel would return the same
//! pages again. Pages of requested colors move on into the *lane*, a range that they fill densely,
//! so that the search area can be released as a whole and the number of mappings stays the same. If
//! the kernel cannot move pages, they are recycled into the lane; see [`recycle`].

mod recycle;

use memweir_abi::preload::{Counter, Delivery, MAX_POOL_PAGES};

use crate::color::choice::{Set, has, next_common};
use crate::color::counters::Counters;
use crate::color::palette::{COLORS, Palette};
use crate::memory;
use crate::pagemap::Pagemap;
use crate::sys::{self, Errno};
use crate::uffd::{MISSING, PAGE, Uffd};

/// Pages of one step of the search: about a millisecond, which bounds the wait of page faults.
const STEP: usize = 512;
/// Pages of a segment of the lane. A segment is filled from its start, and again once it is empty.
const SEGMENT: usize = 1024;
/// First frame of the zone that the kernel takes pages from while it has some: on x86-64, the zone
/// below ends at 4 GiB.
const NORMAL_ZONE: u64 = (4 << 30) / PAGE as u64;
/// Marks a missing slot or color.
const NONE: u32 = u32::MAX;

/// A page of the lane, in the queue of its color.
#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    next: u32,
    previous: u32,
    color: u32,
    /// One if it is in the pool, otherwise zero.
    pooled: u32,
}

/// The pool. Its memory is zero at first; see [`Pool::prepare`].
#[repr(C)]
pub(crate) struct Pool {
    delivery: Delivery,
    uffd: i32,
    pagemap: i32,
    /// The first frame that a search prefers; never zero, which stands for no frame.
    preferred: u64,
    lane: usize,
    segments: usize,
    segment: usize,
    used_in_segment: usize,
    /// Slots in use of each segment.
    in_use: [u32; MAX_POOL_PAGES as usize / SEGMENT],
    /// Colors of which the pool has pages.
    stocked: Set,
    head: [u32; COLORS],
    tail: [u32; COLORS],
    slots: usize,
    /// Pages in the pool.
    pub(crate) free: usize,
    /// Pages that the search holds.
    pub(crate) held: usize,
    /// Color that was last removed.
    turn: usize,
    raw: usize,
    raw_pages: usize,
    raw_used: usize,
    frames: [u64; STEP],
    /// Colors of the frames; [`NONE`] for those of other colors.
    colors: [u32; STEP],
}

impl Pool {
    /// Creates the lane for up to `pages` pages.
    pub(crate) fn prepare(
        &mut self,
        delivery: Delivery,
        uffd: Uffd,
        pagemap: &Pagemap,
        pages: usize,
    ) -> Result<(), Errno> {
        (self.delivery, self.uffd, self.pagemap) = (delivery, uffd.0, pagemap.0);
        self.preferred = preferred(delivery, memory::total());
        // Four times the room, so that segments with a few lingering pages block nothing.
        self.segments = (pages * 4).div_ceil(SEGMENT).clamp(8, self.in_use.len());
        let lane = self.segments * SEGMENT * PAGE;
        self.lane = reserve(lane, sys::READ_WRITE, delivery)?;
        // Pages are moved into watched memory; new pages come by page faults of its own.
        if delivery == Delivery::Move {
            uffd.register(self.lane, lane, MISSING)?;
        }
        let shared = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let length = self.segments * SEGMENT * size_of::<Slot>();
        self.slots = sys::map(length, sys::READ_WRITE, shared)?;
        sys::advise(self.slots, length, libc::MADV_DONTFORK)?;
        self.head.fill(NONE);
        self.tail.fill(NONE);
        Ok(())
    }

    /// Returns the bounds of the lane and of the search area.
    pub(crate) fn ranges(&self) -> [usize; 4] {
        let lane = self.lane + self.segments * SEGMENT * PAGE;
        [self.lane, lane, self.raw, self.raw + self.raw_pages * PAGE]
    }

    fn slot(&mut self, slot: u32) -> &mut Slot {
        // SAFETY: the array has one entry for each slot, and only the helper uses it.
        unsafe { &mut *(self.slots as *mut Slot).add(slot as usize) }
    }

    /// Appends a page to the queue of its color.
    fn put(&mut self, slot: u32, color: usize) {
        let tail = self.tail[color];
        *self.slot(slot) = Slot { next: NONE, previous: tail, color: color as u32, pooled: 1 };
        match tail {
            NONE => self.head[color] = slot,
            tail => self.slot(tail).next = slot,
        }
        self.tail[color] = slot;
        self.stocked[color / 64] |= 1 << (color % 64);
        self.free += 1;
    }

    /// Removes a page from any position in its queue.
    fn remove(&mut self, slot: u32) {
        let Slot { next, previous, color, .. } = *self.slot(slot);
        let color = color as usize;
        match previous {
            NONE => self.head[color] = next,
            previous => self.slot(previous).next = next,
        }
        match next {
            NONE => self.tail[color] = previous,
            next => self.slot(next).previous = previous,
        }
        if self.head[color] == NONE {
            self.stocked[color / 64] &= !(1 << (color % 64));
        }
        self.slot(slot).pooled = 0;
        self.turn = color;
        self.free -= 1;
        self.in_use[slot as usize / SEGMENT] -= 1;
    }

    /// Removes a page whose color is in `set`, taking the colors in turn; the caller moves it away.
    /// Returns its address.
    pub(crate) fn take(&mut self, set: &Set) -> Option<usize> {
        let color = next_common(set, &self.stocked, (self.turn + 1) % COLORS)?;
        let slot = self.head[color];
        self.remove(slot);
        Some(self.lane + slot as usize * PAGE)
    }

    /// Returns the colors of `set` of which the pool has no page.
    pub(crate) fn lacking(&self, set: &Set) -> Set {
        std::array::from_fn(|word| set[word] & !self.stocked[word])
    }

    /// Removes up to `wanted` pages that follow `page`, which was just removed, so that all can be
    /// moved at once. Returns their number.
    pub(crate) fn take_behind(&mut self, page: usize, set: &Set, wanted: usize) -> usize {
        let first = (page - self.lane) / PAGE;
        let last = (first / SEGMENT + 1) * SEGMENT - 1;
        let fits = |slot: &Slot| slot.pooled == 1 && has(set, slot.color as usize);
        let mut taken = 0;
        for slot in (first + 1..=last).take(wanted) {
            if !fits(self.slot(slot as u32)) {
                break;
            }
            self.remove(slot as u32);
            taken += 1;
        }
        taken
    }

    /// Returns the color of a page of the lane, even if it was removed.
    pub(crate) fn color_of(&mut self, page: usize) -> usize {
        self.slot(((page - self.lane) / PAGE) as u32).color as usize
    }

    /// Returns pages to the pool that were removed and not moved away.
    pub(crate) fn put_back(&mut self, page: usize, count: usize) {
        let first = (page - self.lane) / PAGE;
        for slot in first..first + count {
            let color = self.slot(slot as u32).color as usize;
            self.in_use[slot / SEGMENT] += 1;
            self.put(slot as u32, color);
        }
    }

    /// Checks all pages of the pool again, which the kernel may have moved like any others.
    pub(crate) fn look_again(&mut self, palette: &Palette, set: &Set) {
        for first in (0..self.segments * SEGMENT).step_by(STEP) {
            if self.in_use[first / SEGMENT] == 0 {
                continue;
            }
            let known = self.look(palette, set, 1, self.lane + first * PAGE, STEP);
            self.colors[known..].fill(NONE);
            for at in 0..STEP {
                self.recolor((first + at) as u32, self.colors[at]);
            }
        }
    }

    /// Records the new color of a page of the lane; [`NONE`] if the color is not requested.
    fn recolor(&mut self, slot: u32, color: u32) {
        let before = *self.slot(slot);
        if before.pooled == 0 || before.color == color {
            return;
        }
        self.remove(slot);
        if color == NONE {
            return give_back(self.lane + slot as usize * PAGE, PAGE);
        }
        self.in_use[slot as usize / SEGMENT] += 1;
        self.put(slot, color as usize);
    }

    /// Reserves consecutive free slots, at most `wanted`; returns the first and their number.
    fn room(&mut self, wanted: usize) -> Option<(usize, usize)> {
        if self.used_in_segment == SEGMENT || self.in_use[self.segment] == 0 {
            let empty = |segment: &usize| self.in_use[*segment] == 0;
            let candidates = (0..self.segments).map(|step| (self.segment + step) % self.segments);
            self.segment = candidates.into_iter().find(empty)?;
            self.used_in_segment = 0;
        }
        let count = wanted.min(SEGMENT - self.used_in_segment);
        let first = self.segment * SEGMENT + self.used_in_segment;
        self.used_in_segment += count;
        self.in_use[self.segment] += count as u32;
        Some((first, count))
    }

    /// Starts a search over at most `pages` pages.
    pub(crate) fn begin(&mut self, pages: usize) -> Result<(), Errno> {
        if self.raw == 0 {
            self.raw = reserve(pages * PAGE, libc::PROT_NONE, self.delivery)?;
            (self.raw_pages, self.raw_used) = (pages, 0);
        }
        Ok(())
    }

    /// Returns true if a search is in progress.
    pub(crate) fn searching(&self) -> bool {
        self.raw != 0
    }

    /// Performs one step of the search. Returns false if it cannot continue.
    pub(crate) fn step(&mut self, palette: &Palette, set: &Set, counters: Counters) -> bool {
        let pages = STEP.min(self.raw_pages - self.raw_used);
        let begun = sys::cpu_micros();
        let start = self.raw + self.raw_used * PAGE;
        if pages == 0 || populate(start, pages * PAGE).is_err() {
            return false;
        }
        self.raw_used += pages;
        self.held += pages;
        counters.add(Counter::Populated, pages as u64);
        let lowest = self.lowest();
        let known = self.look(palette, set, lowest, start, pages);
        let found = sys::cpu_micros();
        let gathered = match self.delivery {
            Delivery::Move => self.move_wanted(start, known, counters),
            Delivery::Recycle => self.recycle_wanted(palette, set, start, known, counters),
        };
        if !gathered {
            return false;
        }
        let now = sys::cpu_micros();
        counters.add(Counter::GatherMicros, now - begun);
        counters.add(Counter::MoveMicros, now - found);
        true
    }

    /// Returns the first frame that is taken now. A search that has made half of its way takes
    /// every frame: there may be no others for it.
    fn lowest(&self) -> u64 {
        if self.raw_used <= self.raw_pages / 2 { self.preferred } else { 1 }
    }

    /// Finds the colors of pages with frames from `lowest` on; returns the number of pages with
    /// known frames.
    fn look(
        &mut self,
        palette: &Palette,
        set: &Set,
        lowest: u64,
        start: usize,
        pages: usize,
    ) -> usize {
        let known = Pagemap(self.pagemap).frames(start, &mut self.frames[..pages]);
        for (color, frame) in self.colors.iter_mut().zip(&self.frames[..known]) {
            let wanted = (*frame >= lowest).then(|| palette.color_in(*frame, set)).flatten();
            *color = wanted.map_or(NONE, |color| color as u32);
        }
        known
    }

    /// Moves the requested ones of `known` pages into the lane. Returns false if the lane is full.
    fn move_wanted(&mut self, start: usize, known: usize, counters: Counters) -> bool {
        let mut page = 0;
        while page < known {
            let run = self.colors[page..known].iter().take_while(|color| **color != NONE).count();
            if run > 0 && !self.gather(start, page, run, counters) {
                return false;
            }
            page += run.max(1);
        }
        true
    }

    /// Moves a run of requested pages into the lane. Returns false if the lane is full.
    fn gather(&mut self, start: usize, page: usize, run: usize, counters: Counters) -> bool {
        let mut done = 0;
        while done < run {
            let Some((slot, count)) = self.room(run - done) else { return false };
            let (to, from) = (self.lane + slot * PAGE, start + (page + done) * PAGE);
            let moved = match Uffd(self.uffd).shift(to, from, count * PAGE) {
                Ok(bytes) | Err((bytes, _)) => bytes / PAGE,
            };
            for i in 0..moved {
                self.put((slot + i) as u32, self.colors[page + done + i] as usize);
            }
            self.in_use[slot / SEGMENT] -= (count - moved) as u32;
            self.held -= moved;
            counters.add(Counter::Gathered, moved as u64);
            done += count;
        }
        true
    }

    /// Frees pages of other colors, some at a time; returns true once all are freed.
    pub(crate) fn release(&mut self) -> bool {
        const AT_ONCE: usize = 8192;
        let pages = self.raw_used.min(AT_ONCE);
        self.raw_used -= pages;
        if self.raw_used > 0 {
            give_back(self.raw + self.raw_used * PAGE, pages * PAGE);
            return false;
        }
        sys::unmap(self.raw, self.raw_pages * PAGE);
        (self.raw, self.raw_pages, self.held) = (0, 0, 0);
        true
    }
}

/// Returns the first frame that is worth keeping on a machine with this much memory.
///
/// A recycled frame comes back only if the kernel takes pages from its zone just then. If most
/// memory lies above 4 GiB, it takes them from below now and then, when that memory is full of
/// cached files; frames found at such a moment would miss later.
fn preferred(delivery: Delivery, bytes: u64) -> u64 {
    let recycles = delivery == Delivery::Recycle;
    if recycles && bytes / PAGE as u64 > 2 * NORMAL_ZONE { NORMAL_ZONE } else { 1 }
}

fn populate(start: usize, length: usize) -> Result<(), Errno> {
    sys::protect(start, length, sys::READ_WRITE)?;
    sys::advise(start, length, sys::MADV_POPULATE_WRITE)
}

/// Frees pages: of the search, or some that were removed from the pool and not moved away.
pub(crate) fn give_back(start: usize, length: usize) {
    let _ = sys::advise(start, length, sys::MADV_DONTNEED_LOCKED);
}

/// Reserves private memory that children do not inherit. It is locked as it is touched if its pages
/// will be moved: the frame of a locked page is free only some time after the page is gone.
pub(crate) fn reserve(length: usize, protection: i32, delivery: Delivery) -> Result<usize, Errno> {
    let start = sys::map(length, protection, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
    if delivery == Delivery::Move {
        sys::lock_on_fault(start, length)?;
    }
    sys::advise(start, length, libc::MADV_DONTFORK)?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::color::choice::tests::set;

    const LANE: usize = 1 << 30;

    /// Builds a pool whose first slots have these colors. There is no memory at its lane.
    fn pool(colors: &[usize]) -> Box<Pool> {
        let mut pool = crate::all_zero::<Pool>();
        let length = 8 * SEGMENT * size_of::<Slot>();
        pool.slots = sys::map(length, sys::READ_WRITE, libc::MAP_PRIVATE).unwrap();
        (pool.lane, pool.segments) = (LANE, 8);
        pool.head.fill(NONE);
        pool.tail.fill(NONE);
        let (first, count) = pool.room(colors.len()).unwrap();
        assert_eq!((first, count), (0, colors.len()));
        colors.iter().enumerate().for_each(|(slot, color)| pool.put(slot as u32, *color));
        pool
    }

    fn slot(page: Option<usize>) -> Option<usize> {
        page.map(|page| (page - LANE) / PAGE)
    }

    #[test]
    fn frames_that_come_from_another_zone_are_recycled_last() {
        assert_eq!(preferred(Delivery::Recycle, 24 << 30), 1 << 20);
        assert_eq!(preferred(Delivery::Recycle, 6 << 30), 1, "half of it is below 4 GiB");
        assert_eq!(preferred(Delivery::Move, 24 << 30), 1);
        let mut pool = pool(&[]);
        (pool.preferred, pool.raw_pages) = (1 << 20, 8 * STEP);
        let lowest = [0, 4 * STEP, 5 * STEP].map(|used| {
            pool.raw_used = used;
            pool.lowest()
        });
        assert_eq!(lowest, [1 << 20, 1 << 20, 1]);
    }

    #[test]
    fn colors_are_taken_in_turn_and_oldest_first() {
        let mut pool = pool(&[1, 1, 2, 3, 2, 1]);
        let slots: Vec<_> = (0..7).map(|_| slot(pool.take(&set(&[1, 2])))).collect();
        assert_eq!(slots, [Some(0), Some(2), Some(1), Some(4), Some(5), None, None]);
        assert_eq!((pool.free, pool.in_use[0]), (1, 1));
        assert_eq!(pool.lacking(&set(&[1, 3, 64])), set(&[1, 64]));
        assert_eq!(slot(pool.take(&set(&[3]))), Some(3));
    }

    #[test]
    fn pages_that_were_moved_are_in_the_queues_of_their_colors() {
        let mut pool = pool(&[1, 1, 2, 3]);
        for (slot, color) in [1, 2, NONE, 3, 7].into_iter().enumerate() {
            pool.recolor(slot as u32, color);
        }
        assert_eq!((pool.free, pool.in_use[0]), (3, 3), "the fifth was not in the pool");
        assert_eq!(slot(pool.take(&set(&[2]))), Some(1));
        assert_eq!(slot(pool.take(&set(&[1]))), Some(0));
        assert_eq!(slot(pool.take(&set(&[1, 2, 7]))), None);
        assert_eq!((pool.free, pool.in_use[0]), (1, 1));
    }

    #[test]
    fn pages_side_by_side_are_taken_together_and_put_back() {
        let mut pool = pool(&[1, 2, 1, 2, 3, 1]);
        let page = pool.take(&set(&[1, 2])).unwrap();
        assert_eq!(slot(Some(page)), Some(0));
        assert_eq!(pool.take_behind(page, &set(&[1, 2]), 15), 3, "up to the other color");
        assert_eq!(pool.free, 2);
        pool.put_back(page + 2 * PAGE, 2);
        assert_eq!((pool.free, pool.in_use[0]), (4, 4));
        // Pages that were put back come last.
        let slots: Vec<_> = (0..3).map(|_| slot(pool.take(&set(&[1])))).collect();
        assert_eq!(slots, [Some(5), Some(2), None]);
        assert_eq!(slot(pool.take(&set(&[2]))), Some(3));
        let page = pool.take(&set(&[3])).unwrap();
        assert_eq!(pool.take_behind(page, &set(&[1, 3]), 15), 0, "it is taken already");
        assert_eq!((pool.free, pool.in_use[0]), (0, 0));
    }
}
