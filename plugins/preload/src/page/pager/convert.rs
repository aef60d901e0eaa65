//! Makes plain memory of the program evictable: populated pages are written to the file, and
//! private mappings of the file replace the memory. Memory is searched oldest first, as far as
//! addresses tell: the heap grows upwards, and mappings are placed downwards.

mod pace;

use memweir_abi::preload::page::PageCounter;

use super::memory::Memory;
use super::pages::{CLUSTER, Pages};
use super::pressure::Pressure;
use super::store::{CHUNK, Source};
use crate::maps::Mapping;
use crate::page::spans::Span;
use crate::page::vmas;
use crate::sys::{self, Errno};
use crate::uffd::{MISSING, PAGE, WRITES};
use pace::Pace;

/// Memory below this address is heap.
const HEAP_BELOW: usize = 0x6000_0000_0000;
/// Bytes that are searched from their start, in the part that grows downwards.
const BLOCK: usize = 64 << 20;
/// Microseconds after which all memory is searched again.
const AGAIN: u64 = 100_000;
/// Chunks to try before other work is done.
const TRIES: usize = 64;

/// Progress of a search for content.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// The search continues here in the heap, and then in `block`.
    heap: usize,
    block: Span,
    /// The next block ends below this address; zero: at the top.
    below: usize,
}

impl Search {
    /// Continues at `address`.
    fn resume_at(&mut self, address: usize) {
        if address <= HEAP_BELOW {
            self.heap = address;
        } else {
            self.block.start = address;
        }
    }

    /// Returns the next chunk with content.
    fn next_chunk(&mut self, memory: &mut Memory) -> Option<Span> {
        if let Some(chunk) = populated_in(Span::new(self.heap, HEAP_BELOW), memory) {
            return Some(chunk);
        }
        self.heap = HEAP_BELOW;
        loop {
            if let Some(chunk) = populated_in(self.block, memory) {
                return Some(chunk);
            }
            let below = if self.below == 0 { usize::MAX } else { self.below };
            let known = memory.monitor.ranges(|ranges| ranges.known.before(below))?;
            let end = known.end.min(below);
            if end <= HEAP_BELOW {
                return None;
            }
            let start = known.start.max((end - 1) / BLOCK * BLOCK);
            self.block = Span::new(start, end);
            self.below = start;
        }
    }
}

/// Returns the chunk of the first page with content that can be converted.
fn populated_in(range: Span, memory: &mut Memory) -> Option<Span> {
    let mut rest = range;
    while !rest.is_empty() {
        let free = memory.monitor.ranges(|ranges| ranges.convertible(rest));
        if free.is_empty() {
            return None;
        }
        let first = memory.pagemap.first_populated(free.start, free.end);
        if let Some(Some(page)) = memory.tally.check(first) {
            let chunk = page / CHUNK * CHUNK;
            return Some(Span::new(chunk.max(free.start), (chunk + CHUNK).min(free.end)));
        }
        rest.start = free.end;
    }
    None
}

/// Part of a range to convert.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// The part between the first and the last page with content that fits into NVM.
    Fitting,
}

/// Result for the first mapping in a chunk.
pub(super) struct Tried {
    /// Pages that left DRAM.
    pub(super) pages: usize,
    /// End of the mapping or of the chunk. After it there may be other mappings of the chunk.
    up_to: usize,
}

/// Converts memory.
#[derive(Default)]
pub(super) struct Converter {
    search: Search,
    /// After a complete search, the time at which the next one begins, in microseconds.
    rests_until: u64,
    pace: Pace,
}

impl Converter {
    /// Converts the next chunk with content, and returns the number of pages that left DRAM by
    /// that.
    pub(super) fn convert_next(&mut self, pressure: &Pressure, memory: &mut Memory) -> usize {
        if sys::micros() < self.rests_until {
            return 0;
        }
        for _ in 0..TRIES {
            let Some(chunk) = self.search.next_chunk(memory) else {
                (self.search, self.rests_until) = (Search::default(), sys::micros() + AGAIN);
                return 0;
            };
            let tried = self.convert(chunk, Extent::Fitting, pressure, memory);
            self.search.resume_at(tried.up_to);
            if tried.pages > 0 {
                return tried.pages;
            }
        }
        0
    }

    /// Converts the convertible part of the first mapping in a chunk, to this extent.
    pub(super) fn convert(
        &mut self,
        chunk: Span,
        extent: Extent,
        pressure: &Pressure,
        memory: &mut Memory,
    ) -> Tried {
        let vain = Tried { pages: 0, up_to: chunk.end };
        if !memory.monitor.control.close_gate() {
            return vain;
        }
        // Slots that wait to be released might be those of the chunk.
        let clean = memory.monitor.ranges(|ranges| ranges.given_back.is_empty());
        let tried = if clean && !memory.monitor.space.is_locked() {
            self.convert_closed(chunk, extent, pressure, memory)
        } else {
            None
        };
        memory.monitor.control.open_gate();
        tried.unwrap_or(vain)
    }

