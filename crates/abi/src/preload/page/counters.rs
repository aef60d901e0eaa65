//! The counters that every process of a paged program increments: a page of words, histograms of
//! times, and an entry for each process.

use memweir_core::Bytes;

use super::PAGE_PROCESSES;

/// Words reserved for the counters; a counter's index is its discriminant.
const COUNTERS: usize = 64;

/// Number of buckets of a histogram: bucket `i` holds times from 2^i ns to less than twice that;
/// the first also holds zero, and the last everything longer.
pub const BUCKETS: usize = 36;

/// Words of a process's entry.
const ENTRY: usize = 6;

/// Index of the first word of the processes' entries.
const PROCESSES: usize = COUNTERS + Timed::ALL.len() * BUCKETS;

/// Length of the file of counters, in bytes: little-endian words of 64 bits.
pub const PAGE_COUNTERS_BYTES: usize = (PROCESSES + PAGE_PROCESSES * ENTRY) * 8;

named_words! {
    /// Counted events. Accesses that the kernel resolves by itself are detected by later scans of
    /// the page table, so several events on one page between two scans count once.
    PageCounter:

    /// Processes that were paged, one for each program that a process started.
    Processes = "processes",
    /// Processes that loaded the library but could not be paged, and programs started by paged
    /// ones that do not load the library.
    Unpaged = "unpaged",
    /// Pages that were evicted.
    Evictions = "evictions",
    /// Batches of evictions.
    Batches = "eviction_batches",
    /// Nanoseconds spent on them, including the search for pages in DRAM.
    EvictionNanos = "eviction_ns",
    /// Evicted pages that were read in place.
    DirectReads = "direct_reads",
    /// Evicted pages that a write copied back after they had been read in place.
    Upgrades = "upgrades",
    /// Evicted pages that a write copied back without a read in place before; in copying mode,
    /// those that any access copied back. The copies in are these and
    /// [`Upgrades`](Self::Upgrades).
    StraightCopies = "straight_copies",
    /// Pages that the program touched first while memory was short, and received on credit.
    FirstTouches = "first_touches",
    /// Bytes of address space that were made evictable.
    ConvertedBytes = "converted_bytes",
    /// Bytes in NVM now, over all processes.
    NvmUsedBytes = "nvm_used_bytes",
    /// Highest number of bytes in NVM.
    NvmPeakBytes = "nvm_peak_bytes",
    /// Anonymous memory in DRAM now, over all paged processes, in bytes.
    DramResidentBytes = "dram_resident_bytes",
    /// Highest anonymous memory in DRAM at any measurement, in bytes.
    DramPeakBytes = "dram_peak_bytes",
    /// Times that eviction failed because NVM was full.
    NvmFull = "nvm_full",
    /// Victims that were locked, pinned by a request, or otherwise not movable.
    Skipped = "skipped",
    /// Forked children that paused eviction until they ended or started another program.
    ForkPauses = "fork_pauses",
    /// Nanoseconds for which eviction was paused for them.
    ForkPauseNanos = "fork_pause_ns",
    /// Times that writers were stalled until there was room in DRAM.
    Stalls = "holds",
    /// Nanoseconds for which they were stalled.
    StallNanos = "hold_ns",
    /// Accesses that waited for a page during its eviction, or for room.
    Waits = "waits",
    /// Bytes that were copied because the program moved memory or requested a feature of memory
    /// without a file.
    MovedBytes = "moved_bytes",
    /// Nanoseconds of delay that emulate a slower medium.
    DelayNanos = "delay_ns",
    /// Scans of the page table.
    Scans = "scans",
    /// Nanoseconds spent on them.
    ScanNanos = "scan_ns",
    /// Kernel errors after which the library left memory unchanged.
    Failures = "failures",
    /// Bytes in NVM now whose pages are in DRAM: slots that are overwritten when those pages
    /// are evicted again.
    NvmKeptBytes = "nvm_kept_bytes",
    /// Evicted pages that the kernel mapped in place along with a neighbor that was read. They
    /// do not count as [`DirectReads`](Self::DirectReads), whether they were read or not.
    MappedAround = "mapped_around",
    /// Times that a helper checked the available memory.
    Looks = "looks",
    /// Programs that were not started because they cannot be paged.
    Refused = "refused",
    /// Longest delay of a helper's timer in nanoseconds: the time for which the runnable helper
    /// had no processor.
    LatestWake = "latest_wake_ns",
    /// Total nanoseconds for which helpers were runnable and waited for a processor.
    RunDelay = "run_delay_ns",
    /// Largest address space of one process that has to stay in DRAM because the program locked
    /// it or requested a feature of memory without a file, in bytes.
    UnpageableBytes = "unpageable_bytes",
    /// Most bytes of one process in DRAM, while the budget was exceeded, that the helper does
    /// not know as evictable: of static variables of libraries, of stacks, and of what system
    /// calls of the program's own mapped.
    UnseenBytes = "unseen_bytes",
}

named_words! {
    /// Timed events, one in many, measured by the evicting process on its own access to a page that
    /// it has just evicted. The kernel resolves the program's accesses on the same path, but
    /// unseen.
    Timed:

    /// A read that maps the page in place.
    DirectRead = "direct_read",
    /// A write to a page that is mapped in place.
    Upgrade = "upgrade",
    /// The answer to an access in copying mode.
    Copy = "copy",
    /// A batch of evictions, per page.
    Eviction = "eviction",
}

