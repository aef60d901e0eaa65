//! What a memory can carry, and how its latency grows on the way there.

use memweir_core::BytesPerSec;

/// A point of the latency's growth below saturation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthPoint {
    /// Busy share of the memory's time, from 0 to 1.
    pub utilization: f64,
    /// Latency at that, over the unloaded one; at least 1.
    pub stretch: f64,
}

/// How a memory serves requests: measured (`platform.toml`, the bank-level model) or analytic.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceCurve {
    /// Realistic peak bandwidth with requests of cost 1; more than zero.
    pub capacity: BytesPerSec,
    /// Time that one line read occupies the memory, in units of that of a line at the peak;
    /// more than zero, 1 for DRAM.
    pub read_cost: f64,
    /// The same for a line written.
    pub write_cost: f64,
    /// Growth of latency below saturation, in ascending order of utilization; empty if the memory
    /// is as fast as unloaded until it saturates.
    pub growth: Vec<GrowthPoint>,
    /// Where the figures come from.
    pub source: String,
}

impl ServiceCurve {
    /// A memory whose reads and writes cost alike, as fast as unloaded until it saturates.
    #[must_use]
    pub fn flat(capacity: BytesPerSec) -> Self {
        Self {
            capacity,
            read_cost: 1.0,
            write_cost: 1.0,
            growth: Vec::new(),
            source: "analytic".to_owned(),
        }
    }
}
