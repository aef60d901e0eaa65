//! Specification of a memory: organization, timing, constraints between commands, currents. All of
//! it is data, read from a device file and the file of its family.
//!
//! # A device file
//!
//! ```toml
//! name = "DDR4-2400 8 Gb x8"
//! family = "ddr4"                 # a shipped family: its rules and the names of its timings
//! kind = "dram"                   # or "nvm"
//! source = "DRAMsim3's DDR4_8Gb_x8_2400"
//! clock_ns = 0.833                # tCK; data moves on both edges
//!
//! [organization]
//! bus_bits = 64                   # of one (sub-)channel, without ECC
//! device_bits = 8
//! sub_channels = 1                # 2 for DDR5; may be left out
//! ranks = 1                       # unless the configuration says otherwise
//! bank_groups = 4                 # 1 where the family has none
//! banks = 4                       # of each group
//! rows = 65536
//! columns = 1024                  # of a row, each as wide as the bus
//! burst_length = 8                # a burst carries 64 bytes
//!
//! [timing]                        # every parameter of the family
//! CL = 17                         # cycles,
//! tRFC = { ns = 350 }             # nanoseconds (rounded up as the family does),
//! tRTP = { ns = 7.5, cycles = 4 } # or the greater of both
//!
//! [currents]                      # of one device, in mA; for energy. May be left out
//! bank_share = 0.5                # DRAMPower's rho: of the active standby current, what is shared
//! rails = [{ name = "VDD", volts = 1.2, idd0 = 60.75, idd2n = 38.25, idd3n = 44, idd4r = 184.5,
//!            idd4w = 168.75, idd5b = 118, idd6 = 20.25, idd2p = 17, idd3p = 22.5 }]
//!
//! [array]                         # energies of NVM cells. May be left out
//! read_pj_per_bit = 2.47
//! write_pj_per_bit = 16.82
//!
//! [link]                          # CXL: between the host and the controller. May be left out
//! latency_ns = 35                 # each way
//! gb_per_s = 32                   # each way, payload
//! ```
//!
//! The [controller](crate::config) itself uses these parameters: `tREFI` (without it there is no
//! refresh) and `tREFI_B` (refresh interval of single banks; by default `tREFI` divided by the
//! banks of a rank).
//!
//! Families are described at [`family`].

mod constraint;
mod currents;
pub mod family;
mod formula;
mod link;
mod organization;
mod parse;
#[cfg(test)]
mod shipped;
#[cfg(test)]
mod tests;
mod timing;

pub use constraint::{Constraint, Level, Scope};
pub(crate) use currents::with_an_open_bank;
pub use currents::{ArrayEnergy, Currents, Rail};
pub use link::Link;
pub use organization::Organization;
pub use timing::{Rounding, Timing};

use std::fs;
use std::path::Path;

use memweir_core::input::{DataFile, Refusal, shipped};
use memweir_core::medium::MediumKind;
use memweir_core::{Cycles, Picos};

/// The banks that one bank refresh covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BankRefresh {
    /// The family has no bank refresh.
    None,
    /// One bank (LPDDR).
    One,
    /// The banks with the same number in all groups (DDR5).
    SameNumber,
}

/// A memory device, and the rank and channel that are built from it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// Common name: `DDR4-2400 8 Gb x8`.
    pub name: String,
    /// The family whose constraints apply: `ddr4`.
    pub family: String,
    /// DRAM or non-volatile cells.
    pub kind: MediumKind,
    /// Source of the figures.
    pub source: String,
    /// The period of the memory clock.
    pub clock: Picos,
    /// Organization of the device and its rank.
    pub organization: Organization,
    /// Timing parameters in cycles.
    pub timing: Timing,
    /// Time from a read command to its first data beat.
    pub read_latency: Cycles,
    /// Time from a write command to its first data beat.
    pub write_latency: Cycles,
    /// Data cycles of a burst.
    pub burst: Cycles,
    /// The banks that a bank refresh covers.
    pub bank_refresh: BankRefresh,
    /// Minimum distances between commands.
    pub constraints: Vec<Constraint>,
    /// Currents of a device, if known.
    pub currents: Option<Currents>,
    /// Energies of NVM cells, if known.
    pub array: Option<ArrayEnergy>,
    /// The link between the host and the controller (CXL).
    pub link: Option<Link>,
}

/// Shipped devices: their names and the texts of their files.
pub const SHIPPED: &[(&str, &str)] = &[
    ("ddr3-800", include_str!("../data/ddr3-800.toml")),
    ("ddr3-1066", include_str!("../data/ddr3-1066.toml")),
    ("ddr3-1333", include_str!("../data/ddr3-1333.toml")),
    ("ddr3-1600", include_str!("../data/ddr3-1600.toml")),
    ("ddr4-1866", include_str!("../data/ddr4-1866.toml")),
    ("ddr4-2400", include_str!("../data/ddr4-2400.toml")),
    ("ddr4-3200", include_str!("../data/ddr4-3200.toml")),
    ("ddr5-4800", include_str!("../data/ddr5-4800.toml")),
    ("lpddr2-1066", include_str!("../data/lpddr2-1066.toml")),
    ("lpddr4-3200", include_str!("../data/lpddr4-3200.toml")),
    ("pcm-lpddr2", include_str!("../data/pcm-lpddr2.toml")),
    ("stt-ram", include_str!("../data/stt-ram.toml")),
    ("nvm-2400", include_str!("../data/nvm-2400.toml")),
    ("cxl-ddr4", include_str!("../data/cxl-ddr4.toml")),
    ("cxl-ddr5", include_str!("../data/cxl-ddr5.toml")),
];

impl MemorySpec {
    /// Returns the shipped device with this name.
    ///
    /// # Errors
    /// If there is none; the error suggests the nearest name.
    pub fn shipped(name: &str) -> Result<Self, Refusal> {
        let text = shipped("memory", name, SHIPPED)?;
        Ok(Self::parse(name, text)
            .unwrap_or_else(|error| unreachable!("a shipped memory: {error}")))
    }

    /// Finds the file of a device by its shipped name or, if `choice` ends in `.toml`, by its path
    /// below `directory`.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn file<'a>(choice: &'a str, directory: &Path) -> Result<DataFile<'a>, Refusal> {
        DataFile::find("memory", choice, SHIPPED, directory, fs::read_to_string)
    }

    /// Returns the interval between refreshes of a rank; `None` if ranks are not refreshed.
    #[must_use]
    pub fn refresh_interval(&self) -> Option<Cycles> {
        self.timing.get("tREFI")
    }

    /// Returns the interval between bank refreshes of a rank, if banks are refreshed one by one.
    #[must_use]
    pub fn bank_refresh_interval(&self) -> Option<Cycles> {
        let turns = match self.bank_refresh {
            BankRefresh::None => return None,
            BankRefresh::One => self.organization.banks_of_rank(),
            BankRefresh::SameNumber => self.organization.banks,
        };
        let evenly = || self.refresh_interval().map(|whole| Cycles(whole.0 / u64::from(turns)));
        self.timing.get("tREFI_B").or_else(evenly)
    }

    /// Returns the time that the refresh of a bank takes, if banks are refreshed one by one.
    #[must_use]
    pub fn bank_refresh_time(&self) -> Option<Cycles> {
        self.timing.get("tRFCpb").or_else(|| self.timing.get("tRFCsb"))
    }

    /// Converts `cycles` of its clock into a span of time.
    #[must_use]
    pub fn span(&self, cycles: Cycles) -> Picos {
        Picos(cycles.0 * self.clock.0)
    }
}
