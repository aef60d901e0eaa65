//! SVG figures: charts with labeled axes, grouped bars, grids, and lanes of spans against time.
//!
//! A [`Figure`] is a stack of panels described as data. The caller decides what a figure shows;
//! this crate attaches no meaning to the values.

#![forbid(unsafe_code)]

mod bars;
mod chart;
mod grid;
mod lanes;

use std::fmt;

use plotters::prelude::*;

/// Width of every figure in pixels.
const WIDTH: u32 = 1000;
const FONT: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(225, 225, 225);

/// A color, by its red, green and blue components.
pub use plotters::style::RGBColor;

/// The palette of Okabe and Ito, which people with any color vision can tell apart, with gray and a
/// darker yellow.
pub const PALETTE: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(110, 110, 110),
    RGBColor(0, 0, 0),
    RGBColor(215, 200, 30),
];

/// One drawing: a title and panels below each other.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Heading of the figure.
    pub title: String,
    /// Second line in a smaller font, such as the setup that produced the data.
    pub subtitle: String,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// A part of a figure.
#[derive(Clone, Debug)]
pub enum Panel {
    /// Values against an axis.
    Chart(Chart),
    /// Values of categories, side by side.
    Bars(Bars),
    /// Rows of spans against time.
    Lanes(Lanes),
    /// Shaded cells in rows and columns.
    Grid(Grid),
}

/// Values against an axis.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Heading of the panel.
    pub title: String,
    /// Quantity and unit of the horizontal axis.
    pub x_label: String,
    /// Quantity and unit of the vertical axis.
    pub y_label: String,
    /// Left end of the horizontal axis.
    pub x_start: f64,
    /// Lower end of the vertical axis; if absent, zero or the lowest value, whichever is lower.
    pub y_start: Option<f64>,
    /// Right end of the horizontal axis; taken from the data if absent.
    pub x_end: Option<f64>,
    /// Upper end of the vertical axis; taken from the data if absent.
    pub y_end: Option<f64>,
    /// The data.
    pub series: Vec<Series>,
    /// Horizontal lines of reference.
    pub levels: Vec<Level>,
}

/// One set of values.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// `(x, y)` in ascending `x`, except for [`Style::Dots`].
    pub points: Vec<(f64, f64)>,
    /// Line, dashes, steps or dots.
    pub style: Style,
    /// Color of the line or the dots.
    pub color: RGBColor,
}

/// Drawing style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line from point to point; a dot if there is only one.
    Line,
    /// A dashed line from point to point; a dot if there is only one.
    Dashes,
    /// A filled step function: each value holds until the next point.
    Steps,
    /// A step function without a fill, which ends at its last point; a dot if there is only one.
    StepLine,
    /// Single points.
    Dots,
}

/// A horizontal line of reference.
#[derive(Clone, Debug)]
pub struct Level {
    /// Name in the legend.
    pub name: String,
    /// Position on the vertical axis.
    pub value: f64,
    /// Color of the line.
    pub color: RGBColor,
}

/// Values of categories, side by side in groups; negative ones hang from the axis.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Heading of the panel.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Quantity and unit of the vertical axis.
    pub y_label: String,
    /// From left to right.
    pub categories: Vec<String>,
    /// The bars of each group, in order.
    pub sets: Vec<BarSet>,
    /// Arrangement of the sets: side by side or stacked.
    pub arrangement: Arrangement,
    /// Horizontal lines of reference.
    pub levels: Vec<Level>,
}

/// Arrangement of the sets of one category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrangement {
    /// Side by side.
    #[default]
    Grouped,
    /// Stacked, each bar starting at the end of the one before; for values of one sign.
    Stacked,
}

/// One value per category.
#[derive(Clone, Debug)]
pub struct BarSet {
    /// Name in the legend.
    pub name: String,
    /// Values in the order of the categories; a value that is not finite is left out.
    pub values: Vec<f64>,
    /// Color of the bars.
    pub color: RGBColor,
}

/// Rows of spans against time.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    /// Heading of the panel.
    pub title: String,
    /// Quantity and unit of the horizontal axis.
    pub x_label: String,
    /// Right end of the horizontal axis.
    pub x_end: f64,
    /// Meaning of a full shade; empty for no legend.
    pub shade_label: String,
    /// From top to bottom.
    pub rows: Vec<Lane>,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Name of the row.
    pub label: String,
    /// Shaded stretches of the row.
    pub spans: Vec<Span>,
}

