//! Layout of the shared files.
//!
//! Every field has one writer at a time or is only ever added to, so relaxed atomics are enough;
//! the exceptions (the owner table and the two rings) say so.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::addresses::{ADDRESS_CELLS, AddressCell};
use super::heat::{HEAT_CELLS, HeatCell};
use super::placed::PlacementWords;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_core::medium::MAX_MEDIA;
use memweir_core::units::Bytes;

/// First word of every file, which detects a wrong file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"memweir\x01");

/// Version of the layout. A reader and a plugin of different versions refuse each other.
pub const VERSION: u64 = 3;

/// Regions into which the text of the executable is divided evenly, the R of iabw section 4.2.
pub const TEXT_REGIONS: usize = 32;

/// Regions into which everything else that executes (shared libraries, generated code) is folded.
pub const OTHER_REGIONS: usize = 32;

/// All code regions.
pub const REGIONS: usize = TEXT_REGIONS + OTHER_REGIONS;

/// Number of processes of one job that can be counted at the same time.
pub const SLOTS: usize = 2048;

/// Number of chunks that can wait for the reader.
pub const CHUNKS: usize = 8192;

/// The page of one job. [`SLOTS`] and [`CHUNKS`] reserve address space; only touched parts take
/// memory.
#[repr(C)]
pub struct JobPage {
    /// Configuration, written before the job starts.
    pub header: JobHeader,
    /// Process IDs of the slots' owners, zero for free slots.
    pub owners: [AtomicU32; SLOTS],
    /// Counters, one slot per process.
    pub slots: [Slot; SLOTS],
    /// Ring of finished chunks, used where `chunk_instructions` is set.
    pub chunks: [ChunkCell; CHUNKS],
    /// Heat of the job's pages, used where hot pages are placed in DRAM.
    pub heat: [HeatCell; HEAT_CELLS],
    /// Ring of accesses to memory, used where `recorder` is set.
    pub addresses: [AddressCell; ADDRESS_CELLS],
}

/// Lines read from and written to each medium but the local DRAM.
pub type ElsewhereWords = [[AtomicU64; 2]; MAX_MEDIA - 1];

/// Counts of the cache model.
#[repr(C)]
#[derive(Debug, Default)]
pub struct MemoryWords {
    /// Instructions whose accesses were simulated and counted, maintained if the job is sampled.
    pub simulated: AtomicU64,
    /// Lines read from memory.
    pub reads: AtomicU64,
    /// Lines written back to memory.
    pub writes: AtomicU64,
    /// Of these, the lines that did not come from or go to the local DRAM.
    pub elsewhere: ElsewhereWords,
    /// Misses of the first level.
    pub l1_misses: AtomicU64,
    /// Misses of the second level.
    pub l2_misses: AtomicU64,
}

/// Configuration of a job's software PMU and its rare events.
#[repr(C, align(4096))]
#[derive(Debug, Default)]
pub struct JobHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// Size and ways of L1D, L2 and LLC.
    pub caches: [[AtomicU64; 2]; 3],
    /// Instructions per chunk; zero if no chunks are recorded.
    pub chunk_instructions: AtomicU64,
    /// Sampling in instructions, see [`BurstPlan`](super::BurstPlan); all zero: everything.
    pub sampling: [AtomicU64; 3],
    /// One more than the highest slot that was ever used.
    pub slots_used: AtomicU64,
    /// Processes that found no free slot and ran uncounted.
    pub uncounted: AtomicU64,
    /// Programs that have not opened this page: who starts one adds it, and its emulator subtracts
    /// it, or who tried to start it, if the kernel refuses. Those that remain cannot run in the
    /// emulator, or have no access to the page.
    pub uncounted_programs: AtomicU64,
    /// AVX-512 instructions encountered; the emulator does not support them.
    pub avx512: AtomicU64,
    /// Next chunk to write.
    pub chunk_head: AtomicU64,
    /// Next chunk to read, written by the reader.
    pub chunk_tail: AtomicU64,
    /// Processes that the job has had so far.
    pub processes: AtomicU64,
    /// ID of the process that records the job's memory accesses; zero if there is none (any more).
    pub recorder: AtomicU64,
    /// Next cell of accesses to write.
    pub address_head: AtomicU64,
    /// Next cell of accesses to read, written by the reader.
    pub address_tail: AtomicU64,
    /// Accesses that were lost because the recorder was gone.
    pub accesses_lost: AtomicU64,
    /// Placement of the job's pages.
    pub placement: PlacementWords,
}

/// Counters of one process. They are never reset: a process that takes over the slot of an ended
/// one continues its counts, so that the sum over all slots is that of the job and never falls.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Slot {
    /// Instructions by code region: the first [`TEXT_REGIONS`] are the executable's.
    pub regions: [AtomicU64; REGIONS],
    /// Its accesses to memory.
    pub memory: MemoryWords,
}

impl Default for Slot {
    fn default() -> Self {
        Self { regions: [const { AtomicU64::new(0) }; REGIONS], memory: MemoryWords::default() }
    }
}

/// One finished chunk of one process.
#[repr(C, align(512))]
#[derive(Debug)]
pub struct ChunkCell {
    /// One more than the chunk's number, written last (release).
    pub sequence: AtomicU64,
    /// Its accesses to memory.
    pub memory: MemoryWords,
    /// Instructions by code region, at most `u32::MAX`.
    pub regions: [AtomicU32; REGIONS],
}

impl Default for ChunkCell {
    fn default() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            memory: MemoryWords::default(),
            regions: [const { AtomicU32::new(0) }; REGIONS],
        }
    }
}

/// Head of the file of a shared last-level cache. The ways follow, 64 bits each, set by set.
///
/// A word is `address space << 44 | medium << 42 | line << 1 | dirty`, zero for an empty way. The
/// ways of a set are in order of use, the most recent first.
#[repr(C, align(4096))]
#[derive(Debug, Default)]
pub struct LlcHeader {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// Number of sets.
    pub sets: AtomicU64,
    /// Ways per set.
    pub ways: AtomicU64,
    /// Last address space that was assigned.
    pub address_spaces: AtomicU64,
}

impl LlcHeader {
    /// Returns the size in bytes of a cache's file: header and ways.
    #[must_use]
    pub fn file_size(llc: &CacheGeometry) -> usize {
        size_of::<Self>() + (llc.sets() * u64::from(llc.ways)) as usize * size_of::<u64>()
    }
}

impl JobHeader {
    /// Writes the geometry.
    pub fn set_caches(&self, caches: &CacheHierarchy) {
        use std::sync::atomic::Ordering::Relaxed;
        for (words, cache) in self.caches.iter().zip([&caches.l1d, &caches.l2, &caches.llc]) {
            words[0].store(cache.size.0, Relaxed);
            words[1].store(u64::from(cache.ways), Relaxed);
        }
    }

    /// Returns the geometry as written, not validated.
    #[must_use]
    pub fn caches(&self) -> CacheHierarchy {
        use std::sync::atomic::Ordering::Relaxed;
        let read = |level: usize| {
            let [size, ways] = &self.caches[level];
            CacheGeometry::new(Bytes(size.load(Relaxed)), ways.load(Relaxed) as u32)
        };
        CacheHierarchy { l1d: read(0), l2: read(1), llc: read(2) }
    }
}

const _: () = assert!(size_of::<JobHeader>() == 4096);
const _: () = assert!(size_of::<Slot>() == 4096);
const _: () = assert!(size_of::<ChunkCell>() == 512);
