//! The protocol by which pages leave DRAM, for which [`page`](crate::page) argues that no write is
//! lost. The result of each step is a type that only the step before can make, so no step is left
//! out: [`Protected`] (1), [`Settled`] (2), [`Written`] (3). All pages of a batch go through each
//! step together.

use super::memory::Memory;
use super::pages::Pages;
use super::residency::Residency;
use crate::page::budget::MOST_AT_ONCE;
use crate::page::slots::Slots;
use crate::page::spans::Span;
use crate::page::vmas;
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// The protocol's view of memory, and the kernel's part in it. Tests inject faults, and page faults
/// of other threads, between any two calls.
pub(super) trait Steps {
    /// Returns the slot of the page at `address`, if it has one.
    fn slot(&self, address: usize) -> Option<u32>;
    fn residency(&mut self) -> &mut Residency;
    /// Makes writes to the range wait; returns false if that is impossible.
    fn protect(&mut self, range: Span) -> bool;
    /// Returns the pages of the range that are in DRAM.
    fn in_dram(&mut self, range: Span) -> Option<Pages>;
    /// Returns true if the slots of the run stay in the file while their pages are in DRAM.
    fn keeps_slots(&self, run: Span) -> bool;
    /// Waits for the page faults in progress in all mappings of the runs; returns false if it could
    /// not.
    fn await_faults(&mut self, runs: &[Span]) -> bool;
    /// Removes the slots of the run from the file; returns false if some may be left.
    fn punch(&mut self, run: Span) -> bool;
    /// Writes the run to its slots; returns false if some may be incomplete.
    fn write_out(&mut self, run: Span) -> bool;
    /// Drops the pages of all runs from DRAM by one call; returns the bytes that are gone, of the
    /// first runs.
    fn drop_together(&mut self, runs: &[Span]) -> usize;
    /// Drops the pages of the run from DRAM; returns false if some may be left.
    fn drop_pages(&mut self, run: Span) -> bool;
}

/// Pages on their way out, as runs of neighbors whose slots are neighbors, too.
pub(super) struct Batch {
    runs: [Span; MOST_AT_ONCE],
    used: usize,
}

impl Batch {
    pub(super) const EMPTY: Self =
        Self { runs: [Span { start: 0, end: 0 }; MOST_AT_ONCE], used: 0 };

    /// Adds the page at `address`. There is room for [`MOST_AT_ONCE`] pages.
    fn add(&mut self, address: usize) {
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

    /// Removes the runs for which `goes_on` is false.
    fn retain(&mut self, mut goes_on: impl FnMut(Span) -> bool) {
        let mut used = 0;
        for at in 0..self.used {
            if goes_on(self.runs[at]) {
                self.runs[used] = self.runs[at];
                used += 1;
            }
        }
        self.used = used;
    }
}

/// Calls `note` on the residency for the slot of each page of a run.
fn note(steps: &mut impl Steps, run: Span, note: fn(&mut Residency, u32)) {
    for page in run.pages() {
        if let Some(slot) = steps.slot(page) {
            note(steps.residency(), slot);
        }
    }
}

/// The result of step 1: victims in DRAM whose writers wait.
pub(super) struct Protected<'b>(&'b mut Batch);

impl<'b> Protected<'b> {
    /// Begins a batch, which is empty.
    pub(super) fn begin(batch: &'b mut Batch) -> Self {
        batch.used = 0;
        Self(batch)
    }

    /// Protects `range`, from the first to the last victim of a cluster, and adds those that are in
    /// DRAM then.
    pub(super) fn add(&mut self, cluster: &[u32], range: Span, steps: &mut impl Steps) {
        let in_dram = if steps.protect(range) { steps.in_dram(range) } else { None };
        for slot in cluster {
            let along = (slot - cluster[0]) as usize;
            match &in_dram {
                None => steps.residency().stays(*slot),
                Some(in_dram) if in_dram.has(along) => self.0.add(range.start + along * PAGE),
                Some(_) => steps.residency().absent(*slot),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.used == 0
    }

    /// Keeps all pages in DRAM, because of a fork.
    pub(super) fn give_up(self, steps: &mut impl Steps) {
        self.0.runs().iter().for_each(|run| note(steps, *run, Residency::returns));
        self.0.used = 0;
    }

    /// Performs step 2: waits for page faults if slots stay in the file, and otherwise removes
    /// those that were not removed since their pages came to DRAM. Pages for which that is
    /// impossible stay.
    pub(super) fn settle(self, steps: &mut impl Steps) -> Settled<'b> {
        let waits = self.0.runs().iter().any(|run| steps.keeps_slots(*run));
        let settled = !waits || steps.await_faults(self.0.runs());
        self.0.retain(|run| {
            let settled = settled && (waits || is_removed(run, steps) || steps.punch(run));
            if !settled {
                note(steps, run, Residency::stays_unwritten);
            }
            settled
        });
        Settled(self.0)
    }
}

/// Returns true if all slots of the run were removed from the file since their pages came to DRAM.
fn is_removed(run: Span, steps: &mut impl Steps) -> bool {
    run.pages().all(|page| steps.slot(page).is_none_or(|slot| !steps.residency().is_kept(slot)))
}

/// The result of step 2: no page fault that could install an earlier content is in progress.
pub(super) struct Settled<'b>(&'b mut Batch);

