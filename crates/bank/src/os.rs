//! The operating system of the simulated machine: memory with colored pages (bpm section 3).
//!
//! A process owns a set of colors; on the first touch of a page, it gets a frame of one of them.
//! Physical memory is one or more zones (DRAM, NVM), each with a [`Buddy`] allocator of its own
//! whose free lists are split by color. Threads may have colors of their own, and ranges of a
//! process may be [placed](Os::place), which is the API of section 3.4 for programmers.
//!
//! This module does not model caches, banks or time: the machine asks [`Os::touch`] for the address
//! of a page, and gets the cost of the fault, if any, with it. There is no swap, as in the paper.

mod buddy;
mod config;
mod process;
mod start;
mod stats;
#[cfg(test)]
mod tests;

use std::ops::Range;

use memweir_core::address_map::{Color, ColorSet};
use memweir_core::input::Refusal;
use memweir_core::{Nanos, PhysAddr};

pub use buddy::{Buddy, Frame, MAX_ORDER};
pub use config::{Exhausted, FaultCosts, OsConfig, ZoneConfig, uncolored};
pub use start::{Aging, Start};
pub use stats::ProcessStats;

use process::{Process, Resident};

/// A process, numbered in the order of [`spawn`](Os::spawn).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u16);

/// A thread of a process; the first is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u16);

/// The number of a page in the address space of its process: virtual address over page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPage(pub u64);

/// A part of memory with an allocator of its own: an index into [`OsConfig::zones`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u8);

/// Address of a page, and the cost of the fault that provided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Address of the first byte of the page.
    pub at: PhysAddr,
    /// Kernel time of the fault; zero if the page was resident.
    pub fault: Nanos,
}

/// A process has no frame left, and the [`Exhausted`] policy finds none either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("process {} has no page left in zone `{zone}`: all of {colors} is used up", process.0)]
pub struct OutOfMemory {
    /// The process that touched the page.
    pub process: ProcessId,
    /// Zone of the page.
    pub zone: String,
    /// Number of allowed colors, in words.
    pub colors: String,
}

/// The simulated operating system.
#[derive(Clone, Debug)]
pub struct Os {
    zones: Vec<Zone>,
    page_bits: u32,
    exhausted: Exhausted,
    costs: FaultCosts,
    processes: Vec<Process>,
}

/// A zone and its allocator.
#[derive(Clone, Debug)]
struct Zone {
    name: String,
    base: u64,
    buddy: Buddy,
    /// Frames held by others that can be reclaimed, by color.
    reclaimable: Vec<Vec<Frame>>,
}

impl Os {
    /// Boots on a machine.
    ///
    /// # Errors
    /// If the zones cannot be managed in pages: there is none, or one is smaller than a page, not
    /// aligned, overlapping, or of a different page size.
    pub fn new(config: &OsConfig) -> Result<Self, Refusal> {
        let page_bits = config.check()?;
        let zones = config.zones.iter().map(|zone| Zone::new(zone, page_bits)).collect();
        Ok(Self {
            zones,
            page_bits,
            exhausted: config.exhausted,
            costs: config.costs,
            processes: Vec::new(),
        })
    }

    /// Returns the bits of the offset within a page.
    #[must_use]
    pub fn page_bits(&self) -> u32 {
        self.page_bits
    }

    /// Starts a process whose pages are in the first zone and may have any color.
    pub fn spawn(&mut self) -> ProcessId {
        let id = ProcessId(self.processes.len() as u16);
        self.processes.push(Process::new(&self.zones));
        id
    }

    /// Sets a process's colors in a zone: frames of pages that it touches first from now on have
    /// one of them. Frames that it already has stay.
    ///
    /// # Errors
    /// If the set is empty or has colors that the zone does not know.
    ///
    /// # Panics
    /// If there is no such process or zone.
    pub fn allow(
        &mut self,
        process: ProcessId,
        zone: ZoneId,
        colors: &ColorSet,
    ) -> Result<(), Refusal> {
        self.zones[usize::from(zone.0)].check(colors)?;
        self.processes[usize::from(process.0)].allow(zone, colors);
        Ok(())
    }

    /// Sets a thread's own colors in a zone, which take precedence over those of its process.
    ///
    /// # Errors
    /// As [`allow`](Self::allow).
    ///
    /// # Panics
    /// If there is no such process or zone.
    pub fn allow_thread(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        zone: ZoneId,
        colors: &ColorSet,
    ) -> Result<(), Refusal> {
        self.zones[usize::from(zone.0)].check(colors)?;
        self.processes[usize::from(process.0)].allow_thread(thread, zone, colors);
        Ok(())
    }

