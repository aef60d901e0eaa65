//! The pool: pages of the asked colors, found by populating memory and looking at its frames.
//!
//! What does not fit is held until the search ends, or the kernel would hand out the same pages
//! again. What fits moves on into the *lane*, a range in which it stands dense, so that the search
//! area can be given back whole and the number of mappings stays the same.

use memweir_core::preload::{Counter, Order};

use crate::counters::Counters;
use crate::sys::{self, Errno};
use crate::uffd::{PAGE, Pagemap, Uffd};

/// Pages of one step of the search: about a millisecond, so that page faults wait no longer.
const STEP: usize = 512;
/// Pages of a segment of the lane. A segment is filled from its start, and again when it is empty.
const SEGMENT: usize = 1024;
/// Bank functions that are told apart: those of 4096 colors.
const MASKS: usize = 12;
/// No slot.
const NONE: u32 = u32::MAX;
/// Bank colors that can exist.
const COLORS: usize = 1 << MASKS;

/// Tells colors without touching memory outside itself.
#[derive(Clone, Copy)]
pub(crate) struct Palette {
    offset: u64,
    bank: [u64; MASKS],
    cache: [u64; 32],
    /// Cache colors that are in, if they matter.
    cache_set: Option<[u64; 64]>,
}

fn value(masks: &[u64], address: u64) -> usize {
    let bit = |(i, mask): (usize, &u64)| (((mask & address).count_ones() & 1) as usize) << i;
    masks.iter().enumerate().map(bit).sum()
}

impl Palette {
    /// The colors of `order`; nothing if there are too many.
    pub(crate) fn of(order: &Order) -> Option<Self> {
        let mut palette = Self {
            offset: order.coloring.offset(),
            bank: [0; MASKS],
            cache: [0; 32],
            cache_set: None,
        };
        let basis = order.coloring.span().basis();
        let masks = palette.bank.get_mut(..basis.len())?;
        masks.iter_mut().zip(basis).for_each(|(mask, function)| *mask = function.0);
        if let Some((coloring, colors)) = &order.cache {
            let basis = coloring.span().basis();
            let masks = palette.cache.get_mut(..basis.len())?;
            masks.iter_mut().zip(basis).for_each(|(mask, function)| *mask = function.0);
            let mut set = [0; 64];
            for color in colors.iter() {
                *set.get_mut(color.0 as usize / 64)? |= 1 << (color.0 % 64);
            }
            palette.cache_set = Some(set);
        }
        Some(palette)
    }

    /// The bank color of a frame; nothing if its cache color is out.
    pub(crate) fn color(&self, frame: u64) -> Option<usize> {
        let address = frame * PAGE as u64;
        if let Some(set) = &self.cache_set {
            let color = value(&self.cache, address);
            if set.get(color / 64).is_none_or(|word| word >> (color % 64) & 1 == 0) {
                return None;
            }
        }
        Some(value(&self.bank, address.wrapping_sub(self.offset)))
    }
}

/// Whether a set, as words, has the color.
pub(crate) fn has(set: &[u64], color: usize) -> bool {
    set.get(color / 64).is_some_and(|word| word >> (color % 64) & 1 == 1)
}

/// The pool. It lives in memory that is zero at first; see [`Pool::prepare`].
#[repr(C)]
pub(crate) struct Pool {
    uffd: i32,
    pagemap: i32,
    lane: usize,
    segments: usize,
    segment: usize,
    used_in_segment: usize,
    /// Slots in use of each segment.
    in_use: [u32; 4096],
    head: [u32; COLORS],
    tail: [u32; COLORS],
    next: usize,
    /// Pages in the pool.
    pub(crate) free: usize,
    /// Pages that the search holds.
    pub(crate) held: usize,
    turn: usize,
    raw: usize,
    raw_pages: usize,
    raw_used: usize,
    frames: [u64; STEP],
}

