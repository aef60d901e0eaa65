//! Hog and HogSim: Fig. 1b, 2 and 3.

use memweir_core::segment::{INTERVALS, Segment};
use memweir_core::{BytesPerSec, Nanos, metrics};
use memweir_flow::Machine;
use serde::Deserialize;

use super::beside::beside;
use super::curves::{
    Curve, ONSET, Sweep, core_seconds, curves, drawn, interpolated, onset, over_time, steps, sweep,
};
use super::segments::{course, hog};
use super::units::{btr, peak, rate};
use super::workloads::Workloads;
use crate::report::{Found, Plot};
use crate::run::Failed;
use crate::source::FigureData;
use crate::work::Bench;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HogParameters {
    highest: f64,
    points: usize,
    seconds: f64,
}

/// Fig. 1b.
pub(super) fn figure_1b(
    data: &FigureData,
    machine: &Machine,
    bench: &Bench<'_>,
) -> Result<Found, Failed> {
    let parameters: HogParameters = data.parameters()?;
    let curve = hog_curve(&parameters, machine, bench)?;
    let peak = peak(machine);
    let bend = onset(&curve);
    let before = curve.iter().take_while(|(_, point)| point.speedup >= 2.0 * (1.0 - ONSET)).last();
    let mut values = Vec::new();
    if let (Some((_, before)), Some((_, after))) = (before, curve.last()) {
        values = vec![
            ("inflection", bend.map_or(f64::NAN, |(_, system)| system)),
            ("speedup-before", before.speedup),
            ("speedup-after", after.speedup),
        ];
    }
    let plots = vec![curves(&[("two Hogs", &curve)], peak)];
    Ok(Found { plots, values, ..Found::default() })
}

fn hog_curve(
    parameters: &HogParameters,
    machine: &Machine,
    bench: &Bench<'_>,
) -> Result<Curve, Failed> {
    let ceiling = machine.core_peak;
    // Two cores draw no more than this.
    let highest = parameters.highest.min(2.0 * btr(ceiling));
    let demands = steps(highest, parameters.points);
    let time = Nanos::from_secs_f64(parameters.seconds);
    let points = bench.try_all(core_seconds(parameters.seconds), &demands, |demand| {
        let hog = hog(rate(demand / 2.0), ceiling);
        beside(machine, &[(hog.clone(), Nanos::ZERO), (hog, Nanos::ZERO)], time)
    })?;
    Ok(demands.into_iter().zip(points).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CourseParameters {
    program: String,
    seconds: f64,
    detail_ms: usize,
}

/// Fig. 2.
pub(super) fn figure_2(data: &FigureData, workloads: &Workloads) -> Result<Found, Failed> {
    let parameters: CourseParameters = data.parameters()?;
    let program = workloads.program(&parameters.program)?;
    let fine = course(&program, Nanos::MILLI, (parameters.seconds * 1000.0) as usize);
    let coarse: Vec<BytesPerSec> = fine.chunks(INTERVALS).map(mean).collect();
    let deviation = |rates: &[BytesPerSec]| {
        let rates: Vec<f64> = rates.iter().map(|rate| rate.0).collect();
        metrics::std_deviation(&rates).unwrap_or(f64::NAN)
    };
    let jumps: f64 = coarse.windows(2).map(|pair| pair[0].distance(pair[1]).0).sum();
    let adjacent = jumps / (coarse.len() - 1).max(1) as f64 / mean(&coarse).0;
    let panel = |rates: &[BytesPerSec], interval| over_time(rates.iter(), interval);
    let detail = &fine[..parameters.detail_ms.min(fine.len())];
    let panels = vec![panel(&coarse, 0.1), panel(detail, 1.0)];
    let plot = Plot::of(panels).captioned(parameters.program);
    Ok(Found {
        plots: vec![plot],
        values: vec![
            ("fine-over-coarse", deviation(&fine) / deviation(&coarse)),
            ("adjacent", 100.0 * adjacent),
        ],
        ..Found::default()
    })
}

fn mean(rates: &[BytesPerSec]) -> BytesPerSec {
    rates.iter().copied().sum::<BytesPerSec>() / rates.len().max(1) as f64
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SegmentParameters {
    program: String,
    from_ms: usize,
    sweep: Sweep,
}

/// Fig. 3.
pub(super) fn figure_3(
    data: &FigureData,
    hogs: &FigureData,
    workloads: &Workloads,
    bench: &Bench<'_>,
) -> Result<Found, Failed> {
    let parameters: SegmentParameters = data.parameters()?;
    let program = workloads.program(&parameters.program)?;
    let rates = course(&program, Nanos::MILLI, parameters.from_ms + INTERVALS);
    let segment = Segment::new(Nanos::MILLI, rates[parameters.from_ms..].to_vec())?;
    let machine = &workloads.hardware.machine;
    let curve = sweep(&segment, parameters.sweep, machine, bench)?;
    let hogs = hog_curve(&hogs.parameters()?, machine, bench)?;
    let peak = peak(machine);
    let begin = onset(&curve).map_or(f64::NAN, |(demand, _)| demand);
    let bend = onset(&hogs).map_or(f64::NAN, |(_, system)| system);
    let at_peak = interpolated(&curve, peak, |point| btr(point.bandwidth));
    let last = curve.last().map_or(f64::NAN, |(_, point)| btr(point.bandwidth));
    let plots = vec![
        Plot::of([drawn(&segment, 100.0)])
            .captioned(format!("{} from {} ms", program.name, parameters.from_ms)),
        curves(&[("two HogSims", &curve), ("two Hogs", &hogs)], peak),
    ];
    let values = vec![
        ("onset", begin),
        ("onset-share", begin / bend),
        ("sum-not-reached", 100.0 * at_peak / peak),
        ("approaches-peak", 100.0 * last / peak),
    ];
    Ok(Found { plots, values, ..Found::default() })
}
