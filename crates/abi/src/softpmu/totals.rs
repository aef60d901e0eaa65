//! Reads the counters of a job, and assigns its slots.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::layout::{CHUNKS, ChunkCell, ElsewhereWords, JobHeader, REGIONS, Slot};
use super::ring::{Ring, Unfinished};
use memweir_core::counts::Counts;
use memweir_core::medium::{MAX_MEDIA, Traffic};
use memweir_core::units::Lines;

/// Counts of all processes of a job since it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Instructions by code region.
    pub regions: [u64; REGIONS],
    /// Instructions whose accesses were simulated and counted, if the job is sampled.
    pub simulated: u64,
    /// Lines read from memory.
    pub reads: u64,
    /// Lines written back to memory.
    pub writes: u64,
    /// Of these, the lines of each medium except the local DRAM.
    pub elsewhere: [Traffic; MAX_MEDIA - 1],
    /// Misses of the first level.
    pub l1_misses: u64,
    /// Misses of the second level.
    pub l2_misses: u64,
}

impl Default for Totals {
    fn default() -> Self {
        let regions = [0; REGIONS];
        Self {
            regions,
            simulated: 0,
            reads: 0,
            writes: 0,
            elsewhere: Default::default(),
            l1_misses: 0,
            l2_misses: 0,
        }
    }
}

impl Totals {
    /// Returns the sum over `slots`.
    #[must_use]
    pub fn of(slots: &[Slot]) -> Self {
        let mut sum = Self::default();
        for Slot { regions, memory } in slots {
            for (total, region) in sum.regions.iter_mut().zip(regions) {
                *total += region.load(Relaxed);
            }
            sum.simulated += memory.simulated.load(Relaxed);
            for (total, medium) in sum.elsewhere.iter_mut().zip(load(&memory.elsewhere)) {
                *total += medium;
            }
            sum.reads += memory.reads.load(Relaxed);
            sum.writes += memory.writes.load(Relaxed);
            sum.l1_misses += memory.l1_misses.load(Relaxed);
            sum.l2_misses += memory.l2_misses.load(Relaxed);
        }
        sum
    }

    /// Returns the counts since `earlier`. A counter that went backwards counts as zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            regions: std::array::from_fn(|r| self.regions[r].saturating_sub(earlier.regions[r])),
            simulated: self.simulated.saturating_sub(earlier.simulated),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            elsewhere: std::array::from_fn(|m| self.elsewhere[m].since(&earlier.elsewhere[m])),
            l1_misses: self.l1_misses.saturating_sub(earlier.l1_misses),
            l2_misses: self.l2_misses.saturating_sub(earlier.l2_misses),
        }
    }

    /// Returns the instructions of all regions.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.regions.iter().sum()
    }

    /// Returns the memory counts in the form common to all meters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::by_medium(self.instructions(), self.traffic())
    }

    /// Returns the lines by medium, the local DRAM first.
    #[must_use]
    pub fn traffic(&self) -> [Traffic; MAX_MEDIA] {
        let elsewhere = self.elsewhere.iter().fold(Traffic::default(), |sum, m| sum + *m);
        let all = Traffic { reads: Lines(self.reads), writes: Lines(self.writes) };
        let mut traffic = [all.since(&elsewhere); MAX_MEDIA];
        traffic[1..].copy_from_slice(&self.elsewhere);
        traffic
    }

    /// Returns the vector of iabw section 4.2 in units of 1,024 instructions. Every instruction is
    /// counted, so this is the distribution that sampling would approach.
    #[must_use]
    pub fn instruction_pointers(&self) -> Vec<u32> {
        self.regions.iter().map(|n| u32::try_from(n.div_ceil(1024)).unwrap_or(u32::MAX)).collect()
    }
}

fn load(words: &ElsewhereWords) -> [Traffic; MAX_MEDIA - 1] {
    std::array::from_fn(|medium| {
        let [reads, writes] = &words[medium];
        Traffic { reads: Lines(reads.load(Relaxed)), writes: Lines(writes.load(Relaxed)) }
    })
}

