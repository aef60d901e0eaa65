//! Organization of a memory.

use memweir_core::input::Refusal;
use memweir_core::{Bytes, LINE_BYTES};
use serde::Serialize;

/// Widths and counts, all of them powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Organization {
    /// Data width of one (sub-)channel in bits, without those for error correction.
    pub bus_bits: u32,
    /// Data width of one device in bits.
    pub device_bits: u32,
    /// Independent halves of a channel.
    pub sub_channels: u32,
    /// Ranks of a channel.
    pub ranks: u32,
    /// Bank groups of a rank; 1 where the family has none.
    pub bank_groups: u32,
    /// Banks of a group.
    pub banks: u32,
    /// Rows of a bank.
    pub rows: u32,
    /// Columns of a row, each as wide as the bus.
    pub columns: u32,
    /// Data beats of a burst.
    pub burst_length: u32,
}

/// The most banks that a rank can have.
const MAX_BANKS: u32 = 64;

/// The most lines that a row can have: the place of a line has 16 bits for its column.
const MAX_LINES: u64 = 1 << 16;

/// The most ranks that a channel can have.
const MAX_RANKS: u64 = 16;

impl Organization {
    /// Banks of a rank.
    #[must_use]
    pub fn banks_of_rank(&self) -> u32 {
        self.bank_groups * self.banks
    }

    /// Devices side by side in a rank of one (sub-)channel.
    #[must_use]
    pub fn devices(&self) -> u32 {
        self.bus_bits / self.device_bits
    }

    /// Bytes of a row over all devices of a rank.
    #[must_use]
    pub fn row_bytes(&self) -> Bytes {
        Bytes(u64::from(self.columns) * u64::from(self.bus_bits) / 8)
    }

    /// Bursts of a row, which are its lines.
    #[must_use]
    pub fn lines_of_row(&self) -> u32 {
        (self.row_bytes().0 / LINE_BYTES) as u32
    }

    /// Bytes of one rank of one (sub-)channel.
    #[must_use]
    pub fn rank_bytes(&self) -> Bytes {
        Bytes(self.row_bytes().0 * u64::from(self.rows) * u64::from(self.banks_of_rank()))
    }

    /// Refuses organizations that cannot be built or are not modeled.
    ///
    /// # Errors
    /// Names the wrong figure.
    pub fn validate(&self) -> Result<(), Refusal> {
        let counts = [
            ("bus_bits", self.bus_bits),
            ("device_bits", self.device_bits),
            ("sub_channels", self.sub_channels),
            ("ranks", self.ranks),
            ("bank_groups", self.bank_groups),
            ("banks", self.banks),
            ("rows", self.rows),
            ("columns", self.columns),
            ("burst_length", self.burst_length),
        ];
        if let Some((name, count)) = counts.iter().find(|(_, count)| !count.is_power_of_two()) {
            return Err(Refusal::new(
                format!("`{name}` is {count}"),
                "address bits choose among them: a power of two",
            ));
        }
        Self::check_ranks(self.ranks.into())?;
        if self.device_bits > self.bus_bits {
            return Err(Refusal::new(
                "a device is wider than the bus",
                "`bus_bits` is the width of all devices of a rank",
            ));
        }
        let burst = u64::from(self.bus_bits) * u64::from(self.burst_length) / 8;
        if burst != LINE_BYTES {
            return Err(Refusal::new(
                format!("a burst carries {burst} bytes, a request {LINE_BYTES}"),
                "choose `bus_bits` and `burst_length` (or several channels in step) to carry a line",
            ));
        }
        if self.row_bytes().0 < LINE_BYTES {
            return Err(Refusal::new("a row is shorter than a line", "more `columns`"));
        }
        let lines = self.row_bytes().0 / LINE_BYTES;
        if lines > MAX_LINES {
            return Err(Refusal::new(
                format!("a row has {lines} lines"),
                format!("fewer `columns`: at most {MAX_LINES} lines"),
            ));
        }
        if self.banks_of_rank() > MAX_BANKS {
            return Err(Refusal::new(
                format!("{} banks in a rank", self.banks_of_rank()),
                format!("at most {MAX_BANKS}"),
            ));
        }
        Ok(())
    }

    /// Refuses numbers of ranks that a channel cannot have.
    ///
    /// # Errors
    /// Names the number, and those that there can be.
    pub fn check_ranks(ranks: u64) -> Result<(), Refusal> {
        match ranks.is_power_of_two() && ranks <= MAX_RANKS {
            true => Ok(()),
            false => Err(Refusal::new(
                format!("{ranks} ranks"),
                "1, 2, 4, 8 or 16: address bits choose among them",
            )),
        }
    }
}
