//! The program's memory: the place of each page, in DRAM or in a slot, and the mappings of slots.

use std::sync::atomic::Ordering;

use super::Start;
use super::monitor::Monitor;
use super::pages::Pages;
use super::protocol::itself;
use super::residency::{Arrival, Residency};
use super::store::{CHUNK, Store};
use crate::maps::{FileId, Mapping, Maps};
use crate::page::slots::{SLOTS, Slots, WINDOW_PAGES};
use crate::page::spans::Span;
use crate::page::tally::Tally;
use crate::page::vmas;
use crate::pagemap::{Categories, Found, Pagemap};
use crate::sys::{self, Errno, sys};
use crate::uffd::{MINOR, MISSING, PAGE, WRITES};

/// Steps in which writers are stalled between two checks.
const STEPS: usize = 256;
/// Bytes of the file that are worked on at a time.
const PIECE: usize = 512 * PAGE;

/// The memory.
///
/// - Whatever is mapped from the file is among the converted ranges of the space, so no code takes
///   it for plain memory.
/// - Only [`protocol`](super::protocol) and the calls of the program that drop or move content
///   change the place of a page or the content of a slot.
pub(super) struct Memory {
    pub(super) monitor: Monitor,
    pub(super) store: Store,
    pub(super) residency: Residency,
    pub(super) pagemap: Pagemap,
    maps: i32,
    /// `/proc/self/mem`, whose reads do not depend on the protection of mappings.
    content: i32,
    list: &'static mut Maps,
    /// Descriptor of this process, if one call can drop pages of several ranges.
    pub(super) itself: Option<i32>,
    /// True if the budget can absorb a wait for page faults in progress. The thread of such a fault
    /// may have to wait for a processor, while other threads fill memory.
    pub(super) can_absorb_fault_waits: bool,
    pub(super) copies: bool,
    pub(super) tally: Tally,
}

impl Memory {
    pub(super) fn new(
        start: &Start,
        monitor: Monitor,
        store: Store,
        residency: Residency,
        list: &'static mut Maps,
    ) -> Result<Self, Errno> {
        Ok(Self {
            itself: itself(monitor.doorbells()),
            monitor,
            store,
            residency,
            pagemap: Pagemap(sys::open(c"/proc/self/pagemap", libc::O_RDONLY)?),
            maps: sys::open(c"/proc/self/maps", libc::O_RDONLY)?,
            content: sys::open(c"/proc/self/mem", libc::O_RDONLY)?,
            list,
            can_absorb_fault_waits: start.budget.can_absorb_fault_waits(),
            copies: start.copies,
            tally: start.tally,
        })
    }

    /// Counts a page that came to DRAM.
    pub(super) fn count_arrival(&self, arrival: Arrival) {
        if let Some(counter) = arrival.counter() {
            self.tally.add(counter, 1);
        }
    }

    /// Returns the mapping that holds `address`.
    pub(super) fn mapping(&mut self, address: usize) -> Option<Mapping> {
        vmas::at(self.maps, self.list, address)
    }

    /// Returns the mapping that holds `address`, or the next one.
    pub(super) fn next_mapping(&mut self, address: usize) -> Option<Mapping> {
        vmas::next(self.maps, self.list, address)
    }

    /// Reads a page to the one at `target`, which is new memory, even if the program has removed
    /// the right to read it.
    pub(super) fn read_to(&self, page: usize, target: usize) -> Result<(), Errno> {
        // SAFETY: the kernel writes to memory that no other code uses yet.
        unsafe { sys!(libc::SYS_pread64, self.content, target, PAGE, page) }.map(drop)
    }

    /// Returns the identity that the kernel reports for mappings of the file.
    pub(super) fn identify(&mut self, file: i32) -> Result<FileId, Errno> {
        let (nothing, private) = (libc::PROT_NONE, libc::MAP_PRIVATE);
        // SAFETY: creates a new mapping, which no other code knows.
        let start = unsafe { sys!(libc::SYS_mmap, 0, PAGE, nothing, private, file, 0) }?;
        let mapping = self.mapping(start);
        sys::unmap(start, PAGE);
        mapping.map(|mapping| mapping.file).ok_or(Errno(libc::ENOENT))
    }

