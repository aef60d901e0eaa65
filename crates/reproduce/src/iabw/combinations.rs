//! Random combinations of segments, their regression, and eq. (7): Fig. 6 and section 3.2.

use std::sync::Arc;

use memweir_core::segment::{INTERVALS, Segment};
use memweir_core::{Nanos, Parabola};
use memweir_flow::{Machine, Program};
use memweir_plot::{Chart, Level, PALETTE, Series, Style};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::beside::beside;
use super::segments::{course, hogsim};
use super::units::{btr, peak};
use super::workloads::Workloads;
use crate::report::{Effort, Found, Plot};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::lowest;
use crate::work::Bench;

/// Quanta of each program among which segments are drawn: two minutes.
const QUANTA: usize = 1200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    combinations: usize,
    programs: usize,
    seconds: f64,
}

impl Parameters {
    pub(super) fn count(&self, effort: Effort) -> usize {
        effort.pick(self.combinations, self.combinations.div_ceil(10))
    }

    /// Simulated core-seconds of one combination.
    pub(super) fn work(&self) -> u64 {
        (self.programs as f64 * self.seconds).ceil() as u64
    }
}

/// Segments to run side by side.
struct Draw {
    /// Sum of their demands alone, in the paper's unit.
    demand: f64,
    /// The programs with their starting points.
    programs: Vec<(Arc<Program>, Nanos)>,
}

/// Segments that ran side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combination {
    /// Sum of their demands alone, in the paper's unit.
    pub(super) demand: f64,
    /// Bandwidth that they reached together.
    pub(super) bandwidth: f64,
    /// Weighted speedup.
    pub(super) speedup: f64,
    /// Number of programs.
    pub(super) programs: f64,
}

impl Combination {
    /// Weighted speedup that was lost.
    fn loss(&self) -> f64 {
        self.programs - self.speedup
    }
}

/// Runs the combinations of Fig. 6.
pub(super) fn combinations(
    data: &FigureData,
    workloads: &Workloads,
    bench: &Bench<'_>,
) -> Result<Vec<Combination>, Failed> {
    let parameters: Parameters = data.parameters()?;
    let machine = &workloads.hardware.machine;
    let courses = workloads
        .spec_programs()?
        .into_iter()
        .map(|program| course(&program, Nanos::MILLI, QUANTA * INTERVALS));
    let courses: Vec<_> = courses.collect();
    let mut rng = ChaCha8Rng::seed_from_u64(workloads.seed);
    let mut draw = || -> Result<Draw, Failed> {
        let mut demand = 0.0;
        let mut programs = Vec::new();
        for _ in 0..parameters.programs {
            let course = courses.choose(&mut rng).map_or(&[][..], |course| course);
            let quantum = rng.random_range(0..QUANTA);
            let rates = course[quantum * INTERVALS..(quantum + 1) * INTERVALS].to_vec();
            let segment = Segment::new(Nanos::MILLI, rates)?;
            demand += btr(segment.mean());
            let start = rng.random_range(0..segment.duration().0);
            programs.push((hogsim(&segment, machine.core_peak), Nanos(start)));
        }
        Ok(Draw { demand, programs })
    };
    let drawn =
        (0..parameters.count(bench.effort)).map(|_| draw()).collect::<Result<Vec<_>, _>>()?;
    let time = Nanos::from_secs_f64(parameters.seconds);
    bench.try_all(parameters.work(), &drawn, |Draw { demand, programs }| {
        let point = beside(machine, programs, time)?;
        Ok(Combination {
            demand: *demand,
            bandwidth: btr(point.bandwidth),
            speedup: point.speedup,
            programs: programs.len() as f64,
        })
    })
}

/// Regression of the bandwidth that the combinations reach, through which Fig. 8 compares targets.
pub(super) fn reached(combinations: &[Combination]) -> Option<Parabola> {
    Parabola::fit(&combinations.iter().map(|c| (c.demand, c.bandwidth)).collect::<Vec<_>>())
}

fn lost(combinations: &[Combination]) -> Option<Parabola> {
    Parabola::fit(&combinations.iter().map(|c| (c.demand, c.loss())).collect::<Vec<_>>())
}

