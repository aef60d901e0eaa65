//! Decides when to evict which pages, and protects them. [`batch`](super::batch) moves them out.

use memweir_abi::preload::page::{PageCounter, Timed};
use memweir_policy::paging::VictimPolicy;

use super::Pager;
use super::batch::Batch;
use super::marks::{IN_DRAM, KEPT, PROBED};
use super::pages::CLUSTER;
use super::scan::SHARE;
use crate::page::budget::MOST_AT_ONCE;
use crate::page::slots::WINDOW_PAGES;
use crate::page::spans::Span;
use crate::page::vmas;
use crate::sys::{self, Errno};
use crate::uffd::PAGE;

/// Largest distance in pages between two victims that are protected together, rather than one after
/// the other.
const GAP: u32 = 8;
/// Futile batches in a row after which nothing can be evicted.
const VAIN: usize = 8;
/// One batch in this many is followed by timing a read and a write of one of its pages.
const PROBES: usize = 32;

/// Outcome for victims.
#[derive(Clone, Copy)]
enum Eviction {
    Leaves,
    /// Some of them are locked, or must stay out of the file for another reason.
    Stays,
    /// Some of them were released by the program.
    Gone,
}

impl Pager<'_> {
    /// Evicts about `pages` pages, and no more than may leave between two checks of everything
    /// else.
    pub(super) fn evict(&mut self, pages: usize) {
        let mut left = pages.min(MOST_AT_ONCE);
        let mut vain = 0;
        let started = sys::micros();
        while left > 0 && !self.tables.children.any() {
            if self.nvm_is_full() && !self.free_kept() {
                self.start.tally.add(PageCounter::NvmFull, 1);
                // Futile attempts take no more of the time than scans.
                return self.rest((sys::micros() - started) * SHARE);
            }
            let begun = sys::nanos();
            let done = match self.convert_next() {
                0 => self.evict_batch(left.min(self.batch())),
                pages => pages,
            };
            let nanos = sys::nanos() - begun;
            self.start.tally.add(PageCounter::EvictionNanos, nanos as usize);
            if done == 0 {
                // The victims left on their own, or mappings are changing at the moment.
                vain += 1;
                if vain == VAIN || self.victims.resident() == 0 {
                    return self.rest(0);
                }
                continue;
            }
            self.rest.forget();
            self.start.tally.add(PageCounter::Batches, 1);
            self.start.tally.add(PageCounter::Evictions, done);
            self.start.tally.time(Timed::Eviction, nanos / done as u64);
            left = left.saturating_sub(done);
            self.measure();
            // Holds writers that fill memory faster than it is emptied.
            self.hold_or_release();
            self.drain();
        }
    }

    /// Removes slots of resident pages from the file; returns true if there is room then.
    fn free_kept(&mut self) -> bool {
        if self.tables.residency.kept() > 0 {
            self.scan();
            self.measure();
        }
        !self.nvm_is_full()
    }

    fn rest(&mut self, micros: u64) {
        self.rest.begin(sys::micros(), micros, self.total.resident, self.start.budget.batch());
    }

    /// Keeps the program from changing its mappings; returns false if it is about to.
    pub(super) fn close_gate(&mut self) -> bool {
        self.start.control.close_gate()
    }

    pub(super) fn open_gate(&mut self) {
        self.start.control.open_gate();
    }

    /// Evicts up to `pages` victims of the policy, and returns their number.
    fn evict_batch(&mut self, pages: usize) -> usize {
        if self.victims.resident() < pages as u32 * 2 {
            self.scan();
        }
        if !self.close_gate() {
            return 0;
        }
        let mut chosen = [0u32; MOST_AT_ONCE];
        let chosen = self.choose(&mut chosen[..pages]);
        let mut clusters = [Default::default(); MOST_AT_ONCE];
        let count = self.sort_out(chosen, &mut clusters);
        let mut batch = Batch::EMPTY;
        clusters[..count].iter().for_each(|cluster| self.gather(cluster, &mut batch));
        // Checked once for all of them, now that it is known which are in DRAM.
        if batch.pages() > 0 && self.is_shared() {
            batch.runs().iter().for_each(|run| self.keep_all(*run));
            batch = Batch::EMPTY;
        }
        self.move_out(&mut batch);
        while let Some(span) = self.tables.protection.next_moving(0) {
            self.unprotect(span);
        }
        if self.batches.is_multiple_of(PROBES)
            && let Some(run) = batch.runs().first()
        {
            self.probe(run.start);
        }
        self.open_gate();
        self.batches += 1;
        batch.pages()
    }

    /// Returns the policy's next victims, in the order of their slots.
    fn choose<'b>(&mut self, room: &'b mut [u32]) -> &'b [u32] {
        let mut count = 0;
        while let Some(free) = room.get_mut(count)
            && let Some(victim) = self.victims.victim()
        {
            *free = victim;
            count += 1;
        }
        room[..count].sort_unstable();
        &room[..count]
    }

    /// Groups the victims that can be protected together, and returns the number of such clusters.
    /// Victims that must stay are kept. To be called before anything is protected: the lock holder
    /// of the ranges may have its stack there.
    fn sort_out<'b>(
        &mut self,
        chosen: &'b [u32],
        clusters: &mut [&'b [u32]; MOST_AT_ONCE],
    ) -> usize {
        let locked = self.start.space.is_locked();
        let (mut left, mut count) = (chosen, 0);
        while !left.is_empty() {
            // Either a whole cluster, or its first page alone.
            let whole = &left[..cluster_of(left)];
            let (cluster, fate) = match self.fate(whole) {
                Eviction::Leaves => (whole, Eviction::Leaves),
                _ => (&left[..1], self.fate(&left[..1])),
            };
            left = &left[cluster.len()..];
            match fate {
                Eviction::Leaves if !locked => {
                    self.watch_chunks(self.range_of(cluster));
                    clusters[count] = cluster;
                    count += 1;
                }
                Eviction::Leaves | Eviction::Stays => {
                    cluster.iter().for_each(|slot| self.keep(*slot))
                }
                Eviction::Gone => {
                    self.tables.residency.set(cluster[0], 0);
                }
            }
        }
        count
    }

    /// Returns the outcome for victims that lie close to each other, and all pages between them.
    fn fate(&mut self, cluster: &[u32]) -> Eviction {
        let range = self.range_of(cluster);
        self.ranges(|ranges| match ranges.converted.at(range.start) {
            Some(span) if span.end >= range.end => {
                if ranges.excluded.touches(range) {
                    Eviction::Stays
                } else {
                    Eviction::Leaves
                }
            }
            _ => Eviction::Gone,
        })
    }

    fn range_of(&self, cluster: &[u32]) -> Span {
        let address = |slot: Option<&u32>| slot.map_or(0, |slot| self.store.address(*slot));
        Span::new(address(cluster.first()), address(cluster.last()) + PAGE)
    }

    /// Protects a cluster, and adds those of its pages that are in DRAM then.
    fn gather(&mut self, cluster: &[u32], batch: &mut Batch) {
        let range = self.range_of(cluster);
        let in_dram = if self.protect(range) { self.in_dram(range) } else { None };
        let Some(in_dram) = in_dram else {
            return cluster.iter().for_each(|slot| self.keep(*slot));
        };
        for slot in cluster {
            if in_dram.has((slot - cluster[0]) as usize) {
                batch.add(self.store.address(*slot));
            } else {
                self.tables.residency.remove(*slot, IN_DRAM | KEPT);
            }
        }
    }

    /// Makes writes to the range wait. Returns false if the kernel cannot do that here.
    pub(super) fn protect(&mut self, range: Span) -> bool {
        if !self.tables.protection.begin_move(range) {
            return false;
        }
        loop {
            match self.uffd.protect(range.start, range.length()) {
                Ok(()) => return true,
                // A fork waits for its answer.
                Err(Errno(libc::EAGAIN)) => self.await_fork(),
                error => {
                    self.check(error);
                    self.unprotect(range);
                    return false;
                }
            }
        }
    }

    /// Lets writes to the range continue, except where writers are held.
    pub(super) fn unprotect(&mut self, range: Span) {
        let mut rest = range;
        while !rest.is_empty() {
            let open = self.tables.protection.first_not_held(rest);
            if open.is_empty() {
                break;
            }
            self.let_go(open);
            rest.start = open.end;
        }
        self.tables.protection.end_move(range);
    }

    pub(super) fn let_go(&mut self, range: Span) {
        while self.uffd.unprotect(range.start, range.length()) == Err(Errno(libc::EAGAIN)) {
            self.await_fork();
        }
    }

    /// Times accesses to a page that was just evicted: a read, and then a write.
    fn probe(&mut self, address: usize) {
        if self.start.copies || self.tables.protection.is_held(address) {
            return;
        }
        let writable = vmas::at(self.maps, &mut self.tables.maps, address)
            .is_some_and(|mapping| mapping.readable && mapping.writable);
        let Some(slot) = self.store.slot(address).filter(|_| writable) else { return };
        let (read, begun) = (sys::nanos(), sys::nanos());
        // SAFETY: the page is mapped, readable and writable, and the gate is closed. Adding zero
        // changes nothing, whichever thread also writes to it.
        let (between, end) = unsafe {
            std::ptr::read_volatile(address as *const u8);
            let between = sys::nanos();
            // An atomic addition of the language may be compiled to a load.
            std::arch::asm!("lock add byte ptr [{}], 0", in(reg) address);
            (between, sys::nanos())
        };
        // The time of reading the clock itself is subtracted.
        let clock = begun - read;
        self.start.tally.time(Timed::DirectRead, (between - begun).saturating_sub(clock));
        self.start.tally.time(Timed::Upgrade, (end - between).saturating_sub(clock));
        // The next scan finds the page in DRAM, and must not count that.
        self.tables.residency.add(slot, PROBED);
    }

    /// Records that the page is no longer in NVM or in DRAM.
    pub(super) fn drop_page(&mut self, page: usize) {
        let Some(slot) = self.store.slot(page) else { return };
        if self.tables.residency.set(slot, 0) & IN_DRAM != 0 {
            self.victims.leave(slot);
        }
    }
}

