//! What a core executes: a stream of accesses to memory with the instructions between them.

use std::fmt;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Its instruction retires when the data is there.
    Load,
    /// Its instruction retires at once; the line is fetched and becomes dirty.
    Store,
    /// A load whose line is written as well.
    Update,
    /// A dirty line that leaves the caches of whoever recorded the stream: posted to memory.
    WriteBack,
}

impl AccessKind {
    /// Whether the line is dirty behind it.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Load
    }

    /// Whether the instruction waits for the data.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, Self::Load | Self::Update)
    }
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Instructions since the access before, its own included; zero for one that belongs to the
    /// instruction of the access before.
    pub instructions: u64,
    /// Virtual byte address.
    pub address: u64,
    /// What it does.
    pub kind: AccessKind,
    /// How many accesses before it the one stands whose data it needs for its address (1: the one
    /// right before it); zero if it needs none. Accesses of zero instructions are not counted.
    pub needs: u32,
}

/// An endless stream of accesses.
pub trait Stream: fmt::Debug + Send {
    /// The next access.
    fn next(&mut self) -> Access;

    /// Starts anew, as the program does when it is executed again.
    fn restart(&mut self);

    /// Whether caches may be warmed with accesses from its start. Those of a recorded trace would be
    /// missing when it is measured.
    fn warms(&self) -> bool {
        false
    }
}

/// Where in the hierarchy the accesses of a stream enter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// At the caches of the core: accesses of instructions.
    #[default]
    Core,
    /// At the shared cache: what the private ones let through.
    Shared,
    /// At memory: recorded behind all caches.
    Memory,
}

impl Level {
    /// Every level and its name in files.
    pub const ALL: [(&'static str, Self); 3] =
        [("core", Self::Core), ("llc", Self::Shared), ("memory", Self::Memory)];
}
