//! Energies by kind.

use memweir_core::names::Named;

/// Use of energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnergyKind {
    /// Opening rows, above active standby.
    Activate,
    /// Closing rows, above precharged standby.
    Precharge,
    /// Reading bursts, above active standby.
    Read,
    /// Writing bursts, above active standby.
    Write,
    /// Refreshes of ranks and banks, above active standby.
    Refresh,
    /// Standby with open banks.
    ActiveStandby,
    /// Standby with all banks closed.
    PrechargeStandby,
    /// Power-down with open banks.
    ActivePowerDown,
    /// Power-down with all banks closed.
    PrechargePowerDown,
    /// Self-refresh.
    SelfRefresh,
    /// Rows read from the cells of an NVM into its row buffers.
    ArrayRead,
    /// Lines written back to the cells of an NVM.
    ArrayWrite,
    /// Lines read from the row buffers of an NVM.
    BufferRead,
    /// Lines written into the row buffers of an NVM.
    BufferWrite,
}

memweir_core::named! {
    pub EnergyKind, "kind of energy":
    Activate = "activate",
    Precharge = "precharge",
    Read = "read",
    Write = "write",
    Refresh = "refresh",
    ActiveStandby = "active_standby",
    PrechargeStandby = "precharge_standby",
    ActivePowerDown = "active_power_down",
    PrechargePowerDown = "precharge_power_down",
    SelfRefresh = "self_refresh",
    ArrayRead = "array_read",
    ArrayWrite = "array_write",
    BufferRead = "buffer_read",
    BufferWrite = "buffer_write",
}

impl EnergyKind {
    /// Number of kinds.
    pub const COUNT: usize = 14;
}

/// Energy that a memory drew in a span of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnergyReport {
    picojoules: [f64; EnergyKind::COUNT],
}

impl EnergyReport {
    pub(super) fn add(&mut self, kind: EnergyKind, picojoules: f64) {
        self.picojoules[kind as usize] += picojoules;
    }

    /// Returns the energy drawn for `kind`, in pJ, by all devices of all ranks and channels.
    #[must_use]
    pub fn of(&self, kind: EnergyKind) -> f64 {
        self.picojoules[kind as usize]
    }

    /// Iterates over all kinds with their names and energies in pJ.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        EnergyKind::ALL.iter().map(|kind| (kind.name(), self.of(*kind)))
    }

    /// Returns the sum of all kinds, in pJ.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.picojoules.iter().sum()
    }
}
