//! Figures of a calibration: the Hog curve (iabw Fig. 1b), random combinations (Fig. 6), and the
//! fitted scheduling target (Fig. 8).

use memweir_core::BytesPerSec;
use memweir_run::platform::{Platform, Target};

use super::super::text::counted;
use super::{Chart, Figure, Level, PALETTE, Panel, Series, Style};

/// Points of a drawn polynomial.
const CURVE_POINTS: usize = 100;

/// Every panel for which the platform has points.
pub(crate) fn figure(platform: &Platform) -> Figure {
    let machine = &platform.machine;
    let virtual_machine =
        machine.hypervisor.as_ref().map_or_else(String::new, |name| format!(", on {name}"));
    let charts = hog_curve(platform).into_iter().chain(combinations(platform));
    Figure {
        title: format!("Memory bus of {}", machine.cpu),
        subtitle: format!(
            "{}{virtual_machine}, {}",
            counted(machine.cores.into(), "core"),
            platform.date.strftime("%F")
        ),
        panels: charts.map(Panel::Chart).collect(),
    }
}

/// Bandwidth and weighted speedup that two hogs reach together against their demand.
fn hog_curve(platform: &Platform) -> Vec<Chart> {
    let mut curve: Vec<_> = platform.hog_curve.iter().collect();
    if curve.is_empty() {
        return Vec::new();
    }
    curve.sort_by(|a, b| a.demand.0.total_cmp(&b.demand.0));
    let reached = curve.iter().map(|p| (p.demand.as_gb(), p.achieved.as_gb())).collect();
    let speedups = curve.iter().map(|p| (p.demand.as_gb(), p.weighted_speedup)).collect();
    vec![
        against_demand("two hogs: bandwidth", reached, Style::Line, platform),
        speedup("two hogs: weighted speedup", speedups, Style::Line, 2),
    ]
}

/// The same of random segments, with the scheduling target that follows from them.
fn combinations(platform: &Platform) -> Vec<Chart> {
    let points = &platform.combinations;
    let Some(first) = points.first() else { return Vec::new() };
    let reached = points.iter().map(|p| (p.demand.as_gb(), p.achieved.as_gb())).collect();
    let speedups = points.iter().map(|p| (p.demand.as_gb(), p.weighted_speedup)).collect();
    let mut chart = against_demand("random segments: bandwidth", reached, Style::Dots, platform);
    if let Target::Measured { coefficients, from, to, .. } = &platform.target {
        let points = polynomial(*coefficients, *from, *to);
        chart.series.push(Series::new("scheduling target", points, Style::Line, PALETTE[2]));
    }
    let hogs = first.seeds.len();
    vec![chart, speedup("random segments: weighted speedup", speedups, Style::Dots, hogs)]
}

/// Bandwidth against demand, with the line of no loss.
fn against_demand(
    title: &str,
    points: Vec<(f64, f64)>,
    style: Style,
    platform: &Platform,
) -> Chart {
    let reach = points.iter().map(|p| p.0.min(p.1 * 1.3)).fold(0.0, f64::max);
    let diagonal = vec![(0.0, 0.0), (reach, reach)];
    let peak = platform.peak().map(|peak| Level::new("peak (median)", peak.as_gb(), PALETTE[5]));
    Chart {
        title: title.to_owned(),
        x_label: "demand: sum of what each reaches alone (GB/s)".to_owned(),
        y_label: "together (GB/s)".to_owned(),
        series: vec![
            Series::new("measured", points, style, PALETTE[0]),
            Series::new("no contention", diagonal, Style::Line, PALETTE[6]),
        ],
        levels: peak.into_iter().collect(),
        ..Chart::default()
    }
}

/// Weighted speedups of `hogs` hogs, whose number is the upper bound.
fn speedup(title: &str, points: Vec<(f64, f64)>, style: Style, hogs: usize) -> Chart {
    Chart {
        title: title.to_owned(),
        x_label: "demand: sum of what each reaches alone (GB/s)".to_owned(),
        y_label: "weighted speedup".to_owned(),
        series: vec![Series::new("measured", points, style, PALETTE[1])],
        levels: vec![Level::new("no contention", hogs as f64, PALETTE[5])],
        ..Chart::default()
    }
}

/// `c[0] + c[1] x + c[2] x^2` in GB/s between two bandwidths.
fn polynomial(c: [f64; 3], from: BytesPerSec, to: BytesPerSec) -> Vec<(f64, f64)> {
    let (from, to) = (from.as_gb(), to.as_gb());
    (0..=CURVE_POINTS)
        .map(|step| {
            let x = from + (to - from) * step as f64 / CURVE_POINTS as f64;
            (x, c[0] + c[1] * x + c[2] * x * x)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawn_polynomial_is_the_fitted_one() {
        let points =
            polynomial([1.0, 2.0, 0.5], BytesPerSec::from_gb(0.0), BytesPerSec::from_gb(4.0));
        assert_eq!(points[0], (0.0, 1.0));
        // 1 + 2 * 4 + 0.5 * 16.
        assert_eq!(points[CURVE_POINTS], (4.0, 17.0));
    }
}
