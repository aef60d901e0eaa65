//! The operating system of the simulated machine: memory with colored pages (bpm section 3).
//!
//! A process owns a set of colors; when it first touches a page, it is given a frame of one of
//! them. Physical memory is one or more [`Zone`]s (DRAM, NVM), each with a [`Buddy`] allocator of its
//! own whose free lists are split by color. Threads may have colors of their own, and ranges of a
//! process may be [placed](ColoringOs::place), which is the API of section 3.4 for programmers.
//!
//! Nothing here knows caches, banks or time: the machine asks where a page is and is told what the
//! fault cost ([`paging::Os`](super::paging::Os)). There is no swap, as in the paper.

mod buddy;
mod config;
mod palette;
mod process;
mod start;
mod stats;
#[cfg(test)]
mod tests;

use std::ops::Range;

use memweir_core::address_map::{Color, ColorSet};
use memweir_core::input::Refusal;
use memweir_core::{PhysAddr, Picos};

use super::paging::{Fault, Os, PageKind, Process, Thread, VirtualPage};

pub use buddy::{Buddy, Frame, MAX_ORDER};
pub use config::{Exhausted, FaultCosts, OsConfig, ZoneConfig};
pub use palette::Palette;
pub use start::{Aging, Start};
pub use stats::{OsStats, ProcessStats, ZoneStats};

use process::{AddressSpace, Resident};

/// A part of memory with an allocator of its own, by its place in [`OsConfig::zones`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u8);

/// There is no page for a process, and the policy of [`Exhausted`] finds none either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("process {} has no page left in zone `{zone}`: all of {colors} is used up", process.0)]
pub struct OutOfMemory {
    /// Who asked.
    pub process: Process,
    /// Where the page should have been.
    pub zone: String,
    /// Colors that were allowed, in words.
    pub colors: String,
}

/// The operating system.
#[derive(Clone, Debug)]
pub struct ColoringOs {
    zones: Vec<Zone>,
    page_bits: u32,
    exhausted: Exhausted,
    costs: FaultCosts,
    processes: Vec<AddressSpace>,
}

/// A zone and what is left of it.
#[derive(Clone, Debug)]
struct Zone {
    name: String,
    base: u64,
    palette: Palette,
    buddy: Buddy,
    /// Frames that others hold and that can be taken back, by color.
    reclaimable: Vec<Vec<Frame>>,
}

impl ColoringOs {
    /// Boots on a machine.
    ///
    /// # Errors
    /// If the zones cannot be managed in pages: none, one without a page, not aligned, overlapping, or
    /// of different page sizes.
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

    /// The colors of a zone; `None` if there is no such zone.
    #[must_use]
    pub fn palette(&self, zone: ZoneId) -> Option<&Palette> {
        self.zones.get(usize::from(zone.0)).map(|zone| &zone.palette)
    }

    /// Starts a process whose pages are in the first zone and may have any color.
    pub fn spawn(&mut self) -> Process {
        let id = Process(self.processes.len() as u16);
        self.processes.push(AddressSpace::new(&self.zones));
        id
    }

    /// Gives a process its colors in a zone: frames that it touches first from now on have one of
    /// them. Frames that it has stay.
    ///
    /// # Errors
    /// If the set is empty or has colors that the zone does not know.
    ///
    /// # Panics
    /// If there is no such process or zone.
    pub fn allow(
        &mut self,
        process: Process,
        zone: ZoneId,
        colors: &ColorSet,
    ) -> Result<(), Refusal> {
        self.zones[usize::from(zone.0)].palette.check(colors)?;
        self.processes[usize::from(process.0)].allow(zone, colors);
        Ok(())
    }

    /// Gives a thread colors of its own, which count before those of its process.
    ///
    /// # Errors
    /// As [`allow`](Self::allow).
    ///
    /// # Panics
    /// If there is no such process or zone.
    pub fn allow_thread(
        &mut self,
        process: Process,
        thread: Thread,
        zone: ZoneId,
        colors: &ColorSet,
    ) -> Result<(), Refusal> {
        self.zones[usize::from(zone.0)].palette.check(colors)?;
        self.processes[usize::from(process.0)].allow_thread(thread, zone, colors);
        Ok(())
    }

