//! Finds changes that are not reported to the helper: new mappings, copies after fork, pages that
//! the kernel moved. [`Placer`] corrects them.

use std::sync::atomic::Ordering;

use memweir_abi::preload::Delivery;

use super::Start;
use super::placer::{Placer, Reason};
use crate::color::choice::{chosen, set_of};
use crate::maps::Mapping;
use crate::pagemap::{Entry, Found};
use crate::uffd::PAGE;
use crate::{memory, sys};

/// Number of ranges that can be recorded as watched.
const KNOWN: usize = 8192;

/// The state of the program's memory at the last look, and the time of the next. All zero at first.
#[repr(C)]
pub(super) struct Upkeep {
    /// Ranges whose pages were checked.
    known: [(usize, usize); KNOWN],
    known_used: usize,
    frames: [u64; 512],
    size_seen: [u64; 2],
    vmstat_seen: u64,
    sweep_due: u64,
    /// Microseconds between sweeps for pages that could not be mended; zero if there are none.
    fork_pause: u64,
}

impl Upkeep {
    /// Looks only at moves of pages by the kernel from now on.
    pub(super) fn begin(&mut self) {
        self.vmstat_seen = memory::moved_by_kernel();
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
            self.fork_pause = 10_000;
            self.sweep_due = begun;
        }
        if placer.take_unfinished() && self.fork_pause == 0 {
            self.fork_pause = 10_000;
        }
        let moved = memory::moved_by_kernel();
        let size = memory::sizes();
        if moved != self.vmstat_seen {
            self.vmstat_seen = moved;
            // Otherwise pages would be replaced by pool pages that were moved, too.
            placer.supply.pool.look_again(&start.palette, &set_of(start.control, 0));
            self.rescan(start, placer, Reason::Drift);
        } else if self.fork_pause > 0 && begun >= self.sweep_due {
            self.rescan(start, placer, Reason::Fork);
            let took = sys::micros() - begun;
            self.fork_pause = (self.fork_pause * 2).max(took * 50).min(2_000_000);
            self.sweep_due = begun + self.fork_pause;
        } else if size != self.size_seen {
            self.rescan(start, placer, Reason::New);
        } else {
            return None;
        }
        self.size_seen = size;
        Some(sys::micros() - begun)
    }

    /// Watches every mapping of the program, and checks the pages that `reason` selects: new
    /// mappings, or everything.
    pub(super) fn rescan(&mut self, start: &Start, placer: &mut Placer, reason: Reason) {
        placer.maps.read();
        let doorbells = start.control.doorbells.load(Ordering::Relaxed);
        let mut at = 0;
        let mut fresh = 0;
        while let Some((mapping, next)) = placer.maps.next(at) {
            at = next;
            if !mapping.anonymous || mapping.start == doorbells || placer.owns(mapping) {
                continue;
            }
            let (from, to) = (mapping.start, mapping.end);
            if placer.uffd.register(from, to - from).is_err() {
                continue;
            }
            let _ = sys::lock_on_fault(from, to - from);
            let seen = self.knows(from, to);
            if (!seen || reason != Reason::New) && mapping.writable {
                self.sweep(start, placer, reason, mapping);
            }
            // A range becomes known only after it was read and checked completely.
            if !seen {
                self.know(from, to);
            }
            fresh += 1;
        }
        if fresh * 2 + 64 < self.known_used || self.known_used == KNOWN {
            self.known_used = 0;
        }
    }

    /// Moves pages of other colors in the mapping into the requested colors.
    pub(super) fn sweep(
        &mut self,
        start: &Start,
        placer: &mut Placer,
        reason: Reason,
        mapping: Mapping,
    ) {
        if start.delivery == Delivery::Recycle {
            return sweep_entries(start, placer, reason, mapping);
        }
        let mut found = [Found::default(); 32];
        let mut at = mapping.start;
        while at < mapping.end {
            let scanned = placer.pagemap.scan(at, mapping.end, &mut found);
            let Ok((count, end)) = scanned else { return };
            for range in found.iter().take(count) {
                self.sweep_range(start, placer, *range, reason, mapping);
            }
            if end <= at {
                return;
            }
            at = end;
        }
    }

    fn sweep_range(
        &mut self,
        start: &Start,
        placer: &mut Placer,
        range: Found,
        reason: Reason,
        mapping: Mapping,
    ) {
        let (from, to) = (range.start as usize, range.end as usize);
        let mut at = from;
        while at < to {
            let pages = ((to - at) / PAGE).min(self.frames.len());
            let known = placer.pagemap.frames(at, &mut self.frames[..pages]);
            for (i, frame) in
                self.frames[..known].iter().enumerate().filter(|(_, frame)| **frame != 0)
            {
                let frame = (!range.is_zero()).then_some(*frame);
                put_right(start, placer, at + i * PAGE, frame, reason, mapping);
            }
            at += pages * PAGE;
        }
    }
}

/// Does the same as [`sweep`](Upkeep::sweep) on kernels that cannot search the page table.
fn sweep_entries(start: &Start, placer: &mut Placer, reason: Reason, mapping: Mapping) {
    let mut entries = [Entry(0); PAGE / 8];
    let (mut at, to) = (mapping.start, mapping.end);
    while at < to {
        let pages = ((to - at) / PAGE).min(entries.len());
        let known = placer.pagemap.entries(at, &mut entries[..pages]);
        let own = |entry: &Entry| entry.frame() != 0 && !entry.is_file();
        for (i, entry) in entries[..known].iter().enumerate().filter(|(_, e)| own(e)) {
            let frame = (!placer.is_zero(*entry)).then_some(entry.frame());
            put_right(start, placer, at + i * PAGE, frame, reason, mapping);
        }
        if known == 0 {
            return;
        }
        at += known * PAGE;
    }
}

/// Mends the page if its frame has none of the colors requested there. `frame` is `None` for
/// the shared page of zeros, because the kernel chooses the page that replaces it at a write.
fn put_right(
    start: &Start,
    placer: &mut Placer,
    page: usize,
    frame: Option<u64>,
    reason: Reason,
    mapping: Mapping,
) {
    let set = chosen(start.control, page, 0);
    if !frame.is_some_and(|frame| start.palette.is_of(frame, &set)) {
        placer.mend(start, page, &set, reason, mapping);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_grow_are_one_until_there_is_no_room() {
        // SAFETY: zero is valid for all fields, which are numbers.
        let mut upkeep = unsafe { Box::<Upkeep>::new_zeroed().assume_init() };
        upkeep.know(10, 20);
        upkeep.know(20, 30);
        assert!(upkeep.knows(15, 25) && !upkeep.knows(25, 31));
        assert_eq!(upkeep.known_used, 1);
        (0..KNOWN).for_each(|i| upkeep.know(100 + 4 * i, 102 + 4 * i));
        assert!(upkeep.knows(100, 102) && !upkeep.knows(96 + 4 * KNOWN, 98 + 4 * KNOWN));
    }
}
