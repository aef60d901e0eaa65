//! Finds changes that are not reported to the helper: new mappings, copies after fork, pages that
//! the kernel moved. [`Placer`] corrects them.

use std::sync::atomic::Ordering;

use memweir_abi::preload::{Counter, Delivery};

use super::Start;
use super::placer::{Placer, Reason};
use crate::color::choice::{chosen, set_of};
use crate::maps::Mapping;
use crate::pagemap::{Entry, Found, Pagemap};
use crate::uffd::{MISSING, PAGE};
use crate::{memory, sys};

/// Number of ranges that can be recorded as watched.
const KNOWN: usize = 8192;
/// Microseconds between two sweeps of all memory: after a change, and as long as nothing changes.
const SOON: u64 = 10_000;
const LATER: u64 = 2_000_000;
/// A sweep of all memory goes on later after so many microseconds, because page faults wait for it.
const SLICE: u64 = 1000;
/// Bytes of memory that are swept between two looks at the clock.
const PIECE: usize = 4096 * PAGE;

/// The state of the program's memory at the last look, and the time of the next. All zero at first.
#[repr(C)]
pub(super) struct Upkeep {
    /// Ranges whose pages were checked.
    known: [(usize, usize); KNOWN],
    known_used: usize,
    size_seen: [u64; 2],
    vmstat_seen: u64,
    /// The next sweep of all memory, or of its rest, and the microseconds from that to the one
    /// after it.
    sweep_due: u64,
    sweep_pause: u64,
    /// The address at which it begins.
    swept: usize,
    /// Pages that it could not move so far, and those of the last whole look at all memory.
    unmoved: u64,
    unmoved_before: u64,
    /// Time up to which pages that could not be moved were counted.
    counted_to: u64,
}

impl Upkeep {
    /// Looks only at moves of pages by the kernel from now on.
    pub(super) fn begin(&mut self) {
        self.vmstat_seen = memory::moved_by_kernel();
        self.counted_to = sys::micros();
        self.sweep_from(self.counted_to + SOON);
    }

    /// Makes a sweep of all memory due at this time, and further ones soon after it. One that is
    /// under way goes on; otherwise none would end in a program that forks all the time.
    fn sweep_from(&mut self, due: u64) {
        (self.sweep_due, self.sweep_pause) = (due, SOON);
    }

    /// Records that the pages of a range were checked, unless there is no room.
    pub(super) fn know(&mut self, from: usize, to: usize) {
        let used = self.known_used;
        if let Some(last) = self.known[..used].iter_mut().find(|(_, end)| *end == from) {
            last.1 = to;
        } else if let Some(free) = self.known.get_mut(used) {
            *free = (from, to);
            self.known_used += 1;
        }
    }

    fn knows(&self, from: usize, to: usize) -> bool {
        self.known[..self.known_used].iter().any(|(start, end)| *start <= from && to <= *end)
    }

    /// Finds unreported changes: new mappings, copies after fork, pages that the kernel moved.
    /// Returns the time that this took, if there was anything to do.
    pub(super) fn look_after(&mut self, start: &Start, placer: &mut Placer) -> Option<u64> {
        let begun = sys::micros();
        let now_forks = start.control.forks.swap(0, Ordering::Relaxed);
        if now_forks > 0 {
            placer.forked = true;
            self.sweep_from(begun);
        }
        let unfinished = placer.take_unfinished();
        let moved = memory::moved_by_kernel();
        let size = memory::sizes();
        if (unfinished || size != self.size_seen) && self.sweep_pause >= LATER {
            self.sweep_from(begun + SOON);
        }
        let due = begun >= self.sweep_due;
        if moved != self.vmstat_seen {
            self.vmstat_seen = moved;
            // Otherwise pages would be replaced by pool pages that were moved, too.
            placer.supply.pool.look_again(&start.palette, &set_of(start.control, 0));
            self.rescan(start, placer, Reason::Drift);
        } else if size != self.size_seen {
            self.rescan(start, placer, Reason::New);
        } else if !due {
            return None;
        }
        if due {
            self.sweep_slice(start, placer);
        }
        self.size_seen = size;
        Some(sys::micros() - begun)
    }

    /// Watches every mapping of the program, and checks the pages that `reason` selects: new
    /// mappings, or everything.
    pub(super) fn rescan(&mut self, start: &Start, placer: &mut Placer, reason: Reason) {
        placer.maps.read();
        let (mut at, mut fresh, mut unmoved) = (0, 0, 0);
        while let Some((mapping, next)) = placer.maps.next(at) {
            at = next;
            if !watch(start, placer, mapping) {
                continue;
            }
            let (from, to) = (mapping.start, mapping.end);
            let seen = self.knows(from, to);
            if (!seen || reason != Reason::New) && mapping.writable {
                unmoved += sweep(start, placer, reason, mapping, (from, to));
            }
            // A range becomes known only after it was read and checked completely.
            if !seen {
                self.know(from, to);
            }
            fresh += 1;
        }
        // New mappings have their pages besides those of the others.
        let others = if reason == Reason::New { self.unmoved_before } else { 0 };
        self.unmoved_before = others + unmoved;
        if fresh * 2 + 64 < self.known_used || self.known_used == KNOWN {
            self.known_used = 0;
        }
    }