/// Returns the bucket of a time in nanoseconds.
#[must_use]
pub const fn bucket_of(nanos: u64) -> usize {
    let bucket = (nanos | 1).ilog2() as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// Returns the index of the word of a histogram's bucket.
#[must_use]
pub const fn timed_word(timed: Timed, bucket: usize) -> usize {
    COUNTERS + timed as usize * BUCKETS + bucket
}

/// Returns the index of the first word of a process's entry: its ID (zero: free), its bytes in
/// DRAM, its bytes in NVM, its [`PagedState`], its bytes in NVM of pages that are in DRAM, and the
/// number of pages that can enter DRAM before its helper is notified.
#[must_use]
pub const fn process_word(entry: usize) -> usize {
    PROCESSES + entry * ENTRY
}

/// State of a paged process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum PagedState {
    /// It has more than enough DRAM.
    Ample = 0,
    /// It evicts pages.
    Pressed = 1,
    /// It has to evict, but NVM is full.
    Full = 2,
    /// It has to evict, but a forked child prevents eviction.
    Forked = 3,
}

impl PagedState {
    /// Returns the state that a word encodes; [`Ample`](Self::Ample) for an unknown word.
    #[must_use]
    pub fn of(word: u64) -> Self {
        let states = [Self::Ample, Self::Pressed, Self::Full, Self::Forked];
        states.into_iter().find(|state| *state as u64 == word).unwrap_or(Self::Ample)
    }
}

/// A process that is paged now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageProcess {
    /// ID of the process.
    pub process: u32,
    /// Its anonymous memory in DRAM.
    pub resident: Bytes,
    /// Its pages in NVM.
    pub nvm: Bytes,
    /// State of the process.
    pub state: PagedState,
}

/// A snapshot of the counters' file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCounters(Vec<u64>);

impl PageCounters {
    /// Parses the content of the file; missing words at its end are zero.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let chunks = content.chunks_exact(8).take(PAGE_COUNTERS_BYTES / 8);
        let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
        let mut words: Vec<u64> = chunks.map(word).collect();
        words.resize(PAGE_COUNTERS_BYTES / 8, 0);
        Self(words)
    }

    /// Returns one counter.
    #[must_use]
    pub fn get(&self, counter: PageCounter) -> u64 {
        self.0[counter as usize]
    }

    /// Returns the number of pages that were copied back to DRAM.
    #[must_use]
    pub fn copies_in(&self) -> u64 {
        // The program can write anything into its counters.
        self.get(PageCounter::Upgrades).saturating_add(self.get(PageCounter::StraightCopies))
    }

    /// Returns the number of pages that were read in place and not written since: a swap area
    /// without direct read would have copied them needlessly.
    #[must_use]
    pub fn copies_avoided(&self) -> u64 {
        self.get(PageCounter::DirectReads).saturating_sub(self.get(PageCounter::Upgrades))
    }

    /// Returns the bytes in NVM now whose pages are not in DRAM.
    #[must_use]
    pub fn relieved(&self) -> u64 {
        self.get(PageCounter::NvmUsedBytes).saturating_sub(self.get(PageCounter::NvmKeptBytes))
    }

    /// Returns the histogram of times of one kind; see [`bucket_of`].
    #[must_use]
    pub fn histogram(&self, timed: Timed) -> &[u64] {
        let start = timed_word(timed, 0);
        &self.0[start..start + BUCKETS]
    }

    /// Returns the processes that are paged now. None are left when all have ended and everything
    /// is counted.
    pub fn processes(&self) -> impl Iterator<Item = PageProcess> {
        let entries = self.0[PROCESSES..].chunks_exact(ENTRY).filter(|entry| entry[0] != 0);
        entries.map(|entry| PageProcess {
            process: entry[0] as u32,
            resident: Bytes(entry[1]),
            nvm: Bytes(entry[2]),
            state: PagedState::of(entry[3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place() {
        assert!(PageCounter::ALL.len() <= COUNTERS);
        assert!(PageCounter::ALL.iter().enumerate().all(|(i, (_, c))| *c as usize == i));
        assert_eq!(timed_word(Timed::Eviction, BUCKETS - 1) + 1, process_word(0));
        assert_eq!(process_word(PAGE_PROCESSES) * 8, PAGE_COUNTERS_BYTES);
    }

    #[test]
    fn times_fall_into_powers_of_two() {
        let cases = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10)];
        assert!(cases.iter().all(|(nanos, bucket)| bucket_of(*nanos) == *bucket));
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn counters_that_a_program_overwrote_do_not_wrap() {
        assert_eq!(PageCounters::of(&[0xff; PAGE_COUNTERS_BYTES]).copies_in(), u64::MAX);
    }

    #[test]
    fn reads_a_file() {
        let mut words = vec![0u64; PAGE_COUNTERS_BYTES / 8];
        words[PageCounter::Upgrades as usize] = 3;
        words[PageCounter::StraightCopies as usize] = 4;
        words[timed_word(Timed::Upgrade, 11)] = 5;
        words[process_word(7)..][..4].copy_from_slice(&[42, 8192, 4096, 2]);
        let content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let counters = PageCounters::of(&content);
        assert_eq!(counters.copies_in(), 7);
        assert_eq!(counters.histogram(Timed::Upgrade)[11], 5);
        let process = counters.processes().collect::<Vec<_>>();
        assert_eq!(process.len(), 1);
        assert_eq!((process[0].process, process[0].state), (42, PagedState::Full));
        assert_eq!((process[0].resident.0, process[0].nvm.0), (8192, 4096));
        assert_eq!(PageCounters::of(&content[..8]).processes().count(), 0);
    }
}