/// One shaded stretch of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Left end on the horizontal axis.
    pub from: f64,
    /// Right end on the horizontal axis.
    pub to: f64,
    /// Darkness, 0 to 1.
    pub shade: f64,
}

/// Shaded cells in rows and columns: a matrix, or a table of marks.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Heading of the panel.
    pub title: String,
    /// From left to right.
    pub columns: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<GridRow>,
    /// A line before the column with this number.
    pub border: Option<usize>,
}

/// One row of a grid.
#[derive(Clone, Debug)]
pub struct GridRow {
    /// Name of the row.
    pub label: String,
    /// Darkness of each cell, 0 to 1, in the order of the columns.
    pub cells: Vec<f64>,
}

impl Series {
    /// Creates a set of values.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        points: Vec<(f64, f64)>,
        style: Style,
        color: RGBColor,
    ) -> Self {
        Self { name: name.into(), points, style, color }
    }
}

impl Level {
    /// Creates a line of reference.
    #[must_use]
    pub fn new(name: impl Into<String>, value: f64, color: RGBColor) -> Self {
        Self { name: name.into(), value, color }
    }
}

impl Chart {
    /// Creates a chart of lines in the colors of the palette, with these names and points.
    #[must_use]
    pub fn lines(curves: impl IntoIterator<Item = (impl Into<String>, Vec<(f64, f64)>)>) -> Self {
        let curves = curves.into_iter().zip(PALETTE.into_iter().cycle());
        let line = |((name, points), color)| Series::new(name, points, Style::Line, color);
        Self { series: curves.map(line).collect(), ..Self::default() }
    }
}

impl Bars {
    /// Creates bars in the colors of the palette; each set has a name and a value per category.
    #[must_use]
    pub fn of(
        categories: impl IntoIterator<Item: Into<String>>,
        sets: impl IntoIterator<Item = (impl Into<String>, Vec<f64>)>,
    ) -> Self {
        let sets = sets.into_iter().zip(PALETTE.into_iter().cycle());
        let sets = sets.map(|((name, values), color)| BarSet { name: name.into(), values, color });
        Self {
            categories: categories.into_iter().map(Into::into).collect(),
            sets: sets.collect(),
            ..Self::default()
        }
    }

    /// Returns the same with these colors of its first sets.
    #[must_use]
    pub fn colored(mut self, colors: impl IntoIterator<Item = RGBColor>) -> Self {
        for (set, color) in self.sets.iter_mut().zip(colors) {
            set.color = color;
        }
        self
    }
}

impl From<Chart> for Panel {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl From<Bars> for Panel {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

/// A figure that could not be drawn: the drawing library refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw the figure: {0}")]
pub struct PlotError(String);

/// Result of the drawing functions; errors of the library are kept as text.
type Drawn = Result<(), PlotError>;

/// Wraps a drawing error's message in [`PlotError`].
fn draw_error(error: impl fmt::Display) -> PlotError {
    PlotError(error.to_string())
}

impl Panel {
    fn height(&self) -> u32 {
        match self {
            Self::Chart(_) | Self::Bars(_) => 300,
            Self::Lanes(lanes) => lanes::height(lanes),
            Self::Grid(grid) => grid::height(grid),
        }
    }
}

impl Figure {
    /// Returns the height of title and subtitle; zero if the figure has neither.
    fn header(&self) -> u32 {
        if self.title.is_empty() && self.subtitle.is_empty() { 0 } else { 62 }
    }

