//! Swap areas in flash: eq. (6) to (12).

use memweir_core::{Joules, PAGE, Seconds, Watts};

use super::{Activity, Energy};

/// An eMMC device (drswap Table II). The time that its cells take to be programmed or erased is not
/// in the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Flash {
    /// Its name.
    pub name: String,
    /// `f` in hertz.
    pub frequency: f64,
    /// `P_FLASH_RD`, eq. (7).
    pub read: Watts,
    /// `P_FLASH_WR`, eq. (8).
    pub write: Watts,
    /// `P_FLASH_STBY`, eq. (9).
    pub standby: Watts,
    /// `RL` in cycles.
    pub read_latency: f64,
    /// `WL` in cycles.
    pub write_latency: f64,
    /// `RD_BL` in bytes.
    pub read_block: f64,
    /// `WR_BL` in bytes.
    pub write_block: f64,
    /// `BW`, bits of the bus; two beats are driven in a cycle.
    pub bus_bits: f64,
    /// Where the figures come from.
    pub source: String,
}

impl Flash {
    /// Returns the energy of a swap area in this device.
    #[must_use]
    pub fn energy(&self, activity: &Activity) -> Energy {
        let read = self.page_read() * activity.swap_ins as f64;
        let write = self.page_write() * activity.swap_outs as f64;
        let standby = Seconds((activity.duration - read - write).0.max(0.0));
        Energy {
            background: self.standby * standby,
            moving: self.read * read + self.write * write,
            in_place: Joules::ZERO,
        }
    }

    /// Returns the time to read a page, eq. (10).
    #[must_use]
    pub fn page_read(&self) -> Seconds {
        self.transfer(self.read_block, self.read_latency)
    }

    /// Returns the time to write a page, eq. (11).
    #[must_use]
    pub fn page_write(&self) -> Seconds {
        self.transfer(self.write_block, self.write_latency)
    }

    fn transfer(&self, block: f64, latency: f64) -> Seconds {
        let cycles = block * 8.0 / (2.0 * self.bus_bits) + latency;
        Seconds(cycles / self.frequency * (PAGE.as_f64() / block))
    }
}
