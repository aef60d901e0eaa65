//! What enters a memory system and what comes out of it.

use memweir_core::{Cycles, PhysAddr};

/// Whether a request reads or writes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Somebody waits for the data.
    Read,
    /// Posted: the data is buffered and written when it suits.
    Write,
}

/// Who asked: a program, a core or a thread, as the caller counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(pub u16);

/// A request for one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its address within the memory system.
    pub address: PhysAddr,
    /// Read or write.
    pub direction: Direction,
    /// Who asked.
    pub source: Source,
    /// Comes back with the answer.
    pub tag: u32,
}

/// How a request found its bank when it was served (fixed by the first command issued for it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOutcome {
    /// Its row was open.
    Hit,
    /// The bank was closed.
    Miss,
    /// Another row was open and had to be closed first.
    Conflict,
}

/// A request that is done: its data has crossed the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request.
    pub request: Request,
    /// When it was accepted, in memory cycles.
    pub accepted: Cycles,
    /// When its last data beat was on the bus, in memory cycles.
    pub done: Cycles,
    /// How it found its bank.
    pub outcome: RowOutcome,
    /// Who opened the row that was in its way, where that was a conflict.
    pub blamed: Option<Source>,
}