impl Pool {
    /// Makes the lane for up to `pages` pages.
    pub(crate) fn prepare(
        &mut self,
        uffd: Uffd,
        pagemap: &Pagemap,
        pages: usize,
    ) -> Result<(), Errno> {
        (self.uffd, self.pagemap) = (uffd.0, pagemap.0);
        // Four times the room, so that a segment in which a few pages linger stops nothing.
        self.segments = (pages * 4).div_ceil(SEGMENT).clamp(8, self.in_use.len());
        self.lane = reserve(self.segments * SEGMENT * PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        uffd.register(self.lane, self.segments * SEGMENT * PAGE)?;
        let shared = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let length = self.segments * SEGMENT * size_of::<u32>();
        self.next = sys::map(length, libc::PROT_READ | libc::PROT_WRITE, shared)?;
        sys::advise(self.next, length, libc::MADV_DONTFORK)?;
        self.head.fill(NONE);
        self.tail.fill(NONE);
        Ok(())
    }

    /// The ranges of lane and search area.
    pub(crate) fn ranges(&self) -> [usize; 4] {
        let lane = self.lane + self.segments * SEGMENT * PAGE;
        [self.lane, lane, self.raw, self.raw + self.raw_pages * PAGE]
    }

    fn next_of(&mut self, slot: u32) -> &mut u32 {
        // SAFETY: the array has one entry for each slot, and only the helper uses it.
        unsafe { &mut *(self.next as *mut u32).add(slot as usize) }
    }

    fn put(&mut self, slot: u32, color: usize) {
        *self.next_of(slot) = NONE;
        match self.tail[color] {
            NONE => self.head[color] = slot,
            tail => *self.next_of(tail) = slot,
        }
        self.tail[color] = slot;
        self.free += 1;
    }

    /// Takes a page out of the pool whose color is in `set`, the colors in turn; the caller moves
    /// it away. Returns its address.
    pub(crate) fn take(&mut self, set: &[u64]) -> Option<usize> {
        if self.free == 0 {
            return None;
        }
        let color = (1..=COLORS).map(|step| (self.turn + step) % COLORS);
        let color = color.into_iter().find(|c| self.head[*c] != NONE && has(set, *c))?;
        self.turn = color;
        let slot = self.head[color];
        self.head[color] = *self.next_of(slot);
        if self.head[color] == NONE {
            self.tail[color] = NONE;
        }
        self.free -= 1;
        self.in_use[slot as usize / SEGMENT] -= 1;
        Some(self.lane + slot as usize * PAGE)
    }

    /// Gives up a page that was taken but not moved away.
    pub(crate) fn drop_page(&self, page: usize) {
        give_back(page, PAGE);
    }

    /// Consecutive free slots, at most `wanted`.
    fn slots(&mut self, wanted: usize) -> Option<(usize, usize)> {
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
            self.raw = reserve(pages * PAGE, libc::PROT_NONE)?;
            (self.raw_pages, self.raw_used) = (pages, 0);
        }
        Ok(())
    }

    /// Whether a search is under way.
    pub(crate) fn searching(&self) -> bool {
        self.raw != 0
    }

    /// One step of the search. Returns false when it cannot go on.
    pub(crate) fn step(&mut self, palette: &Palette, set: &[u64], counters: Counters) -> bool {
        let pages = STEP.min(self.raw_pages - self.raw_used);
        if pages == 0 {
            return false;
        }
        const MADV_POPULATE_WRITE: i32 = 23;
        let begun = sys::micros();
        let start = self.raw + self.raw_used * PAGE;
        let populated = sys::protect(start, pages * PAGE, libc::PROT_READ | libc::PROT_WRITE)
            .and_then(|()| sys::advise(start, pages * PAGE, MADV_POPULATE_WRITE));
        if populated.is_err() {
            return false;
        }
        self.raw_used += pages;
        self.held += pages;
        counters.add(Counter::Populated, pages as u64);
        let mut frames = self.frames;
        let known = Pagemap(self.pagemap).frames(start, &mut frames[..pages]);
        self.frames = frames;
        let mut page = 0;
        while page < known {
            let wanted =
                |frame: u64| frame != 0 && palette.color(frame).is_some_and(|c| has(set, c));
            let run = self.frames[page..known].iter().take_while(|frame| wanted(**frame)).count();
            if run == 0 {
                page += 1;
            } else if !self.gather(palette, start, page, run, counters) {
                return false;
            } else {
                page += run;
            }
        }
        counters.add(Counter::GatherMicros, sys::micros() - begun);
        true
    }

    /// Moves a run of wanted pages into the lane. False when the lane is full.
    fn gather(
        &mut self,
        palette: &Palette,
        start: usize,
        page: usize,
        run: usize,
        counters: Counters,
    ) -> bool {
        let mut done = 0;
        while done < run {
            let Some((slot, count)) = self.slots(run - done) else { return false };
            let (to, from) = (self.lane + slot * PAGE, start + (page + done) * PAGE);
            let moved = match Uffd(self.uffd).shift(to, from, count * PAGE) {
                Ok(bytes) | Err((bytes, _)) => bytes / PAGE,
            };
            for i in 0..count {
                let color = palette.color(self.frames[page + done + i]);
                match color.filter(|_| i < moved) {
                    Some(color) => self.put((slot + i) as u32, color),
                    None => self.in_use[slot / SEGMENT] -= 1,
                }
            }
            self.held -= moved;
            counters.add(Counter::Gathered, moved as u64);
            done += count;
        }
        true
    }

    /// Gives the pages that did not fit back to the kernel, some at a time; true when all are.
    pub(crate) fn release(&mut self) -> bool {
        const AT_ONCE: usize = 8192;
        let pages = self.raw_used.min(AT_ONCE);
        self.raw_used -= pages;
        if self.raw_used > 0 {
            give_back(self.raw + self.raw_used * PAGE, pages * PAGE);
            return false;
        }
        unmap(self.raw, self.raw_pages * PAGE);
        (self.raw, self.raw_pages, self.held) = (0, 0, 0);
        true
    }
}

fn give_back(start: usize, length: usize) {
    const MADV_DONTNEED_LOCKED: i32 = 24;
    let _ = sys::advise(start, length, MADV_DONTNEED_LOCKED);
}

fn unmap(start: usize, length: usize) {
    // SAFETY: the range is the search area, which nobody else knows.
    let _ = unsafe { sys::sys!(libc::SYS_munmap, start, length) };
}

/// Private memory, locked as it is touched and not inherited by children.
pub(crate) fn reserve(length: usize, protection: i32) -> Result<usize, Errno> {
    let start = sys::map(length, protection, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
    sys::lock_on_fault(start, length)?;
    sys::advise(start, length, libc::MADV_DONTFORK)?;
    Ok(start)
}
