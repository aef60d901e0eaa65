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
