//! A program's demand of memory along its own unhindered progress.
//!
//! Progress is measured in time on a machine where the program is alone and every memory is as
//! fast as the local DRAM. Slower memories and other programs stretch it.

use memweir_core::{BytesPerSec, MAX_MEDIA, Nanos};

/// Rate of traffic with one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Lines read.
    pub reads: BytesPerSec,
    /// Lines written.
    pub writes: BytesPerSec,
}

/// A program's demand during unhindered progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Instructions per second; zero if unknown.
    pub instructions: f64,
    /// Traffic with each memory of the machine, in its order.
    pub flows: [Flow; MAX_MEDIA],
    /// Share of the time that is spent waiting for memory, from 0 to 1; slower or busier memories
    /// stretch it. It divides among the flows in proportion to their lines.
    pub stall: f64,
    /// The part of the program's code that executes, counted from 1, as samples of the instruction
    /// pointer would show it (iabw section 4.2). Zero if unknown.
    pub code: u32,
}

/// A stretch of progress with one demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Unhindered progress; more than zero.
    pub length: Nanos,
    /// Demand, constant over the span.
    pub demand: Demand,
}

/// A program: spans from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Name, such as `433.milc`.
    pub name: String,
    /// At least one.
    pub spans: Vec<Span>,
}

impl Program {
    /// Returns the unhindered time of one execution.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.spans.iter().map(|span| span.length).sum()
    }
}