    fn convert_closed(
        &mut self,
        chunk: Span,
        extent: Extent,
        pressure: &Pressure,
        memory: &mut Memory,
    ) -> Option<Tried> {
        let free = memory.monitor.ranges(|ranges| ranges.convertible(chunk));
        let mapping = memory.mapping(free.start)?;
        let fit = mapping.anonymous && mapping.readable && mapping.writable && !mapping.executable;
        let range = free.and(vmas::span(mapping));
        if range.is_empty() {
            return None;
        }
        if fit && sys::is_bound(range.start) {
            // A mapping of the file would lie on other nodes.
            leave_plain(mapping, memory);
            return Some(Tried { pages: 0, up_to: range.end });
        }
        let fitting = if fit { what_fits(range, extent, pressure, memory) } else { None };
        let pages = fitting.and_then(|(range, populated)| {
            self.convert_mapping(range, &populated, mapping, pressure, memory)
        });
        Some(Tried { pages: pages.unwrap_or(0), up_to: range.end })
    }

    fn convert_mapping(
        &mut self,
        range: Span,
        populated: &Pages,
        mapping: Mapping,
        pressure: &Pressure,
        memory: &mut Memory,
    ) -> Option<usize> {
        let chunk = Span::of(range.start / CHUNK * CHUNK, CHUNK);
        if !memory.make_slots(chunk.start) {
            return None;
        }
        if !memory.monitor.ranges(|ranges| ranges.converted.touches(chunk)) {
            let full = populated.count() == CLUSTER && memory.store.takes_huge(range);
            let huge = full && self.pace.prefers_huge(pressure.budget());
            memory.store.choose_file(chunk.start, huge);
        }
        // First, so that whatever happens later, no code takes the mapping for plain memory; and
        // not while anything is protected: the lock holder of the ranges may have its stack there.
        if !memory.monitor.ranges(|ranges| ranges.converted.insert(range)) {
            return None;
        }
        let pages = self.replace_by_file(range, populated, mapping, memory);
        if pages.is_none() {
            memory.monitor.ranges(|ranges| ranges.converted.remove(range));
        }
        pages
    }

    /// Replaces plain memory by a mapping of the file; returns the number of pages that left DRAM.
    fn replace_by_file(
        &mut self,
        range: Span,
        before: &Pages,
        like: Mapping,
        memory: &mut Memory,
    ) -> Option<usize> {
        let uffd = memory.monitor.uffd;
        memory.tally.check(uffd.register(range.start, range.length(), MISSING | WRITES))?;
        if !memory.monitor.protect(range) {
            return None;
        }
        let pages = self.copy_out(range, before, memory);
        let replaced = pages.map(|_| memory.map_file(range, like));
        if replaced != Some(Ok(())) {
            // The memory stays plain, whatever was written.
            memory.clear(range);
            memory.monitor.unprotect(range);
            // A sealed mapping (`mseal`) can never be replaced.
            if replaced == Some(Err(Errno(libc::EPERM))) {
                leave_plain(like, memory);
            }
            return None;
        }
        memory.monitor.replaced(range);
        memory.keep_from_children(range);
        memory.tally.add(PageCounter::ConvertedBytes, range.length());
        pages
    }

    /// Writes the populated pages to the slots; the range is protected. Further pages may have been
    /// populated before that.
    fn copy_out(&mut self, range: Span, before: &Pages, memory: &mut Memory) -> Option<usize> {
        let mut pages = before.clone();
        memory.add_present(range, &mut pages)?;
        memory.store.bind(Source::Nvm);
        let begun = sys::nanos();
        let written = write_pages(range, &pages, memory);
        let nanos = sys::nanos() - begun;
        memory.store.bind(Source::Anywhere);
        if !written {
            return None;
        }
        if pages.count() == CLUSTER {
            self.pace.took(memory.store.is_huge(range.start), nanos / CLUSTER as u64);
        }
        for (number, page) in range.pages().enumerate() {
            let slot = memory.store.slot(page)?;
            match pages.has(number) {
                true => memory.residency.left(slot),
                false => memory.residency.release(slot),
            }
        }
        Some(pages.count())
    }
}

/// Leaves a mapping alone for as long as the program has it.
fn leave_plain(mapping: Mapping, memory: &mut Memory) {
    memory.monitor.ranges(|ranges| ranges.exclude(vmas::span(mapping)));
}

/// Returns the part of the range to convert and its pages with content: all of them if they fit
/// into NVM, otherwise those that fit. The rest stays plain; otherwise NVM would never count as
/// full.
fn what_fits(
    range: Span,
    extent: Extent,
    pressure: &Pressure,
    memory: &Memory,
) -> Option<(Span, Pages)> {
    let populated = memory.populated(range)?;
    let room = pressure.nvm_room() / PAGE;
    if extent == Extent::Whole {
        return (populated.count() <= room).then_some((range, populated));
    }
    let mut fitting = (0..range.length() / PAGE).filter(|page| populated.has(*page)).take(room);
    let first = fitting.next()?;
    let last = fitting.last().unwrap_or(first);
    let part = Span::new(range.start + first * PAGE, range.start + (last + 1) * PAGE);
    let populated = if part == range { populated } else { memory.populated(part)? };
    Some((part, populated))
}

fn write_pages(range: Span, pages: &Pages, memory: &mut Memory) -> bool {
    let mut at = 0;
    while let Some((start, end)) = pages.run(at) {
        at = end;
        let run = Span::new(range.start + start * PAGE, range.start + end * PAGE);
        if !memory.store.write_out(run, run.start) {
            return false;
        }
    }
    true
}
