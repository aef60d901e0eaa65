//! Measures memory, the shortage that follows, and whether to check again soon. The thresholds are
//! in [`budget`](crate::page::budget).

use std::sync::atomic::Ordering;

use memweir_abi::preload::page::{PageCounter, PagedState};

use super::{Pager, store};
use crate::page::budget::Stage;
use crate::sys::{self, sys};
use crate::uffd::PAGE;

impl Pager<'_> {
    /// Measures the memory in use, and publishes it.
    pub(super) fn measure(&mut self) {
        let mut text = [0u8; 128];
        let length = sys::read_at(self.statm, &mut text, 0).unwrap_or(0);
        let (resident, writable) = crate::memory::usage_of(&text[..length]);
        let space = self.start.space;
        self.own.resident = resident;
        let (unwatched, shut) = (space.unwatched() / PAGE, space.was_shut() / PAGE);
        self.own.reach = self.admission.reach(resident, writable, unwatched, shut);
        self.start.tally.add(PageCounter::Looks, 1);
        self.own.nvm = self.store.used();
        self.start.budget.chunks = self.own.nvm / store::CHUNK;
        self.own.kept = (self.tables.residency.kept() * PAGE).min(self.own.nvm);
        self.state = match self.admission.stage() {
            _ if self.tables.children.paused_since().is_some() => PagedState::Forked,
            Stage::Over if self.nvm_is_full() => PagedState::Full,
            Stage::Over => PagedState::Pressed,
            _ => PagedState::Ample,
        };
        self.total = self.start.tally.publish(Some(self.entry), self.own, self.state);
    }

    /// Measures memory, adapts the stage of shortage, and decides when to check again.
    pub(super) fn look(&mut self) {
        let space = self.start.space;
        let grown = space.grown();
        if self.admission.is_by_credit() {
            if self.admission.is_at_ease() { self.credit_fresh() } else { self.watch_fresh() }
        }
        self.measure();
        self.admission.notice(self.own.resident);
        self.change_stage();
        let (least, much) = (self.start.budget.least_room(), self.start.budget.window() * 4);
        let mut room = self.room();
        // Unused credit is withdrawn: at once if it counts towards the pages that may come,
        // otherwise only if there is no other way.
        let credit = self.admission.credit();
        let counts = self.own.reach >= self.own.resident + credit;
        let wanted = if counts { credit } else { least };
        let short = room.is_some_and(|room| room < wanted);
        if self.admission.stage() == Stage::Pressed && short && credit > much {
            self.watch_all();
            self.measure();
            room = self.room();
        }
        let room = room.unwrap_or(0);
        self.admission.agree(self.own.reach, room, least);
        let at_ease = self.admission.is_at_ease();
        space.tell_beyond(grown, if at_ease { room * PAGE } else { 0 });
        if self.admission.is_by_credit() {
            let from = if at_ease { usize::MAX } else { self.start.budget.window() * PAGE };
            space.tell_from.store(from, Ordering::Release);
        }
    }

    /// Returns the pages of address space that the program may add without notice: as long as
    /// memory would not become short even if all of it came to DRAM, no check is needed. `None` if
    /// more pages can come than are known.
    fn room(&mut self) -> Option<usize> {
        let unseen = self.admission.is_by_credit()
            && self.ranges(|ranges| ranges.excluded.count() + ranges.converted.count() > 0);
        let known = !unseen && !self.tables.children.any();
        let room = self.start.budget.room(self.total.reach, self.admission.stage());
        known.then(|| room / self.total.processes.max(1))
    }

    /// Enters the next stage if memory has become shorter, and takes its measures.
    fn change_stage(&mut self) {
        let budget = self.start.budget;
        let mut stage = budget.stage(self.total.resident).max(self.admission.stage());
        if stage < Stage::Pressed {
            if self.room().is_some_and(|room| room >= budget.least_room()) {
                return;
            }
            if budget.is_near(self.total.resident, stage) {
                stage = Stage::Pressed;
            }
        }
        if stage == self.admission.stage() {
            return;
        }
        // Huge pages come too fast to be counted. Memory that was short once may become short
        // again.
        // SAFETY: changes a setting of the memory, which belongs to this process and the program.
        let _ = unsafe { sys!(libc::SYS_prctl, libc::PR_SET_THP_DISABLE, 1) };
        self.admission.enter(stage);
        if stage >= Stage::Pressed {
            let window = self.start.budget.window() * PAGE;
            self.start.space.tell_from.store(window, Ordering::Release);
            // All address space may be populated: it counts as if it had been given.
            self.admission.give_all(self.own.reach);
            self.measure();
            if self.room().is_none_or(|room| room < budget.least_room()) {
                self.watch_all();
            }
        }
    }
}
