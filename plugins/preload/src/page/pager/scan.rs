//! Finds, from the page table, the pages that writes have brought back to DRAM and those that are
//! read in place.

use memweir_abi::preload::page::PageCounter;
use memweir_policy::paging::{Entry, VictimPolicy};

use super::Pager;
use super::marks::{AROUND, IN_DRAM, IN_NVM, KEPT, PROBED, READ};
use super::store::CHUNK;
use crate::page::spans::Span;
use crate::pagemap::Found;
use crate::sys;
use crate::uffd::PAGE;

/// A scan takes at most one part in this many of the time, unless pages are needed.
pub(super) const SHARE: u64 = 50;
/// Ranges per step between measurements of memory: the slots of each range may have to be removed
/// from the file, which takes 7 us.
const AT_ONCE: usize = 16;

impl Pager<'_> {
    /// Scans from time to time, so that the counters are up to date.
    pub(super) fn scan_sometimes(&mut self) {
        let begun = sys::micros();
        if begun < self.scan_due || self.tables.children.any() {
            return;
        }
        self.scan();
        let unpageable = self.ranges(|ranges| ranges.excluded.length());
        self.start.tally.most(PageCounter::UnpageableBytes, unpageable as u64);
        let now = sys::micros();
        self.scan_due = now + ((now - begun) * SHARE).max(50_000);
    }

    /// Checks all pages that are in the file, or were before they were written.
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
        let budget = self.start.budget;
        let stay = budget.bears_waits() && !self.nvm_is_short();
        let (most, step) = match stay || budget.bears_stalls() {
            true => (self.tables.found.len(), usize::MAX),
            // To remove many slots takes as long as many calls.
            false => (AT_ONCE, CHUNK),
        };
        let mut at = span.start;
        while at < span.end {
            let up_to = span.end.min(at.saturating_add(step));
            let found = self.pagemap.scan_present(at, up_to, &mut self.tables.found[..most]);
            let Some((count, end)) = self.check(found) else { return };
            // A child may need slots that would be punched.
            if self.is_shared() {
                return;
            }
            for i in 0..count {
                let found = self.tables.found[i];
                self.saw(found);
            }
            // Writers that fill memory do not wait for the scan to end.
            self.measure();
            self.hold_or_release();
            if end <= at {
                return;
            }
            at = end;
        }
    }

    fn saw(&mut self, found: Found) {
        let range = Span::new(found.start as usize, found.end as usize);
        if found.is_file() {
            return self.saw_mapped(range);
        }
        // From the first to the last page whose slot is in the file: the pages in between are in
        // DRAM, too, so their slots are not needed either.
        let mut kept = Span::default();
        for page in range_pages(range) {
            self.saw_in_dram(page);
            if self.store.slot(page).is_some_and(|slot| self.tables.residency.is_kept(slot)) {
                let start = if kept.is_empty() { page } else { kept.start };
                kept = Span::new(start, page + PAGE);
            }
        }
        self.free_slots(kept);
    }

    /// Counts the pages that are newly mapped in place. In a chunk that is not watched, one read
    /// maps many pages, and the number of further reads is unknown.
    fn saw_mapped(&mut self, range: Span) {
        let (mut read, mut around, mut chunk) = (0, 0, usize::MAX);
        for page in range_pages(range) {
            let beside = page / CHUNK == chunk && self.store.is_unwatched(page);
            if self.saw_read(page, if beside { AROUND } else { READ }) {
                chunk = page / CHUNK;
                read += usize::from(!beside);
                around += usize::from(beside);
            }
        }
        self.start.tally.add(PageCounter::DirectReads, read);
        self.start.tally.add(PageCounter::MappedAround, around);
    }

    /// Removes the slots of resident pages from the file, unless they stay. The first slot of a
    /// huge page stays; otherwise the next page that leaves would bring back all of it.
    pub(super) fn free_slots(&mut self, range: Span) {
        let mut rest = range;
        while !rest.is_empty() {
            let chunk = rest.start / CHUNK * CHUNK;
            let part = Span::new(rest.start, rest.end.min(chunk + CHUNK));
            rest.start = part.end;
            if !self.nvm_is_short() && self.keeps_slots(part) {
                continue;
            }
            let first = usize::from(part.start == chunk && self.store.is_huge(chunk)) * PAGE;
            let part = Span::new(part.start + first, part.end);
            if part.is_empty() || !self.store.punch(part) {
                continue;
            }
            for page in range_pages(part) {
                if let Some(slot) = self.store.slot(page) {
                    self.tables.residency.remove(slot, KEPT);
                }
            }
        }
    }

    /// Marks a page that was evicted and is newly mapped in place since; returns true if it is one.
    fn saw_read(&mut self, page: usize, mark: u8) -> bool {
        let Some(slot) = self.store.slot(page) else { return false };
        let marks = self.tables.residency.of(slot);
        let new = marks & (IN_NVM | READ | AROUND | PROBED) == IN_NVM;
        if new {
            self.tables.residency.set(slot, marks | mark);
        }
        new
    }

    /// Records that the page is in DRAM.
    fn saw_in_dram(&mut self, page: usize) {
        let Some(slot) = self.store.slot(page) else { return };
        if self.tables.residency.of(slot) & IN_DRAM != 0 {
            return;
        }
        // A new page has a slot, too, except in copying mode: the kernel made the page from it.
        let (counter, why) = match self.tables.residency.set(slot, IN_DRAM | KEPT) {
            before if before & PROBED != 0 => (None, Entry::Kept),
            before if before & IN_NVM == 0 => (Some(PageCounter::FirstTouches), Entry::New),
            before if before & READ == 0 => (Some(PageCounter::StraightCopies), Entry::Returned),
            _ => (Some(PageCounter::Upgrades), Entry::Returned),
        };
        if let Some(counter) = counter {
            self.start.tally.add(counter, 1);
        }
        self.victims.enter(slot, why);
        self.tables.protection.arrived(page);
    }
}

/// Iterates over the addresses of the pages of a range.
pub(super) fn range_pages(range: Span) -> impl Iterator<Item = usize> + use<> {
    (range.start..range.end).step_by(PAGE)
}
