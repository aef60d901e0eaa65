//! What a replay reports; `docs/dram.md` defines each figure.

use std::collections::BTreeMap;

use memweir_core::{LINE_BYTES, Picos};
use serde::Serialize;

use super::{Bucket, Driven, Latencies};
use crate::config::MemoryConfig;
use crate::energy::EnergyReport;
use crate::stats::Stats;

/// The result of a replay. `dram replay --json` is this structure, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// All that was served.
    #[serde(flatten)]
    pub served: Served,
    /// CPU time of the replay in seconds, reading the trace included.
    pub cpu_s: f64,
    /// Requests over that.
    pub requests_per_cpu_s: f64,
    /// Each memory, where several are side by side.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReport>,
}

/// What one of several memories served, in the cycles of the whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartReport {
    /// Its devices.
    pub memory: String,
    /// The address at which it begins.
    pub from: u64,
    /// Its size.
    pub bytes: u64,
    /// A cycle of its own clock in picoseconds.
    pub clock_ps: u64,
    /// What it served.
    #[serde(flatten)]
    pub served: Served,
}

/// What memories served, and what that took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Served {
    /// Requests: reads and writes.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Memory cycles from the first offer to the last answer.
    pub cycles: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that found their bank closed.
    pub row_misses: u64,
    /// Requests that found another row open.
    pub row_conflicts: u64,
    /// Rows opened.
    pub activates: u64,
    /// Refreshes, of a rank or of a bank.
    pub refreshes: u64,
    /// Latency of reads in memory cycles.
    pub read_latency_cycles: LatencyReport,
    /// Bytes of all requests over the time of all cycles.
    pub bandwidth_bytes_per_s: f64,
    /// Share of the time in which data was on a bus, mean over the channels (their halves).
    pub bus_utilisation: f64,
    /// Energy in pJ by kind; nothing where a device's file says nothing of energy.
    pub energy_pj: Option<BTreeMap<String, f64>>,
    /// All energy over the time of all cycles, in mW; nothing like it.
    pub average_power_mw: Option<f64>,
}

/// What a memory was, and what it counted itself.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The memory.
    pub config: &'a MemoryConfig,
    /// Its counts.
    pub stats: &'a Stats,
    /// Its energy, if its devices' files tell it.
    pub energy: Option<&'a EnergyReport>,
}

/// Latencies in memory cycles; absent where nothing was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyReport {
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<u64>,
    /// What nine in ten do not exceed.
    pub p90: Option<u64>,
    /// What 99 in a hundred do not exceed.
    pub p99: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
    /// How many lie in which range.
    pub histogram: Vec<Bucket>,
}

impl From<&Latencies> for LatencyReport {
    fn from(latencies: &Latencies) -> Self {
        Self {
            mean: latencies.mean(),
            p50: latencies.percentile(0.5),
            p90: latencies.percentile(0.9),
            p99: latencies.percentile(0.99),
            max: latencies.max(),
            histogram: latencies.buckets(),
        }
    }
}

impl Served {
    /// What `memories` served together, by the cycles of `clock`.
    #[must_use]
    pub fn new(memories: &[Measured<'_>], clock: Picos, driven: &Driven) -> Self {
        let seconds = driven.cycles.as_f64() * clock.as_f64() * 1e-12;
        let sum = |of: fn(&Stats) -> u64| memories.iter().map(|memory| of(memory.stats)).sum();
        let busy = |memory: &Measured<'_>| {
            memory.stats.data_cycles as f64 * memory.config.spec().clock.as_f64() * 1e-12
        };
        let buses: u32 = memories.iter().map(|memory| memory.config.controllers()).sum();
        let energy = energy(memories);
        let total = energy.as_ref().map(|energy| energy.values().sum::<f64>());
        Self {
            requests: driven.requests(),
            reads: driven.reads,
            writes: driven.writes,
            cycles: driven.cycles.0,
            row_hits: driven.hits,
            row_misses: driven.misses,
            row_conflicts: driven.conflicts,
            activates: sum(|stats| stats.activates),
            refreshes: sum(|stats| stats.refreshes),
            read_latency_cycles: (&driven.latencies).into(),
            bandwidth_bytes_per_s: (driven.requests() * LINE_BYTES) as f64 / seconds,
            bus_utilisation: memories.iter().map(busy).sum::<f64>() / seconds / f64::from(buses),
            energy_pj: energy,
            average_power_mw: total.map(|picojoules| picojoules * 1e-9 / seconds),
        }
    }
}

/// Energies of all memories by kind; nothing if that of one is not known.
fn energy(memories: &[Measured<'_>]) -> Option<BTreeMap<String, f64>> {
    let mut sum = BTreeMap::new();
    for memory in memories {
        for (kind, picojoules) in memory.energy?.iter() {
            *sum.entry(kind.to_owned()).or_default() += picojoules;
        }
    }
    Some(sum)
}
