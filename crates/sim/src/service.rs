//! What a memory can carry, and how its latency grows on the way there.

use memweir_core::BytesPerSec;
use memweir_dram::curve::{self, Fit};

/// A point of the latency's growth below saturation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthPoint {
    /// Busy share of the memory's time, from 0 to 1.
    pub utilization: f64,
    /// Latency at that, over the unloaded one; at least 1.
    pub stretch: f64,
}

/// The growth of latency where so much of the traffic is read.
#[derive(Clone, Debug, PartialEq)]
pub struct GrowthLine {
    /// Lines read over lines read and written, from 0 to 1.
    pub read_share: f64,
    /// In ascending order of utilization.
    pub points: Vec<GrowthPoint>,
}

/// Growth of latency below saturation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// In ascending order of the share of reads. Between two of them growth is in between, beyond the
    /// first and the last it is theirs; a single one stands for all shares. None if the memory is
    /// as fast as unloaded until it saturates.
    pub lines: Vec<GrowthLine>,
}

impl From<Vec<GrowthPoint>> for Growth {
    /// The same growth for all shares of reads.
    fn from(points: Vec<GrowthPoint>) -> Self {
        let lines = match points.is_empty() {
            true => Vec::new(),
            false => vec![GrowthLine { read_share: 1.0, points }],
        };
        Self { lines }
    }
}

impl From<curve::Growth> for GrowthLine {
    fn from(measured: curve::Growth) -> Self {
        let point = |[utilization, stretch]: [f64; 2]| GrowthPoint { utilization, stretch };
        Self {
            read_share: measured.read_share,
            points: measured.points.into_iter().map(point).collect(),
        }
    }
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
    /// Growth of latency below saturation.
    pub growth: Growth,
    /// Where the figures come from.
    pub source: String,
}

impl ServiceCurve {
    /// The curve that was measured of `memory` at bank level, as the file called `name` has it.
    #[must_use]
    pub fn measured(name: &str, (memory, fit): (String, Fit)) -> Self {
        Self {
            capacity: fit.capacity,
            read_cost: 1.0,
            write_cost: fit.write_cost,
            growth: Growth { lines: fit.growth.into_iter().map(GrowthLine::from).collect() },
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
            growth: Growth::default(),
            source: "analytic".to_owned(),
        }
    }

    /// The share of the memory's busy time that writes take, where so much of the traffic is read.
    pub(crate) fn write_part(&self, read_share: f64) -> f64 {
        let (reads, writes) = (read_share * self.read_cost, (1.0 - read_share) * self.write_cost);
        writes / (reads + writes)
    }
}
