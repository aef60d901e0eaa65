//! Drawing of one [`Chart`].

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{
    Area, Chart, Drawn, FAINT, FONT, INK, Level, PlotError, Series, Style, WIDTH, draw_error, text,
    text_width,
};

/// Space on the left, equal in charts, bars and lanes, so that those of one figure share their time
/// axis.
pub(super) const LEFT: u32 = 130;
/// Space on the right.
pub(super) const RIGHT: u32 = 24;

/// Dots of a series up to which each is drawn large.
const FEW_DOTS: usize = 200;

pub(super) type Context<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws `chart` with its title, legend, axes and data.
pub(super) fn draw(chart: &Chart, area: &Area<'_>) -> Drawn {
    let heading = heading(&chart.title, &entries(chart), area)?;
    let (x_end, y_start, y_end) = extent(chart);
    let x = Axis { label: &chart.x_label, ends: (chart.x_start, x_end), ticks: 11 };
    let y = Axis { label: &chart.y_label, ends: (y_start, y_end), ticks: 6 };
    let mut context = axes(heading, &x, &y, area)?;
    for series in &chart.series {
        draw_series(series, x_end, &mut context)?;
    }
    draw_levels(&chart.levels, x.ends, &mut context)
}

/// One axis of a chart.
pub(super) struct Axis<'a> {
    pub(super) label: &'a str,
    pub(super) ends: (f64, f64),
    /// About this many numbers stand along it; if zero, it has no lines either.
    pub(super) ticks: usize,
}

/// Draws the axes of a chart below a heading of this height.
pub(super) fn axes<'a, 'b>(
    heading: u32,
    x: &Axis<'_>,
    y: &Axis<'_>,
    area: &'a Area<'b>,
) -> Result<Context<'a, 'b>, PlotError> {
    vertical_label(y.label, heading, area)?;
    let mut context = ChartBuilder::on(area)
        .margin_top(heading)
        .margin_right(RIGHT)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, 46)
        .build_cartesian_2d(x.ends.0..x.ends.1, y.ends.0..y.ends.1)
        .map_err(draw_error)?;
    let mut mesh = context.configure_mesh();
    if x.ticks == 0 {
        mesh.disable_x_mesh();
    }
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .x_labels(x.ticks)
        .y_labels(y.ticks)
        .x_label_formatter(&|value| tick(*value, x.ends))
        .y_label_formatter(&|value| tick(*value, y.ends))
        .x_desc(x.label)
        .label_style((FONT, 13).into_font().color(&INK))
        .axis_desc_style((FONT, 13).into_font().color(&INK))
        .draw()
        .map_err(draw_error)?;
    Ok(context)
}

/// Draws the lines of reference from end to end of the horizontal axis.
pub(super) fn draw_levels(
    levels: &[Level],
    (from, to): (f64, f64),
    context: &mut Context<'_, '_>,
) -> Drawn {
    for Level { value, color, .. } in levels {
        let line = [(from, *value), (to, *value)];
        context
            .draw_series(DashedLineSeries::new(line, 7, 4, color.stroke_width(2)))
            .map_err(draw_error)?;
    }
    Ok(())
}

fn draw_series(series: &Series, x_end: f64, context: &mut Context<'_, '_>) -> Drawn {
    let (color, line) = (series.color, series.color.stroke_width(2));
    // A line through a single point has no length; a step goes on to the end of the axis.
    let is_lone = series.points.len() == 1 && series.style != Style::Steps;
    match if is_lone { Style::Dots } else { series.style } {
        Style::Dots => {
            let radius = if series.points.len() > FEW_DOTS { 2 } else { 4 };
            let fill = color.mix(0.55).filled();
            let dots = series.points.iter().map(|point| Circle::new(*point, radius, fill));
            context.draw_series(dots)
        }
        Style::Line => context.draw_series(LineSeries::new(envelope(&series.points), line)),
        Style::StepLine => {
            let corners = steps(&envelope(&series.points), f64::NEG_INFINITY);
            context.draw_series(LineSeries::new(corners, line))
        }
        Style::Dashes => {
            context.draw_series(DashedLineSeries::new(envelope(&series.points), 7, 4, line))
        }
        Style::Steps => {
            let corners = steps(&envelope(&series.points), x_end);
            let below = AreaSeries::new(corners, 0.0, color.mix(0.18));
            context.draw_series(below.border_style(color.stroke_width(1)))
        }
    }
    .map(|_| ())
    .map_err(draw_error)
}

/// Draws the name of the vertical axis beside the middle of the axis, below a heading of this
/// height.
fn vertical_label(label: &str, heading: u32, area: &Area<'_>) -> Drawn {
    let (_, height) = area.dim_in_pixel();
    let style = (FONT, 13)
        .into_font()
        .transform(FontTransform::Rotate270)
        .color(&INK)
        .pos(Pos::new(HPos::Center, VPos::Center));
    let middle = (heading + (height - heading - 46) / 2) as i32;
    area.draw(&Text::new(label.to_owned(), (LEFT as i32 - 62, middle), style)).map_err(draw_error)
}

