//! Holds writers if they bring pages to DRAM faster than others leave: the memory that they are
//! about to write is protected until there is room.

use memweir_abi::preload::page::PageCounter;

use super::Pager;
use crate::sys;
use crate::uffd::PAGE;

/// Bytes that are protected at a time.
const STEP: usize = 2 << 20;
/// Steps between two checks.
const STEPS: usize = 256;

impl Pager<'_> {
    pub(super) fn hold_or_release(&mut self) {
        let budget = self.start.budget;
        let held = self.tables.protection.holds();
        let stuck = self.cannot_evict() || !self.can_keep_budget();
        if self.total.resident > budget.hold_above() && !stuck {
            self.hold();
        } else if held && stuck {
            self.release();
        } else if held && self.total.resident <= budget.release_below() {
            self.release_some();
        }
    }

    /// Returns true if enough pages can leave to keep the budget. If NVM is too small for that,
    /// holding writers would be useless.
    pub(super) fn can_keep_budget(&self) -> bool {
        let excess = self.total.resident.saturating_sub(self.start.budget.release_below());
        excess * PAGE <= self.nvm_room() + self.total.kept
    }

    /// Protects all writable memory, starting where a page last came to DRAM.
    pub(super) fn hold(&mut self) {
        if self.tables.protection.begin_hold(STEP, sys::nanos()) {
            self.start.tally.add(PageCounter::Holds, 1);
        }
        let mut first = None;
        for _ in 0..STEPS {
            let from = self.tables.protection.hold_from();
            let Some(step) = self.ranges(|ranges| ranges.converted.part_behind(from, STEP)) else {
                return;
            };
            if first == Some(step.start) {
                return;
            }
            first = first.or(Some(step.start));
            if !self.tables.protection.pass(step) {
                continue;
            }
            self.watch_chunks(step);
            if self.tables.protection.hold(step)
                && self.uffd.protect(step.start, step.length()).is_err()
            {
                self.tables.protection.undo_hold(step);
            }
        }
    }

    /// Lets all writers continue.
    pub(super) fn release(&mut self) {
        while self.release_next() {}
    }

    /// Lets writers continue until they have filled memory again, which takes them less time than
    /// it takes to release all of them.
    fn release_some(&mut self) {
        let first = self.tables.protection.release_from();
        while self.release_next() {
            self.measure();
            if self.total.resident > self.start.budget.hold_above() {
                // The ranges released here are the first to be held again.
                self.tables.protection.hold_again_from(first);
                return;
            }
        }
    }

    /// Lets the writers of the next range continue; returns false if there is none. It resumes
    /// where it ended last, so that no writer waits forever.
    fn release_next(&mut self) -> bool {
        let Some(step) = self.tables.protection.next_to_release(STEP) else { return false };
        self.let_go(step);
        if let Some(since) = self.tables.protection.released(step) {
            let held = sys::nanos() - since;
            self.start.tally.add(PageCounter::HoldNanos, held as usize);
        }
        true
    }
}
