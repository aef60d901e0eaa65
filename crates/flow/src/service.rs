//! Service curves: the capacity of a memory, and the growth of its latency under load.

use memweir_core::BytesPerSec;
use memweir_dram::curve::{self, Fit};

/// A point of the latency's growth below saturation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthPoint {
    /// Busy share of the memory's time, from 0 to 1.
    pub utilization: f64,
    /// Latency at that utilization, over the unloaded one; at least 1.
    pub stretch: f64,
}

/// The growth of latency at one share of reads.
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
    /// In ascending order of the share of reads. Growth between two lines is interpolated, beyond
    /// the first and the last it is theirs; a single line stands for all shares. Empty if the
    /// memory is as fast as unloaded until it saturates.
    pub lines: Vec<GrowthLine>,
}

impl From<Vec<GrowthPoint>> for Growth {
    /// Uses the same growth for all shares of reads.
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

/// Service curve of a memory: measured (`platform.toml`, the bank-level model) or analytic.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceCurve {
    /// Realistic peak bandwidth with requests of cost 1; more than zero.
    pub capacity: BytesPerSec,
    /// Time that one line read occupies the memory, in units of a line's time at the peak; more
    /// than zero, 1 for DRAM.
    pub read_cost: f64,
    /// Time that one line written occupies the memory, in the same unit.
    pub write_cost: f64,
    /// Growth of latency below saturation.
    pub growth: Growth,
    /// Source of the figures.
    pub source: String,
}

impl ServiceCurve {
    /// Converts the curve measured for `memory` at bank level, taken from the file `name`.
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

    /// Returns the curve of a memory whose reads and writes cost alike and that is as fast as
    /// unloaded until it saturates.
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

    /// Returns the share of the memory's busy time that writes take at this share of reads.
    pub(crate) fn write_part(&self, read_share: f64) -> f64 {
        let (reads, writes) = (read_share * self.read_cost, (1.0 - read_share) * self.write_cost);
        writes / (reads + writes)
    }
}
