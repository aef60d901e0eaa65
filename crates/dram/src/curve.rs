//! Measures the latency of a memory against its bandwidth, for every load and share of reads. The
//! flow model's service curves are made from the results.
//!
//! There are two kinds of measurement. In an open loop, requests arrive at random (independently of
//! each other, so that their number in a span of time is Poisson distributed). Such a run shows the
//! latency at a load that nothing throttles; latency counts from the arrival, so it includes the
//! time before the request enters a queue. In a closed loop, a fixed number of programs each wait
//! for one read after another. Such a run shows how waiting limits the load; the flow model
//! stretches these waits.

mod file;
mod fit;
mod pattern;
#[cfg(test)]
mod tests;

pub use fit::{Fit, Growth};
pub use pattern::Pattern;

use std::convert::Infallible;

use memweir_core::input::Refusal;
use memweir_core::names::Named;
use memweir_core::{BytesPerSec, LINE_BYTES, PhysAddr};
use serde::Serialize;

use crate::config::MemoryConfig;
use crate::drive::{DriveError, Driven, DrivenParts, Mode, drive_systems};
use pattern::Requests;

/// Plan of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Shares of reads, each from 0 to 1.
    pub read_shares: Vec<f64>,
    /// Orders in which addresses follow each other.
    pub patterns: Vec<Pattern>,
    /// Offered loads, as shares of the bandwidth at saturation with the same pattern and share of
    /// reads.
    pub loads: Vec<f64>,
    /// Numbers of programs that wait for reads at the same time.
    pub programs: Vec<u32>,
    /// Requests of each run.
    pub requests: u64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            read_shares: vec![0.0, 0.25, 0.5, 0.75, 1.0],
            patterns: Pattern::ALL.to_vec(),
            loads: vec![0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95],
            programs: vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128],
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

/// Result of a run at one offered load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Offered load in bytes per second.
    pub offered: BytesPerSec,
    /// Bandwidth in bytes per second.
    pub bandwidth: BytesPerSec,
    /// Mean latency of reads in nanoseconds; absent if nothing was read.
    pub latency_ns: Option<f64>,
    /// 99th percentile of the latency of reads, in nanoseconds.
    pub p99_ns: Option<f64>,
    /// Results of each memory, if there are several side by side.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartPoint>,
}

/// Result of one of several memories in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PartPoint {
    /// Bandwidth in bytes per second.
    pub bandwidth: BytesPerSec,
    /// Mean latency of its reads in nanoseconds; absent if nothing was read.
    pub latency_ns: Option<f64>,
    /// 99th percentile of the latency of its reads, in nanoseconds.
    pub p99_ns: Option<f64>,
}

/// Result of a run with programs that each wait for one read after another; writes are posted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// Number of programs.
    pub programs: u32,
    /// Bandwidth of all programs together, in bytes per second.
    pub bandwidth: BytesPerSec,
    /// Mean time from read to read of one of them, in nanoseconds.
    pub wait_ns: f64,
}

/// Measurements of one pattern and share of reads: the bandwidth at saturation, and lower loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Order in which addresses follow each other.
    pub pattern: Pattern,
    /// Share of reads, from 0 to 1.
    pub read_share: f64,
    /// Highest bandwidth that the memory sustained, in bytes per second.
    pub saturated: BytesPerSec,
    /// Results in ascending order of load.
    pub points: Vec<Point>,
    /// Results in ascending order of programs; empty if nothing is read.
    pub waiting: Vec<Waiting>,
}

/// Bandwidth against latency of one memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Description of the memory: devices, channels, controller.
    pub memory: String,
    /// One line for each pattern and share of reads.
    pub lines: Vec<Line>,
}

