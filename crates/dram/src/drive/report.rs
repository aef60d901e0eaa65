//! Report of a replay; `docs/dram.md` defines each figure.

use std::collections::BTreeMap;

use memweir_core::{LINE_BYTES, Picos};
use serde::Serialize;

use super::{Bucket, Driven, DrivenParts, Latencies};
use crate::config::MemoryConfig;
use crate::energy::EnergyReport;
use crate::stats::Stats;

/// The result of a replay. `dram replay --json` is this structure, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Requests before the measured ones; `None` without a warm-up.
    pub warm_up: Option<WarmUp>,
    /// Requests that all memories served.
    #[serde(flatten)]
    pub served: Served,
    /// CPU time of the replay in seconds, reading the trace and the warm-up included.
    pub cpu_s: f64,
    /// Requests per second of that CPU time, those of the warm-up included.
    pub requests_per_cpu_s: f64,
    /// Results of each memory, if there are several side by side.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReport>,
}

/// Requests that were served, but do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WarmUp {
    /// Requests that were accepted. Some may have waited when the measurement began.
    pub requests: u64,
    /// Memory cycles that they took.
    pub cycles: u64,
}

impl WarmUp {
    /// Returns the warm-up of a driven memory, if it had one.
    #[must_use]
    pub fn of(driven: &DrivenParts) -> Option<Self> {
        let before = driven.warm_up.as_ref()?;
        Some(Self { requests: before.accepted, cycles: before.whole.cycles.0 })
    }
}

/// Result of one of several memories, in cycles of the driver's clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartReport {
    /// Name of its devices.
    pub memory: String,
    /// Address at which it begins.
    pub from: u64,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Period of its own clock in picoseconds.
    pub clock_ps: u64,
    /// Requests that it served.
    #[serde(flatten)]
    pub served: Served,
}

/// Requests that memories served, with the time and the energy that these took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Served {
    /// Requests: reads and writes.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Memory cycles from the first offer, or the end of the warm-up, to the last completion.
    pub cycles: u64,
    /// Row-buffer hits: requests that found their row open.
    pub row_hits: u64,
    /// Row-buffer misses: requests that found their bank closed.
    pub row_misses: u64,
    /// Row-buffer conflicts: requests that found another row open.
    pub row_conflicts: u64,
    /// Activates.
    pub activates: u64,
    /// Refreshes of ranks or single banks.
    pub refreshes: u64,
    /// Latency of reads in memory cycles.
    pub read_latency_cycles: LatencyReport,
    /// Bytes of all requests over the time of all cycles.
    pub bandwidth_bytes_per_s: f64,
    /// Share of the time in which data was on a bus, averaged over the channels (or sub-channels).
    pub bus_utilisation: f64,
    /// Energy in pJ by kind; absent if the file of a device has no energy parameters.
    pub energy_pj: Option<BTreeMap<String, f64>>,
    /// Total energy over the time of all cycles, in mW; absent if `energy_pj` is.
    pub average_power_mw: Option<f64>,
}

/// A memory with its counts and its energy.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The memory.
    pub config: &'a MemoryConfig,
    /// Its event counts.
    pub stats: &'a Stats,
    /// Its energy, if the files of its devices have energy parameters.
    pub energy: Option<&'a EnergyReport>,
}

/// Latencies in memory cycles; absent if nothing was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyReport {
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The longest.
    pub max: Option<u64>,
    /// Number of latencies in each range.
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
    /// Sums up the requests that `memories` served, in cycles of `clock`.
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
            row_hits: driven.rows.hits,
            row_misses: driven.rows.misses,
            row_conflicts: driven.rows.conflicts,
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

/// Returns the energies of all memories by kind; `None` if the energy of one is unknown.
fn energy(memories: &[Measured<'_>]) -> Option<BTreeMap<String, f64>> {
    let mut sum = BTreeMap::new();
    for memory in memories {
        for (kind, picojoules) in memory.energy?.iter() {
            *sum.entry(kind.to_owned()).or_default() += picojoules;
        }
    }
    Some(sum)
}
