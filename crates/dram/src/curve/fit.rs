//! A curve as the flow model wants it: one capacity, the cost of a line read and written, and how
//! latency grows below saturation.

use memweir_core::BytesPerSec;

use super::{Curve, Line, Pattern};

/// The figures of a service curve, fitted to the lines of one pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The pattern.
    pub pattern: Pattern,
    /// What the memory carries where everything is read.
    pub capacity: BytesPerSec,
    /// Time of the memory that a line written takes, over that of a line read.
    pub write_cost: f64,
    /// Pairs of utilization and latency over the unloaded one, both ascending.
    pub growth: Vec<[f64; 2]>,
    /// Mean latency of a read at the lowest load, in nanoseconds.
    pub unloaded_ns: f64,
    /// The largest error of the bandwidth at saturation over the shares of reads, relative: a line of
    /// costs cannot follow that turning the bus costs most at even shares.
    pub error: f64,
}

/// Above this share of its time the memory is saturated, and what grows is the queue.
const SATURATED: f64 = 0.96;

impl Curve {
    /// The service curve of `pattern`; nothing if it was not measured with reads.
    #[must_use]
    pub fn fit(&self, pattern: Pattern) -> Option<Fit> {
        let lines: Vec<&Line> = self.lines.iter().filter(|line| line.pattern == pattern).collect();
        let (read, write) = costs(&lines)?;
        let capacity = BytesPerSec(1.0 / read);
        let busy = |line: &Line| line.read_share * read + (1.0 - line.read_share) * write;
        let errors = lines.iter().map(|line| (line.saturated.0 * busy(line) - 1.0).abs());
        let error = errors.fold(0.0, f64::max);
        let unloaded: Vec<f64> =
            lines.iter().filter_map(|line| line.points.first()?.latency_ns).collect();
        let unloaded_ns = mean(&unloaded)?;
        Some(Fit {
            pattern,
            capacity,
            write_cost: write / read,
            growth: growth(&lines),
            unloaded_ns,
            error,
        })
    }
}

/// Seconds per byte read and written, by least squares over the lines: `1 / saturated = share * read
/// + (1 - share) * write`.
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

/// Stretch of the latency by load, mean over the shares of reads that read anything. Measurements
/// scatter, so no point lies below the one before.
fn growth(lines: &[&Line]) -> Vec<[f64; 2]> {
    let loads = lines.iter().map(|line| line.points.len()).min().unwrap_or(0);
    let mut growth: Vec<[f64; 2]> = Vec::new();
    for load in 0..loads {
        let stretch = |line: &&Line| {
            let unloaded = line.points.first()?.latency_ns?;
            let point = &line.points[load];
            Some((point.offered.0 / line.saturated.0, point.latency_ns? / unloaded))
        };
        let (loads, stretches): (Vec<f64>, Vec<f64>) = lines.iter().filter_map(stretch).unzip();
        let (Some(load), Some(stretch)) = (mean(&loads), mean(&stretches)) else { continue };
        let before = growth.last().copied().unwrap_or([0.0, 1.0]);
        if load > before[0] && load <= SATURATED {
            growth.push([load, stretch.max(before[1])]);
        }
    }
    growth
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
