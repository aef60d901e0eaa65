//! Makes plain memory of the program evictable: populated pages are written to the file, and
//! private mappings of the file replace the memory. Memory is searched oldest first, as far as
//! addresses tell: the heap grows upwards, and mappings are placed downwards.

use std::sync::atomic::Ordering;

use memweir_abi::preload::page::PageCounter;

use super::Pager;
use super::marks::IN_NVM;
use super::pace::Pace;
use super::pages::{CLUSTER, Pages};
use super::store::{CHUNK, Source};
use crate::maps::Mapping;
use crate::page::slots::Slots;
use crate::page::spans::Span;
use crate::page::{slots, vmas};
use crate::pagemap::Pagemap;
use crate::sys::{self, sys};
use crate::uffd::{MINOR, MISSING, PAGE, WRITES};

/// Memory below this address is heap.
const HEAP_BELOW: usize = 0x6000_0000_0000;
/// Bytes that are searched from their start, in the part that grows downwards.
const BLOCK: usize = 64 << 20;
/// Microseconds after which all memory is searched again.
const AGAIN: u64 = 100_000;
/// Chunks to try before other work is done.
const TRIES: usize = 64;

/// Progress of the search. All zero means that it is at its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hand {
    heap: usize,
    block: Span,
    /// The search continues below this address; zero: at the top.
    below: usize,
    /// After a complete search, the time at which the next one begins.
    rests_until: u64,
    pace: Pace,
}

impl Hand {
    /// Continues the search at `address`.
    fn resume_at(&mut self, address: usize) {
        if address <= HEAP_BELOW {
            self.heap = address;
        } else {
            self.block.start = address;
        }
    }
}

/// Result for the first mapping in a chunk.
pub(super) struct Tried {
    /// Pages that left DRAM.
    pub(super) pages: usize,
    /// End of the mapping or of the chunk. After it there may be other mappings of the chunk.
    up_to: usize,
}