/// Takes a slot for the process `pid`: the one that it already has (after exec), else a free one,
/// else that of a process that is no longer `alive` (killed). `None` if all are in use.
pub fn claim(owners: &[AtomicU32], pid: u32, alive: impl Fn(u32) -> bool) -> Option<usize> {
    let mut free = None;
    for (index, owner) in owners.iter().enumerate() {
        match owner.load(Acquire) {
            0 if free.is_none() => free = Some(index),
            0 => {}
            own if own == pid => return Some(index),
            _ => {}
        }
    }
    if let Some(first) = free {
        for (index, owner) in owners.iter().enumerate().skip(first) {
            if owner.compare_exchange(0, pid, AcqRel, Relaxed).is_ok() {
                return Some(index);
            }
        }
    }
    owners.iter().position(|owner| {
        let dead = owner.load(Acquire);
        !alive(dead) && owner.compare_exchange(dead, pid, AcqRel, Relaxed).is_ok()
    })
}

/// A chunk as written by the plugin.
pub type RawChunk = Totals;

impl ChunkCell {
    /// Appends `chunk` to the ring and returns true; returns false if the reader is too far behind.
    /// The caller then continues counting and appends a longer chunk later.
    pub fn append(header: &JobHeader, ring: &[ChunkCell; CHUNKS], chunk: &RawChunk) -> bool {
        of_chunks(header, ring).append(|ChunkCell { memory, regions, .. }| {
            memory.simulated.store(chunk.simulated, Relaxed);
            memory.reads.store(chunk.reads, Relaxed);
            memory.writes.store(chunk.writes, Relaxed);
            for (words, medium) in memory.elsewhere.iter().zip(&chunk.elsewhere) {
                words[0].store(medium.reads.0, Relaxed);
                words[1].store(medium.writes.0, Relaxed);
            }
            memory.l1_misses.store(chunk.l1_misses, Relaxed);
            memory.l2_misses.store(chunk.l2_misses, Relaxed);
            for (word, instructions) in regions.iter().zip(chunk.regions) {
                word.store(u32::try_from(instructions).unwrap_or(u32::MAX), Relaxed);
            }
        })
    }

    /// Takes the next chunk out of the ring, if there is one. A writer that was killed in the
    /// middle leaves a cell that is never finished; [`Unfinished::Skip`] skips such cells.
    pub fn take(
        header: &JobHeader,
        ring: &[ChunkCell; CHUNKS],
        unfinished: Unfinished,
    ) -> Option<RawChunk> {
        of_chunks(header, ring).take(unfinished, |ChunkCell { memory, regions, .. }| RawChunk {
            regions: std::array::from_fn(|r| u64::from(regions[r].load(Relaxed))),
            simulated: memory.simulated.load(Relaxed),
            reads: memory.reads.load(Relaxed),
            writes: memory.writes.load(Relaxed),
            elsewhere: load(&memory.elsewhere),
            l1_misses: memory.l1_misses.load(Relaxed),
            l2_misses: memory.l2_misses.load(Relaxed),
        })
    }
}

fn of_chunks<'a>(
    header: &'a JobHeader,
    cells: &'a [ChunkCell; CHUNKS],
) -> Ring<'a, ChunkCell, CHUNKS> {
    let (head, tail) = (&header.chunk_head, &header.chunk_tail);
    Ring { cells, head, tail, sequence: |cell| &cell.sequence }
}

#[cfg(test)]
mod tests {
    use super::super::ring::WRITERS;
    use super::*;

    fn ring() -> (JobHeader, Box<[ChunkCell; CHUNKS]>) {
        let cells: Vec<ChunkCell> = (0..CHUNKS).map(|_| ChunkCell::default()).collect();
        (JobHeader::default(), cells.into_boxed_slice().try_into().unwrap())
    }

    fn chunk(reads: u64) -> RawChunk {
        RawChunk { reads, ..RawChunk::default() }
    }

    #[test]
    fn a_process_keeps_its_slot_over_exec_and_takes_those_of_the_dead() {
        let owners: Vec<AtomicU32> = [10, 0, 12].map(AtomicU32::new).into();
        assert_eq!(claim(&owners, 12, |_| true), Some(2), "its own, though a free one is nearer");
        assert_eq!(claim(&owners, 13, |_| true), Some(1));
        assert_eq!(claim(&owners, 14, |_| true), None);
        assert_eq!(claim(&owners, 14, |pid| pid != 10), Some(0));
        assert_eq!(owners[0].load(Relaxed), 14);
    }

