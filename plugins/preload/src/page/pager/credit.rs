//! Answers accesses that wait: to new memory, which is given by credit while memory is short, and
//! in copying mode to every page that is not in DRAM.

use memweir_abi::preload::page::{PageCounter, Timed};
use memweir_policy::paging::{Entry, VictimPolicy};

use super::Pager;
use super::marks::{IN_DRAM, IN_NVM, KEPT};
use crate::page::budget::Stage;
use crate::page::spans::Span;
use crate::page::vmas;
use crate::sys::{self, Errno};
use crate::uffd::{MISSING, Message, PAGE};

/// Microseconds that new memory waits for a forked child to end.
const CHILD_TIMEOUT: u64 = 20_000;

impl Pager<'_> {
    /// Answers the accesses that can be answered now.
    pub(super) fn answer(&mut self) {
        let mut kept = 0;
        let mut at = 0;
        while at < self.tables.pending_used {
            let message = self.tables.pending[at];
            at += 1;
            if !self.answer_one(&message) {
                self.tables.pending[kept] = message;
                kept += 1;
            }
        }
        self.tables.pending_used = kept;
    }

    /// Answers one access; returns false if it has to wait longer.
    fn answer_one(&mut self, message: &Message) -> bool {
        let page = message.address as usize & !(PAGE - 1);
        if self.is_bell(page) {
            self.serve_request(page);
            return true;
        }
        if self.ranges(|ranges| ranges.converted.at(page)).is_some() {
            return self.copy_in(page);
        }
        let paused_since = self.tables.children.paused_since();
        if paused_since.is_some_and(|since| sys::micros() < since + CHILD_TIMEOUT) {
            return false;
        }
        let least = self.start.budget.window();
        let paused = paused_since.is_some();
        if self.admission.stage() < Stage::Over || paused {
            if self.total.resident + least <= self.start.budget.high() || paused {
                let pages = self.start.budget.credit(self.total.reach);
                let bytes = pages * PAGE;
                self.allow(Span::of(page / bytes * bytes, bytes), page);
                self.total.resident += pages;
                self.total.reach += pages;
                return true;
            }
            self.admission.enter(Stage::Over);
            self.watch_all();
        }
        self.give_window(self.window_of(page, least * PAGE), page, least)
    }

    /// Gives a window of the file, if there is room in DRAM or room can be made.
    fn give_window(&mut self, window: Span, page: usize, pages: usize) -> bool {
        let most = self.start.budget.hold_above();
        if self.total.resident + pages > most && !self.is_idle() && self.can_keep_budget() {
            self.evict(pages * 2);
        }
        let stuck = self.is_idle() || !self.can_keep_budget();
        if self.total.resident + pages > most && !stuck {
            return false;
        }
        // Existing pages of the window leave, so that all of it is in one state.
        let before = self.start.tally;
        let gone = if stuck { 0 } else { self.convert(window, true).pages };
        before.add(PageCounter::Evictions, gone);
        if self.ranges(|ranges| ranges.converted.at(page)).is_none() {
            self.allow(window, page);
        }
        self.total.resident += pages;
        true
    }

    /// Lets the kernel provide new pages in the window, or at least this one.
    fn allow(&mut self, window: Span, page: usize) {
        self.admission.give(window.length() / PAGE);
        let mapping = vmas::at(self.maps, &mut self.tables.maps, page);
        let plain = self.ranges(|ranges| ranges.converted.first_out(Span::new(page, window.end)));
        let range = mapping.map_or(Span::default(), |mapping| {
            vmas::span(mapping).and(window).and(Span::new(window.start, plain.end))
        });
        let below = self.ranges(|ranges| ranges.converted.before(page));
        let start = below.map_or(range.start, |below| below.end.max(range.start));
        let range = Span::new(start, range.end);
        if range.contains(page) && self.uffd.unregister(range.start, range.length()).is_ok() {
            return self.uffd.wake_range(window.start, window.length());
        }
        let _ = self.uffd.zero(page);
        self.uffd.wake(page);
    }

    /// Copies the page to DRAM, as every access requires in copying mode.
    fn copy_in(&mut self, page: usize) -> bool {
        let crowded = self.total.resident > self.start.budget.hold_above();
        if self.start.copies && crowded && !self.cannot_evict() && self.can_keep_budget() {
            return false;
        }
        let begun = sys::nanos();
        let slot = self.store.slot(page).filter(|_| self.start.copies);
        let Some(slot) = slot else {
            self.uffd.wake(page);
            return true;
        };
        let content = &mut self.tables.page;
        content.fill(0);
        let read = self.store.read(slot, content);
        if self.check(read).is_some() {
            self.deliver(page, slot);
        }
        self.store.delay(1, |slowdown| slowdown.read);
        self.uffd.wake(page);
        self.start.tally.time(Timed::Copy, sys::nanos() - begun);
        true
    }

    fn deliver(&mut self, page: usize, slot: u32) {
        let from = self.tables.page.as_ptr() as usize;
        let mut result = self.uffd.copy(page, from);
        while result == Err(Errno(libc::EAGAIN)) {
            self.await_fork();
            result = self.uffd.copy(page, from);
        }
        if result.is_err() || self.tables.residency.of(slot) & IN_DRAM != 0 {
            return;
        }
        let returned = self.tables.residency.of(slot) & IN_NVM != 0;
        let (counter, why) = if returned {
            (PageCounter::StraightCopies, Entry::Returned)
        } else {
            (PageCounter::FirstTouches, Entry::New)
        };
        self.start.tally.add(counter, 1);
        self.tables.residency.set(slot, if returned { IN_DRAM | KEPT } else { IN_DRAM });
        self.victims.enter(slot, why);
        self.total.resident += 1;
        if !self.is_shared() {
            self.free_slots(Span::of(page, PAGE));
        }
    }

    /// Makes accesses to all new memory wait.
    pub(super) fn watch_all(&mut self) {
        self.admission.withdraw();
        self.ranges(|ranges| ranges.fresh.clear());
        let mut at = 0;
        while let Some(known) = self.ranges(|ranges| ranges.known.next(at)) {
            self.watch(known);
            at = known.end;
        }
    }

    /// Does the same for memory that became known since.
    pub(super) fn watch_fresh(&mut self) {
        while let Some(span) = self.ranges(|ranges| ranges.fresh.pop()) {
            self.watch(span);
        }
        if self.ranges(|ranges| ranges.fresh.overflowed()) {
            self.watch_all();
        }
    }

    /// Counts memory that became known since as if it had been given, because it is not watched.
    pub(super) fn credit_fresh(&mut self) {
        while let Some(span) = self.ranges(|ranges| ranges.fresh.pop()) {
            self.admission.give(span.length() / PAGE);
        }
        if self.ranges(|ranges| ranges.fresh.overflowed()) {
            self.watch_all();
        }
    }

    pub(super) fn watch(&mut self, range: Span) {
        let mut rest = range;
        loop {
            let plain = self.ranges(|ranges| ranges.convertible(rest));
            if plain.is_empty() {
                return;
            }
            // Mappings that are gone already, or that have another handler, do not matter.
            let _ = self.uffd.register_for(plain.start, plain.length(), MISSING);
            rest.start = plain.end;
        }
    }
}
