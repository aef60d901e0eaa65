//! The number of copies of commands that pay off on a machine: `memweir fit`.
//!
//! Copies that share the memory bus slow each other down, so that from some number on one more copy
//! adds nothing. This module computes the throughput of numbers of copies from the
//! [`SpeedModel`], or takes it as measured, and recommends numbers of copies that each add enough.
//! Starting the copies is the business of [`measure`].

mod measure;

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_policy::{Candidate, SchedulerConfig, SpeedModel};
use serde::Serialize;

use crate::platform::Platform;

pub use measure::{MeasureError, measure, time_alone};

/// Throughput that a copy must add to pay off, over that of a copy alone. Where the bus is full,
/// further copies only take from each other what they add.
pub const LEAST_GAIN: f64 = 0.1;

/// Requirements of one copy of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct JobKind {
    /// Name for people.
    pub name: String,
    /// Cores that a copy occupies; at least one.
    pub cores: u32,
    /// Mean bandwidth of a copy alone.
    pub bandwidth: BytesPerSec,
    /// Time that a copy takes alone; only its ratio to those of the other kinds matters.
    pub time: Nanos,
}

/// Numbers of copies that run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Copies of each command.
    pub copies: Vec<u32>,
    /// Predicted speed of a copy of each command over its speed alone; empty without a prediction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub speeds: Vec<f64>,
    /// Predicted throughput: how many times as fast an equal number of each command gets done as
    /// with one copy of one command at a time. Absent without a prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// Measured throughput; absent where nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
}

impl Point {
    /// Returns the throughput that decides: the measured one if there is one.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.measured.or(self.predicted).unwrap_or(0.0)
    }
}

/// Returns the model of speeds on so many cores of a calibrated machine; `None` if its peak is not
/// known.
#[must_use]
pub fn model(platform: &Platform, cores: u32) -> Option<SpeedModel> {
    platform.peak()?;
    let (bus, machine_cores) = (platform.bus(), Some(platform.machine.cores));
    let config = SchedulerConfig { cores, machine_cores, bus, ..SchedulerConfig::default() };
    Some(SpeedModel::new(&config))
}

/// Returns numbers of copies that fill this many cores step by step: each step adds a copy of the
/// command that gets done most slowly, if it fits. The first point has one copy of each command.
/// Without a model, nothing is predicted, and no copy is taken to slow another one down.
///
/// The result is empty if one copy of each does not fit.
#[must_use]
pub fn curve(kinds: &[JobKind], cores: u32, model: Option<&SpeedModel>) -> Vec<Point> {
    let mut copies = vec![1; kinds.len()];
    let mut points = Vec::new();
    while !kinds.is_empty() && cores_of(kinds, &copies) <= cores {
        let speeds = model.map_or_else(Vec::new, |model| speeds(model, kinds, &copies));
        let predicted = model.map(|_| throughput(kinds, &copies, &speeds));
        let now = Point { copies: copies.clone(), speeds, predicted, measured: None };
        let slowest = (0..kinds.len())
            .filter(|kind| cores_of(kinds, &copies) + kinds[*kind].cores <= cores)
            .min_by(|a, b| rate(kinds, &now, *a).total_cmp(&rate(kinds, &now, *b)));
        points.push(now);
        let Some(slowest) = slowest else { break };
        copies[slowest] += 1;
    }
    points
}

/// Returns how many copies of a kind get done per second.
fn rate(kinds: &[JobKind], point: &Point, kind: usize) -> f64 {
    let speed = point.speeds.get(kind).copied().unwrap_or(1.0);
    f64::from(point.copies[kind]) * speed / seconds(&kinds[kind])
}

/// Returns the time of a copy alone. Kinds of unknown length are taken as equally long.
fn seconds(kind: &JobKind) -> f64 {
    kind.time.as_secs_f64().max(1e-3)
}

fn speeds(model: &SpeedModel, kinds: &[JobKind], copies: &[u32]) -> Vec<f64> {
    let load = |kind: &JobKind| {
        let alone = Candidate::new(JobId(0), kind.bandwidth);
        model.load(&Candidate { cores: kind.cores, ..alone })
    };
    let loads: Vec<_> = kinds.iter().map(load).collect();
    let all = loads.iter().zip(copies).flat_map(|(load, n)| std::iter::repeat_n(load, *n as usize));
    let contention = model.contention(all);
    loads.iter().map(|load| load.speed(&contention)).collect()
}

/// Returns the throughput of copies at these speeds. The slowest command limits it.
pub(crate) fn throughput(kinds: &[JobKind], copies: &[u32], speeds: &[f64]) -> f64 {
    let one_by_one: f64 = kinds.iter().map(seconds).sum();
    let sets = kinds.iter().zip(copies).zip(speeds);
    let sets_per_second = sets.map(|((kind, n), speed)| f64::from(*n) * speed / seconds(kind));
    one_by_one * sets_per_second.fold(f64::INFINITY, f64::min)
}

/// Returns true if copies got more done than they can at full speed, by more than a tenth:
/// something else slowed down the runs alone.
#[must_use]
pub fn exceeds_full_speed(kinds: &[JobKind], point: &Point) -> bool {
    let most = throughput(kinds, &point.copies, &vec![1.0; kinds.len()]);
    point.measured.is_some_and(|measured| measured > 1.1 * most)
}

/// Returns the numbers of copies with the highest throughput, less [`LEAST_GAIN`] for each copy;
/// `None` for no points.
#[must_use]
pub fn recommended(points: &[Point]) -> Option<&Point> {
    let copies = |point: &Point| f64::from(point.copies.iter().sum::<u32>());
    let worth = |point: &Point| point.throughput() - LEAST_GAIN * copies(point);
    // The first of equals.
    points.iter().rev().max_by(|a, b| worth(a).total_cmp(&worth(b)))
}

/// Returns the cores that copies occupy.
fn cores_of(kinds: &[JobKind], copies: &[u32]) -> u32 {
    kinds.iter().zip(copies).map(|(kind, copies)| kind.cores * copies).sum()
}

#[cfg(test)]
mod tests;
