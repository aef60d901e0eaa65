//! Configuration of the simulated operating system.

use memweir_core::address_map::{Coloring, Span};
use memweir_core::input::Refusal;
use memweir_core::{Bytes, Nanos, PhysAddr};

use super::buddy::MAX_ORDER;
use super::start::Start;

/// Policy for a process that has used up the free frames of its colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exhausted {
    /// The fault fails: colors are always obeyed.
    Refuse,
    /// The fault gets a frame of any color, counted as spilled.
    #[default]
    Spill,
    /// A frame of an allowed color is reclaimed from those held at the start (an aged start,
    /// [`Aging`](super::Aging)); the fault fails if there is none.
    Reclaim,
}

memweir_core::named! {
    pub Exhausted, "choice": Refuse = "refuse", Spill = "spill", Reclaim = "reclaim"
}

/// Kernel time of a fault. The defaults are assumptions in the range that Linux needs for an
/// anonymous page on a machine of the paper's time; the paper gives only a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCosts {
    /// Any fault: entry, page table, clearing the page, return.
    pub fault: Nanos,
    /// Each free list searched.
    pub list: Nanos,
    /// Added if a frame had to be reclaimed.
    pub reclaim: Nanos,
}

impl Default for FaultCosts {
    fn default() -> Self {
        Self { fault: Nanos(1_000), list: Nanos(5), reclaim: Nanos(5_000) }
    }
}

impl FaultCosts {
    /// Faults that take no time, for a program that touched its memory long before the measurement.
    pub const FREE: Self = Self { fault: Nanos::ZERO, list: Nanos::ZERO, reclaim: Nanos::ZERO };

    /// Returns the cost of a fault that searched `searched` lists.
    pub(super) fn of(&self, searched: u32, reclaimed: bool) -> Nanos {
        let reclaim = if reclaimed { self.reclaim } else { Nanos::ZERO };
        Nanos(self.fault.0 + self.list.0 * u64::from(searched) + reclaim.0)
    }
}

/// A part of physical memory.
#[derive(Clone, Debug)]
pub struct ZoneConfig {
    /// Its name in messages and statistics: `dram`.
    pub name: String,
    /// Its first byte, aligned to the largest block (`2^MAX_ORDER` pages).
    pub base: PhysAddr,
    /// Its size; an incomplete last page is not used.
    pub size: Bytes,
    /// Colors of its pages.
    pub coloring: Coloring,
    /// The pages that are free at the start, and their order.
    pub start: Start,
}

/// Returns the coloring of a kernel without one: all pages have the same color. `page_bits` is the
/// number of bits of the offset within a page.
#[must_use]
pub fn uncolored(page_bits: u32) -> Coloring {
    Coloring::of_span(&Span::default(), page_bits, 0)
}

/// Configuration of the operating system.
#[derive(Clone, Debug)]
pub struct OsConfig {
    /// The zones; a process lives in the first unless it is [spread](super::Os::spread).
    pub zones: Vec<ZoneConfig>,
    /// Policy for colors that are used up.
    pub exhausted: Exhausted,
    /// Costs of page faults.
    pub costs: FaultCosts,
}

impl OsConfig {
    /// Checks the zones and returns the bits of the offset within a page.
    pub(super) fn check(&self) -> Result<u32, Refusal> {
        let first = self.zones.first().ok_or_else(|| {
            Refusal::new("there is no memory", "give the operating system at least one zone")
        })?;
        let page_bits = first.coloring.page_bits();
        for zone in &self.zones {
            zone.check(page_bits)?;
        }
        let mut ends: Vec<_> = self.zones.iter().map(ZoneConfig::range).collect();
        ends.sort_unstable();
        if ends.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return Err(Refusal::new("zones overlap", "give each byte to one zone"));
        }
        Ok(page_bits)
    }
}

impl ZoneConfig {
    fn range(&self) -> (u64, u64) {
        (self.base.0, self.base.0.saturating_add(self.size.0))
    }

    fn check(&self, page_bits: u32) -> Result<(), Refusal> {
        let refuse = |reason: &str, help: String| {
            Err(Refusal::new(format!("zone `{}`: {reason}", self.name), help))
        };
        let block = 1_u64 << (page_bits + MAX_ORDER);
        let pages = self.size.0 >> page_bits;
        if self.coloring.page_bits() != page_bits {
            return refuse("pages of another size", format!("all zones use {page_bits} bits"));
        }
        if pages == 0 || pages >= u64::from(u32::MAX) {
            return refuse(
                &format!("{} cannot be managed in pages", self.size),
                "a zone holds between one page and four thousand million".to_owned(),
            );
        }
        if !self.base.0.is_multiple_of(block) || !self.coloring.offset().is_multiple_of(block) {
            return refuse(
                "its base, or the offset of its address map, is not aligned",
                format!("align them to the largest block, {}", Bytes(block)),
            );
        }
        Ok(())
    }
}
