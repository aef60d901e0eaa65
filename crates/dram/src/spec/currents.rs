//! Parameters of the energy model.

use serde::Serialize;

/// A supply of a device and the currents that it delivers, in mA.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rail {
    /// Name in the data sheet: `VDD`.
    pub name: String,
    /// Its voltage.
    pub volts: f64,
    /// One bank opened and closed again and again.
    pub idd0: f64,
    /// Standby with all banks closed.
    pub idd2n: f64,
    /// Power-down with all banks closed.
    pub idd2p: f64,
    /// Standby with all banks open.
    pub idd3n: f64,
    /// Power-down with open banks.
    pub idd3p: f64,
    /// Reading without pause.
    pub idd4r: f64,
    /// Writing without pause.
    pub idd4w: f64,
    /// Refreshing all banks without pause; zero for media that need none.
    pub idd5b: f64,
    /// Self-refresh; zero for media that have none.
    pub idd6: f64,
}

/// Currents of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Currents {
    /// Its supplies.
    pub rails: Vec<Rail>,
    /// DRAMPower's rho, from 0 to 1: of the difference between active and precharged standby, the
    /// share that the first open bank draws. The rest grows with the number of open banks.
    pub bank_share: f64,
}

/// Returns the current of standby with one of `banks` open, and the part of it that all open banks
/// share, from IDD2N and IDD3N.
pub(crate) fn with_an_open_bank([closed, open]: [f64; 2], share: f64, banks: u32) -> (f64, f64) {
    let shared = closed + share * (open - closed);
    (shared + (open - shared) / f64::from(banks), shared)
}

/// Energy that the cells of an NVM draw for each bit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ArrayEnergy {
    /// Sensing a bit of the array into the row buffer, in pJ.
    pub read_pj_per_bit: f64,
    /// Programming a bit of the array, in pJ.
    pub write_pj_per_bit: f64,
    /// Reading a bit from the row buffer, in pJ.
    pub buffer_read_pj_per_bit: f64,
    /// Writing a bit into the row buffer, in pJ.
    pub buffer_write_pj_per_bit: f64,
}