    /// Returns the pages of the range with content of the program, present or in the kernel's swap.
    pub(super) fn populated(&self, range: Span) -> Option<Pages> {
        let mut pages = Pages::NONE;
        self.add_found(range, &mut pages, Pagemap::POPULATED)?;
        Some(pages)
    }

    /// Adds the pages of the range that are present and do not belong to the file.
    pub(super) fn add_present(&self, range: Span, pages: &mut Pages) -> Option<()> {
        self.add_found(range, pages, Pagemap::PRESENT)
    }

    /// Returns the bytes in DRAM of private memory outside of the known ranges: of static variables
    /// of libraries, of stacks, and of what the program mapped by system calls of its own.
    pub(super) fn present_unseen(&mut self) -> usize {
        let (mut at, mut bytes) = (0, 0);
        self.list.read();
        while let Some((mapping, next)) = self.list.next(at) {
            at = next;
            let mut rest = vmas::span(mapping);
            while mapping.anonymous && !rest.is_empty() {
                let unseen = self.monitor.ranges(|ranges| ranges.known.first_out(rest));
                // The mapping may be gone meanwhile.
                let count = |span: Span| bytes += span.length();
                let _ = self.each_found(unseen, Pagemap::PRESENT, count);
                rest.start = unseen.end;
            }
        }
        bytes
    }

    fn add_found(&self, range: Span, pages: &mut Pages, wanted: Categories) -> Option<()> {
        let add = |span: Span| {
            span.pages().for_each(|page| pages.add((page - range.start) / PAGE));
        };
        self.tally.check(self.each_found(range, wanted, add))
    }

    /// Calls `work` for the parts of the range that are of these categories and in no file.
    fn each_found(
        &self,
        range: Span,
        wanted: Categories,
        mut work: impl FnMut(Span),
    ) -> Result<(), Errno> {
        let mut found = [Found::default(); 64];
        let mut at = range.start;
        while at < range.end {
            let (count, end) = self.pagemap.scan(wanted, at, range.end, &mut found)?;
            for found in found[..count].iter().filter(|found| !found.is_file()) {
                work(Span::new(found.start as usize, found.end as usize));
            }
            if end <= at {
                break;
            }
            at = end;
        }
        Ok(())
    }

    /// Calls `work` for every part of the range that is in the file, piece by piece.
    pub(super) fn each_in_file(
        &mut self,
        range: Span,
        mut work: impl FnMut(&mut Self, Span) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut rest = range;
        loop {
            let part = self.monitor.ranges(|ranges| ranges.converted.first_in(rest));
            if part.is_empty() {
                return Ok(());
            }
            let window = Slots::window_end(part.start);
            let piece = Span::new(part.start, part.end.min(part.start + PIECE).min(window));
            work(self, piece)?;
            rest.start = piece.end;
        }
    }

    /// Assigns slots to the window of `address`, if necessary those of a window of which nothing is
    /// in the file; returns false if there are none.
    pub(super) fn make_slots(&mut self, address: usize) -> bool {
        let Self { monitor, store, .. } = self;
        monitor.ranges(|ranges| {
            let clean = ranges.given_back.is_empty();
            store.make_slots(address, |window| clean && !ranges.converted.touches(window))
        })
    }

    /// Maps the slots of the range in place of its memory. The range is among the converted ones.
    pub(super) fn map_file(&mut self, range: Span, like: Mapping) -> Result<(), Errno> {
        let how = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let protection = like.protection();
        let mut rest = range;
        while !rest.is_empty() {
            let (part, slots) = self.store.slots_of(rest);
            let (file, offset) = slots.ok_or(Errno(libc::ENOMEM))?;
            self.monitor.space.filed.store(true, Ordering::Release);
            // SAFETY: the content of the range is in the slots, and no write to it is in progress.
            let mapped = unsafe {
                sys!(libc::SYS_mmap, part.start, part.length(), protection, how, file, offset)
            };
            self.tally.check(mapped);
            mapped?;
            if !self.store.is_unwatched(part.start) {
                self.watch_file(part);
            }
            rest.start = part.end;
        }
        Ok(())
    }