impl Pager<'_> {
    /// Converts the next chunk with content, and returns the number of pages that left DRAM by
    /// that.
    pub(super) fn convert_next(&mut self) -> usize {
        if sys::micros() < self.converting.rests_until {
            return 0;
        }
        for _ in 0..TRIES {
            let Some(chunk) = self.next_chunk() else {
                let rests_until = sys::micros() + AGAIN;
                self.converting =
                    Hand { rests_until, pace: self.converting.pace, ..Hand::default() };
                return 0;
            };
            let tried = self.convert(chunk, false);
            self.converting.resume_at(tried.up_to);
            if tried.pages > 0 {
                return tried.pages;
            }
        }
        0
    }

    fn next_chunk(&mut self) -> Option<Span> {
        if let Some(chunk) = self.populated_in(Span::new(self.converting.heap, HEAP_BELOW)) {
            return Some(chunk);
        }
        self.converting.heap = HEAP_BELOW;
        loop {
            if let Some(chunk) = self.populated_in(self.converting.block) {
                return Some(chunk);
            }
            let below = match self.converting.below {
                0 => usize::MAX,
                below => below,
            };
            let known = self.ranges(|ranges| ranges.known.before(below))?;
            let end = known.end.min(below);
            if end <= HEAP_BELOW {
                return None;
            }
            let start = known.start.max((end - 1) / BLOCK * BLOCK);
            self.converting.block = Span::new(start, end);
            self.converting.below = start;
        }
    }

    /// Returns the chunk of the first page with content that can be converted.
    fn populated_in(&mut self, range: Span) -> Option<Span> {
        let mut rest = range;
        while !rest.is_empty() {
            let free = self.ranges(|ranges| ranges.convertible(rest));
            if free.is_empty() {
                return None;
            }
            let first = self.pagemap.first_populated(free.start, free.end);
            if let Some(Some(page)) = self.check(first) {
                let chunk = page / CHUNK * CHUNK;
                return Some(Span::new(chunk.max(free.start), (chunk + CHUNK).min(free.end)));
            }
            rest.start = free.end;
        }
        None
    }

    /// Converts the convertible part of the first mapping in a chunk: all of it, or the part
    /// between the first and the last page with content that fits into NVM.
    pub(super) fn convert(&mut self, chunk: Span, all: bool) -> Tried {
        let vain = Tried { pages: 0, up_to: chunk.end };
        if !self.close_gate() {
            return vain;
        }
        // Slots that wait to be released might be those of the chunk.
        let clean = self.ranges(|ranges| ranges.given_back.is_empty());
        let tried = if clean && !self.start.space.is_locked() {
            self.convert_closed(chunk, all)
        } else {
            None
        };
        self.open_gate();
        tried.unwrap_or(vain)
    }

    fn convert_closed(&mut self, chunk: Span, all: bool) -> Option<Tried> {
        let free = self.ranges(|ranges| ranges.convertible(chunk));
        let mapping = vmas::at(self.maps, &mut self.tables.maps, free.start)?;
        let fit = mapping.anonymous && mapping.readable && mapping.writable && !mapping.executable;
        let range = free.and(vmas::span(mapping));
        if range.is_empty() {
            return None;
        }
        let pages = if fit { self.convert_mapping(range, mapping, all) } else { None };
        Some(Tried { pages: pages.unwrap_or(0), up_to: range.end })
    }

    fn convert_mapping(&mut self, range: Span, mapping: Mapping, all: bool) -> Option<usize> {
        let (range, before) = self.what_fits(range, all)?;
        let chunk = Span::of(range.start / CHUNK * CHUNK, CHUNK);
        if !self.ranges(|ranges| ranges.converted.touches(chunk)) {
            let full = before.count() == CLUSTER && self.store.takes_huge(range);
            let huge = full && self.converting.pace.prefers_huge(self.start.budget);
            self.store.choose_file(chunk.start, huge);
        }
        // First, so that whatever happens later, no code takes the mapping for plain memory; and
        // not while anything is protected: the lock holder of the ranges may have its stack there.
        if !self.ranges(|ranges| ranges.converted.insert(range)) {
            return None;
        }
        let pages = self.replace_by_file(range, &before, mapping);
        if pages.is_none() {
            self.ranges(|ranges| ranges.converted.remove(range));
        }
        pages
    }

    /// Replaces plain memory by a mapping of the file; returns the number of pages that left DRAM.
    fn replace_by_file(&mut self, range: Span, before: &Pages, like: Mapping) -> Option<usize> {
        self.check(self.uffd.register_for(range.start, range.length(), MISSING | WRITES))?;
        if !self.protect(range) {
            return None;
        }
        let pages = self.copy_out(range, before);
        let replaced = pages.and_then(|pages| {
            self.map_file(range, like)?;
            Some(pages)
        });
        if replaced.is_none() {
            self.unprotect(range);
            return None;
        }
        self.tables.protection.end_move(range);
        self.uffd.wake_range(range.start, range.length());
        self.keep_from_children(range);
        self.start.tally.add(PageCounter::ConvertedBytes, range.length());
        pages
    }

    /// Excludes new mappings in the range from forked children, where the program excluded the old
    /// ones. This locks the ranges, so nothing may be protected. A child that is forked just before
    /// has mappings that its program does not know.
    pub(super) fn keep_from_children(&mut self, range: Span) {
        let mut rest = range;
        loop {
            let part = self.ranges(|ranges| ranges.unforked.first_in(rest));
            if part.is_empty() {
                return;
            }
            self.check(sys::advise(part.start, part.length(), libc::MADV_DONTFORK));
            rest.start = part.end;
        }
    }

    /// Returns the part of the range to convert and its pages with content: all of them if they fit
    /// into NVM, otherwise those that fit. The rest stays plain; otherwise NVM would never count as
    /// full.
    fn what_fits(&mut self, range: Span, all: bool) -> Option<(Span, Pages)> {
        let populated = self.populated(range)?;
        let room = self.nvm_room() / PAGE;
        if all {
            return (populated.count() <= room).then_some((range, populated));
        }
        let mut fitting = (0..range.length() / PAGE).filter(|page| populated.has(*page)).take(room);
        let first = fitting.next()?;
        let last = fitting.last().unwrap_or(first);
        let part = Span::new(range.start + first * PAGE, range.start + (last + 1) * PAGE);
        let populated = if part == range { populated } else { self.populated(part)? };
        Some((part, populated))
    }

    /// Writes the populated pages to the slots; the range is protected. Further pages may have been
    /// populated before that.
    fn copy_out(&mut self, range: Span, before: &Pages) -> Option<usize> {
        let mut pages = before.clone();
        self.add_found(range, &mut pages, Pagemap::scan_present)?;
        self.store.bind(Source::Nvm);
        let begun = sys::nanos();
        let written = self.write_pages(range, &pages);
        let nanos = sys::nanos() - begun;
        self.store.bind(Source::Anywhere);
        if !written {
            self.store.punch(range);
            return None;
        }
        if pages.count() == CLUSTER {
            self.converting.pace.took(self.store.is_huge(range.start), nanos / CLUSTER as u64);
        }
        for page in 0..range.length() / PAGE {
            let slot = self.store.slot(range.start + page * PAGE)?;
            self.tables.residency.set(slot, if pages.has(page) { IN_NVM } else { 0 });
        }
        Some(pages.count())
    }

    fn write_pages(&mut self, range: Span, pages: &Pages) -> bool {
        let mut at = 0;
        while let Some((start, end)) = pages.run(at) {
            at = end;
            let run = Span::new(range.start + start * PAGE, range.start + end * PAGE);
            if !self.store.write_out(run, run.start) {
                return false;
            }
        }
        true
    }

    /// Maps the slots of the range in place of its memory. The range is among the converted ones.
    pub(super) fn map_file(&mut self, range: Span, like: Mapping) -> Option<()> {
        let how = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let protection = vmas::protection(like);
        let mut rest = range;
        while !rest.is_empty() {
            let (part, slots) = self.store.slots_of(rest);
            let (file, offset) = slots?;
            self.start.space.filed.store(true, Ordering::Release);
            // SAFETY: the content of the range is in the slots, and no write to it is in progress.
            let mapped = unsafe {
                sys!(libc::SYS_mmap, part.start, part.length(), protection, how, file, offset)
            };
            self.check(mapped)?;
            if !self.store.is_unwatched(part.start) {
                self.watch_file(part);
            }
            rest.start = part.end;
        }
        Some(())
    }

    pub(super) fn watch_file(&mut self, range: Span) {
        let modes = if self.start.copies { MISSING | MINOR | WRITES } else { WRITES };
        self.check(self.uffd.register_for(range.start, range.length(), modes));
    }

    /// Makes it possible to protect the range. This locks the ranges, so nothing may be protected.
    pub(super) fn watch_chunks(&mut self, range: Span) {
        let mut at = range.start / CHUNK * CHUNK;
        while at < range.end {
            let chunk = Span::of(at, CHUNK);
            at = chunk.end;
            if !self.store.is_unwatched(chunk.start) {
                continue;
            }
            let _ = self.each_in_file(chunk, |pager, piece| {
                pager.watch_file(piece);
                Ok(())
            });
            self.store.mark_watched(chunk.start);
        }
    }

    /// Returns the part of the window around `address` that is in one chunk and has adjacent slots.
    pub(super) fn window_of(&self, address: usize, bytes: usize) -> Span {
        let bytes = bytes.min(CHUNK);
        let start = address / bytes * bytes;
        Span::new(start, (start + bytes).min(Slots::window_end(start)))
    }

    /// Removes the slots of memory that the program released from the file.
    pub(super) fn give_back(&mut self) {
        if self.tables.children.any() {
            return;
        }
        while let Some(span) = self.ranges(|ranges| ranges.given_back.pop()) {
            if self.is_shared() {
                return self.ranges(|ranges| ranges.given_back.push(span));
            }
            self.clear(span);
        }
        if self.ranges(|ranges| ranges.given_back.overflowed()) {
            self.clear_all_unused();
        }
    }

    pub(super) fn clear(&mut self, span: Span) {
        self.store.punch(span);
        super::scan::range_pages(span).for_each(|page| self.drop_page(page));
    }

    fn clear_all_unused(&mut self) {
        if self.is_shared() || !self.close_gate() {
            return self.ranges(|ranges| ranges.given_back.overflow());
        }
        for window in (0..slots::SLOTS as u32).step_by(slots::WINDOW_PAGES) {
            let start = self.store.address(window);
            if self.store.slot(start) != Some(window) {
                break;
            }
            let mut rest = Span::new(start, Slots::window_end(start));
            loop {
                let unused = self.ranges(|ranges| ranges.converted.first_out(rest));
                if unused.is_empty() {
                    break;
                }
                self.clear(unused);
                rest.start = unused.end;
            }
        }
        self.open_gate();
    }
}
