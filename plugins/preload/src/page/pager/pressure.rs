//! The shortage of memory: how much there is, what follows for new memory and for writers, and when
//! to check again. The thresholds are in [`budget`](crate::page::budget).

mod admission;
mod rest;

use std::sync::atomic::Ordering;

use memweir_abi::preload::page::{PageCounter, PagedState};

use super::Start;
use super::memory::Memory;
use super::store::CHUNK;
use crate::page::budget::{Budget, Stage};
use crate::page::space::{Ranges, Space};
use crate::page::spans::Span;
use crate::page::tally::{Tally, Total};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;
use admission::Admission;
pub(super) use admission::Watch;
use rest::Rest;

/// Pages for which NVM always keeps room, even if fewer are evicted together.
const LEAST_ROOM: usize = 64;

/// The shortage, as it was last measured.
///
/// Writers are stalled only while enough pages can leave to release them. New memory waits only
/// from [`Stage::Pressed`] on ([`Admission`]). After futile evictions, nothing is evicted for a
/// while ([`Rest`]).
pub(super) struct Pressure {
    budget: Budget,
    nvm_bytes: usize,
    space: &'static Space,
    tally: Tally,
    /// Index of this process among the counters.
    entry: usize,
    statm: i32,
    own: Total,
    total: Total,
    state: PagedState,
    admission: Admission,
    rest: Rest,
}

impl Pressure {
    pub(super) fn new(start: &Start, entry: usize) -> Result<Self, Errno> {
        Ok(Self {
            budget: start.budget,
            nvm_bytes: start.nvm_bytes,
            space: start.space,
            tally: start.tally,
            entry,
            statm: sys::open(c"/proc/self/statm", libc::O_RDONLY)?,
            own: Total::default(),
            total: Total::default(),
            state: PagedState::Ample,
            admission: Admission::FREE,
            rest: Rest::default(),
        })
    }

    pub(super) const fn budget(&self) -> Budget {
        self.budget
    }

    /// Returns the microseconds until the next check.
    pub(super) fn pause(&self) -> usize {
        self.admission.pause(self.budget, self.total.resident, self.total.reach)
    }

    /// Returns the pages that this process has to evict now.
    pub(super) fn to_evict(&self) -> usize {
        self.budget.to_evict(self.own.resident, self.total.resident)
    }

    /// Returns true if writers would stall with that many more pages in DRAM.
    pub(super) fn is_full_with(&self, pages: usize) -> bool {
        self.total.resident + pages > self.budget.stall_above()
    }

    /// Counts pages that came since the measurement.
    pub(super) fn count(&mut self, pages: usize) {
        self.total.resident += pages;
    }

    /// Returns the number of pages in a batch, which is small compared with the budget and with
    /// NVM.
    pub(super) fn batch(&self) -> usize {
        self.budget.batch().min((self.nvm_bytes / PAGE / 64).max(LEAST_ROOM))
    }

    /// Returns the bytes of NVM that a batch may take.
    fn batch_room(&self) -> usize {
        self.batch().max(LEAST_ROOM) * PAGE
    }

    /// Returns the bytes that may still go to NVM.
    pub(super) fn nvm_room(&self) -> usize {
        // Covers pages in flight of other processes, and pages that faults put there for a moment.
        self.nvm_bytes.saturating_sub(self.total.nvm + self.batch_room())
    }

    /// Returns true if NVM has too little room for the slots of resident pages.
    pub(super) fn nvm_is_short(&self) -> bool {
        self.nvm_room() < self.nvm_bytes / 8
    }

    /// Returns true if NVM has no room for a batch, so that nothing is evicted.
    pub(super) fn nvm_is_full(&self) -> bool {
        self.nvm_room() < self.batch_room()
    }

    /// Returns true if nothing could be evicted a moment ago, and few pages have come since or NVM
    /// is still full.
    pub(super) fn is_idle(&self) -> bool {
        let still = self.rest.covers(self.total.resident) || self.nvm_is_full();
        still && self.rest.lasts(sys::micros())
    }

    /// Returns true if nothing can be evicted now, because of a forked child or because nothing
    /// could be evicted a moment ago.
    pub(super) fn cannot_evict(&self, memory: &Memory) -> bool {
        memory.monitor.children().paused_since().is_some() || self.is_idle()
    }

    /// Returns true if enough pages can leave to keep the budget. If NVM is too small for that,
    /// stalling writers would be useless.
    pub(super) fn can_keep_budget(&self) -> bool {
        let excess = self.total.resident.saturating_sub(self.budget.release_below());
        excess * PAGE <= self.nvm_room() + self.total.kept
    }

    /// Stops evictions for that many microseconds at least, because one was futile.
    pub(super) fn rest(&mut self, micros: u64) {
        self.rest.begin(sys::micros(), micros, self.total.resident, self.budget.batch());
    }

    /// Returns true if the budget was exceeded when memory was last measured.
    pub(super) const fn is_exceeded(&self) -> bool {
        self.total.resident > self.budget.pages
    }

    /// Records that pages were evicted.
    pub(super) fn evicted(&mut self) {
        self.rest.forget();
    }

