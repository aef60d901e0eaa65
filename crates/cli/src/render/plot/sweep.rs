//! Figures of sweeps: how turnaround and gain follow a key, a line per policy.

use memweir_sim::scenario::report::{Point, PolicySummary, Report};
use memweir_sim::scenario::sweep::Grid;

use super::{Chart, Figure, PALETTE, Panel, Series, Style};

/// Panels of one figure; a grid of more combinations shows the first ones.
const MOST_PANELS: usize = 12;

/// Turnaround and gain over the baseline against the key that has the most values, for each
/// combination of the other keys.
pub(crate) fn figure(report: &Report, grid: &Grid) -> Figure {
    let axis = Axis::of(grid);
    let mut panels: Vec<(String, Vec<(f64, &Point)>)> = Vec::new();
    for (index, point) in report.points.iter().enumerate() {
        let place = axis.place(grid, index);
        let title = axis.others(grid, index);
        match panels.iter_mut().find(|(other, _)| *other == title) {
            Some((_, points)) => points.push((place, point)),
            None => panels.push((title, vec![(place, point)])),
        }
    }
    let all = panels.len();
    let mut subtitle = format!("against {}", axis.label);
    if all > MOST_PANELS {
        subtitle += &format!("; the first {MOST_PANELS} of {all} combinations of the other keys");
    }
    let charts = panels.iter_mut().take(MOST_PANELS).flat_map(|(title, points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        [
            chart(title, "turnaround (s)", &axis, points, |policy| policy.mean_s),
            chart(title, "gain (%)", &axis, points, |policy| 100.0 * policy.gain),
        ]
    });
    Figure {
        title: format!("{} under each policy", report.scenario),
        subtitle,
        panels: charts.map(Panel::Chart).collect(),
    }
}

/// The key along the horizontal axis.
struct Axis {
    /// Its place among the sweeps.
    sweep: usize,
    /// Whether its values are numbers; else they stand at 1, 2, 3, ...
    numbers: bool,
    label: String,
}

impl Axis {
    fn of(grid: &Grid) -> Self {
        let sweeps = grid.sweeps();
        let longest = |index: &usize| sweeps[*index].values.len();
        // Of equally long ones the first.
        let sweep = (0..sweeps.len()).rev().max_by_key(longest).unwrap_or(0);
        let values = &sweeps[sweep].values;
        let numbers = values.iter().all(|value| value.parse::<f64>().is_ok_and(|v| v >= 0.0));
        let mut label = sweeps[sweep].path.to_string();
        if !numbers {
            let places =
                values.iter().enumerate().map(|(at, value)| format!("{}: {value}", at + 1));
            label += &format!(" ({})", places.collect::<Vec<_>>().join(", "));
        }
        Self { sweep, numbers, label }
    }

    fn place(&self, grid: &Grid, point: usize) -> f64 {
        let value = grid.values(point)[self.sweep];
        let values = &grid.sweeps()[self.sweep].values;
        match value.parse() {
            Ok(number) if self.numbers => number,
            _ => values.iter().position(|other| other == value).map_or(0.0, |at| at as f64 + 1.0),
        }
    }

    /// The values of the other keys at a point.
    fn others(&self, grid: &Grid, point: usize) -> String {
        let values = grid.values(point);
        let other = |(index, sweep): (usize, &memweir_sim::scenario::sweep::Sweep)| {
            (index != self.sweep).then(|| format!("{} = {}", sweep.path, values[index]))
        };
        grid.sweeps().iter().enumerate().filter_map(other).collect::<Vec<_>>().join(", ")
    }
}

fn chart(
    title: &str,
    quantity: &str,
    axis: &Axis,
    points: &[(f64, &Point)],
    value: fn(&PolicySummary) -> f64,
) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for (place, point) in points {
        for policy in &point.policies {
            let at = (*place, value(policy));
            match series.iter_mut().find(|series| series.name == policy.policy) {
                Some(series) => series.points.push(at),
                None => series.push(Series {
                    name: policy.policy.clone(),
                    points: vec![at],
                    style: Style::Line,
                    color: PALETTE[series.len() % PALETTE.len()],
                }),
            }
        }
    }
    // Lines of one point would not be seen.
    let dots: Vec<Series> = series
        .iter()
        .map(|line| Series { name: String::new(), style: Style::Dots, ..line.clone() })
        .collect();
    series.extend(dots);
    Chart {
        title: title.to_owned(),
        x_label: axis.label.clone(),
        y_label: quantity.to_owned(),
        series,
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::verdict::Verdict;

    fn grid(sweeps: &[&str]) -> Grid {
        let sweeps = sweeps.iter().map(|sweep| sweep.parse().expect("a sweep")).collect();
        Grid::new(sweeps).expect("a grid")
    }

    /// Turnarounds of 10 s under `os`, and of a second less per point under the other policy.
    fn report(grid: &Grid) -> Report {
        let summary = |policy: &str, mean_s: f64| PolicySummary {
            policy: policy.to_owned(),
            turnaround_s: vec![mean_s],
            mean_s,
            rsd_percent: None,
            gain: 10.0 / mean_s - 1.0,
            difference: None,
            verdict: Verdict::TooFewRounds,
            weighted_speedup: 1.0,
            bandwidth_mean: 0.0,
            bandwidth_std: 0.0,
            share_of_possible: None,
            optimum_is: None,
        };
        let point = |index: usize| Point {
            at: Vec::new(),
            machine: String::new(),
            cores: 1,
            tasks: 1,
            predictor: String::new(),
            quantum_ms: 100.0,
            confidence: 0.95,
            peak_bandwidth: 1.0,
            baseline: "os".to_owned(),
            policies: vec![summary("os", 10.0), summary("random", 10.0 - index as f64)],
            runs: Vec::new(),
        };
        Report {
            scenario: "mix.toml".to_owned(),
            points: (0..grid.len()).map(point).collect(),
            overall: Vec::new(),
        }
    }

    fn charts(figure: &Figure) -> Vec<&Chart> {
        fn chart(panel: &Panel) -> Option<&Chart> {
            match panel {
                Panel::Chart(chart) => Some(chart),
                Panel::Lanes(_) | Panel::Bars(_) | Panel::Grid(_) => None,
            }
        }
        figure.panels.iter().filter_map(chart).collect()
    }

    #[test]
    fn the_longest_sweep_is_the_axis_and_the_others_make_panels() {
        let grid = grid(&["cores=1,2", "quantum_ms=100,20,50"]);
        let figure = figure(&report(&grid), &grid);
        let charts = charts(&figure);
        assert_eq!(charts.len(), 4, "turnaround and gain for each number of cores");
        assert_eq!(
            (charts[0].title.as_str(), charts[2].title.as_str()),
            ("cores = 1", "cores = 2")
        );
        assert_eq!(charts[0].x_label, "quantum_ms");
        // In the order of the axis, not of the sweep.
        let random = charts[0].series.iter().find(|s| s.name == "random").expect("a line");
        assert_eq!(random.points, [(20.0, 9.0), (50.0, 8.0), (100.0, 10.0)]);
        let svg = figure.to_svg().expect("drawn");
        assert!(svg.contains("gain (%)") && svg.contains("random"), "{svg}");
    }

    #[test]
    fn words_stand_in_their_order() {
        let grid = grid(&["machine=iabw,hmmsched"]);
        let figure = figure(&report(&grid), &grid);
        assert_eq!(charts(&figure)[0].x_label, "machine (1: iabw, 2: hmmsched)");
        assert_eq!(charts(&figure)[0].series[0].points, [(1.0, 10.0), (2.0, 10.0)]);
    }
}
