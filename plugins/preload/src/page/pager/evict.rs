//! The evictor: chooses pages to evict, and finds those that writes have brought back.

mod scan;

use memweir_abi::preload::page::{PageCounter, Timed};

use super::convert::{Converter, Extent};
use super::memory::Memory;
use super::pages::CLUSTER;
use super::pressure::Pressure;
use super::protocol::{Batch, Protected};
use super::store::Source;
use crate::page::budget::MOST_AT_ONCE;
use crate::page::slots::WINDOW_PAGES;
use crate::page::spans::Span;
use crate::pagemap::Found;
use crate::sys;
use crate::uffd::PAGE;
use scan::SHARE;
pub(super) use scan::free_slots;

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

/// The evictor. Plain memory is converted before pages of the file are evicted again, because it is
/// older.
pub(super) struct Evictor {
    converter: Converter,
    /// Room for the results of a scan.
    found: &'static mut [Found],
    /// Time of the next scan for the counters, in microseconds.
    scan_due: u64,
    batches: usize,
}

impl Evictor {
    pub(super) fn new(found: &'static mut [Found]) -> Self {
        Self { converter: Converter::default(), found, scan_due: 0, batches: 0 }
    }

    /// Evicts about `pages` pages, and no more than may leave between two checks of everything
    /// else.
    pub(super) fn evict(&mut self, pages: usize, pressure: &mut Pressure, memory: &mut Memory) {
        let mut left = pages.min(MOST_AT_ONCE);
        let mut vain = 0;
        let started = sys::cpu_micros();
        while left > 0 && !memory.monitor.children().any() {
            if pressure.nvm_is_full() && !self.free_kept(pressure, memory) {
                memory.tally.add(PageCounter::NvmFull, 1);
                // Futile attempts take no more of the time than scans.
                return pressure.rest((sys::cpu_micros() - started) * SHARE);
            }
            let begun = sys::nanos();
            let done = match self.converter.convert_next(pressure, memory) {
                0 => self.evict_batch(left.min(pressure.batch()), pressure, memory),
                pages => pages,
            };
            let nanos = sys::nanos() - begun;
            memory.tally.add(PageCounter::EvictionNanos, nanos as usize);
            if done == 0 {
                // The victims left on their own, or mappings are changing at the moment.
                vain += 1;
                if vain == VAIN || memory.residency.candidates() == 0 {
                    return pressure.rest(0);
                }
                continue;
            }
            pressure.evicted();
            memory.tally.add(PageCounter::Batches, 1);
            memory.tally.add(PageCounter::Evictions, done);
            memory.tally.time(Timed::Eviction, nanos / done as u64);
            left = left.saturating_sub(done);
            pressure.measure(memory);
            // Stalls writers that fill memory faster than it is emptied.
            pressure.stall_or_release(memory);
            memory.monitor.drain();
        }
    }

    /// Makes the existing pages of a window leave, so that all of it is in one state.
    pub(super) fn empty_window(&mut self, window: Span, pressure: &Pressure, memory: &mut Memory) {
        let gone = self.converter.convert(window, Extent::Whole, pressure, memory).pages;
        memory.tally.add(PageCounter::Evictions, gone);
    }

    /// Removes slots of resident pages from the file; returns true if there is room then.
    fn free_kept(&mut self, pressure: &mut Pressure, memory: &mut Memory) -> bool {
        if memory.residency.kept() > 0 {
            self.scan(pressure, memory);
            pressure.measure(memory);
        }
        !pressure.nvm_is_full()
    }

