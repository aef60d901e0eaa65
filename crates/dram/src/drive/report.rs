//! What a replay reports; `docs/dram.md` defines each figure.

use std::collections::BTreeMap;

use memweir_core::LINE_BYTES;
use serde::Serialize;

use super::{Bucket, Driven, Latencies};
use crate::config::MemoryConfig;
use crate::energy::EnergyReport;
use crate::stats::Stats;

/// The result of a replay. `dram replay --json` is this structure, field by field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
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
    /// Share of the cycles in which data was on a bus, mean over the channels (their halves).
    pub bus_utilisation: f64,
    /// Energy in pJ by kind; nothing where a device's file says nothing of energy.
    pub energy_pj: Option<BTreeMap<String, f64>>,
    /// All energy over the time of all cycles, in mW; nothing like it.
    pub average_power_mw: Option<f64>,
    /// CPU time of the replay in seconds, reading the trace included.
    pub cpu_s: f64,
    /// Requests over that.
    pub requests_per_cpu_s: f64,
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

impl Report {
    /// The report of a replay on the memory of `config` that took `cpu_s` seconds of CPU time.
    #[must_use]
    pub fn new(
        config: &MemoryConfig,
        driven: &Driven,
        stats: &Stats,
        energy: Option<&EnergyReport>,
        cpu_s: f64,
    ) -> Self {
        let cycles = driven.cycles.as_f64();
        let seconds = cycles * config.spec().clock.as_f64() * 1e-12;
        let bus_cycles = cycles * f64::from(config.controllers());
        Self {
            requests: driven.requests(),
            reads: driven.reads,
            writes: driven.writes,
            cycles: driven.cycles.0,
            row_hits: driven.hits,
            row_misses: driven.misses,
            row_conflicts: driven.conflicts,
            activates: stats.activates,
            refreshes: stats.refreshes,
            read_latency_cycles: (&driven.latencies).into(),
            bandwidth_bytes_per_s: (driven.requests() * LINE_BYTES) as f64 / seconds,
            bus_utilisation: stats.data_cycles as f64 / bus_cycles,
            energy_pj: energy.map(|e| e.iter().map(|(k, pj)| (k.to_owned(), pj)).collect()),
            average_power_mw: energy.map(EnergyReport::average_milliwatts),
            cpu_s,
            requests_per_cpu_s: driven.requests() as f64 / cpu_s,
        }
    }
}
