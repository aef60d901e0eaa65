//! Configuration of a machine at bank level and of the programs that it executes.

use memweir_core::address_map::AddressMap;
use memweir_core::cache::CacheGeometry;
use memweir_core::{Bytes, Cycles, PhysAddr};
use memweir_dram::request::{Completion, Request};

use crate::clock::Clock;
use crate::os::ProcessId;
use crate::stream::{Level, Stream};

/// One level of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// Size and ways.
    pub geometry: CacheGeometry,
    /// Lookup latency in core cycles; a miss waits as long before it goes on.
    pub latency: u32,
}

/// One core, or hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreConfig {
    /// Instructions that enter and retire per cycle, at least one.
    pub width: u32,
    /// Instructions in the reorder window, at least twice the width.
    pub window: u32,
    /// Miss-status registers: lines that can be outstanding at the same time, at least one.
    pub mshrs: u32,
    /// Its first-level cache.
    pub l1: Option<CacheLevel>,
    /// Its second-level cache.
    pub l2: Option<CacheLevel>,
}

impl CoreConfig {
    /// Returns the part of the core that each of `threads` hardware threads has while all are busy:
    /// width, window and registers are split, and of the caches each thread has its share of the
    /// ways.
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
    /// Returns the share of the cache's ways that each of `threads` threads has.
    fn split(self, threads: u32) -> Self {
        let ways = (self.geometry.ways / threads.max(1)).max(1);
        let set = self.geometry.size.0 / u64::from(self.geometry.ways);
        let size = Bytes(set * u64::from(ways));
        Self { geometry: CacheGeometry { size, ways, ..self.geometry }, ..self }
    }
}

/// All cores and their shared cache.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineConfig {
    /// Clock of the cores.
    pub clock: Clock,
    /// The hardware threads in use, in the order of the programs' threads.
    pub cores: Vec<CoreConfig>,
    /// The shared cache.
    pub llc: Option<CacheLevel>,
}

/// Interface of a memory system to the machine.
pub trait Memory {
    /// Takes a request at cycle `now`, which must not be before a cycle already
    /// [advanced](Self::advance) to. Returns false if the queue is full.
    fn offer(&mut self, now: Cycles, request: Request) -> bool;

    /// Returns the cycle of the next event, provided that no request arrives before.
    fn next_event(&self) -> Option<Cycles>;

    /// Simulates up to the cycle `to` and reports each completed request to `done`.
    fn advance(&mut self, to: Cycles, done: &mut dyn FnMut(&Completion));
}

/// A memory system and its place in the address space of the machine.
#[derive(Clone, Debug)]
pub struct MemorySlot<M> {
    /// The memory system. Its addresses start at zero.
    pub memory: M,
    /// Its first address in the machine.
    pub base: PhysAddr,
    /// Its size.
    pub size: Bytes,
    /// Its clock.
    pub clock: Clock,
    /// Its address map, which tells its banks apart.
    pub map: AddressMap,
}

/// A program and its threads.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its process in the operating system.
    pub process: ProcessId,
    /// Access streams of its threads, each on a core of its own.
    pub threads: Vec<Box<dyn Stream>>,
    /// Level of the hierarchy at which its accesses enter.
    pub level: Level,
    /// Kind of its addresses: virtual or physical.
    pub addressing: Addressing,
    /// Instructions that each thread executes. A thread that has finished them starts again and
    /// goes on until all threads have finished.
    pub instructions: u64,
    /// Instructions between two barriers at which the threads wait for each other.
    pub phase: Option<u64>,
}

/// Kind of a stream's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// Virtual addresses: the operating system assigns frames to pages.
    #[default]
    Virtual,
    /// Physical addresses of the machine.
    Physical,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_threads_share_a_core_evenly() {
        let l1 = |kib: u64, ways| {
            Some(CacheLevel { geometry: CacheGeometry::new(Bytes(kib << 10), ways), latency: 4 })
        };
        let core = CoreConfig { width: 4, window: 128, mshrs: 16, l1: l1(32, 8), l2: None };
        assert_eq!(core.split(1), core);
        let half = CoreConfig { width: 2, window: 64, mshrs: 8, l1: l1(16, 4), l2: None };
        assert_eq!(core.split(2), half);
        // Nobody gets less than one, and the window holds two cycles.
        let small = CoreConfig { width: 4, window: 10, mshrs: 2, ..core };
        let part = CoreConfig { width: 1, window: 2, mshrs: 1, l1: l1(4, 1), l2: None };
        assert_eq!(small.split(10), part);
    }
}
