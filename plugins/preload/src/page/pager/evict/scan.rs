//! Finds, from the page table, the pages that writes have brought back to DRAM and those that are
//! read in place.

use memweir_abi::preload::page::PageCounter;

use super::Evictor;
use crate::page::pager::memory::Memory;
use crate::page::pager::pressure::Pressure;
use crate::page::pager::protocol::Steps;
use crate::page::pager::residency::{Arrival, State};
use crate::page::pager::store::CHUNK;
use crate::page::spans::Span;
use crate::pagemap::{Found, Pagemap};
use crate::sys;
use crate::uffd::PAGE;

/// Scans take at most one part in this many of the time, unless pages are needed. Their time is CPU
/// time: a helper that is stopped in a scan does no work meanwhile, and has no reason to rest.
pub(super) const SHARE: u64 = 50;
/// Ranges per step between measurements of memory: the slots of each range may have to be removed
/// from the file, which takes 7 us.
const AT_ONCE: usize = 16;

impl Evictor {
    /// Scans from time to time, so that the counters are up to date.
    pub(in crate::page::pager) fn scan_sometimes(
        &mut self,
        pressure: &mut Pressure,
        memory: &mut Memory,
    ) {
        if sys::micros() < self.scan_due || memory.monitor.children().any() {
            return;
        }
        let begun = sys::cpu_micros();
        self.scan(pressure, memory);
        let locked = memory.monitor.space.is_locked();
        let stays = memory.monitor.ranges(|ranges| match locked {
            true => ranges.known.length(),
            false => ranges.excluded.length(),
        });
        memory.tally.most(PageCounter::UnpageableBytes, stays as u64);
        if pressure.is_exceeded() {
            memory.tally.most(PageCounter::UnseenBytes, memory.present_unseen() as u64);
        }
        let worked = sys::cpu_micros() - begun;
        self.scan_due = sys::micros() + (worked * SHARE).max(50_000);
    }

    /// Checks all pages that are in the file, or were before they were written.
    pub(in crate::page::pager) fn scan(&mut self, pressure: &mut Pressure, memory: &mut Memory) {
        if memory.monitor.children().any() {
            return;
        }
        let begun = sys::nanos();
        let mut at = 0;
        while let Some(span) = memory.monitor.ranges(|ranges| ranges.converted.next(at)) {
            self.scan_span(span, pressure, memory);
            at = span.end;
        }
        memory.tally.add(PageCounter::Scans, 1);
        memory.tally.add(PageCounter::ScanNanos, (sys::nanos() - begun) as usize);
    }

    fn scan_span(&mut self, span: Span, pressure: &mut Pressure, memory: &mut Memory) {
        let stay = memory.can_absorb_fault_waits && !pressure.nvm_is_short();
        let (most, step) = match stay || pressure.budget().can_absorb_stalls() {
            true => (self.found.len(), usize::MAX),
            // To remove many slots takes as long as many calls.
            false => (AT_ONCE, CHUNK),
        };
        let mut at = span.start;
        while at < span.end {
            let up_to = span.end.min(at.saturating_add(step));
            let found = memory.pagemap.scan(Pagemap::PRESENT, at, up_to, &mut self.found[..most]);
            let Some((count, end)) = memory.tally.check(found) else { return };
            // A child may need slots that would be punched.
            if memory.monitor.is_shared() {
                return;
            }
            self.found[..count].iter().for_each(|found| saw(*found, pressure, memory));
            // Writers that fill memory do not wait for the scan to end.
            pressure.measure(memory);
            pressure.stall_or_release(memory);
            if end <= at {
                return;
            }
            at = end;
        }
    }
}

fn saw(found: Found, pressure: &Pressure, memory: &mut Memory) {
    let range = Span::new(found.start as usize, found.end as usize);
    if found.is_file() {
        return saw_mapped(range, memory);
    }
    // From the first to the last page whose slot is in the file, and of those that were touched
    // first: the pages in between are in DRAM, too, so their slots are not needed either.
    let (mut kept, mut touched) = (Span::default(), Span::default());
    let extend = |span: &mut Span, page: usize| {
        let start = if span.is_empty() { page } else { span.start };
        *span = Span::new(start, page + PAGE);
    };
    for page in range.pages() {
        let Some(slot) = memory.store.slot(page) else { continue };
        if let Some(arrival) = memory.residency.came(slot) {
            memory.count_arrival(arrival);
            memory.monitor.arrived(page);
            if arrival == Arrival::FirstTouch {
                extend(&mut touched, page);
            }
        }
        if memory.residency.is_kept(slot) {
            extend(&mut kept, page);
        }
    }
    if memory.store.is_on_node() {
        // The kernel has put them on the node of the program's thread, where they would stay.
        by_chunk(touched).for_each(|part| remove_slots(part, memory));
    }
    free_slots(kept, pressure, memory);
}

/// Counts the pages that are newly mapped in place. In a chunk that is not watched, one read maps
/// many pages, and the number of further reads is unknown.
fn saw_mapped(range: Span, memory: &mut Memory) {
    let (mut read, mut around, mut chunk) = (0, 0, usize::MAX);
    for page in range.pages() {
        let Some(slot) = memory.store.slot(page) else { continue };
        let beside = page / CHUNK == chunk && memory.store.is_unwatched(page);
        let how = if beside { State::Around } else { State::Read };
        if memory.residency.mapped(slot, how) {
            chunk = page / CHUNK;
            read += usize::from(!beside);
            around += usize::from(beside);
        }
    }
    memory.tally.add(PageCounter::DirectReads, read);
    memory.tally.add(PageCounter::MappedAround, around);
}

/// Removes the slots of resident pages from the file, unless they stay.
pub(in crate::page::pager) fn free_slots(range: Span, pressure: &Pressure, memory: &mut Memory) {
    for part in by_chunk(range) {
        if pressure.nvm_is_short() || !memory.keeps_slots(part) {
            remove_slots(part, memory);
        }
    }
}

/// Iterates over the parts of a range that lie in one chunk each.
fn by_chunk(range: Span) -> impl Iterator<Item = Span> {
    let chunks = (range.start / CHUNK * CHUNK..range.end).step_by(CHUNK);
    chunks.map(move |chunk| Span::of(chunk, CHUNK).and(range))
}

/// Removes the slots of resident pages, of one chunk, from the file. The first slot of a huge page
/// stays; otherwise the next page that leaves would bring back all of it.
fn remove_slots(part: Span, memory: &mut Memory) {
    let is_first = part.start.is_multiple_of(CHUNK) && memory.store.is_huge(part.start);
    let part = Span::new(part.start + usize::from(is_first) * PAGE, part.end);
    if !part.is_empty() && memory.store.punch(part) {
        let slots = memory.store.slots_in(part);
        slots.for_each(|slot| memory.residency.slot_removed(slot));
    }
}