    /// Evicts up to `pages` victims of the policy, and returns their number.
    fn evict_batch(&mut self, pages: usize, pressure: &mut Pressure, memory: &mut Memory) -> usize {
        if memory.residency.candidates() < pages * 2 {
            self.scan(pressure, memory);
        }
        if !memory.monitor.control.close_gate() {
            return 0;
        }
        let mut chosen = [0u32; MOST_AT_ONCE];
        let chosen = choose(&mut chosen[..pages], memory);
        let mut clusters = [Default::default(); MOST_AT_ONCE];
        let count = sort_out(chosen, &mut clusters, memory);
        let mut batch = Batch::EMPTY;
        let mut protected = Protected::begin(&mut batch);
        for cluster in &clusters[..count] {
            protected.add(cluster, range_of(cluster, memory), memory);
        }
        // Checked once for all of them, now that it is known which are in DRAM.
        if !protected.is_empty() && memory.monitor.is_shared() {
            protected.give_up(memory);
        } else {
            memory.store.bind(Source::Nvm);
            let written = protected.settle(memory).write_out(memory);
            memory.store.bind(Source::Anywhere);
            written.leave(memory);
        }
        memory.monitor.unprotect_all();
        if self.batches.is_multiple_of(PROBES)
            && let Some(run) = batch.runs().first()
        {
            probe(run.start, memory);
        }
        memory.monitor.control.open_gate();
        self.batches += 1;
        batch.pages()
    }
}

/// Returns the policy's next victims, in the order of their slots.
fn choose<'b>(room: &'b mut [u32], memory: &mut Memory) -> &'b [u32] {
    let mut count = 0;
    while let Some(free) = room.get_mut(count)
        && let Some(victim) = memory.residency.victim()
    {
        *free = victim;
        count += 1;
    }
    room[..count].sort_unstable();
    &room[..count]
}

/// Groups the victims that can be protected together, and returns the number of such clusters.
/// Victims that must stay are kept. To be called before anything is protected: the lock holder of
/// the ranges may have its stack there.
fn sort_out<'b>(
    chosen: &'b [u32],
    clusters: &mut [&'b [u32]; MOST_AT_ONCE],
    memory: &mut Memory,
) -> usize {
    let locked = memory.monitor.space.is_locked();
    let (mut left, mut count) = (chosen, 0);
    while !left.is_empty() {
        // Either a whole cluster, or its first page alone.
        let whole = &left[..cluster_of(left)];
        let (cluster, outcome) = match classify(whole, memory) {
            Eviction::Leaves => (whole, Eviction::Leaves),
            _ => (&left[..1], classify(&left[..1], memory)),
        };
        left = &left[cluster.len()..];
        match outcome {
            Eviction::Leaves if !locked => {
                memory.watch_chunks(range_of(cluster, memory));
                clusters[count] = cluster;
                count += 1;
            }
            Eviction::Leaves | Eviction::Stays => {
                cluster.iter().for_each(|slot| memory.residency.stays(*slot));
            }
            Eviction::Gone => memory.residency.release(cluster[0]),
        }
    }
    count
}

/// Returns the outcome for victims that lie close to each other, and all pages between them.
fn classify(cluster: &[u32], memory: &mut Memory) -> Eviction {
    let range = range_of(cluster, memory);
    memory.monitor.ranges(|ranges| match ranges.converted.at(range.start) {
        Some(span) if span.end >= range.end => match ranges.excluded.touches(range) {
            true => Eviction::Stays,
            false => Eviction::Leaves,
        },
        _ => Eviction::Gone,
    })
}

fn range_of(cluster: &[u32], memory: &Memory) -> Span {
    let address = |slot: Option<&u32>| slot.map_or(0, |slot| memory.store.address(*slot));
    Span::new(address(cluster.first()), address(cluster.last()) + PAGE)
}

/// Times accesses to a page that was just evicted: a read, and then a write.
fn probe(address: usize, memory: &mut Memory) {
    if memory.copies || memory.monitor.protection().is_stalled(address) {
        return;
    }
    let mapping = memory.mapping(address);
    let writable = mapping.is_some_and(|mapping| mapping.readable && mapping.writable);
    let Some(slot) = memory.store.slot(address).filter(|_| writable) else { return };
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
    memory.tally.time(Timed::DirectRead, (between - begun).saturating_sub(clock));
    memory.tally.time(Timed::Upgrade, (end - between).saturating_sub(clock));
    // The next scan finds the page in DRAM, and must not count that.
    memory.residency.probed(slot);
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
