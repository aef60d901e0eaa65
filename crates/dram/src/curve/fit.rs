//! Fits a service curve of the flow model: one capacity, the cost of a line read and written, and
//! for each share of reads the growth of the read latency below saturation.
//!
//! The growth is that of programs that wait for their reads, not that of random arrivals. Arrivals
//! meet refreshes and each other in ways that a program does not if it stops until its data is
//! there.

use memweir_core::BytesPerSec;
use memweir_core::metrics::mean;
use serde::Serialize;

use super::{Curve, Line, Pattern};

/// The figures of a service curve, fitted to the lines of one pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The pattern.
    pub pattern: Pattern,
    /// Bandwidth that the memory carries if all requests are reads.
    pub capacity: BytesPerSec,
    /// Time that the memory needs for a written line over that for a read line.
    pub write_cost: f64,
    /// Growth of latency at each share of reads, in ascending order of the share.
    pub growth: Vec<Growth>,
    /// Mean time from read to read of a single program that waits for each, at the largest share of
    /// reads, in nanoseconds.
    pub unloaded_ns: f64,
    /// The largest relative error of the bandwidth at saturation over the shares of reads. Costs
    /// per line are linear, so they cannot express that bus turnarounds cost most at even shares.
    pub error: f64,
}

/// Growth of latency below saturation, at one share of reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Share of reads among the lines that are moved, from 0 to 1.
    pub read_share: f64,
    /// Pairs of utilization and latency relative to the unloaded latency, both ascending.
    pub points: Vec<[f64; 2]>,
}

impl Curve {
    /// Fits the service curve of `pattern`; `None` if it was not measured with reads.
    #[must_use]
    pub fn fit(&self, pattern: Pattern) -> Option<Fit> {
        let mut lines: Vec<&Line> =
            self.lines.iter().filter(|line| line.pattern == pattern).collect();
        lines.sort_by(|a, b| a.read_share.total_cmp(&b.read_share));
        lines.dedup_by(|a, b| a.read_share == b.read_share);
        let (read, write) = costs(&lines)?;
        let busy = |line: &Line| line.read_share * read + (1.0 - line.read_share) * write;
        let errors = lines.iter().map(|line| (line.saturated.0 * busy(line) - 1.0).abs());
        let error = errors.fold(0.0, f64::max);
        let unloaded_ns = lines.last()?.waiting.first()?.wait_ns;
        let growth = |line: &&Line| growth(line, busy(line), unloaded_ns);
        Some(Fit {
            pattern,
            capacity: BytesPerSec(1.0 / read),
            write_cost: write / read,
            growth: lines.iter().filter_map(growth).collect(),
            unloaded_ns,
            error,
        })
    }
}

/// Returns the seconds per byte read and written, by least squares over the lines: `1 / saturated =
/// share * read + (1 - share) * write`.
pub(super) fn costs(lines: &[&Line]) -> Option<(f64, f64)> {
    let points: Vec<(f64, f64)> =
        lines.iter().map(|line| (line.read_share, 1.0 / line.saturated.0)).collect();
    let x = mean(&points.iter().map(|(x, _)| *x).collect::<Vec<_>>())?;
    let y = mean(&points.iter().map(|(_, y)| *y).collect::<Vec<_>>())?;
    let covariance: f64 = points.iter().map(|(px, py)| (px - x) * (py - y)).sum();
    let variance: f64 = points.iter().map(|(px, _)| (px - x).powi(2)).sum();
    let slope = if variance > 0.0 { covariance / variance } else { 0.0 };
    Some((y + slope * (1.0 - x), y - slope * x)).filter(|(read, write)| *read > 0.0 && *write > 0.0)
}

/// Returns the growth of the wait with the number of programs, as a function of utilization.
/// Utilization is the measured bandwidth times `busy`, the seconds per byte that the costs give. So
/// even where the costs misjudge the capacity, the growth is right about the programs. Measurements
/// scatter, so no point may lie below the one before.
fn growth(line: &Line, busy: f64, unloaded_ns: f64) -> Option<Growth> {
    let mut points: Vec<[f64; 2]> = Vec::new();
    for seen in &line.waiting {
        let before = points.last().copied().unwrap_or([0.0, 1.0]);
        let utilization = seen.bandwidth.0 * busy;
        if utilization > before[0] && utilization < 1.0 {
            points.push([utilization, (seen.wait_ns / unloaded_ns).max(before[1])]);
        }
    }
    (!points.is_empty()).then_some(Growth { read_share: line.read_share, points })
}