    /// Measures the memory in use, and publishes it.
    pub(super) fn measure(&mut self, memory: &Memory) {
        let mut text = [0u8; 128];
        let length = sys::read_at(self.statm, &mut text, 0).unwrap_or(0);
        let (resident, writable) = crate::memory::usage_of(&text[..length]);
        self.own.resident = resident;
        let (unwatched, shut) = (self.space.unwatched() / PAGE, self.space.was_shut() / PAGE);
        self.own.reach = self.admission.reach(resident, writable, unwatched, shut);
        self.tally.add(PageCounter::Looks, 1);
        self.own.nvm = memory.store.used();
        self.budget.chunks = self.own.nvm / CHUNK;
        self.own.kept = (memory.residency.kept() * PAGE).min(self.own.nvm);
        self.state = match self.admission.stage() {
            _ if memory.monitor.children().paused_since().is_some() => PagedState::Forked,
            Stage::Over if self.nvm_is_full() => PagedState::Full,
            Stage::Over => PagedState::Pressed,
            _ => PagedState::Ample,
        };
        self.total = self.tally.publish(self.entry, self.own, self.state);
    }

    /// Stalls writers if they bring pages to DRAM faster than others leave: the memory that they
    /// are about to write is protected until there is room.
    pub(super) fn stall_or_release(&mut self, memory: &mut Memory) {
        let stalled = memory.monitor.protection().any_stalled();
        let stuck = self.cannot_evict(memory) || !self.can_keep_budget();
        if self.is_full_with(0) && !stuck {
            memory.stall_writers();
        } else if stalled && stuck {
            memory.monitor.release();
        } else if stalled && self.total.resident <= self.budget.release_below() {
            self.release_some(memory);
        }
    }

    /// Lets writers continue until they have filled memory again, which takes them less time than
    /// it takes to release all of them.
    fn release_some(&mut self, memory: &mut Memory) {
        let first = memory.monitor.protection().release_from();
        while memory.monitor.release_next() {
            self.measure(memory);
            if self.is_full_with(0) {
                return memory.monitor.stall_again_from(first);
            }
        }
    }

    /// Measures memory, adapts the stage of shortage, and decides when to check again.
    pub(super) fn look(&mut self, memory: &mut Memory) {
        let grown = self.space.grown();
        self.admission.see_fresh(&mut memory.monitor);
        self.measure(memory);
        self.admission.check_limit(self.own.resident);
        self.change_stage(memory);
        let (least, much) = (self.budget.least_room(), self.budget.window() * 4);
        let mut room = self.room(memory);
        // Credit that the program has not used may take up the room. It is withdrawn as soon as the
        // room is smaller than the credit if it counts towards the reach, and otherwise only when
        // the room is too small for reports. Withdrawn too early, it would be gone before the
        // threads that wait for it have run.
        let credit = self.admission.credit();
        let counts = self.own.reach >= self.own.resident + credit;
        let wanted = if counts { credit } else { least };
        let left = self.budget.room_for_credit(self.total.reach, self.total.processes);
        let short = room.is_some() && left < wanted;
        if self.admission.stage() == Stage::Pressed && short && credit > much {
            self.admission.withdraw(&mut memory.monitor);
            self.measure(memory);
            room = self.room(memory);
        }
        let room = room.unwrap_or(0);
        self.admission.set_limit(self.own.reach, room, least);
        let covered = self.admission.report_covers_growth();
        self.space.tell_beyond(grown, if covered { room * PAGE } else { 0 });
        if self.admission.is_by_credit() {
            let from = if covered { usize::MAX } else { self.budget.window() * PAGE };
            self.space.tell_from.store(from, Ordering::Release);
        }
    }

    /// Returns the pages of address space that the program may add without notice: as long as
    /// memory would not become short even if all of it came to DRAM, no check is needed. `None` if
    /// more pages can come than are known.
    fn room(&self, memory: &mut Memory) -> Option<usize> {
        let uncounted =
            |ranges: &mut Ranges| ranges.excluded.count() + ranges.converted.count() > 0;
        let unseen = self.admission.is_by_credit() && memory.monitor.ranges(uncounted);
        let known = !unseen && !memory.monitor.children().any();
        let room = self.budget.room(self.total.reach, self.admission.stage());
        known.then(|| room / self.total.processes.max(1))
    }

    /// Enters the next stage if memory has become shorter, and takes its measures.
    fn change_stage(&mut self, memory: &mut Memory) {
        let budget = self.budget;
        let mut stage = budget.stage(self.total.resident).max(self.admission.stage());
        if stage < Stage::Pressed {
            if self.room(memory).is_some_and(|room| room >= budget.least_room()) {
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
            self.space.tell_from.store(budget.window() * PAGE, Ordering::Release);
            // All address space may be populated: it counts as if it had been given.
            self.admission.give_all(self.own.reach);
            self.measure(memory);
            if self.room(memory).is_none_or(|room| room < budget.least_room()) {
                self.admission.withdraw(&mut memory.monitor);
            }
        }
    }

    /// Gives new memory around `page` by credit; returns false if there is no room for `least`
    /// pages. While a forked child stops evictions, none is needed.
    pub(super) fn give_credit(&mut self, page: usize, least: usize, memory: &mut Memory) -> bool {
        let paused = memory.monitor.children().paused_since().is_some();
        if self.admission.stage() == Stage::Over && !paused {
            return false;
        }
        if self.total.resident + least > self.budget.high() && !paused {
            self.admission.enter(Stage::Over);
            self.admission.withdraw(&mut memory.monitor);
            return false;
        }
        let pages = self.budget.credit(self.total.reach);
        let bytes = pages * PAGE;
        self.give(Span::of(page / bytes * bytes, bytes), page, memory);
        self.total.reach += pages;
        true
    }

    /// Lets the kernel provide new pages in the window, or at least this one.
    pub(super) fn give(&mut self, window: Span, page: usize, memory: &mut Memory) {
        self.admission.give(window.length() / PAGE);
        self.count(window.length() / PAGE);
        memory.provide(window, page);
    }
}