    /// Spreads the pages of a process over zones by the weights `shares`; zones beyond the last
    /// share get none. The zone of a page depends only on the page's number.
    ///
    /// # Errors
    /// If there are more shares than zones, or no share is positive.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn spread(&mut self, process: ProcessId, shares: &[f64]) -> Result<(), Refusal> {
        let usable = shares.iter().all(|share| share.is_finite() && *share >= 0.0);
        if shares.len() > self.zones.len() || !usable || shares.iter().sum::<f64>() <= 0.0 {
            let help = format!("give up to {} weights, one of them above zero", self.zones.len());
            return Err(Refusal::new("these are no shares of the zones", help));
        }
        self.processes[usize::from(process.0)].spread(shares);
        Ok(())
    }

    /// Places a range of pages: on the first touch by any thread, a page's frame comes from `zone`
    /// and has one of `colors` (bpm section 3.4, the API for programmers). Later ranges take
    /// precedence over earlier ones; resident pages stay where they are.
    ///
    /// # Errors
    /// As [`allow`](Self::allow).
    ///
    /// # Panics
    /// If there is no such process or zone.
    pub fn place(
        &mut self,
        process: ProcessId,
        pages: Range<VirtualPage>,
        zone: ZoneId,
        colors: &ColorSet,
    ) -> Result<(), Refusal> {
        self.zones[usize::from(zone.0)].check(colors)?;
        self.processes[usize::from(process.0)].place(pages, zone, colors);
        Ok(())
    }

    /// Returns the address of a process's page. On the first touch, by `thread`, the page gets a
    /// frame.
    ///
    /// # Errors
    /// If there is no frame left.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn touch(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        page: VirtualPage,
    ) -> Result<Touch, OutOfMemory> {
        match self.processes[usize::from(process.0)].resident(page) {
            Some(resident) => Ok(Touch { at: self.address(resident), fault: Nanos::ZERO }),
            None => self.fault(process, thread, page),
        }
    }

    /// Returns the counters so far, by process.
    #[must_use]
    pub fn stats(&self) -> Vec<ProcessStats> {
        self.processes.iter().map(|process| process.stats.clone()).collect()
    }

    fn address(&self, resident: Resident) -> PhysAddr {
        let zone = &self.zones[usize::from(resident.zone.0)];
        PhysAddr(zone.base + (u64::from(resident.frame.0) << self.page_bits))
    }

    /// Handles a page fault: chooses zone, color and frame (bpm section 3.1.2).
    fn fault(
        &mut self,
        id: ProcessId,
        thread: ThreadId,
        page: VirtualPage,
    ) -> Result<Touch, OutOfMemory> {
        let process = &mut self.processes[usize::from(id.0)];
        let (zone_id, allowed) = process.allowed(thread, page);
        let zone = &mut self.zones[usize::from(zone_id.0)];
        let mut searched = 0;
        let own = allowed.next(|color| zone.buddy.take(0, color, &mut searched));
        let (resident, kind) = match own {
            Some(frame) => (Resident { zone: zone_id, frame }, Supply::Own),
            None => match self.fall_back(id, thread, page, &mut searched) {
                Some(supply) => supply,
                None => return Err(self.refuse(id, thread, page)),
            },
        };
        let cost = self.costs.of(searched, kind == Supply::Reclaimed);
        let process = &mut self.processes[usize::from(id.0)];
        process.settle(page, resident);
        process.stats.count(kind, searched);
        Ok(Touch { at: self.address(resident), fault: cost })
    }

    /// Finds a frame when all allowed colors are used up.
    fn fall_back(
        &mut self,
        id: ProcessId,
        thread: ThreadId,
        page: VirtualPage,
        searched: &mut u32,
    ) -> Option<(Resident, Supply)> {
        let process = &mut self.processes[usize::from(id.0)];
        let (zone_id, allowed) = process.allowed(thread, page);
        match self.exhausted {
            Exhausted::Refuse => None,
            Exhausted::Reclaim => {
                let zone = &mut self.zones[usize::from(zone_id.0)];
                let frame = allowed.next(|color| zone.reclaimable[color.0 as usize].pop())?;
                Some((Resident { zone: zone_id, frame }, Supply::Reclaimed))
            }
            Exhausted::Spill => {
                let home = usize::from(zone_id.0);
                let others = (0..self.zones.len()).filter(|zone| *zone != home);
                for zone in std::iter::once(home).chain(others) {
                    let buddy = &mut self.zones[zone].buddy;
                    let colors = (0..buddy.colors()).map(Color);
                    let frame = process.spill(colors, |color| buddy.take(0, color, searched));
                    if let Some(frame) = frame {
                        let zone = ZoneId(zone as u8);
                        return Some((Resident { zone, frame }, Supply::Spilled));
                    }
                }
                None
            }
        }
    }

    fn refuse(&mut self, id: ProcessId, thread: ThreadId, page: VirtualPage) -> OutOfMemory {
        let process = &mut self.processes[usize::from(id.0)];
        process.stats.refused += 1;
        let (zone, allowed) = process.allowed(thread, page);
        let colors = allowed.in_words();
        OutOfMemory { process: id, zone: self.zones[usize::from(zone.0)].name.clone(), colors }
    }
}

impl Zone {
    fn new(config: &ZoneConfig, page_bits: u32) -> Self {
        let frames = (config.size.0 >> page_bits) as u32;
        let mut buddy = Buddy::new(config.base, frames, &config.coloring);
        let reclaimable = config.start.apply(&mut buddy);
        Self { name: config.name.clone(), base: config.base.0, buddy, reclaimable }
    }

    /// Refuses a set of colors that no page can have.
    fn check(&self, colors: &ColorSet) -> Result<(), Refusal> {
        if colors.is_empty() {
            return Err(Refusal::new("no color is allowed", "allow at least one"));
        }
        colors.within(self.buddy.colors())
    }
}

/// Origin of a faulting page's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// A free frame of an allowed color.
    Own,
    /// A free frame of another color or zone.
    Spilled,
    /// A frame of an allowed color that was reclaimed from another holder.
    Reclaimed,
}
