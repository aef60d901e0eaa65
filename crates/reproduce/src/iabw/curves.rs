//! Curves of two programs side by side against their demand: runs, interpolation and charts.

use memweir_core::segment::Segment;
use memweir_core::{BytesPerSec, Nanos};
use memweir_flow::Machine;
use memweir_plot::{Chart, Level, PALETTE, Series, Style};
use serde::Deserialize;

use super::beside::{Beside, beside};
use super::segments::{hogsim, shifted};
use super::units::{btr, peak, rate};
use crate::report::Plot;
use crate::run::Failed;
use crate::work::Bench;

/// A loss of weighted speedup that counts as the beginning of a decrease.
pub(super) const ONSET: f64 = 0.01;

/// One curve: the demand and the result of each point.
pub(super) type Curve = Vec<(f64, Beside)>;

/// Demands from zero (excluded) to the highest.
pub(super) fn steps(highest: f64, points: usize) -> Vec<f64> {
    (1..=points).map(|step| highest * step as f64 / points as f64).collect()
}

/// Simulated core-seconds of two cores for `seconds`.
pub(super) fn core_seconds(seconds: f64) -> u64 {
    (2.0 * seconds).ceil() as u64
}

/// Demand and system bandwidth at which the weighted speedup of two programs has fallen by
/// [`ONSET`], interpolated between the points of the curve.
pub(super) fn onset(curve: &Curve) -> Option<(f64, f64)> {
    let edge = 2.0 * (1.0 - ONSET);
    let at = curve.iter().position(|(_, point)| point.speedup < edge)?;
    let (demand, point) = curve[at];
    let Some((before, earlier)) = at.checked_sub(1).map(|before| curve[before]) else {
        return Some((demand, btr(point.bandwidth)));
    };
    let share = (earlier.speedup - edge) / (earlier.speedup - point.speedup);
    let between = |from: f64, to: f64| from + (to - from) * share;
    Some((between(before, demand), between(btr(earlier.bandwidth), btr(point.bandwidth))))
}

/// The value of a curve at a demand, between its points; that of the nearest end outside.
pub(super) fn interpolated(curve: &Curve, demand: f64, value: impl Fn(&Beside) -> f64) -> f64 {
    let at = curve.partition_point(|(x, _)| *x < demand);
    match (at.checked_sub(1).and_then(|before| curve.get(before)), curve.get(at)) {
        (Some((x0, y0)), Some((x1, y1))) => {
            value(y0) + (value(y1) - value(y0)) * (demand - x0) / (x1 - x0)
        }
        (Some((_, only)), None) | (None, Some((_, only))) => value(only),
        (None, None) => f64::NAN,
    }
}

/// Bandwidth and weighted speedup against demand.
pub(super) fn curves(named: &[(&str, &Curve)], peak: f64) -> Plot {
    let lines = |value: fn(&Beside) -> f64| {
        Chart::lines(named.iter().map(|(name, curve)| {
            (*name, curve.iter().map(|(demand, point)| (*demand, value(point))).collect())
        }))
    };
    let lowest = named
        .iter()
        .flat_map(|(_, curve)| curve.iter().map(|(_, point)| point.speedup))
        .fold(2.0, f64::min);
    let bandwidth = Chart {
        levels: vec![Level::new("peak", peak, PALETTE[5])],
        ..lines(|point| btr(point.bandwidth))
    };
    let speedup = Chart {
        y_start: Some((lowest * 10.0 - 0.5).floor() / 10.0),
        y_end: Some(2.02),
        ..lines(|point| point.speedup)
    };
    Plot::of([bandwidth, speedup])
}

/// Range of demands for two HogSims, and parameters of their runs.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) highest: f64,
    pub(super) points: usize,
    pub(super) offsets: usize,
    pub(super) seconds: f64,
    /// Share by which the second program demands more than the first.
    #[serde(default)]
    pub(super) inequality: f64,
}

/// The curve of two HogSims of a segment whose mean is shifted, averaged over the starting points
/// of the second one.
pub(super) fn sweep(
    segment: &Segment,
    range: Sweep,
    machine: &Machine,
    bench: &Bench<'_>,
) -> Result<Curve, Failed> {
    let ceiling = machine.core_peak;
    let mut demands = steps(range.highest.min(2.0 * btr(ceiling)), range.points);
    // Curves bend where the demand equals the peak.
    let peak = peak(machine);
    demands.push(peak);
    demands.sort_by(f64::total_cmp);
    demands.dedup();
    let time = Nanos::from_secs_f64(range.seconds);
    let points = bench.try_all(
        core_seconds(range.seconds) * range.offsets as u64,
        &demands,
        |demand| -> Result<Beside, Failed> {
            let moved = |part: f64| shifted(segment, rate(demand * part), ceiling);
            let part = 1.0 / (2.0 + range.inequality);
            let (first, second) = (moved(part), moved(1.0 - part));
            let programs = [hogsim(&first, ceiling), hogsim(&second, ceiling)];
            let mut sum = Beside { bandwidth: BytesPerSec::ZERO, speedup: 0.0 };
            for offset in 0..range.offsets {
                // Halves of an interval apart, so that intervals do not begin together.
                let share = (offset as f64 + 0.5) / range.offsets as f64;
                let start = Nanos((segment.duration().as_f64() * share) as u64);
                let [first, second] = programs.clone();
                let point = beside(machine, &[(first, Nanos::ZERO), (second, start)], time)?;
                sum.bandwidth += point.bandwidth / range.offsets as f64;
                sum.speedup += point.speedup / range.offsets as f64;
            }
            Ok(sum)
        },
    )?;
    Ok(demands.into_iter().zip(points).collect())
}

/// The chart of one segment.
pub(super) fn drawn(segment: &Segment, milliseconds: f64) -> Chart {
    let interval = segment.interval().as_millis_f64();
    let count = (milliseconds / interval).round() as usize;
    let rates = segment.rates().iter().cycle().take(count);
    Chart { x_end: Some(milliseconds), ..over_time(rates, interval) }
}

/// The chart of rates in consecutive intervals of this length.
pub(super) fn over_time<'a>(rates: impl Iterator<Item = &'a BytesPerSec>, interval: f64) -> Chart {
    let points = rates.enumerate().map(|(n, rate)| (n as f64 * interval, btr(*rate)));
    let series = vec![Series::new("", points.collect(), Style::Steps, PALETTE[0])];
    Chart { series, ..Chart::default() }
}