    /// Draws the figure as SVG text.
    ///
    /// # Errors
    /// If the drawing library refuses a value.
    pub fn to_svg(&self) -> Result<String, PlotError> {
        let height = self.header() + self.panels.iter().map(Panel::height).sum::<u32>() + 8;
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
            root.fill(&WHITE).map_err(draw_error)?;
            let (header, mut rest) = root.split_vertically(self.header());
            text(&header, &self.title, (20, 14), 20, INK)?;
            text(&header, &self.subtitle, (20, 40), 13, RGBColor(95, 95, 95))?;
            for panel in &self.panels {
                let (area, below) = rest.split_vertically(panel.height());
                match panel {
                    Panel::Chart(chart) => chart::draw(chart, &area)?,
                    Panel::Bars(bars) => bars::draw(bars, &area)?,
                    Panel::Lanes(lanes) => lanes::draw(lanes, &area)?,
                    Panel::Grid(grid) => grid::draw(grid, &area)?,
                }
                rest = below;
            }
            root.present().map_err(draw_error)?;
        }
        Ok(svg)
    }
}

/// An area of the SVG backend.
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn text(area: &Area<'_>, what: &str, at: (i32, i32), size: u32, color: RGBColor) -> Drawn {
    area.draw(&Text::new(what.to_owned(), at, (FONT, size).into_font().color(&color)))
        .map_err(draw_error)
}

/// Estimates the width of a text: the SVG backend cannot measure fonts, and legends must not
/// overlap.
fn text_width(what: &str, size: u32) -> i32 {
    (what.chars().count() as f64 * f64::from(size) * 0.56).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "system".into(),
            x_label: "time (s)".into(),
            y_label: "bandwidth (GB/s)".into(),
            series: vec![Series::new(
                "measured",
                vec![(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)],
                Style::Steps,
                PALETTE[0],
            )],
            levels: vec![Level::new("peak", 4.0, PALETTE[5])],
            ..Chart::default()
        }
    }

    #[test]
    fn a_figure_names_its_axes_levels_and_rows() {
        let lanes = Lanes {
            title: "who ran".into(),
            x_label: "time (s)".into(),
            x_end: 2.0,
            shade_label: "bandwidth".into(),
            rows: vec![Lane {
                label: "gzip".into(),
                spans: vec![Span { from: 0.0, to: 0.5, shade: 0.7 }],
            }],
        };
        let figure = Figure {
            title: "batch <1>".into(),
            subtitle: "os".into(),
            panels: vec![Panel::Chart(chart()), Panel::Lanes(lanes)],
        };
        let svg = figure.to_svg().unwrap();
        for needle in
            ["batch &lt;1&gt;", "bandwidth (GB/s)", "peak", "measured", "gzip", "time (s)"]
        {
            assert!(svg.contains(needle), "{needle} is missing");
        }
    }

    #[test]
    fn lines_and_sets_have_the_colors_of_the_palette_from_its_start_again() {
        let points = || vec![(0.0, 1.0)];
        let chart = Chart::lines((0..10).map(|line| (line.to_string(), points())));
        let colors: Vec<RGBColor> = chart.series.iter().map(|line| line.color).collect();
        assert_eq!(colors[..9], PALETTE);
        assert_eq!(colors[9], PALETTE[0]);
        let bars = Bars::of(["a"], [("x", vec![1.0]), ("y", vec![2.0])]);
        let colors = |bars: &Bars| bars.sets.iter().map(|set| set.color).collect::<Vec<_>>();
        assert_eq!(colors(&bars), PALETTE[..2]);
        assert_eq!(colors(&bars.colored([PALETTE[6]])), [PALETTE[6], PALETTE[1]]);
    }

    #[test]
    fn a_line_of_one_point_is_a_dot() {
        let dots = |style, points: &[(f64, f64)]| {
            let series = Series::new("", points.to_vec(), style, PALETTE[0]);
            let panels = vec![Panel::Chart(Chart { series: vec![series], ..Chart::default() })];
            let figure = Figure { title: String::new(), subtitle: String::new(), panels };
            figure.to_svg().unwrap().matches("<circle").count()
        };
        for style in [Style::Line, Style::Dashes, Style::StepLine] {
            assert_eq!(dots(style, &[(1.0, 2.0)]), 1, "{style:?}");
            assert_eq!(dots(style, &[(1.0, 2.0), (2.0, 2.0)]), 0, "{style:?}");
        }
        assert_eq!(dots(Style::Steps, &[(1.0, 2.0)]), 0);
    }

    #[test]
    fn an_empty_chart_can_be_drawn() {
        let figure = Figure {
            title: String::new(),
            subtitle: String::new(),
            panels: vec![Panel::Chart(Chart::default()), Panel::Lanes(Lanes::default())],
        };
        assert!(figure.to_svg().unwrap().starts_with("<svg"));
    }
}