/// Returns the number of victims, from the first, that are protected together: they lie close to
/// each other, in one window of the address space.
fn cluster_of(victims: &[u32]) -> usize {
    let apart = |pair: &[u32]| {
        let long = (pair[1] - victims[0]) as usize >= CLUSTER;
        let window = |slot: u32| slot as usize / WINDOW_PAGES;
        long || pair[1] - pair[0] > GAP || window(pair[0]) != window(pair[1])
    };
    victims.windows(2).position(apart).map_or(victims.len(), |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_close_to_each_other_are_protected_together() {
        let clusters = |mut victims: &[u32]| {
            let mut sizes = Vec::new();
            while !victims.is_empty() {
                sizes.push(cluster_of(victims));
                victims = &victims[sizes[sizes.len() - 1]..];
            }
            sizes
        };
        assert!(clusters(&[]).is_empty());
        assert_eq!(clusters(&[7]), [1]);
        assert_eq!(clusters(&[1, 1 + GAP, 2 + GAP * 2, 3 + GAP * 2]), [2, 2]);
        let many: Vec<u32> = (10..10 + CLUSTER as u32 + 3).collect();
        assert_eq!(clusters(&many), [CLUSTER, 3]);
        let border = WINDOW_PAGES as u32;
        assert_eq!(clusters(&[border - 2, border - 1, border]), [2, 1]);
    }
}
