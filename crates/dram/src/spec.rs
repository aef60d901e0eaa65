//! What a memory is made of: organization, timing, the rules between commands, currents. All of it
//! is data, read from a device file and the file of its family.
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
//! Parameters that the [controller](crate::config) itself knows: `tREFI` (no refresh without it),
//! `tREFI_B` (of one bank; otherwise `tREFI` over the banks of a rank).
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
pub use currents::{ArrayEnergy, Currents, Rail};
pub use link::Link;
pub use organization::Organization;
pub use timing::{Rounding, Timing};

use memweir_core::input::{Refusal, shipped};
use memweir_core::medium::MediumKind;
use memweir_core::{Cycles, Picos};

/// Which banks one bank refresh takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BankRefresh {
    /// The family has no such command.
    None,
    /// One bank (LPDDR).
    One,
    /// The banks of one number in all groups (DDR5).
    SameNumber,
}

/// A memory device and the rank and channel that are made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// How people call it: `DDR4-2400 8 Gb x8`.
    pub name: String,
    /// The family whose rules it follows: `ddr4`.
    pub family: String,
    /// DRAM, or cells that keep their content.
    pub kind: MediumKind,
    /// Where the figures come from.
    pub source: String,
    /// The period of the memory clock.
    pub clock: Picos,
    /// How it is built.
    pub organization: Organization,
    /// Its timing parameters in cycles.
    pub timing: Timing,
    /// From a read command to its first data beat.
    pub read_latency: Cycles,
    /// From a write command to its first data beat.
    pub write_latency: Cycles,
    /// Data cycles of a burst.
    pub burst: Cycles,
    /// What a bank refresh is.
    pub bank_refresh: BankRefresh,
    /// Minimum distances between commands.
    pub constraints: Vec<Constraint>,
    /// Currents of a device, where they are known.
    pub currents: Option<Currents>,
    /// Energies of NVM cells, where they are known.
    pub array: Option<ArrayEnergy>,
    /// What lies between the host and the controller (CXL).
    pub link: Option<Link>,
}

/// Devices that come with memweir: their names and the texts of their files.
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
    /// The shipped device with this name.
    ///
    /// # Errors
    /// If there is none: with the nearest name.
    pub fn shipped(name: &str) -> Result<Self, Refusal> {
        let text = shipped("memory", name, SHIPPED)?;
        Ok(Self::parse(name, text)
            .unwrap_or_else(|error| unreachable!("a shipped memory: {error}")))
    }

    /// How often a rank is refreshed, if it is at all.
    #[must_use]
    pub fn refresh_interval(&self) -> Option<Cycles> {
        self.timing.get("tREFI")
    }

    /// How often some bank of a rank is refreshed where banks are refreshed one by one.
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

    /// `cycles` of its clock as a span of time.
    #[must_use]
    pub fn span(&self, cycles: Cycles) -> Picos {
        Picos(cycles.0 * self.clock.0)
    }
}