impl<'b> Settled<'b> {
    /// Performs step 3. Pages that cannot be written stay.
    pub(super) fn write_out(self, steps: &mut impl Steps) -> Written<'b> {
        self.0.retain(|run| {
            let written = steps.write_out(run);
            if !written {
                note(steps, run, Residency::stays_unwritten);
            }
            written
        });
        Written(self.0)
    }
}

/// The result of step 3: the slots have the content of the pages.
pub(super) struct Written<'b>(&'b mut Batch);

impl Written<'_> {
    /// Performs the first half of step 4: drops the copies in DRAM. The batch has the pages that
    /// left. Writes may continue then.
    pub(super) fn leave(self, steps: &mut impl Steps) {
        let mut dropped = steps.drop_together(self.0.runs());
        self.0.retain(|run| {
            // A part of the run may be gone already, which does no harm.
            let gone = dropped >= run.length() || steps.drop_pages(run);
            dropped = dropped.saturating_sub(run.length());
            note(steps, run, if gone { Residency::left } else { Residency::stays_undropped });
            gone
        });
    }
}

impl Steps for Memory {
    fn slot(&self, address: usize) -> Option<u32> {
        self.store.slot(address)
    }

    fn residency(&mut self) -> &mut Residency {
        &mut self.residency
    }

    fn protect(&mut self, range: Span) -> bool {
        self.monitor.protect(range)
    }

    fn in_dram(&mut self, range: Span) -> Option<Pages> {
        let mut pages = Pages::NONE;
        self.add_present(range, &mut pages)?;
        Some(pages)
    }

    /// Slots that are parts of larger pages stay; others do only if the budget can absorb a long
    /// wait.
    fn keeps_slots(&self, run: Span) -> bool {
        self.can_absorb_fault_waits || self.store.may_be_large(run)
    }

    /// Advice that changes a mapping's flags locks the mapping, and a fault holds that lock from
    /// its first look at the page table until the entry is set. Advice about the order of accesses
    /// changes nothing else for a file in memory.
    fn await_faults(&mut self, runs: &[Span]) -> bool {
        let mut waited = Span::default();
        runs.iter().all(|run| {
            let mut rest = Span::new(run.start.max(waited.end), run.end);
            while !rest.is_empty() {
                let Some(mapping) = self.mapping(rest.start).map(vmas::span) else { return false };
                let (start, length) = (mapping.start, mapping.length());
                let done = sys::advise(start, length, libc::MADV_SEQUENTIAL)
                    .and_then(|()| sys::advise(start, length, libc::MADV_NORMAL));
                if self.tally.check(done).is_none() {
                    return false;
                }
                waited = mapping;
                rest.start = mapping.end;
            }
            true
        })
    }

    fn punch(&mut self, run: Span) -> bool {
        self.store.punch(run)
    }

    fn write_out(&mut self, run: Span) -> bool {
        self.store.write_out(run, run.start)
    }

    fn drop_together(&mut self, runs: &[Span]) -> usize {
        let Some(process) = self.itself.filter(|_| runs.len() > 1) else { return 0 };
        let mut vector = [[0usize; 2]; MOST_AT_ONCE];
        for (part, run) in vector.iter_mut().zip(runs) {
            *part = [run.start, run.length()];
        }
        // SAFETY: the content of the runs is in their slots, and no write to them is in progress.
        unsafe { drop_all(process, &vector[..runs.len()]) }.unwrap_or(0)
    }

    fn drop_pages(&mut self, run: Span) -> bool {
        self.tally.check(sys::advise(run.start, run.length(), libc::MADV_DONTNEED)).is_some()
    }
}

/// Returns a descriptor of this process, if [`drop_together`](Steps::drop_together) can drop its
/// pages: before Linux 6.13, that is impossible for any process, even for itself. `empty` is a page
/// that was never touched.
pub(super) fn itself(empty: usize) -> Option<i32> {
    // SAFETY: creates a descriptor, and drops a page that was never touched.
    unsafe {
        let process = sys!(libc::SYS_pidfd_open, sys::process_id(), 0).ok()? as i32;
        drop_all(process, &[[empty, PAGE]]).ok().map(|_| process)
    }
}

/// Drops pages of a process, given as addresses and lengths; returns the bytes that are gone.
///
/// # Safety
/// The content of the pages must be needed no more.
unsafe fn drop_all(process: i32, parts: &[[usize; 2]]) -> Result<usize, Errno> {
    let (vector, count, advice) = (parts.as_ptr(), parts.len(), libc::MADV_DONTNEED);
    // SAFETY: as the caller says.
    unsafe { sys!(libc::SYS_process_madvise, process, vector, count, advice, 0, sys::ADVICE_MARK) }
}

#[cfg(test)]
mod tests;
