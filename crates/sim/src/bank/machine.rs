//! What a machine at bank level is made of, and what it executes.

use memweir_core::address_map::AddressMap;
use memweir_core::cache::CacheGeometry;
use memweir_core::{Bytes, Cycles, PhysAddr};
use memweir_dram::request::{Completion, Request};

use super::clock::Clock;
use super::os::ProcessId;
use super::stream::{Level, Stream};

/// One level of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// Size and ways.
    pub geometry: CacheGeometry,
    /// Core cycles from asking it to its answer; those that miss wait as long before they go on.
    pub latency: u32,
}

/// One core, or hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreConfig {
    /// Instructions that enter and retire per cycle, at least one.
    pub width: u32,
    /// Instructions in the reorder window, at least twice the width.
    pub window: u32,
    /// Lines that it can wait for at the same time: miss-status registers, at least one.
    pub mshrs: u32,
    /// Its first-level cache.
    pub l1: Option<CacheLevel>,
    /// Its second-level cache.
    pub l2: Option<CacheLevel>,
}

impl CoreConfig {
    /// The part of the core that each of `threads` hardware threads has while all of them are busy:
    /// width, window and registers are split, caches are shared in nothing but their size.
    #[must_use]
    pub fn split(self, threads: u32) -> Self {
        let part = |whole: u32| (whole / threads.max(1)).max(1);
        let width = part(self.width);
        Self {
            width,
            window: part(self.window).max(2 * width),
            mshrs: part(self.mshrs),
            l1: self.l1.map(|level| level.split(threads)),
            l2: self.l2.map(|level| level.split(threads)),
        }
    }
}

impl CacheLevel {
    /// So many ways of it as one of `threads` threads has.
    fn split(self, threads: u32) -> Self {
        let ways = (self.geometry.ways / threads.max(1)).max(1);
        let set = self.geometry.size.0 / u64::from(self.geometry.ways);
        let size = Bytes(set * u64::from(ways));
        Self { geometry: CacheGeometry { size, ways, ..self.geometry }, ..self }
    }
}

/// All cores and the cache that they share.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineConfig {
    /// Their clock.
    pub clock: Clock,
    /// Each hardware thread that executes something, in the order of the threads of the programs.
    pub cores: Vec<CoreConfig>,
    /// The shared cache.
    pub llc: Option<CacheLevel>,
}

/// A memory system as the machine sees it.
pub trait Memory {
    /// Takes a request at cycle `now`, which is not before one that was [advanced](Self::advance) to.
    /// False while the queue is full.
    fn offer(&mut self, now: Cycles, request: Request) -> bool;

    /// The next cycle at which anything happens if nothing comes in.
    fn next_event(&self) -> Option<Cycles>;

    /// Lets everything happen up to the cycle `to` and tells what is done.
    fn advance(&mut self, to: Cycles, done: &mut dyn FnMut(&Completion));
}

/// A memory system and its place in the machine.
#[derive(Clone, Debug)]
pub struct Bay<M> {
    /// What it is called: `dram`.
    pub name: String,
    /// The memory system. Its addresses start at zero.
    pub memory: M,
    /// The first address of the machine that is in it.
    pub base: PhysAddr,
    /// Its size.
    pub size: Bytes,
    /// Its clock.
    pub clock: Clock,
    /// What tells its banks apart.
    pub map: AddressMap,
}

/// A program and its threads.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The process, as the operating system knows it.
    pub process: ProcessId,
    /// What its threads execute, each on a core of its own.
    pub threads: Vec<Box<dyn Stream>>,
    /// Where its accesses enter.
    pub level: Level,
    /// What its addresses are.
    pub addressing: Addressing,
    /// Instructions that each thread executes until it has done its part; then it starts again, and
    /// goes on until all have done theirs.
    pub instructions: u64,
    /// Threads wait for each other after every so many instructions.
    pub phase: Option<u64>,
}

/// How the addresses of a stream become addresses of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// They are virtual; the operating system gives frames to pages.
    #[default]
    Virtual,
    /// They are those of the machine already.
    Physical,
}
