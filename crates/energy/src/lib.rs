//! The energy of a swap area (drswap section IV) of DRAM, of flash, or of byte-addressable NVM with
//! direct read, from the numbers of pages that were moved.
//!
//! The equations cannot all be meant as they are printed. A [`Reading`] says, point by point, what
//! replaces them. Three readings have names: [`Reading::AS_PRINTED`], [`Reading::MENDED`]
//! (misprints corrected: it reproduces the paper's claims) and [`Reading::PHYSICAL`] (the energy
//! that such an area would really use).

#![forbid(unsafe_code)]

mod data;
mod estimate;
mod flash;
mod memory;
mod reading;
mod table;

#[cfg(test)]
mod tests;

use memweir_core::{Bytes, Joules, Seconds};

pub use data::{MEDIA, Medium};
pub use estimate::{Estimate, Paging};
pub use flash::Flash;
pub use memory::{BackgroundPower, BusMemory, OperatingPower};
pub use reading::{
    Background, Capacity, DirectReadTimes, InPlace, NvmActive, POINTS, READINGS, Reading,
    RefreshTerm, WriteRecovery,
};
pub use table::{CATEGORIES, SwapIns, TABLE_IV, average};

/// Activity of a swap area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activity {
    /// Time for which the area existed, `t_TOTAL`.
    pub duration: Seconds,
    /// Its size, `S_swap`.
    pub size: Bytes,
    /// Pages that were copied out of it, `N_rd`; with direct read `N'_rd`.
    pub swap_ins: u64,
    /// Pages that were copied into it, `N_wr`.
    pub swap_outs: u64,
    /// Page faults that were answered with a mapping instead of a copy: `N_rd - N'_rd`.
    pub direct_reads: u64,
    /// Lines that were read in place because they were not in a cache.
    pub lines_in_place: u64,
}

/// Energy that the activity took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Background energy: standby and refresh.
    pub background: Joules,
    /// For moving pages.
    pub moving: Joules,
    /// For lines that were read in place.
    pub in_place: Joules,
}

impl Energy {
    /// Returns the sum of its parts.
    #[must_use]
    pub fn total(&self) -> Joules {
        self.background + self.moving + self.in_place
    }
}

/// Returns the number of lines of a page that may be read in place before copying it would have
/// been cheaper: the energy of one copy from `nvm` to `dram`, over the extra energy of a line in
/// `nvm`. Infinite if a line costs no more in the NVM.
#[must_use]
pub fn break_even(nvm: &BusMemory, dram: &BusMemory) -> f64 {
    let physical = Reading::PHYSICAL;
    let copy = nvm.page_in(&physical) + dram.page_out(&physical);
    let more = nvm.line_read() - dram.line_read();
    if more.0 > 0.0 { copy.0 / more.0 } else { f64::INFINITY }
}