/// Returns the legend of a chart: its series, then its levels.
fn entries(chart: &Chart) -> Vec<Entry<'_>> {
    let series = chart.series.iter().map(|series| {
        let mark = match series.style {
            Style::Dots => Mark::Dot,
            Style::Dashes => Mark::Dashes,
            Style::Line | Style::Steps | Style::StepLine => Mark::Line,
        };
        Entry { name: &series.name, color: series.color, mark }
    });
    series.chain(chart.levels.iter().map(Entry::level)).collect()
}

/// One line of a legend.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) color: RGBColor,
    pub(super) mark: Mark,
}

impl<'a> Entry<'a> {
    /// Returns its width: that of its name, its mark, and the space before it.
    fn width(&self) -> i32 {
        text_width(self.name, NAME) + 44
    }

    /// Returns the entry of a level.
    pub(super) fn level(level: &'a Level) -> Self {
        Self { name: &level.name, color: level.color, mark: Mark::Dashes }
    }
}

/// Mark of a legend entry.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    Line,
    Dot,
    Dashes,
    Box,
}

/// Height of a heading of one row.
const HEADING: u32 = 32;
/// Height of a further row.
const ROW: u32 = 20;
/// Size of the names in a legend.
const NAME: u32 = 12;

/// Draws the title, and the entries that have a name, right-aligned: beside the title if they fit
/// there, else in rows below it. Returns the height of all.
pub(super) fn heading(
    title: &str,
    entries: &[Entry<'_>],
    area: &Area<'_>,
) -> Result<u32, PlotError> {
    const TITLE: u32 = 15;
    text(area, title, (20, 6), TITLE, INK)?;
    let room = (WIDTH - RIGHT) as i32 - 20;
    let named: Vec<&Entry<'_>> = entries.iter().filter(|entry| !entry.name.is_empty()).collect();
    let rows = rows(&named, room);
    let beside = match rows[..] {
        [] => true,
        [row] => {
            text_width(title, TITLE) + row.iter().map(|entry| entry.width()).sum::<i32>() <= room
        }
        _ => false,
    };
    let above = if beside { 0 } else { ROW };
    for (row, y) in rows.iter().zip((above..).step_by(ROW as usize)) {
        legend(row, y as i32, area)?;
    }
    let below = (rows.len() as u32).saturating_sub(1) * ROW;
    Ok(HEADING + above + below)
}

/// Divides entries into rows of at most this width.
fn rows<'a, 'b>(entries: &'b [&'a Entry<'a>], room: i32) -> Vec<&'b [&'a Entry<'a>]> {
    let mut rows = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let ends = rest.iter().scan(0, |end, entry| {
            *end += entry.width();
            Some(*end)
        });
        let (row, later) = rest.split_at(ends.take_while(|end| *end <= room).count().max(1));
        rows.push(row);
        rest = later;
    }
    rows
}

/// Draws entries beside each other, right-aligned, this far below the top.
fn legend(entries: &[&Entry<'_>], top: i32, area: &Area<'_>) -> Drawn {
    let mut x = WIDTH as i32 - RIGHT as i32;
    for Entry { name, color, mark } in entries.iter().rev() {
        x -= text_width(name, NAME);
        text(area, name, (x, top + 8), NAME, INK)?;
        x -= 26;
        let y = top + 14;
        let line = |from: i32, to: i32, width: u32| {
            PathElement::new([(x + from, y), (x + to, y)], color.stroke_width(width))
        };
        match mark {
            Mark::Dot => area.draw(&Circle::new((x + 12, y), 3, color.filled())),
            Mark::Line => area.draw(&line(0, 20, 3)),
            Mark::Dashes => {
                area.draw(&line(0, 8, 2)).map_err(draw_error)?;
                area.draw(&line(12, 20, 2))
            }
            Mark::Box => {
                area.draw(&Rectangle::new([(x + 6, y - 5), (x + 18, y + 5)], color.filled()))
            }
        }
        .map_err(draw_error)?;
        x -= 18;
    }
    Ok(())
}

/// Returns the end of the horizontal axis and both ends of the vertical one: those that the chart
/// sets, else those of the data, with a margin of 6 % on the vertical axis.
fn extent(chart: &Chart) -> (f64, f64, f64) {
    let points = || chart.series.iter().flat_map(|s| s.points.iter());
    let x_data = points().map(|p| p.0).fold(0.0, f64::max);
    let y_data = points()
        .map(|p| p.1)
        .chain(chart.levels.iter().map(|l| l.value))
        .filter(|y| y.is_finite())
        .fold(0.0, f64::max);
    let or_one = |end: f64| if end > 0.0 { end } else { 1.0 };
    let above = |start: f64, end: f64| if end > start { end } else { start + 1.0 };
    let x_end = above(chart.x_start, or_one(chart.x_end.unwrap_or(x_data)));
    let y_low = points().map(|p| p.1).filter(|y| y.is_finite()).fold(0.0, f64::min) * 1.06;
    let y_start = chart.y_start.unwrap_or(y_low);
    (x_end, y_start, above(y_start, or_one(chart.y_end.unwrap_or(y_data * 1.06))))
}

/// Most decimals of a tick: enough for an axis in seconds that ends at a few nanoseconds.
const MOST_DECIMALS: usize = 12;

/// Formats a number of an axis with these ends, with enough decimals to tell its ticks apart and
/// with a metric prefix if it reaches one million.
pub(super) fn tick(value: f64, (start, end): (f64, f64)) -> String {
    for (unit, prefix) in [(1e9, " G"), (1e6, " M")] {
        if end.max(-start) >= unit {
            return tick(value / unit, (start / unit, end / unit)) + prefix;
        }
    }
    let (mut decimals, mut length) = (0, end - start);
    while length < 20.0 && decimals < MOST_DECIMALS {
        (decimals, length) = (decimals + 1, length * 10.0);
    }
    format!("{value:.decimals$}")
}

/// Thins a long recording to its lowest and highest value per pixel column, so that an SVG of hours
/// stays small and still shows every burst.
fn envelope(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let columns = WIDTH as usize;
    if points.len() <= 4 * columns {
        return points.to_vec();
    }
    let chunk = points.len().div_ceil(columns);
    let mut thinned = Vec::with_capacity(2 * columns);
    for part in points.chunks(chunk) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = part.iter().min_by(by_height);
        let high = part.iter().max_by(by_height);
        if let (Some(low), Some(high)) = (low, high) {
            let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            thinned.push(*first);
            if first != second {
                thinned.push(*second);
            }
        }
    }
    thinned
}

/// Returns the corners of a step function in which each value holds until the next point.
fn steps(points: &[(f64, f64)], x_end: f64) -> Vec<(f64, f64)> {
    let mut corners = Vec::with_capacity(2 * points.len());
    for (index, (x, y)) in points.iter().enumerate() {
        let next = points.get(index + 1).map_or(x_end.max(*x), |p| p.0);
        corners.push((*x, *y));
        corners.push((next, *y));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_legend_stands_in_rows() {
        let entry = |name| Entry { name, color: INK, mark: Mark::Box };
        // Each is 19 * 12 * 0.56 = 128 wide, and 44 for the mark: five in a row of 956.
        let entries: Vec<_> = (0..12).map(|_| entry("available-bandwidth")).collect();
        let entries: Vec<_> = entries.iter().collect();
        let lengths: Vec<usize> = rows(&entries, 956).into_iter().map(<[_]>::len).collect();
        assert_eq!(lengths, [5, 5, 2]);
        assert_eq!(rows(&entries[..1], 10).len(), 1, "wider than a row");
        assert!(rows(&[], 956).is_empty());
    }

    #[test]
    fn steps_hold_each_value_until_the_next() {
        let corners = steps(&[(0.0, 1.0), (1.0, 5.0)], 3.0);
        assert_eq!(corners, vec![(0.0, 1.0), (1.0, 1.0), (1.0, 5.0), (3.0, 5.0)]);
    }

    #[test]
    fn thinning_keeps_every_extreme() {
        let mut points: Vec<_> = (0..50_000).map(|i| (f64::from(i), 1.0)).collect();
        points[31_337].1 = 99.0;
        points[777].1 = -1.0;
        let thin = envelope(&points);
        assert!(thin.len() <= 2 * WIDTH as usize, "{}", thin.len());
        assert!(thin.contains(&(31_337.0, 99.0)) && thin.contains(&(777.0, -1.0)));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn ticks_have_the_decimals_that_their_axis_needs() {
        let tick = |value, end| super::tick(value, (0.0, end));
        assert_eq!(tick(25.0, 60.0), "25");
        assert_eq!(tick(2.5, 10.0), "2.5");
        assert_eq!(tick(0.05, 0.5), "0.05");
        assert_eq!([2.0, 0.2, 0.02].map(|end| tick(0.0, end)), ["0.0", "0.00", "0.000"]);
        // A run of 5 ms has a tick at every half of a millisecond.
        assert_eq!([0.0005, 0.001].map(|value| tick(value, 0.005)), ["0.0005", "0.0010"]);
        assert_eq!(tick(5e9, 8e9), "5.0 G");
        assert_eq!(tick(3e7, 6e7), "30 M");
    }

    #[test]
    fn ticks_of_an_axis_far_from_zero_differ() {
        assert_eq!([1000.0, 1000.5].map(|x| tick(x, (1000.0, 1003.0))), ["1000.0", "1000.5"]);
        assert_eq!(tick(1.0002e6, (1e6, 1.001e6)), "1.00020 M");
        assert_eq!(tick(-5e6, (-8e6, 0.0)), "-5.0 M");
        for ends in [(1000.0, 1003.0), (59.4, 60.0), (-20.5, -19.5), (1e6, 1.000_03e6)] {
            for most in [11, 6] {
                let ticks = RangedCoordf64::from(ends.0..ends.1).key_points(most);
                let mut labels: Vec<String> = ticks.iter().map(|x| tick(*x, ends)).collect();
                labels.dedup();
                assert_eq!(labels.len(), ticks.len(), "{ends:?}: {labels:?} of {ticks:?}");
            }
        }
    }
}
