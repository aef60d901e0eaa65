//! Figures of sweeps: quantities against a key, with a line for each of the things compared.

use memweir_study::sweep::Grid;

use super::{Chart, Figure, PALETTE, Panel, Series, Style};

/// Panels of one figure; a grid of more combinations shows the first ones.
const MOST_PANELS: usize = 12;

/// One of the things compared, at a point of the sweep.
pub(crate) struct Line {
    /// Its name in the legend.
    pub(crate) name: String,
    /// Value of each quantity; those that are not finite are left out.
    pub(crate) values: Vec<f64>,
}

/// Place of a point on the axis, and its lines.
type Placed<'a> = (f64, &'a [Line]);

/// The quantities against the key that has the most values, for each combination of the other keys.
/// `points` are those of the grid.
pub(crate) fn figure(
    title: String,
    grid: &Grid,
    quantities: &[&str],
    points: &[Vec<Line>],
) -> Figure {
    let axis = Axis::of(grid);
    let mut combinations: Vec<(String, Vec<Placed>)> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let at = (axis.place(grid, index), point.as_slice());
        let title = axis.others(grid, index);
        match combinations.iter_mut().find(|(other, _)| *other == title) {
            Some((_, points)) => points.push(at),
            None => combinations.push((title, vec![at])),
        }
    }
    let all = combinations.len();
    let mut subtitle = format!("against {}", axis.label);
    if all > MOST_PANELS {
        subtitle += &format!("; the first {MOST_PANELS} of {all} combinations of the other keys");
    }
    let panels = combinations.iter_mut().take(MOST_PANELS).flat_map(|(title, points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let chart = |(at, quantity): (usize, &&str)| chart(title, quantity, at, &axis, points);
        quantities.iter().enumerate().map(chart).collect::<Vec<_>>()
    });
    Figure { title, subtitle, panels: panels.map(Panel::Chart).collect() }
}

/// The key along the horizontal axis.
struct Axis {
    /// Its index among the sweeps.
    sweep: usize,
    /// True if its values are numbers; otherwise they stand at 1, 2, 3, ...
    numbers: bool,
    label: String,
}

impl Axis {
    fn of(grid: &Grid) -> Self {
        let sweeps = grid.sweeps();
        let longest = |index: &usize| sweeps[*index].values.len();
        // The first of equally long ones.
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
        let other = |(index, sweep): (usize, &memweir_study::sweep::Sweep)| {
            (index != self.sweep).then(|| format!("{} = {}", sweep.path, values[index]))
        };
        grid.sweeps().iter().enumerate().filter_map(other).collect::<Vec<_>>().join(", ")
    }
}

/// The quantity with number `of`.
fn chart(title: &str, quantity: &str, of: usize, axis: &Axis, points: &[Placed]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let lines =
        points.iter().flat_map(|(place, lines)| lines.iter().map(move |line| (place, line)));
    for (place, line) in lines.filter(|(_, line)| line.values[of].is_finite()) {
        let at = (*place, line.values[of]);
        match series.iter_mut().find(|series| series.name == line.name) {
            Some(series) => series.points.push(at),
            None => {
                let color = PALETTE[series.len() % PALETTE.len()];
                series.push(Series::new(&line.name, vec![at], Style::Line, color));
            }
        }
    }
    // Lines of one point would be invisible.
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

    fn grid(sweeps: &[&str]) -> Grid {
        let sweeps = sweeps.iter().map(|sweep| sweep.parse().expect("a sweep")).collect();
        Grid::new(sweeps).expect("a grid")
    }

    /// Turnarounds of 10 s under `os`, and of a second less per point under the other policy, whose
    /// gain is not known at the first.
    fn drawn(grid: &Grid) -> Figure {
        let line =
            |name: &str, values: [f64; 2]| Line { name: name.to_owned(), values: values.to_vec() };
        let point = |index: usize| {
            let gain = if index == 0 { f64::NAN } else { 5.0 };
            vec![line("os", [10.0, 0.0]), line("random", [10.0 - index as f64, gain])]
        };
        let points: Vec<_> = (0..grid.len()).map(point).collect();
        figure("policies".to_owned(), grid, &["turnaround (s)", "gain (%)"], &points)
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
        let figure = drawn(&grid);
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
        let gain = charts[1].series.iter().find(|s| s.name == "random").expect("a line");
        assert_eq!(gain.points, [(20.0, 5.0), (50.0, 5.0)], "none where it is not known");
        let svg = figure.to_svg().expect("drawn");
        assert!(svg.contains("gain (%)") && svg.contains("random"), "{svg}");
    }

    #[test]
    fn words_stand_in_their_order() {
        let grid = grid(&["machine=iabw,hmmsched"]);
        let figure = drawn(&grid);
        assert_eq!(charts(&figure)[0].x_label, "machine (1: iabw, 2: hmmsched)");
        assert_eq!(charts(&figure)[0].series[0].points, [(1.0, 10.0), (2.0, 10.0)]);
    }
}