/// Share of the combinations that demand less than the peak that lose more than 1 %, in percent.
pub(super) fn share_below_peak(combinations: &[Combination], machine: &Machine) -> f64 {
    let peak = peak(machine);
    let below: Vec<_> = combinations.iter().filter(|c| c.demand < peak).collect();
    100.0 * share_degraded(&below, 0.0)
}

/// Share of the combinations with this demand or more that lose more than 1 %.
fn share_degraded(combinations: &[&Combination], demand: f64) -> f64 {
    let crowded = || combinations.iter().filter(|c| c.demand >= demand);
    let degraded = crowded().filter(|c| c.loss() > 0.01 * c.programs).count();
    degraded as f64 / crowded().count().max(1) as f64
}

/// Fig. 6.
pub(super) fn figure_6(combinations: &[Combination], machine: &Machine) -> Found {
    let peak = peak(machine);
    let below: Vec<_> = combinations.iter().filter(|c| c.demand < peak).collect();
    let (reached, lost) = (reached(combinations), lost(combinations));
    let steepening = lost.map_or(f64::NAN, |fit| fit.slope_at(peak) / fit.slope_at(peak / 2.0));
    let highest = combinations.iter().map(|c| c.demand).fold(0.0, f64::max);
    let regression = |points| Series::new("regression", points, Style::Line, PALETTE[5]);
    let chart = |value: fn(&Combination) -> f64, fitted: Option<Vec<(f64, f64)>>| {
        let points = combinations.iter().map(|c| (c.demand, value(c))).collect();
        let dots = Series::new("a combination", points, Style::Dots, PALETTE[0]);
        let series = std::iter::once(dots).chain(fitted.map(regression)).collect();
        Chart { series, ..Chart::default() }
    };
    let mut bandwidth = chart(|c| c.bandwidth, reached.map(|fit| line(&fit, highest)));
    bandwidth.levels = vec![Level::new("peak", peak, PALETTE[2])];
    let programs = combinations.first().map_or(0.0, |c| c.programs);
    let kept = |fit: Parabola| {
        line(&fit, highest).into_iter().map(|(x, loss)| (x, programs - loss)).collect()
    };
    let weighted = chart(|c| c.speedup, lost.map(kept));
    Found {
        plots: vec![
            Plot::of([bandwidth, weighted])
                .captioned(format!("{} random combinations of {programs}", combinations.len())),
        ],
        remarks: vec![format!(
            "Of the combinations that demand between two thirds of the peak and the peak, {:.0} % \
             lose more than 1 %.",
            100.0 * share_degraded(&below, peak * 2.0 / 3.0)
        )],
        values: vec![
            ("before-peak", share_below_peak(combinations, machine)),
            ("super-linear", steepening),
        ],
        ..Found::default()
    }
}

/// The points of a fitted curve.
pub(super) fn line(fit: &Parabola, to: f64) -> Vec<(f64, f64)> {
    (0..=100).map(|step| to * f64::from(step) / 100.0).map(|x| (x, fit.at(x))).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SplitParameters {
    mean: f64,
    splits: usize,
}

/// Eq. (5) with the slowdown that the combinations show: two phases of equal length.
pub(super) fn equation_7(
    data: &FigureData,
    combinations: &[Combination],
    machine: &Machine,
) -> Result<Found, Failed> {
    let parameters: SplitParameters = data.parameters()?;
    let Some(fit) = lost(combinations) else { return Ok(Found::default()) };
    let mean = parameters.mean * peak(machine);
    // The fitted loss may fall below zero where there is none.
    let loss = |rate: f64| fit.at(rate).max(0.0);
    let last = (parameters.splits - 1).max(1) as f64;
    let total: Vec<(f64, f64)> = (0..parameters.splits)
        .map(|split| 2.0 * mean * split as f64 / last)
        .map(|first| (first, loss(first) + loss(2.0 * mean - first)))
        .collect();
    let lowest = lowest(total.iter().map(|(_, slowdown)| *slowdown));
    // If several splits lose equally little, the best is the middle of them.
    let best = total.iter().filter(|(_, slowdown)| *slowdown <= lowest + 1e-12);
    let best = crate::statistics::mean(best.map(|(x, _)| *x));
    let chart = Chart::lines([("", total)]);
    Ok(Found {
        plots: vec![Plot::of([chart]).captioned(format!("{mean:.0}"))],
        values: vec![("best", best / mean)],
        ..Found::default()
    })
}
