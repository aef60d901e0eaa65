//! Event counts of a memory system.

/// Counts since the system was built. Once it is idle, `requests = row_hits + row_misses +
/// row_conflicts`: a request that never reaches a bank (see `forwarded` and `coalesced`) is a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Accepted reads.
    pub reads: u64,
    /// Accepted writes.
    pub writes: u64,
    /// Reads that were answered from a waiting write.
    pub forwarded: u64,
    /// Writes that replaced a waiting write to the same line.
    pub coalesced: u64,
    /// Row-buffer hits: requests that found their row open.
    pub row_hits: u64,
    /// Row-buffer misses: requests that found their bank closed.
    pub row_misses: u64,
    /// Row-buffer conflicts: requests that found another row open.
    pub row_conflicts: u64,
    /// Activates.
    pub activates: u64,
    /// Refreshes of ranks or single banks.
    pub refreshes: u64,
    /// Cycles in which data was on a bus, summed over the channels (or sub-channels).
    pub data_cycles: u64,
}

impl Stats {
    /// Returns the number of accepted requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.reads + self.writes
    }
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.forwarded += other.forwarded;
        self.coalesced += other.coalesced;
        self.row_hits += other.row_hits;
        self.row_misses += other.row_misses;
        self.row_conflicts += other.row_conflicts;
        self.activates += other.activates;
        self.refreshes += other.refreshes;
        self.data_cycles += other.data_cycles;
    }
}

/// Takes away the counts of an earlier time.
impl std::ops::SubAssign for Stats {
    fn sub_assign(&mut self, earlier: Self) {
        self.reads -= earlier.reads;
        self.writes -= earlier.writes;
        self.forwarded -= earlier.forwarded;
        self.coalesced -= earlier.coalesced;
        self.row_hits -= earlier.row_hits;
        self.row_misses -= earlier.row_misses;
        self.row_conflicts -= earlier.row_conflicts;
        self.activates -= earlier.activates;
        self.refreshes -= earlier.refreshes;
        self.data_cycles -= earlier.data_cycles;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_added_and_taken_away() {
        let once = Stats {
            reads: 1,
            writes: 2,
            forwarded: 3,
            coalesced: 4,
            row_hits: 5,
            row_misses: 6,
            row_conflicts: 7,
            activates: 8,
            refreshes: 9,
            data_cycles: 10,
        };
        let twice = Stats {
            reads: 2,
            writes: 4,
            forwarded: 6,
            coalesced: 8,
            row_hits: 10,
            row_misses: 12,
            row_conflicts: 14,
            activates: 16,
            refreshes: 18,
            data_cycles: 20,
        };
        let mut stats = once;
        stats += once;
        assert_eq!(stats, twice);
        stats -= once;
        assert_eq!((stats, stats.requests()), (once, 3));
    }
}
