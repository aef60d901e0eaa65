//! A batch of victims on its way out of DRAM. Each step of the protocol that [`page`](crate::page)
//! argues for is performed on all of them before the next one.

use memweir_abi::preload::page::PageCounter;
use memweir_policy::paging::{Entry, VictimPolicy};

use super::Pager;
use super::marks::{IN_DRAM, IN_NVM, KEPT};
use super::store::Source;
use crate::page::budget::MOST_AT_ONCE;
use crate::page::slots::Slots;
use crate::page::spans::Span;
use crate::sys::{self, sys};
use crate::uffd::PAGE;

/// Victims that are protected and in DRAM, as runs of neighbors whose slots are neighbors, too.
pub(super) struct Batch {
    runs: [Span; MOST_AT_ONCE],
    used: usize,
}

impl Batch {
    pub(super) const EMPTY: Self =
        Self { runs: [Span { start: 0, end: 0 }; MOST_AT_ONCE], used: 0 };

    /// Adds the page at `address`. There is room for [`MOST_AT_ONCE`] pages.
    pub(super) fn add(&mut self, address: usize) {
        let page = Span::of(address, PAGE);
        match self.runs[..self.used].last_mut() {
            // The slots of the next window may be anywhere in the file.
            Some(run) if run.end == page.start && run.end < Slots::window_end(run.start) => {
                run.end = page.end;
            }
            _ => {
                if let Some(free) = self.runs.get_mut(self.used) {
                    *free = page;
                    self.used += 1;
                }
            }
        }
    }

    pub(super) fn runs(&self) -> &[Span] {
        &self.runs[..self.used]
    }

    pub(super) fn pages(&self) -> usize {
        self.runs().iter().map(|run| run.length() / PAGE).sum()
    }

    /// Removes the runs for which `stays` is false.
    fn retain(&mut self, mut stays: impl FnMut(Span) -> bool) {
        let mut used = 0;
        for at in 0..self.used {
            if stays(self.runs[at]) {
                self.runs[used] = self.runs[at];
                used += 1;
            }
        }
        self.used = used;
    }
}

/// Returns a descriptor of this process, if [`drop_together`](Pager::drop_together) can drop its
/// pages: before Linux 6.13, that is impossible for any process, even for itself. `empty` is a page
/// that was never touched.
pub(super) fn itself(empty: usize) -> Option<i32> {
    // SAFETY: creates a descriptor, and drops a page that was never touched.
    unsafe {
        let process = sys!(libc::SYS_pidfd_open, sys::process_id(), 0).ok()? as i32;
        let (vector, advice) = ([empty, PAGE], libc::MADV_DONTNEED);
        let dropped = sys!(libc::SYS_process_madvise, process, vector.as_ptr(), 1, advice, 0);
        dropped.ok().map(|_| process)
    }
}

impl Pager<'_> {
    /// Performs steps 2 to 4 of the protocol on pages that are protected. Those that cannot leave
    /// are removed from the batch.
    pub(super) fn move_out(&mut self, batch: &mut Batch) {
        let waits = batch.runs().iter().any(|run| self.keeps_slots(*run));
        let settled = !waits || self.await_faults(batch.runs());
        self.store.bind(Source::Nvm);
        batch.retain(|run| {
            let free = settled && (waits || self.free_slots_of(run));
            let written = free && self.store.write_out(run, run.start);
            if !written {
                self.mark(run, IN_DRAM | KEPT);
                self.keep_all(run);
            }
            written
        });
        self.store.bind(Source::Anywhere);
        self.drop_copies(batch);
        for run in batch.runs() {
            self.mark(*run, IN_NVM);
        }
    }

    /// Performs step 2 where slots do not stay, unless it was performed on all pages of the run
    /// since they came to DRAM.
    fn free_slots_of(&mut self, run: Span) -> bool {
        let mut slots = super::scan::range_pages(run).filter_map(|page| self.store.slot(page));
        slots.all(|slot| !self.tables.residency.is_kept(slot)) || self.store.punch(run)
    }

    /// Step 4: drops the copies in DRAM.
    fn drop_copies(&mut self, batch: &mut Batch) {
        let mut dropped = self.drop_together(batch.runs());
        batch.retain(|run| {
            if dropped >= run.length() {
                dropped -= run.length();
                return true;
            }
            // A part of the run may be gone already, which does no harm.
            dropped = 0;
            let advised = sys::advise(run.start, run.length(), libc::MADV_DONTNEED);
            let gone = self.check(advised).is_some();
            if !gone {
                self.mark(run, IN_DRAM | IN_NVM | KEPT);
                self.keep_all(run);
            }
            gone
        });
    }

    /// Does the same for all runs by one call, if the kernel supports it; returns the bytes that
    /// are gone, of the first runs.
    fn drop_together(&self, runs: &[Span]) -> usize {
        let Some(process) = self.itself.filter(|_| runs.len() > 1) else { return 0 };
        let mut vector = [[0usize; 2]; MOST_AT_ONCE];
        for (part, run) in vector.iter_mut().zip(runs) {
            *part = [run.start, run.length()];
        }
        let (parts, advice) = (runs.len(), libc::MADV_DONTNEED);
        // SAFETY: the content of the runs is in their slots, and no write to them is in progress.
        unsafe { sys!(libc::SYS_process_madvise, process, vector.as_ptr(), parts, advice, 0) }
            .unwrap_or(0)
    }

    /// Keeps all pages of a run in DRAM.
    pub(super) fn keep_all(&mut self, run: Span) {
        for page in super::scan::range_pages(run) {
            if let Some(slot) = self.store.slot(page) {
                self.keep(slot);
            }
        }
    }

    fn mark(&mut self, run: Span, marks: u8) {
        for page in super::scan::range_pages(run) {
            if let Some(slot) = self.store.slot(page) {
                self.tables.residency.set(slot, marks);
            }
        }
    }

    /// Keeps a victim in DRAM.
    pub(super) fn keep(&mut self, slot: u32) {
        self.start.tally.add(PageCounter::Skipped, 1);
        self.victims.enter(slot, Entry::Kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_are_one_run() {
        let mut batch = Batch::EMPTY;
        [3, 4, 5, 9, 11, 12].into_iter().for_each(|page| batch.add(page * PAGE));
        let runs = [(3, 6), (9, 10), (11, 13)].map(|(a, b)| Span::new(a * PAGE, b * PAGE));
        assert_eq!((batch.runs(), batch.pages()), (&runs[..], 6));
        batch.retain(|run| run.length() > PAGE);
        assert_eq!((batch.runs(), batch.pages()), (&[runs[0], runs[2]][..], 5));
    }

    #[test]
    fn runs_end_where_slots_are_no_neighbors() {
        let border = Slots::window_end(0);
        let mut batch = Batch::EMPTY;
        [border - PAGE, border, border + PAGE].into_iter().for_each(|page| batch.add(page));
        let runs = [(border - PAGE, border), (border, border + 2 * PAGE)];
        assert_eq!(batch.runs(), runs.map(|(start, end)| Span::new(start, end)));
    }

    #[test]
    fn as_many_runs_as_pages_have_room() {
        let mut batch = Batch::EMPTY;
        (0..MOST_AT_ONCE).for_each(|page| batch.add(page * 2 * PAGE));
        assert_eq!((batch.runs().len(), batch.pages()), (MOST_AT_ONCE, MOST_AT_ONCE));
    }
}
