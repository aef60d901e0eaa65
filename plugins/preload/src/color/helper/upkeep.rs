//! Finds changes that are not reported to the helper: new mappings, copies after fork, pages that
//! the kernel moved. [`super::mend`] corrects them.

use std::sync::atomic::Ordering;

use memweir_abi::preload::Delivery;

use super::{Helper, Start};
use crate::color::choice::{chosen, set_of};
use crate::maps::Mapping;
use crate::pagemap::{Entry, Found, Pagemap};
use crate::uffd::{PAGE, Uffd};
use crate::{memory, sys};

/// Number of ranges that can be recorded as watched.
pub(super) const KNOWN: usize = 8192;

/// Reason why pages are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    New,
    Fork,
    Drift,
    /// Recycling produced a frame of another color.
    Missed,
}

impl Helper {
    pub(super) fn know(&mut self, from: usize, to: usize) {
        let used = self.known_used;
        if let Some(last) = self.known[..used].iter_mut().find(|(_, end)| *end == from) {
            last.1 = to;
        } else if let Some(free) = self.known.get_mut(used) {
            *free = (from, to);
            self.known_used += 1;
        }
    }

    /// Makes sure that pages which could not be moved now are tried again.
    pub(super) fn look_again(&mut self) {
        if self.fork_pause == 0 {
            self.fork_pause = 10_000;
        }
    }

    /// Finds unreported changes: new mappings, copies after fork, pages that the kernel moved.
    /// Returns the time that this took, if there was anything to do.
    pub(super) fn look_after(&mut self, start: &Start) -> Option<u64> {
        let begun = sys::micros();
        let now_forks = start.control.forks.swap(0, Ordering::Relaxed);
        if now_forks > 0 {
            self.forked = true;
            self.fork_pause = 10_000;
            self.sweep_due = begun;
        }
        let moved = memory::moved_by_kernel();
        let size = memory::sizes();
        if moved != self.vmstat_seen {
            self.vmstat_seen = moved;
            // Otherwise pages would be replaced by pool pages that were moved, too.
            self.pool.look_again(&start.palette, &set_of(start.control, 0));
            self.rescan(start, Reason::Drift);
        } else if self.fork_pause > 0 && begun >= self.sweep_due {
            self.rescan(start, Reason::Fork);
            let took = sys::micros() - begun;
            self.fork_pause = (self.fork_pause * 2).max(took * 50).min(2_000_000);
            self.sweep_due = begun + self.fork_pause;
        } else if size != self.size_seen {
            self.rescan(start, Reason::New);
        } else {
            return None;
        }
        self.size_seen = size;
        Some(sys::micros() - begun)
    }

    /// Watches every mapping of the program, and checks the pages that `reason` selects: new
    /// mappings, or everything.
    pub(super) fn rescan(&mut self, start: &Start, reason: Reason) {
        self.maps.read();
        let own = self.pool.ranges();
        let bells = start.control.doorbells.load(Ordering::Relaxed);
        let mut at = 0;
        let mut fresh = 0;
        while let Some((mapping, next)) = self.maps.next(at) {
            at = next;
            let ours = mapping.start == bells
                || (mapping.start >= own[0] && mapping.end <= own[1])
                || (mapping.start >= own[2] && mapping.end <= own[3])
                || (mapping.start..mapping.end).contains(&self.scratch);
            if !mapping.anonymous || ours {
                continue;
            }
            let (from, to) = (mapping.start, mapping.end);
            if Uffd(self.uffd).register(from, to - from).is_err() {
                continue;
            }
            let _ = sys::lock_on_fault(from, to - from);
            let seen = self.known[..self.known_used].iter().any(|(s, e)| *s <= from && to <= *e);
            if (!seen || reason != Reason::New) && mapping.writable {
                self.sweep(start, from, to, reason, mapping);
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

    /// Moves pages of other colors between the addresses into the requested colors.
    pub(super) fn sweep(
        &mut self,
        start: &Start,
        from: usize,
        to: usize,
        reason: Reason,
        mapping: Mapping,
    ) {
        if start.delivery == Delivery::Recycle {
            return self.sweep_entries(start, from, to, reason, mapping);
        }
        let mut found = [Found::default(); 32];
        let mut at = from;
        while at < to {
            let Ok((count, end)) = Pagemap(self.pagemap).scan(at, to, &mut found) else { return };
            for range in found.iter().take(count) {
                self.sweep_range(start, *range, reason, mapping);
            }
            if end <= at {
                return;
            }
            at = end;
        }
    }

    fn sweep_range(&mut self, start: &Start, range: Found, reason: Reason, mapping: Mapping) {
        let (from, to) = (range.start as usize, range.end as usize);
        let mut at = from;
        while at < to {
            let pages = ((to - at) / PAGE).min(self.frames.len());
            let mut frames = self.frames;
            let known = Pagemap(self.pagemap).frames(at, &mut frames[..pages]);
            for (i, frame) in frames[..known].iter().enumerate().filter(|(_, frame)| **frame != 0) {
                let frame = (!range.is_zero()).then_some(*frame);
                self.put_right(start, at + i * PAGE, frame, reason, mapping);
            }
            at += pages * PAGE;
        }
    }

    /// Does the same as [`sweep`](Self::sweep) on kernels that cannot search the page table.
    fn sweep_entries(
        &mut self,
        start: &Start,
        from: usize,
        to: usize,
        reason: Reason,
        mapping: Mapping,
    ) {
        let mut entries = [Entry(0); PAGE / 8];
        let mut at = from;
        while at < to {
            let pages = ((to - at) / PAGE).min(entries.len());
            let known = Pagemap(self.pagemap).entries(at, &mut entries[..pages]);
            let own = |entry: &Entry| entry.frame() != 0 && !entry.is_file();
            for (i, entry) in entries[..known].iter().enumerate().filter(|(_, e)| own(e)) {
                let frame = (!self.exchange.is_zero(*entry)).then_some(entry.frame());
                self.put_right(start, at + i * PAGE, frame, reason, mapping);
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
        &mut self,
        start: &Start,
        page: usize,
        frame: Option<u64>,
        reason: Reason,
        mapping: Mapping,
    ) {
        let set = chosen(start.control, page, 0);
        if !frame.is_some_and(|frame| start.palette.is_of(frame, &set)) {
            self.mend(start, page, &set, reason, mapping);
        }
    }
}