impl Plan {
    /// Returns every line to be measured. They are independent of each other.
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
        self.measure_on(&Site::of(config.clone()), task)
    }

    /// Measures one line on one memory, or on several side by side.
    ///
    /// # Errors
    /// If a memory cannot work, or two share addresses.
    pub fn measure_on(&self, site: &Site, task: Task) -> Result<Line, Refusal> {
        let full = self.run(site, task, Load::Saturated)?;
        let saturated = bandwidth(site, &full.whole);
        let point = |load: &f64| {
            let offered = BytesPerSec(saturated.0 * load);
            let DrivenParts { whole, parts, .. } = self.run(site, task, Load::Offered(offered))?;
            let PartPoint { bandwidth, latency_ns, p99_ns } = figures(site, &whole);
            let parts = parts.iter().map(|part| figures(site, part)).collect();
            Ok(Point { offered, bandwidth, latency_ns, p99_ns, parts })
        };
        let waiting = |programs: &u32| {
            let driven = self.run(site, task, Load::Waiting(*programs))?.whole;
            let per_read = driven.cycles.as_f64() / driven.reads.max(1) as f64;
            Ok(Waiting {
                programs: *programs,
                bandwidth: bandwidth(site, &driven),
                wait_ns: f64::from(*programs) * per_read * site.clock_ns(),
            })
        };
        let points = self.loads.iter().map(point).collect::<Result<Vec<_>, Refusal>>()?;
        let programs = if task.read_share > 0.0 { self.programs.as_slice() } else { &[] };
        let waiting = programs.iter().map(waiting).collect::<Result<Vec<_>, Refusal>>()?;
        let Task { pattern, read_share } = task;
        Ok(Line { pattern, read_share, saturated, points, waiting })
    }

    /// Drives the memories with this load.
    fn run(&self, site: &Site, task: Task, load: Load) -> Result<DrivenParts, Refusal> {
        let (mode, gap) = match load {
            Load::Saturated => (Mode::Saturate, None),
            Load::Waiting(programs) => (Mode::Parallel(programs), None),
            Load::Offered(rate) => {
                (Mode::Due, Some(LINE_BYTES as f64 / rate.0 / (site.clock_ns() * 1e-9)))
            }
        };
        let mut requests = Requests::new(task, site, gap, self.seed).take(self.requests as usize);
        let source = || Ok::<_, Infallible>(requests.next());
        match drive_systems(&site.systems, mode, source, &mut ()) {
            Ok(driven) => Ok(driven),
            Err(DriveError::Refused(refusal)) => Err(refusal),
            Err(DriveError::Source(never)) => match never {},
            Err(fault) => Err(Refusal::new(fault.to_string(), "a fault of memweir")),
        }
    }
}

/// The measured memory, or two memories side by side.
#[derive(Clone, Debug)]
pub struct Site {
    systems: Vec<(PhysAddr, MemoryConfig)>,
    second_share: f64,
}

impl Site {
    /// Returns a site of one memory.
    #[must_use]
    pub fn of(config: MemoryConfig) -> Self {
        Self { systems: vec![(PhysAddr(0), config)], second_share: 0.0 }
    }

    /// Adds a second memory, which begins at the address `from` and receives this share of the
    /// requests (0 to 1).
    #[must_use]
    pub fn beside(mut self, from: PhysAddr, config: MemoryConfig, share: f64) -> Self {
        self.systems.push((from, config));
        self.second_share = share;
        self
    }

    /// Returns the clock period in nanoseconds. Requests arrive in cycles of this clock.
    fn clock_ns(&self) -> f64 {
        self.systems[0].1.spec().clock.as_f64() * 1e-3
    }
}

/// Load that a memory is driven with.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// As many requests as the memory accepts.
    Saturated,
    /// Random arrivals at this many bytes per second.
    Offered(BytesPerSec),
    /// This many programs, each of which waits for one read after another.
    Waiting(u32),
}

/// Returns the figures of a memory or of a part of it.
fn figures(site: &Site, driven: &Driven) -> PartPoint {
    let nanos = |cycles: f64| cycles * site.clock_ns();
    PartPoint {
        bandwidth: bandwidth(site, driven),
        latency_ns: driven.latencies.mean().map(nanos),
        p99_ns: driven.latencies.percentile(0.99).map(|cycles| nanos(cycles as f64)),
    }
}

fn bandwidth(site: &Site, driven: &Driven) -> BytesPerSec {
    let seconds = driven.cycles.as_f64() * site.clock_ns() * 1e-9;
    BytesPerSec((driven.requests() * LINE_BYTES) as f64 / seconds)
}
