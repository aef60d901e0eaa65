//! Finding out, from the page table, which pages writes have brought back to DRAM and which are
//! read in place.

use memweir_core::preload::page::PageCounter;
use memweir_policy::paging::{Entry, VictimPolicy};

use super::{FREED, IN_DRAM, IN_NVM, PROBED, Pager, READ};
use crate::page::spans::Span;
use crate::sys;
use crate::uffd::{Found, PAGE};

/// A scan takes at most one part in so many of the time, unless pages are needed.
const SHARE: u64 = 50;

impl Pager<'_> {
    /// Scans from time to time, so that the counters tell what happens.
    pub(super) fn scan_sometimes(&mut self) {
        let begun = sys::micros();
        if begun < self.scan_due || self.tables.children.any() {
            return;
        }
        self.scan();
        let now = sys::micros();
        self.scan_due = now + ((now - begun) * SHARE).max(50_000);
    }

    /// Looks at all pages that are in the file, or were before they were written.
    pub(super) fn scan(&mut self) {
        if self.tables.children.any() {
            return;
        }
        let begun = sys::nanos();
        let mut at = 0;
        while let Some(span) = self.ranges(|ranges| ranges.converted.next(at)) {
            self.scan_span(span);
            at = span.end;
        }
        self.start.tally.add(PageCounter::Scans, 1);
        self.start.tally.add(PageCounter::ScanNanos, (sys::nanos() - begun) as usize);
    }

    fn scan_span(&mut self, span: Span) {
        let mut at = span.start;
        while at < span.end {
            let found = self.pagemap.scan_present(at, span.end, &mut self.tables.found);
            let Some((count, end)) = self.check(found) else { return };
            // A child may need what would be punched.
            if self.is_shared() {
                return;
            }
            for i in 0..count {
                let found = self.tables.found[i];
                self.saw(found);
            }
            if end <= at {
                return;
            }
            at = end;
        }
    }

    fn saw(&mut self, found: Found) {
        let range = Span::new(found.start as usize, found.end as usize);
        if found.is_file() {
            let count = range_pages(range).filter(|page| self.saw_read(*page)).count();
            return self.start.tally.add(PageCounter::DirectReads, count);
        }
        // From the first to the last that has arrived: what lies between is in DRAM, too, so nobody
        // needs its slots either.
        let mut arrived = Span::default();
        for page in range_pages(range) {
            if self.saw_in_dram(page) {
                let start = if arrived.is_empty() { page } else { arrived.start };
                arrived = Span::new(start, page + PAGE);
            }
        }
        self.free(arrived);
    }

    /// Takes the slots of pages that are in DRAM out of the file.
    pub(super) fn free(&mut self, range: Span) {
        if !self.punch(range) {
            return;
        }
        for page in range_pages(range) {
            if let Some(slot) = self.tables.slots.slot(page) {
                self.tables.flags[slot as usize] |= FREED;
            }
        }
    }

    /// Whether the page was evicted and is read in place since.
    fn saw_read(&mut self, page: usize) -> bool {
        let Some(slot) = self.tables.slots.slot(page) else { return false };
        let flags = &mut self.tables.flags[slot as usize];
        let new = *flags & (IN_NVM | READ | PROBED) == IN_NVM;
        if new {
            *flags |= READ;
        }
        new
    }

    /// Whether the page has come to DRAM since.
    pub(super) fn saw_in_dram(&mut self, page: usize) -> bool {
        let Some(slot) = self.tables.slots.slot(page) else { return false };
        let flags = &mut self.tables.flags[slot as usize];
        if *flags & IN_DRAM != 0 {
            return false;
        }
        let (counter, why) = match std::mem::replace(flags, IN_DRAM) {
            before if before & PROBED != 0 => (None, Entry::Kept),
            before if before & IN_NVM == 0 => (Some(PageCounter::FirstTouches), Entry::New),
            before if before & READ == 0 => (Some(PageCounter::StraightCopies), Entry::Returned),
            _ => (Some(PageCounter::Upgrades), Entry::Returned),
        };
        if let Some(counter) = counter {
            self.start.tally.add(counter, 1);
        }
        self.victims.enter(slot, why);
        self.arrived_at = page;
        true
    }
}

/// The addresses of the pages of a range.
pub(super) fn range_pages(range: Span) -> impl Iterator<Item = usize> + use<> {
    (range.start..range.end).step_by(PAGE)
}
