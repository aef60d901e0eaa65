//! Bandwidth against latency: what a memory carries and how long reads take at every load and share
//! of reads. The flow model's service curves are made of this.
//!
//! Requests arrive at random (independently of each other, so that their number in a span of time
//! is Poisson distributed) and latency counts from their arrival, waiting before the queue included.

mod file;
mod fit;
mod pattern;
#[cfg(test)]
mod tests;

pub use fit::Fit;
pub use pattern::Pattern;

use std::convert::Infallible;

use memweir_core::input::Refusal;
use memweir_core::{BytesPerSec, LINE_BYTES};
use serde::Serialize;

use crate::config::MemoryConfig;
use crate::drive::{DriveError, Driven, Mode, drive};
use crate::system::MemorySystem;
use pattern::Requests;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Shares of reads, each from 0 to 1.
    pub read_shares: Vec<f64>,
    /// How addresses follow each other.
    pub patterns: Vec<Pattern>,
    /// Offered loads, as shares of what the memory carries with the same pattern and reads.
    pub loads: Vec<f64>,
    /// Requests of each run.
    pub requests: u64,
    /// Of the random numbers.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            read_shares: vec![0.0, 0.25, 0.5, 0.75, 1.0],
            patterns: Pattern::ALL.map(|(_, pattern)| pattern).to_vec(),
            loads: vec![0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95],
            requests: 50_000,
            seed: 1,
        }
    }
}

/// One line of the measurement: a pattern and a share of reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The pattern.
    pub pattern: Pattern,
    /// The share of reads, from 0 to 1.
    pub read_share: f64,
}

/// What was measured at one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Load that was offered, in bytes per second.
    pub offered: BytesPerSec,
    /// What was carried, in bytes per second.
    pub bandwidth: BytesPerSec,
    /// Mean latency of reads in nanoseconds; absent where nothing was read.
    pub latency_ns: Option<f64>,
    /// What 99 in a hundred reads did not exceed, in nanoseconds.
    pub p99_ns: Option<f64>,
}

/// A measured line: the bandwidth at saturation, and the loads below.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// How addresses follow each other.
    pub pattern: Pattern,
    /// Share of reads, from 0 to 1.
    pub read_share: f64,
    /// The most that was carried, in bytes per second.
    pub saturated: BytesPerSec,
    /// In ascending order of load.
    pub points: Vec<Point>,
}

/// Bandwidth against latency of one memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// What was measured: devices, channels, controller.
    pub memory: String,
    /// Of each pattern and share of reads.
    pub lines: Vec<Line>,
}

impl Plan {
    /// Every line that is to be measured. They are independent of each other.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let of = |pattern: &Pattern| {
            let pattern = *pattern;
            self.read_shares.iter().map(move |share| Task { pattern, read_share: *share })
        };
        self.patterns.iter().flat_map(of).collect()
    }

    /// Measures one line on the memory of `config`.
    ///
    /// # Errors
    /// If the memory cannot work.
    pub fn measure(&self, config: &MemoryConfig, task: Task) -> Result<Line, Refusal> {
        let full = self.run(config, task, None)?;
        let saturated = bandwidth(config, &full);
        let point = |load: &f64| {
            let offered = BytesPerSec(saturated.0 * load);
            let driven = self.run(config, task, Some(offered))?;
            let nanos = |cycles: f64| cycles * config.spec().clock.as_f64() * 1e-3;
            Ok(Point {
                offered,
                bandwidth: bandwidth(config, &driven),
                latency_ns: driven.latencies.mean().map(nanos),
                p99_ns: driven.latencies.percentile(0.99).map(|cycles| nanos(cycles as f64)),
            })
        };
        let points = self.loads.iter().map(point).collect::<Result<Vec<_>, Refusal>>()?;
        Ok(Line { pattern: task.pattern, read_share: task.read_share, saturated, points })
    }

    /// Drives the memory with `offered` bytes per second, or with all that it takes.
    fn run(
        &self,
        config: &MemoryConfig,
        task: Task,
        offered: Option<BytesPerSec>,
    ) -> Result<Driven, Refusal> {
        let mut memory = MemorySystem::new(config)?;
        let gap =
            offered.map(|rate| LINE_BYTES as f64 / rate.0 / (config.spec().clock.as_f64() * 1e-12));
        let mut requests =
            Requests::new(task, config.capacity(), gap, self.seed).take(self.requests as usize);
        let mode = if gap.is_some() { Mode::Due } else { Mode::Saturate };
        match drive(&mut memory, mode, || Ok::<_, Infallible>(requests.next()), &mut ()) {
            Ok(driven) => Ok(driven),
            Err(DriveError::Source(never)) => match never {},
            Err(fault) => Err(Refusal::new(fault.to_string(), "a fault of memweir")),
        }
    }
}

fn bandwidth(config: &MemoryConfig, driven: &Driven) -> BytesPerSec {
    let seconds = driven.cycles.as_f64() * config.spec().clock.as_f64() * 1e-12;
    BytesPerSec((driven.requests() * LINE_BYTES) as f64 / seconds)
}
