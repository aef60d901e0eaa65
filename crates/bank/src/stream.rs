//! The access stream of a core: memory accesses with the instructions between them.

use std::fmt;

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// The instruction retires when the data has arrived.
    Load,
    /// The instruction retires at once; the line is fetched and becomes dirty.
    Store,
    /// A load whose line becomes dirty as well.
    Update,
    /// A dirty line that leaves the caches through which the stream was recorded. No instruction
    /// waits for it.
    WriteBack,
}

impl AccessKind {
    /// Returns true if the access leaves the line dirty.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Load
    }

    /// Returns true if the instruction waits for the data.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, Self::Load | Self::Update)
    }
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Instructions since the previous access, its own included; zero for an access that belongs to
    /// the previous access's instruction.
    pub instructions: u64,
    /// Virtual byte address.
    pub address: u64,
    /// Kind of the access.
    pub kind: AccessKind,
    /// Distance back to the access whose data this one's address depends on (1: the previous one);
    /// zero if there is none. Accesses of zero instructions are not counted.
    pub needs: u32,
}

/// An endless stream of accesses.
pub trait Stream: fmt::Debug + Send {
    /// Returns the next access.
    fn next(&mut self) -> Access;

    /// Starts anew, as the program does when it is executed again, and returns the first access;
    /// `None` if the stream has no beginning, so that it goes on where it is.
    fn restart(&mut self) -> Option<Access>;

    /// Goes on to where the stream is that of a program that has been running for long.
    fn settle(&mut self) {}

    /// Returns true if accesses from the start of the stream may warm the caches. A recorded trace
    /// would lose these accesses for the measurement.
    fn warms(&self) -> bool {
        false
    }
}

/// Level of the hierarchy at which the accesses of a stream enter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// The caches of the core: accesses of instructions.
    #[default]
    Core,
    /// The shared cache: accesses that passed the private caches.
    Shared,
    /// Memory: accesses recorded after all caches.
    Memory,
}

memweir_core::named! { pub Level, "level": Core = "core", Shared = "llc", Memory = "memory" }
