//! What a memory system counts.

/// Counts since the system was built. `requests = row_hits + row_misses + row_conflicts` once it is
/// idle: a request that never reached a bank (see `forwarded` and `coalesced`) is a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that were accepted.
    pub reads: u64,
    /// Writes that were accepted.
    pub writes: u64,
    /// Reads that were answered from a write that still waited.
    pub forwarded: u64,
    /// Writes that replaced one to the same line that still waited.
    pub coalesced: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that found their bank closed.
    pub row_misses: u64,
    /// Requests that found another row open.
    pub row_conflicts: u64,
    /// Rows opened.
    pub activates: u64,
    /// Banks closed by a command for them or for their rank; automatic precharges do not count.
    pub precharges: u64,
    /// Refreshes, of a rank or of a bank.
    pub refreshes: u64,
    /// Cycles in which data was on a bus, summed over the channels (and their halves).
    pub data_cycles: u64,
}

impl Stats {
    /// The requests that were accepted.
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
        self.precharges += other.precharges;
        self.refreshes += other.refreshes;
        self.data_cycles += other.data_cycles;
    }
}