    #[test]
    fn every_claimant_of_a_race_gets_a_slot_of_its_own() {
        let owners: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let taken: Vec<usize> = std::thread::scope(|scope| {
            let claims: Vec<_> = (1..=64)
                .map(|pid| {
                    scope.spawn({
                        let owners = &owners;
                        move || claim(owners, pid, |_| true)
                    })
                })
                .collect();
            claims.into_iter().map(|c| c.join().unwrap().unwrap()).collect()
        });
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn totals_sum_over_slots_that_changed_hands() {
        let slots = [Slot::default(), Slot::default()];
        slots[0].regions[3].store(2048, Relaxed);
        slots[1].regions[40].store(1, Relaxed);
        slots[1].memory.reads.store(7, Relaxed);
        let totals = Totals::of(&slots);
        assert_eq!(totals.instructions(), 2049);
        assert_eq!(totals.counts().reads, Lines(7));
        assert_eq!(totals.instruction_pointers()[3], 2);
        assert_eq!(totals.instruction_pointers()[40], 1, "a little is not nothing");
        assert_eq!(totals.since(&totals), Totals::default());
    }

    #[test]
    fn lines_are_told_apart_by_medium() {
        let slots = [Slot::default(), Slot::default()];
        for (Slot { memory, .. }, reads) in slots.iter().zip([5, 6]) {
            memory.reads.store(10, Relaxed);
            memory.writes.store(3, Relaxed);
            memory.elsewhere[1][0].store(reads, Relaxed);
            memory.elsewhere[0][1].store(1, Relaxed);
        }
        let traffic = |reads, writes| Traffic { reads: Lines(reads), writes: Lines(writes) };
        let expected = [traffic(9, 4), traffic(0, 2), traffic(11, 0), traffic(0, 0)];
        let totals = Totals::of(&slots);
        assert_eq!(totals.traffic(), expected);
        assert_eq!(totals.counts(), Counts::by_medium(0, expected));
        let (header, ring) = ring();
        assert!(ChunkCell::append(&header, &ring, &totals));
        assert_eq!(ChunkCell::take(&header, &ring, Unfinished::Wait), Some(totals));
    }

    #[test]
    fn chunks_come_out_in_the_order_in_which_they_were_finished() {
        let (header, ring) = ring();
        for n in 1..=3 {
            assert!(ChunkCell::append(&header, &ring, &chunk(n)));
        }
        let out: Vec<u64> =
            std::iter::from_fn(|| ChunkCell::take(&header, &ring, Unfinished::Wait))
                .map(|c| c.reads)
                .collect();
        assert_eq!(out, [1, 2, 3]);
    }

    #[test]
    fn a_full_ring_refuses_and_takes_again_after_reading() {
        let (header, ring) = ring();
        let written = (0..).take_while(|n| ChunkCell::append(&header, &ring, &chunk(*n))).count();
        assert_eq!(written as u64, CHUNKS as u64 - WRITERS);
        assert_eq!(ChunkCell::take(&header, &ring, Unfinished::Wait), Some(chunk(0)));
        assert!(ChunkCell::append(&header, &ring, &chunk(99)));
    }

    #[test]
    fn the_chunk_of_a_killed_writer_is_stepped_over_at_the_end() {
        let (header, ring) = ring();
        header.chunk_head.fetch_add(1, Relaxed);
        assert!(ChunkCell::append(&header, &ring, &chunk(5)));
        assert_eq!(ChunkCell::take(&header, &ring, Unfinished::Wait), None);
        assert_eq!(ChunkCell::take(&header, &ring, Unfinished::Skip), Some(chunk(5)));
        assert_eq!(ChunkCell::take(&header, &ring, Unfinished::Skip), None);
    }

    #[test]
    fn a_second_lap_is_not_taken_for_the_first() {
        let (header, ring) = ring();
        for n in 0..3 * CHUNKS as u64 {
            assert!(ChunkCell::append(&header, &ring, &chunk(n)));
            assert_eq!(ChunkCell::take(&header, &ring, Unfinished::Wait), Some(chunk(n)));
        }
        header.chunk_head.fetch_add(1, Relaxed);
        assert_eq!(ChunkCell::take(&header, &ring, Unfinished::Wait), None);
    }
}
