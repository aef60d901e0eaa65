//! What a memory can carry, and how its latency grows on the way there.

use memweir_core::BytesPerSec;
use memweir_dram::curve::Fit;

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
    /// The curve that was measured of `memory` at bank level, as the file called `name` has it.
    #[must_use]
    pub fn measured(name: &str, (memory, fit): (String, Fit)) -> Self {
        let point = |[utilization, stretch]: [f64; 2]| GrowthPoint { utilization, stretch };
        Self {
            capacity: fit.capacity,
            read_cost: 1.0,
            write_cost: fit.write_cost,
            growth: fit.growth.into_iter().map(point).collect(),
            source: format!("measured at bank level: {memory}, {} ({name})", fit.pattern),
        }
    }

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