    fn watch_file(&mut self, range: Span) {
        let modes = if self.copies { MISSING | MINOR | WRITES } else { WRITES };
        self.tally.check(self.monitor.uffd.register(range.start, range.length(), modes));
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
            let _ = self.each_in_file(chunk, |memory, piece| {
                memory.watch_file(piece);
                Ok(())
            });
            self.store.mark_watched(chunk.start);
        }
    }

    /// Stalls the writers of all memory in the file, starting where a page last came to DRAM.
    pub(super) fn stall_writers(&mut self) {
        self.monitor.begin_stall();
        let mut first = None;
        for _ in 0..STEPS {
            let Some(step) = self.monitor.next_to_stall() else { return };
            if first == Some(step.start) {
                return;
            }
            first = first.or(Some(step.start));
            if self.monitor.pass(step) {
                self.watch_chunks(step);
                self.monitor.stall(step);
            }
        }
    }

    /// Excludes new mappings in the range from forked children, where the program excluded the old
    /// ones. This locks the ranges, so nothing may be protected. A child that is forked just before
    /// has mappings that its program does not know.
    pub(super) fn keep_from_children(&mut self, range: Span) {
        let mut rest = range;
        loop {
            let part = self.monitor.ranges(|ranges| ranges.unforked.first_in(rest));
            if part.is_empty() {
                return;
            }
            self.tally.check(sys::advise(part.start, part.length(), libc::MADV_DONTFORK));
            rest.start = part.end;
        }
    }

    /// Lets the kernel provide new pages in the window, or at least this one.
    pub(super) fn provide(&mut self, window: Span, page: usize) {
        let mapping = self.mapping(page).map_or(Span::default(), vmas::span);
        let plain = self.monitor.ranges(|ranges| {
            let from = ranges.converted.before(page).map_or(0, |below| below.end);
            Span::new(from, ranges.converted.first_out(Span::new(page, window.end)).end)
        });
        let range = mapping.and(window).and(plain);
        let uffd = self.monitor.uffd;
        if range.contains(page) && uffd.unregister(range.start, range.length()).is_ok() {
            return uffd.wake_range(window.start, window.length());
        }
        let _ = uffd.zero(page);
        uffd.wake(page);
    }

    /// Returns the part of the window around `address` that is in one chunk and has adjacent slots.
    pub(super) fn window_of(&self, address: usize, bytes: usize) -> Span {
        let bytes = bytes.min(CHUNK);
        let start = address / bytes * bytes;
        Span::new(start, (start + bytes).min(Slots::window_end(start)))
    }

    /// Removes the slots of memory that the program released from the file.
    pub(super) fn give_back(&mut self) {
        if self.monitor.children().any() {
            return;
        }
        while let Some(span) = self.monitor.ranges(|ranges| ranges.given_back.pop()) {
            if self.monitor.is_shared() {
                return self.monitor.ranges(|ranges| ranges.given_back.push(span));
            }
            self.clear(span);
        }
        if self.monitor.ranges(|ranges| ranges.given_back.overflowed()) {
            self.clear_all_unused();
        }
    }

    /// Removes the slots of pages without content.
    pub(super) fn clear(&mut self, span: Span) {
        self.store.punch(span);
        self.store.slots_in(span).for_each(|slot| self.residency.release(slot));
    }

    fn clear_all_unused(&mut self) {
        if self.monitor.is_shared() || !self.monitor.control.close_gate() {
            return self.monitor.ranges(|ranges| ranges.given_back.overflow());
        }
        for window in (0..SLOTS as u32).step_by(WINDOW_PAGES) {
            let start = self.store.address(window);
            if self.store.slot(start) != Some(window) {
                break;
            }
            let mut rest = Span::new(start, Slots::window_end(start));
            loop {
                let unused = self.monitor.ranges(|ranges| ranges.converted.first_out(rest));
                if unused.is_empty() {
                    break;
                }
                self.clear(unused);
                rest.start = unused.end;
            }
        }
        self.monitor.control.open_gate();
    }
}
