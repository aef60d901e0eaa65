//! The memory of the machine, and its energy.

use std::sync::Arc;

use memweir_bank::experiment::Execution;
use memweir_core::address_map::AddressMap;
use memweir_core::input::Refusal;
use memweir_dram::energy::EnergyMeter;
use memweir_dram::{MemoryConfig, MemorySpec};

use super::machine::MEMORY;
use super::rig::Conditions;

/// The device of the paper's machine.
pub(super) const PAPER_MEMORY: &str = "ddr3-1333";

/// Channels, and ranks of each.
const CHANNELS: u32 = 2;
const RANKS: usize = 4;

/// Energy, time and requests of the devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Energy {
    joules: f64,
    seconds: f64,
    requests: u64,
}

impl Energy {
    /// Energy of the memory until all requests were answered.
    pub(super) fn of(execution: &Execution, meter: &EnergyMeter) -> Self {
        let (cycles, stats) = &execution.memories[0];
        Self {
            joules: meter.report(*cycles).total() * 1e-12,
            seconds: execution.run.drained.as_secs_f64(),
            requests: stats.requests(),
        }
    }

    /// Mean power.
    pub(super) fn watts(&self) -> f64 {
        self.joules / self.seconds
    }

    pub(super) fn nanojoules_per_request(&self) -> f64 {
        self.joules * 1e9 / self.requests as f64
    }
}

/// The memory of the machine under these conditions. A memory of another size than the paper's has
/// a map of its own, in which lines alternate between channels; only its first part is used.
///
/// # Errors
/// If there is no such device.
pub(super) fn config(on: &Conditions, map: &AddressMap) -> Result<MemoryConfig, Refusal> {
    let spec = Arc::new(MemorySpec::shipped(&on.memory)?);
    let mut config = MemoryConfig::of_ranks(vec![spec; RANKS], CHANNELS);
    (config.page, config.refresh) = (on.page, on.refresh);
    if config.capacity() == MEMORY {
        config.map = map.clone();
    }
    Ok(config)
}
