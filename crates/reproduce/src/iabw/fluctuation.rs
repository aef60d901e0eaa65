//! Degree, period and regularity of a segment: Fig. 4 and 5.

use memweir_core::Nanos;
use memweir_core::segment::{INTERVALS, Segment};
use memweir_flow::Machine;
use serde::Deserialize;

use super::curves::{Curve, Sweep, curves, drawn, interpolated, sweep};
use super::segments::course;
use super::units::{UNIT, btr, peak};
use super::workloads::Workloads;
use crate::report::{Found, Plot, Table, row};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::{highest, lowest};
use crate::work::Bench;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeslieParameters {
    program: String,
    period_ms: f64,
    among: usize,
}

/// The segment of Fig. 4: the program's segment whose period is nearest to the paper's.
pub(super) fn leslie(data: &FigureData, workloads: &Workloads) -> Result<Segment, Failed> {
    let parameters: LeslieParameters = data.parameters()?;
    let program = workloads.program(&parameters.program)?;
    let rates = course(&program, Nanos::MILLI, parameters.among * INTERVALS);
    let distance = |segment: &Segment| {
        let period = segment.fluctuation_period().map_or(f64::INFINITY, Nanos::as_millis_f64);
        (period - parameters.period_ms).abs()
    };
    let segments =
        rates.chunks_exact(INTERVALS).map(|rates| Segment::new(Nanos::MILLI, rates.to_vec()));
    let mut segments = segments.collect::<Result<Vec<_>, _>>()?;
    segments.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    Ok(segments.swap_remove(0))
}

/// Fig. 4.
pub(super) fn figure_4(data: &FigureData, workloads: &Workloads) -> Result<Found, Failed> {
    let segment = leslie(data, workloads)?;
    let rates = || segment.rates().iter().map(|rate| btr(*rate));
    let panels = vec![
        drawn(&segment, 100.0),
        drawn(&segment.with_degree(0.5), 100.0),
        drawn(&segment.with_period(0.5), 100.0),
        drawn(&segment.regular(), 100.0),
    ];
    let period = segment.fluctuation_period().map_or(f64::NAN, Nanos::as_millis_f64);
    let values =
        vec![("period", period), ("highest", highest(rates())), ("lowest", lowest(rates()))];
    Ok(Found { plots: vec![Plot::of(panels)], values, ..Found::default() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SensitivityParameters {
    degrees: Vec<f64>,
    periods: Vec<f64>,
    sweep: Sweep,
}

/// Shortens the sweep for programs with a shorter period: fewer milliseconds hold as many periods.
fn shorter(sweep: Sweep, period: f64) -> Sweep {
    Sweep { seconds: (sweep.seconds * period).max(0.2).min(sweep.seconds), ..sweep }
}

/// Fig. 5: the segment of Fig. 4 with other degrees, periods, and regular.
pub(super) fn figure_5(
    data: &FigureData,
    segment: &Segment,
    machine: &Machine,
    bench: &Bench<'_>,
) -> Result<Found, Failed> {
    let parameters: SensitivityParameters = data.parameters()?;
    let full = parameters.sweep;
    let quick =
        Sweep { points: full.points.div_ceil(2), offsets: full.offsets.div_ceil(4), ..full };
    let range = bench.effort.pick(full, quick);
    let peak = peak(machine);
    let loss = |curve: &Curve| 2.0 - interpolated(curve, peak, |point| point.speedup);
    let degrees = parameters.degrees.iter().map(|degree| {
        let curve = sweep(&segment.with_degree(*degree), range, machine, bench)?;
        Ok((format!("degree {degree}"), curve))
    });
    let degrees = degrees.collect::<Result<Vec<_>, Failed>>()?;
    let periods = |base: &Segment| {
        let curves = parameters.periods.iter().map(|period| {
            let shorter = shorter(range, *period);
            let curve = sweep(&base.with_period(*period), shorter, machine, bench)?;
            Ok((format!("period x{period}"), curve))
        });
        curves.collect::<Result<Vec<_>, Failed>>()
    };
    let (original, regular) = (periods(segment)?, periods(&segment.regular())?);
    let loss_of =
        |curves: &[(String, Curve)], at: usize| curves.get(at).map_or(f64::NAN, |(_, c)| loss(c));
    let half = parameters.degrees.iter().position(|degree| *degree == 0.5).unwrap_or(usize::MAX);
    let shortest = parameters.periods.len().saturating_sub(1);
    let values = vec![
        ("half-degree", loss_of(&degrees, half) / loss_of(&degrees, 0)),
        ("regular-worse", loss_of(&regular, 0) / loss_of(&original, 0)),
        ("regular-short", loss_of(&regular, shortest) / loss_of(&regular, 0)),
        ("original-short", loss_of(&original, shortest) / loss_of(&original, 0)),
    ];
    let plot = |named: &[(String, Curve)]| {
        let named: Vec<(&str, &Curve)> = named.iter().map(|(name, c)| (name.as_str(), c)).collect();
        curves(&named, peak)
    };
    let rows = [("original", &degrees), ("original", &original), ("regular", &regular)];
    let rows = rows.into_iter().flat_map(|(kind, curves)| {
        curves.iter().map(move |(name, curve)| (format!("{kind}, {name}"), curve))
    });
    let rows = rows.map(|(name, curve)| row(name, 4, [loss(curve)]));
    Ok(Found {
        plots: vec![plot(&degrees), plot(&original), plot(&regular)],
        tables: vec![Table::of(rows).captioned(format!("{peak:.0} {UNIT}"))],
        values,
        ..Found::default()
    })
}
