//! The memory of the machine, and its energy.

use std::iter::Sum;
use std::ops::Add;
use std::sync::Arc;

use memweir_bank::clock::{Clock, Time};
use memweir_bank::machine::MemorySlot;
use memweir_bank::observed::Observed;
use memweir_core::PhysAddr;
use memweir_core::address_map::AddressMap;
use memweir_core::input::Refusal;
use memweir_dram::config::{PagePolicy, RefreshPolicy};
use memweir_dram::energy::EnergyMeter;
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem};

use super::machine::MEMORY;
use super::rig::{Conditions, Page, Refresh};

/// The device of the paper's machine.
pub(super) const PAPER_MEMORY: &str = "ddr3-1333";

/// Channels, and ranks of each.
const CHANNELS: u32 = 2;
const RANKS: usize = 4;

/// Energy, time and requests of the devices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Energy {
    joules: f64,
    seconds: f64,
    requests: u64,
}

impl Energy {
    /// Mean power.
    pub(super) fn watts(&self) -> f64 {
        self.joules / self.seconds
    }

    pub(super) fn nanojoules_per_request(&self) -> f64 {
        self.joules * 1e9 / self.requests as f64
    }
}

/// A memory system and its energy meter.
type Metered = Observed<EnergyMeter>;

/// The memory of the machine under these conditions. A memory of another size than the paper's has
/// a map of its own, in which lines alternate between channels; only its first part is used.
///
/// # Errors
/// If there is no such device, or the map does not fit a memory of the paper's size made of it.
pub(super) fn bay(on: &Conditions, map: &AddressMap) -> Result<MemorySlot<Metered>, Refusal> {
    let spec = Arc::new(MemorySpec::shipped(&on.memory)?);
    let clock = Clock::with_period(Time::from(spec.clock));
    let page = match on.page {
        Page::Open => PagePolicy::Open,
        Page::Closed => PagePolicy::Closed { accesses: 1 },
    };
    let mut config = MemoryConfig::of_ranks(vec![spec; RANKS], CHANNELS);
    config.page = page;
    if on.refresh == Refresh::Off {
        config.refresh = RefreshPolicy::Off;
    }
    if config.capacity() == MEMORY {
        config.map = map.clone();
    }
    let map = config.map.clone();
    let observer = EnergyMeter::new(&config);
    let memory = Observed { system: MemorySystem::new(&config)?, observer };
    let (base, size) = (PhysAddr(0), MEMORY);
    Ok(MemorySlot { name: "dram".to_owned(), memory, base, size, clock, map })
}

/// Energy of a memory until all requests were answered, at `drained`.
pub(super) fn energy(bay: &MemorySlot<Metered>, drained: Time) -> Energy {
    let report = bay.memory.observer.report(bay.clock.first_from(drained));
    Energy {
        joules: report.total() * 1e-12,
        seconds: drained.as_secs_f64(),
        requests: bay.memory.system.stats().requests(),
    }
}

impl Add for Energy {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            joules: self.joules + other.joules,
            seconds: self.seconds.max(other.seconds),
            requests: self.requests + other.requests,
        }
    }
}

impl Sum for Energy {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), Add::add)
    }
}
