//! The counters that every process of a colored program increments.

/// Words reserved for the counters; a counter's index is its discriminant.
pub const COUNTERS: usize = 32;

/// Entries that follow the counters. A process takes the entry of its id modulo this number.
pub const POOLS: usize = 1024;

/// Words of an entry: process id, start time of the process in clock ticks since boot, start and
/// end of its pool, start and end of the memory that it searches.
pub const ENTRY: usize = 6;

/// Highest number of bank colors that the library distinguishes. After the entries, one word per
/// color counts the pages of that color that the program received.
pub const MAX_PRELOAD_COLORS: u32 = 4096;

/// Words of the whole file; the order follows as text.
pub const COUNTER_WORDS: usize = COUNTERS + POOLS * ENTRY + MAX_PRELOAD_COLORS as usize;

/// Returns the index of the word that counts the pages of a bank color.
#[must_use]
pub const fn color_word(color: usize) -> usize {
    COUNTERS + POOLS * ENTRY + color
}

named_words! {
    /// Counted events. The file holds one little-endian word of 64 bits for each.
    Counter:

    /// Processes whose pages were placed, forked ones included.
    Processes = "processes",
    /// Forks that gave a child pages of its own to place.
    Forks = "forks",
    /// Processes that loaded the library but whose pages it could not place (no privilege left).
    Uncolored = "uncolored",
    /// Page faults that were answered.
    Faults = "faults",
    /// Pages of the requested colors given to the program at its page faults.
    Placed = "placed",
    /// Pages of other colors given to it because the pool was short.
    Spilled = "spilled",
    /// Page faults that had to wait for a page of the requested colors.
    Waited = "waited",
    /// Microseconds for which they waited.
    WaitMicros = "wait_us",
    /// Page faults that were refused, which ended the program.
    Refused = "refused",
    /// Pages touched before they could be watched, and moved to the requested colors afterwards.
    Adopted = "adopted",
    /// Pages that a copy after fork moved out of the requested colors, and that were moved back.
    MendedAfterFork = "mended_after_fork",
    /// Pages that the kernel moved out of the requested colors, and that were moved back.
    MendedDrift = "mended_drift",
    /// Times that a page could not be moved: shared with a forked process, or pinned.
    Busy = "busy",
    /// Pages that could not be placed for another reason.
    Failed = "failed",
    /// Pages of the requested colors that were put into the pool.
    Gathered = "gathered",
    /// Pages that were populated in the search for them.
    Populated = "populated",
    /// Microseconds of CPU time spent on gathering.
    GatherMicros = "gather_us",
    /// Those of them in which pages were moved into the pool.
    MoveMicros = "move_us",
    /// Recycled pages whose freed frame went elsewhere, so that they got another frame; such pages
    /// are exchanged again.
    Missed = "missed",
    /// Page-microseconds for which pages were in other colors and could not be moved: pinned,
    /// shared with a forked process, or without a free page of the requested colors.
    UnmovedMicros = "unmoved_us",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_place() {
        assert!(Counter::ALL.len() <= COUNTERS);
        assert!(Counter::ALL.iter().enumerate().all(|(i, (_, counter))| *counter as usize == i));
    }
}
