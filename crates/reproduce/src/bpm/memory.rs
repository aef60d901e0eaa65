//! The memory of the machine, and what it takes.

use std::iter::Sum;
use std::ops::Add;
use std::sync::Arc;

use memweir_core::address_map::AddressMap;
use memweir_core::input::Refusal;
use memweir_core::{Cycles, PhysAddr};
use memweir_dram::config::PagePolicy;
use memweir_dram::request::{Completion, Request};
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem, Observer};
use memweir_sim::bank::clock::{Clock, Time};
use memweir_sim::bank::machine::{Bay, Memory};

use super::machine::MEMORY;
use super::rig::Page;

/// The device of the paper's machine.
pub(super) const PAPER_MEMORY: &str = "ddr3-1333";

/// Channels, and ranks of each.
const CHANNELS: u32 = 2;
const RANKS: usize = 4;

/// What the devices took.
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

/// A memory system that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    system: MemorySystem,
}

struct Tell<'a>(&'a mut dyn FnMut(&Completion));

impl Observer for Tell<'_> {
    fn completed(&mut self, completion: &Completion) {
        (self.0)(completion);
    }
}

impl Memory for Watched {
    fn offer(&mut self, now: Cycles, request: Request) -> bool {
        self.system.enqueue(now, request).is_ok()
    }

    fn next_event(&self) -> Option<Cycles> {
        self.system.next_event()
    }

    fn advance(&mut self, to: Cycles, done: &mut dyn FnMut(&Completion)) {
        self.system.advance(to, &mut Tell(done));
    }
}

fn spec(device: &str) -> Result<MemorySpec, Refusal> {
    MemorySpec::shipped(device).or_else(|_| {
        let text = std::fs::read_to_string(format!("/tmp/ddr3/{device}.toml")).unwrap();
        MemorySpec::parse(device, &text).map_err(|e| Refusal::new(e.to_string(), ""))
    })
}

/// The memory of the machine, made of `device`.
///
/// # Errors
/// If there is no such device, or the map is not of a memory made of it.
pub(super) fn bay(device: &str, page: Page, map: &AddressMap) -> Result<Bay<Watched>, Refusal> {
    let spec = Arc::new(spec(device)?);
    let clock = Clock::with_period(Time::from(spec.clock));
    let page = match page {
        Page::Open => PagePolicy::Open,
        Page::Closed => PagePolicy::Closed { accesses: 1 },
    };
    let config = MemoryConfig {
        map: map.clone(),
        page,
        ..MemoryConfig::of_ranks(vec![spec; RANKS], CHANNELS)
    };
    let memory = Watched { system: MemorySystem::new(&config)? };
    let (base, size) = (PhysAddr(0), MEMORY);
    Ok(Bay { name: "dram".to_owned(), memory, base, size, clock, map: map.clone() })
}

/// What a memory took in a run of so many seconds.
pub(super) fn energy(bay: &Bay<Watched>, seconds: f64) -> Energy {
    Energy { joules: f64::NAN, seconds, requests: bay.memory.system.stats().requests() }
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