    /// Spreads the pages of a process over zones: `shares` are weights by zone, zero for those that
    /// are not named. Which page goes where depends on its number alone.
    ///
    /// # Errors
    /// If there are more shares than zones, or no share is positive.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn spread(&mut self, process: Process, shares: &[f64]) -> Result<(), Refusal> {
        let usable = shares.iter().all(|share| share.is_finite() && *share >= 0.0);
        if shares.len() > self.zones.len() || !usable || shares.iter().sum::<f64>() <= 0.0 {
            let help = format!("give up to {} weights, one of them above zero", self.zones.len());
            return Err(Refusal::new("these are no shares of the zones", help));
        }
        self.processes[usize::from(process.0)].spread(shares);
        Ok(())
    }

    /// Places a range of pages: whichever thread touches one of them first, it comes from `zone` and
    /// has one of `colors` (bpm section 3.4, the API for programmers). Later ranges count before
    /// earlier ones; pages that are there already stay where they are.
    ///
    /// # Errors
    /// As [`allow`](Self::allow).
    ///
    /// # Panics
    /// If there is no such process or zone.
    pub fn place(
        &mut self,
        process: Process,
        pages: Range<VirtualPage>,
        zone: ZoneId,
        colors: &ColorSet,
    ) -> Result<(), Refusal> {
        self.zones[usize::from(zone.0)].palette.check(colors)?;
        self.processes[usize::from(process.0)].place(pages, zone, colors);
        Ok(())
    }

    /// Where a page of a process is. If it is touched for the first time, it is given a frame: of the
    /// colors of its range, else of those of the thread if the page is its own, else of those of the
    /// process. A page that is there costs nothing.
    ///
    /// # Errors
    /// If there is no frame for it.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn touch(
        &mut self,
        process: Process,
        thread: Thread,
        page: VirtualPage,
        kind: PageKind,
    ) -> Result<Fault, OutOfMemory> {
        let who = Toucher { process, thread, page, kind };
        match self.processes[usize::from(process.0)].resident(page) {
            Some(resident) => Ok(Fault { frame: self.address(resident), cost: Picos::ZERO }),
            None => self.fault(who),
        }
    }

    /// Ends a process and takes its frames back. Its number is not used again.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn exit(&mut self, process: Process) {
        for resident in self.processes[usize::from(process.0)].vacate() {
            self.zones[usize::from(resident.zone.0)].buddy.free(resident.frame, 0);
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> OsStats {
        OsStats {
            processes: self.processes.iter().map(|process| process.stats.clone()).collect(),
            zones: self.zones.iter().map(Zone::stats).collect(),
        }
    }

    fn address(&self, resident: Resident) -> PhysAddr {
        let zone = &self.zones[usize::from(resident.zone.0)];
        PhysAddr(zone.base + (u64::from(resident.frame.0) << self.page_bits))
    }

    /// A page fault: zone, color, frame (bpm section 3.1.2).
    fn fault(&mut self, who: Toucher) -> Result<Fault, OutOfMemory> {
        let process = &mut self.processes[usize::from(who.process.0)];
        let (zone_id, allowed) = process.allowed(who);
        let zone = &mut self.zones[usize::from(zone_id.0)];
        let mut searched = 0;
        let own = allowed.next(|color| zone.buddy.take(0, color, &mut searched));
        let (resident, supply) = match own {
            Some(frame) => (Resident { zone: zone_id, frame }, Supply::Own),
            None => match self.fall_back(who, &mut searched) {
                Some(found) => found,
                None => return Err(self.refuse(who)),
            },
        };
        let cost = self.costs.of(searched, supply == Supply::Reclaimed);
        let color = self.zones[usize::from(resident.zone.0)].buddy.color_of(resident.frame);
        let process = &mut self.processes[usize::from(who.process.0)];
        process.settle(who.page, resident);
        process.stats.count(supply, color, searched, cost);
        Ok(Fault { frame: self.address(resident), cost })
    }

    /// A frame when all allowed colors are used up.
    fn fall_back(&mut self, who: Toucher, searched: &mut u32) -> Option<(Resident, Supply)> {
        let process = &mut self.processes[usize::from(who.process.0)];
        let (zone_id, allowed) = process.allowed(who);
        let home = usize::from(zone_id.0);
        match self.exhausted {
            Exhausted::Refuse => None,
            Exhausted::Reclaim => {
                let held = &mut self.zones[home].reclaimable;
                let frame = allowed.next(|color| held[color.0 as usize].pop())?;
                Some((Resident { zone: zone_id, frame }, Supply::Reclaimed))
            }
            Exhausted::Spill => {
                let others = (0..self.zones.len()).filter(|zone| *zone != home);
                std::iter::once(home).chain(others).find_map(|zone| {
                    let buddy = &mut self.zones[zone].buddy;
                    let colors = (0..buddy.colors()).map(Color);
                    let frame = process.spill(colors, |color| buddy.take(0, color, searched))?;
                    Some((Resident { zone: ZoneId(zone as u8), frame }, Supply::Spilled))
                })
            }
        }
    }

    fn refuse(&mut self, who: Toucher) -> OutOfMemory {
        let process = &mut self.processes[usize::from(who.process.0)];
        process.stats.refused += 1;
        let (zone, allowed) = process.allowed(who);
        let colors = allowed.in_words();
        let zone = self.zones[usize::from(zone.0)].name.clone();
        OutOfMemory { process: who.process, zone, colors }
    }
}

impl Os for ColoringOs {
    fn page_bits(&self) -> u32 {
        self.page_bits
    }

    fn touch(
        &mut self,
        process: Process,
        thread: Thread,
        page: VirtualPage,
        kind: PageKind,
    ) -> Result<Fault, Refusal> {
        Self::touch(self, process, thread, page, kind).map_err(|error| {
            let help = "allow more colors, or let exhausted colors spill or be reclaimed";
            Refusal::new(error.to_string(), help)
        })
    }
}

/// A first touch.
#[derive(Clone, Copy, Debug)]
struct Toucher {
    process: Process,
    thread: Thread,
    page: VirtualPage,
    kind: PageKind,
}

impl Zone {
    fn new(config: &ZoneConfig, page_bits: u32) -> Self {
        let frames = (config.size.0 >> page_bits) as u32;
        let mut buddy = Buddy::new(config.base, frames, config.palette.coloring());
        let reclaimable = config.start.apply(&mut buddy);
        Self {
            name: config.name.clone(),
            base: config.base.0,
            palette: config.palette.clone(),
            buddy,
            reclaimable,
        }
    }
}

/// Where the frame of a fault came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// A free frame of an allowed color.
    Own,
    /// A free frame of another color or zone.
    Spilled,
    /// A frame of an allowed color that was taken back from somebody else.
    Reclaimed,
}