    /// Goes on with a sweep of all memory, which finds what changes no count: pages that a write
    /// copied after a fork, and mappings that system calls of the program's own put in the place of
    /// others.
    fn sweep_slice(&mut self, start: &Start, placer: &mut Placer) {
        let begun = sys::micros();
        if self.sweep_until(begun + SLICE, start, placer) {
            self.swept = 0;
            self.unmoved_before = std::mem::take(&mut self.unmoved);
            self.sweep_due = begun + self.sweep_pause;
            self.sweep_pause = (self.sweep_pause * 2).min(LATER);
        }
        self.count_unmoved(start);
    }

    /// Counts the time since it was last counted with the pages that the sweep under way could not
    /// move so far, or with those of the last look if these were more.
    pub(super) fn count_unmoved(&mut self, start: &Start) {
        let now = sys::micros();
        let since = now - std::mem::replace(&mut self.counted_to, now);
        let unmoved = self.unmoved.max(self.unmoved_before);
        start.counters.add(Counter::UnmovedMicros, unmoved * since);
    }

    /// Returns true if the sweep has ended before `end`.
    fn sweep_until(&mut self, end: u64, start: &Start, placer: &mut Placer) -> bool {
        let reason = if placer.forked { Reason::Fork } else { Reason::New };
        placer.maps.read();
        let mut at = 0;
        while let Some((mapping, next)) = placer.maps.next(at) {
            at = next;
            if mapping.end <= self.swept || !watch(start, placer, mapping) || !mapping.writable {
                continue;
            }
            self.swept = self.swept.max(mapping.start);
            while self.swept < mapping.end {
                let piece = (self.swept, mapping.end.min(self.swept.saturating_add(PIECE)));
                self.unmoved += sweep(start, placer, reason, mapping, piece);
                self.swept = piece.1;
                if sys::micros() >= end {
                    return false;
                }
            }
        }
        true
    }
}

/// Moves pages of other colors into the requested colors, in this range of the mapping. Returns the
/// number of those that it could not move.
pub(super) fn sweep(
    start: &Start,
    placer: &mut Placer,
    reason: Reason,
    mapping: Mapping,
    (from, to): (usize, usize),
) -> u64 {
    // Frames are recycled on kernels that cannot search the page table, too.
    if start.delivery == Delivery::Recycle {
        return sweep_entries(start, placer, reason, mapping, (from, to));
    }
    let mut found = [Found::default(); 32];
    let (mut at, mut unmoved) = (from, 0);
    while at < to {
        let scanned = placer.pagemap.scan(Pagemap::OWN, at, to, &mut found);
        let Ok((count, end)) = scanned else { break };
        for range in &found[..count] {
            let range = (range.start as usize, range.end as usize);
            unmoved += sweep_entries(start, placer, reason, mapping, range);
        }
        if end <= at {
            break;
        }
        at = end;
    }
    unmoved
}

/// Makes the helper responsible for the pages of a mapping; returns false if they are none of its
/// business.
fn watch(start: &Start, placer: &Placer, mapping: Mapping) -> bool {
    let doorbells = start.control.doorbells.load(Ordering::Relaxed);
    let (at, length) = (mapping.start, mapping.end - mapping.start);
    if !mapping.anonymous || at == doorbells || placer.owns(mapping) {
        return false;
    }
    let watched = placer.uffd.register(at, length, MISSING).is_ok();
    if watched {
        let _ = sys::lock_on_fault(at, length);
    }
    watched
}

/// Does the same by the entries of all pages in the range.
fn sweep_entries(
    start: &Start,
    placer: &mut Placer,
    reason: Reason,
    mapping: Mapping,
    (mut at, to): (usize, usize),
) -> u64 {
    let mut entries = [Entry(0); PAGE / 8];
    let mut unmoved = 0;
    while at < to {
        let pages = ((to - at) / PAGE).min(entries.len());
        let known = placer.pagemap.entries(at, &mut entries[..pages]);
        let own = |entry: &Entry| entry.frame() != 0 && !entry.is_file();
        for (i, entry) in entries[..known].iter().enumerate().filter(|(_, e)| own(e)) {
            let frame = (!placer.is_zero(*entry)).then_some(entry.frame());
            let page = at + i * PAGE;
            unmoved += u64::from(!put_right(start, placer, page, frame, reason, mapping));
        }
        if known == 0 {
            break;
        }
        at += known * PAGE;
    }
    unmoved
}

/// Mends the page if its frame has none of the colors requested there; returns true if it has one
/// of them then. `frame` is `None` for the shared page of zeros, because the kernel chooses the
/// page that replaces it at a write.
fn put_right(
    start: &Start,
    placer: &mut Placer,
    page: usize,
    frame: Option<u64>,
    reason: Reason,
    mapping: Mapping,
) -> bool {
    let set = chosen(start.control, page, 0);
    frame.is_some_and(|frame| start.palette.is_of(frame, &set))
        || placer.mend(start, page, &set, reason, mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_grow_are_one_until_there_is_no_room() {
        let mut upkeep = crate::all_zero::<Upkeep>();
        upkeep.know(10, 20);
        upkeep.know(20, 30);
        assert!(upkeep.knows(15, 25) && !upkeep.knows(25, 31));
        assert_eq!(upkeep.known_used, 1);
        (0..KNOWN).for_each(|i| upkeep.know(100 + 4 * i, 102 + 4 * i));
        assert!(upkeep.knows(100, 102) && !upkeep.knows(96 + 4 * KNOWN, 98 + 4 * KNOWN));
    }
}
