//! Holding writers back when they bring pages to DRAM faster than others leave it: what they are
//! about to write is protected until there is room.

use memweir_core::preload::page::PageCounter;

use super::Pager;
use crate::page::spans::Span;
use crate::sys;

/// What is protected at a time.
const STEP: usize = 2 << 20;
/// Steps between two looks.
const STEPS: usize = 256;

impl Pager<'_> {
    pub(super) fn hold_or_release(&mut self) {
        let budget = self.start.budget;
        let held = self.tables.held.count() > 0;
        let stuck = self.paused_since.is_some() || sys::micros() < self.idle_until;
        if self.total.resident > budget.hold_above() && !stuck {
            self.hold();
        } else if held && stuck {
            self.release();
        } else if held && self.total.resident <= budget.release_below() {
            self.release_some();
        }
    }

    /// Protects some more, beginning where a page came to DRAM last.
    fn hold(&mut self) {
        if self.tables.held.count() == 0 {
            self.held_since = sys::nanos();
            self.hold_from = self.arrived_at / STEP * STEP;
            self.start.tally.add(PageCounter::Holds, 1);
        }
        for _ in 0..STEPS {
            let from = self.hold_from;
            let next = self.ranges(|ranges| ranges.converted.next(from));
            let Some(span) = next else {
                // From the first address on again.
                self.hold_from = 0;
                return;
            };
            let start = span.start.max(self.hold_from);
            let step = Span::new(start, span.end.min(start / STEP * STEP + STEP));
            self.hold_from = step.end;
            if self.tables.held.first_out(step).is_empty() {
                continue;
            }
            self.watch_chunks(step);
            if self.tables.held.insert(step)
                && self.uffd.protect(step.start, step.length()).is_err()
            {
                self.tables.held.remove(step);
            }
        }
    }

    /// Lets all writers go on.
    pub(super) fn release(&mut self) {
        while self.release_next() {}
    }

    /// Lets writers go on until those who do have filled memory again: that takes them less time than it
    /// takes to let all of them go.
    fn release_some(&mut self) {
        let first = self.release_from;
        while self.release_next() {
            self.measure();
            if self.total.resident > self.start.budget.hold_above() {
                // They are the first to be held again.
                self.hold_from = first;
                return;
            }
        }
    }

    /// Lets go on who writes to the next range; false if there is none. It goes on where it ended last,
    /// so that nobody waits for ever.
    fn release_next(&mut self) -> bool {
        let next = self.tables.held.next(self.release_from).or_else(|| self.tables.held.next(0));
        let Some(span) = next else { return false };
        let start = if span.contains(self.release_from) { self.release_from } else { span.start };
        let step = Span::new(start, span.end.min(start / STEP * STEP + STEP));
        self.let_go(step);
        self.tables.held.remove(step);
        self.release_from = step.end;
        if self.tables.held.count() == 0 {
            let held = sys::nanos() - self.held_since;
            self.start.tally.add(PageCounter::HoldNanos, held as usize);
        }
        true
    }
}
