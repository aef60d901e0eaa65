//! SVG figures: charts with labelled axes, and lanes that show who ran when.
//!
//! A [`Figure`] is a stack of panels described as data; the functions that turn reports into
//! figures live in [`batch`], [`calibration`], [`sweep`] and [`super::profile`].

pub(crate) mod batch;
pub(crate) mod calibration;
mod chart;
mod lanes;
pub(crate) mod sweep;

use std::fmt;
use std::io;
use std::path::Path;

use plotters::prelude::*;

/// Width of every figure in pixels.
const WIDTH: u32 = 1000;
const FONT: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(225, 225, 225);

/// The palette of Okabe and Ito, which people with any color vision can tell apart.
pub(crate) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(110, 110, 110),
];

/// One drawing: a title, and panels below each other.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What the figure shows.
    pub(crate) title: String,
    /// With what it was obtained, in a smaller font.
    pub(crate) subtitle: String,
    /// From top to bottom.
    pub(crate) panels: Vec<Panel>,
}

/// A part of a figure.
#[derive(Clone, Debug)]
pub(crate) enum Panel {
    /// Values against an axis.
    Chart(Chart),
    /// Rows of spans against time.
    Lanes(Lanes),
}

/// Values against an axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// What this panel shows.
    pub(crate) title: String,
    /// Quantity and unit of the horizontal axis.
    pub(crate) x_label: String,
    /// Quantity and unit of the vertical axis.
    pub(crate) y_label: String,
    /// Right end of the horizontal axis; taken from the data if absent.
    pub(crate) x_end: Option<f64>,
    /// Upper end of the vertical axis; taken from the data if absent.
    pub(crate) y_end: Option<f64>,
    /// The data.
    pub(crate) series: Vec<Series>,
    /// Horizontal lines of reference.
    pub(crate) levels: Vec<Level>,
}

/// One set of values.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// What it is called in the legend.
    pub(crate) name: String,
    /// `(x, y)` in ascending `x`, except for [`Style::Dots`].
    pub(crate) points: Vec<(f64, f64)>,
    /// How it is drawn.
    pub(crate) style: Style,
    /// With what.
    pub(crate) color: RGBColor,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// A line from point to point.
    Line,
    /// A filled step function: each value holds until the next point.
    Steps,
    /// Single points.
    Dots,
}

/// A horizontal line of reference.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// What it is called in the legend.
    pub(crate) name: String,
    /// Where it lies.
    pub(crate) value: f64,
    /// With what it is drawn.
    pub(crate) color: RGBColor,
}

/// Rows of spans against time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    /// What this panel shows.
    pub(crate) title: String,
    /// Quantity and unit of the horizontal axis.
    pub(crate) x_label: String,
    /// Right end of the horizontal axis.
    pub(crate) x_end: f64,
    /// What a full shade stands for.
    pub(crate) shade_label: String,
    /// From top to bottom.
    pub(crate) rows: Vec<Lane>,
}

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// Whose row it is.
    pub(crate) label: String,
    /// What lies in it.
    pub(crate) spans: Vec<Span>,
}

/// One stretch of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    /// Where it begins.
    pub(crate) from: f64,
    /// Where it ends.
    pub(crate) to: f64,
    /// How dark it is, 0 to 1.
    pub(crate) shade: f64,
}

/// A figure that could not be drawn or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlotError {
    /// The file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The drawing library refused.
    #[error("cannot draw the figure: {0}")]
    Draw(String),
}

/// The outcome of the drawing functions, with the error of the library as text.
type Drawn = Result<(), PlotError>;

/// Keeps the message of a drawing error.
fn draw_error(error: impl fmt::Display) -> PlotError {
    PlotError::Draw(error.to_string())
}

impl Panel {
    fn height(&self) -> u32 {
        match self {
            Self::Chart(_) => 300,
            Self::Lanes(lanes) => lanes::height(lanes),
        }
    }
}

impl Figure {
    /// Draws the figure as SVG text.
    pub(crate) fn to_svg(&self) -> Result<String, PlotError> {
        const HEADER: u32 = 62;
        let height = HEADER + self.panels.iter().map(Panel::height).sum::<u32>() + 8;
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
            root.fill(&WHITE).map_err(draw_error)?;
            let (header, mut rest) = root.split_vertically(HEADER);
            text(&header, &self.title, (20, 14), 20, INK)?;
            text(&header, &self.subtitle, (20, 40), 13, RGBColor(95, 95, 95))?;
            for panel in &self.panels {
                let (area, below) = rest.split_vertically(panel.height());
                match panel {
                    Panel::Chart(chart) => chart::draw(chart, &area)?,
                    Panel::Lanes(lanes) => lanes::draw(lanes, &area)?,
                }
                rest = below;
            }
            root.present().map_err(draw_error)?;
        }
        Ok(svg)
    }

    /// Draws the figure into a file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), PlotError> {
        let svg = self.to_svg()?;
        std::fs::write(path, svg)
            .map_err(|source| PlotError::Write { path: path.display().to_string(), source })
    }
}

/// An area of the SVG backend.
type Area<'a, 'b> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn text(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    what: &str,
    at: (i32, i32),
    size: u32,
    color: RGBColor,
) -> Drawn {
    area.draw(&Text::new(what.to_owned(), at, (FONT, size).into_font().color(&color)))
        .map_err(draw_error)
}

/// Room that a text takes: the SVG backend cannot measure fonts, and legends must not overlap.
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
            series: vec![Series {
                name: "measured".into(),
                points: vec![(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)],
                style: Style::Steps,
                color: PALETTE[0],
            }],
            levels: vec![Level { name: "peak".into(), value: 4.0, color: PALETTE[5] }],
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
    fn an_empty_chart_can_be_drawn() {
        let figure = Figure {
            title: String::new(),
            subtitle: String::new(),
            panels: vec![Panel::Chart(Chart::default()), Panel::Lanes(Lanes::default())],
        };
        assert!(figure.to_svg().unwrap().starts_with("<svg"));
    }
}
