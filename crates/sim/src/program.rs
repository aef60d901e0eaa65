//! What a program demands of memory along its own unhindered progress.
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

/// What a program demands during unhindered progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Instructions per second; zero if unknown.
    pub instructions: f64,
    /// Traffic with each memory of the machine, in its order.
    pub flows: [Flow; MAX_MEDIA],
    /// Share of the time that is spent waiting for memory, from 0 to 1: what a slower or busier
    /// memory stretches. It divides among the flows in proportion to their lines.
    pub stall: f64,
    /// Which part of the program's code executes, counted from 1: what samples of the instruction
    /// pointer tell (iabw section 4.2). Zero if unknown.
    pub code: u32,
}

/// A stretch of progress with one demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// How long it is; more than zero.
    pub length: Nanos,
    /// What is demanded throughout.
    pub demand: Demand,
}

/// A program: spans from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// How people call it: `433.milc`.
    pub name: String,
    /// At least one.
    pub spans: Vec<Span>,
}

impl Program {
    /// How long it takes unhindered.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.spans.iter().map(|span| span.length).sum()
    }
}
