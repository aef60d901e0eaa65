//! Requests that enter a memory system and completions that it returns.

use memweir_core::{Cycles, Direction, PhysAddr};

/// The requester: a program, a core or a thread, as the caller numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(pub u16);

/// A request for one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its address within the memory system.
    pub address: PhysAddr,
    /// Read or write.
    pub direction: Direction,
    /// The requester.
    pub source: Source,
    /// A number that the completion returns unchanged.
    pub tag: u32,
}

/// State in which a request found its bank; fixed by the first command issued for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOutcome {
    /// Its row was open.
    Hit,
    /// The bank was closed.
    Miss,
    /// Another row was open and had to be closed first.
    Conflict,
}

/// Requests by row-buffer outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// The row was open.
    pub hits: u64,
    /// The bank was closed.
    pub misses: u64,
    /// Another row was open.
    pub conflicts: u64,
}

impl RowCounts {
    /// Counts one request.
    pub fn count(&mut self, outcome: RowOutcome) {
        match outcome {
            RowOutcome::Hit => self.hits += 1,
            RowOutcome::Miss => self.misses += 1,
            RowOutcome::Conflict => self.conflicts += 1,
        }
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.hits + self.misses + self.conflicts
    }

    /// Returns the share of hits, 0 to 1; `None` without requests.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        (self.total() > 0).then(|| self.hits as f64 / self.total() as f64)
    }

    /// Returns the sum of both counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            conflicts: self.conflicts + other.conflicts,
        }
    }
}

/// A completed request: its data has crossed the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request.
    pub request: Request,
    /// Cycle of acceptance, in memory cycles.
    pub accepted: Cycles,
    /// Cycle of its last data beat, in memory cycles.
    pub done: Cycles,
    /// State in which the request found its bank.
    pub outcome: RowOutcome,
    /// The requester that opened the conflicting row, on a row-buffer conflict.
    pub blamed: Option<Source>,
}

/// The queue for a request is full. Commands make room, so the caller should try again in the cycle
/// after the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct Full;
