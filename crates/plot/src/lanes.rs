//! Drawing of [`Lanes`]: rows of shaded spans against time.

use std::ops::Range;

use plotters::prelude::*;

use super::chart::{LEFT, RIGHT, tick};
use super::{Area, Drawn, FAINT, INK, Lanes, PALETTE, Span, WIDTH, draw_error, text, text_width};

/// Height above the first row.
const TOP: i32 = 32;
/// Height below the last row, for the axis.
const BOTTOM: i32 = 46;

/// Height of a row in pixels: the more rows, the thinner.
fn row_height(rows: usize) -> i32 {
    match rows {
        0..=24 => 22,
        25..=100 => 14,
        _ => 6,
    }
}

/// Height of the panel in pixels.
pub(super) fn height(lanes: &Lanes) -> u32 {
    let rows = lanes.rows.len() as i32 * row_height(lanes.rows.len());
    (TOP + rows.max(22) + BOTTOM) as u32
}

/// Draws the rows with their labels, the shade's legend and the axis.
pub(super) fn draw(lanes: &Lanes, area: &Area<'_>) -> Drawn {
    text(area, &lanes.title, (20, 6), 15, INK)?;
    shade_legend(lanes, area)?;
    let x_end = if lanes.x_end > 0.0 { lanes.x_end } else { 1.0 };
    let left = LEFT as i32;
    let width = WIDTH as i32 - left - RIGHT as i32;
    let x_of =
        |value: f64| left + (value.clamp(0.0, x_end) / x_end * f64::from(width)).round() as i32;
    let row = row_height(lanes.rows.len());
    let bottom = height(lanes) as i32 - BOTTOM;
    axis(lanes, area, x_end, bottom, &x_of)?;
    for (index, lane) in lanes.rows.iter().enumerate() {
        let y = TOP + index as i32 * row;
        if row >= 12 {
            row_label(&lane.label, area, y, row)?;
        }
        for (columns, opacity) in runs(&opacities(&lane.spans, x_end, width as usize)) {
            let [from, to] = [columns.start, columns.end].map(|column| left + column as i32);
            let color = PALETTE[0].mix(opacity);
            let corners = [(from, y + 2), (to, y + row - 2)];
            area.draw(&Rectangle::new(corners, color.filled())).map_err(draw_error)?;
        }
    }
    Ok(())
}

/// Opacity of shade zero, and the least of a pixel column that a span touches.
const FAINTEST: f64 = 0.15;

/// Returns the opacity of a shade from 0 to 1.
pub(super) fn opacity(shade: f64) -> f64 {
    FAINTEST + (1.0 - FAINTEST) * shade
}

/// Opacity up to which a column counts as empty: rounding.
const TOUCH: f64 = 1e-6;

/// Returns the opacity of each of `width` pixel columns: that of the spans in it, weighted by the
/// part of the column that they cover. Spans can be much narrower than a column.
fn opacities(spans: &[Span], x_end: f64, width: usize) -> Vec<f64> {
    let mut opacities = vec![0.0; width];
    for span in spans {
        let opacity = opacity(span.shade.clamp(0.0, 1.0));
        let [from, to] = [span.from, span.to].map(|x| x.clamp(0.0, x_end) / x_end * width as f64);
        let last = (to.ceil() as usize).min(width);
        for (column, sum) in opacities.iter_mut().enumerate().take(last).skip(from as usize) {
            let start = column as f64;
            *sum += opacity * (to.min(start + 1.0) - from.max(start)).max(0.0);
        }
    }
    for opacity in opacities.iter_mut().filter(|opacity| **opacity > TOUCH) {
        *opacity = opacity.clamp(FAINTEST, 1.0);
    }
    opacities
}

/// Returns runs of neighboring columns whose opacities are equal to a percent; skips empty columns.
fn runs(opacities: &[f64]) -> Vec<(Range<usize>, f64)> {
    let percent = |opacity: &f64| (opacity * 100.0).round();
    let alike = opacities.chunk_by(|a, b| percent(a) == percent(b));
    let mut start = 0;
    let placed = alike.map(|run| {
        start += run.len();
        (start - run.len()..start, run[0])
    });
    placed.filter(|(_, opacity)| *opacity > TOUCH).collect()
}

/// Draws a name, truncated if it would run into the rows.
fn row_label(label: &str, area: &Area<'_>, y: i32, row: i32) -> Drawn {
    let size = if row >= 20 { 12 } else { 10 };
    let room = LEFT as i32 - 16;
    let mut shown = label.to_owned();
    while text_width(&shown, size) > room && shown.chars().count() > 2 {
        let keep = shown.chars().count() - 2;
        shown = shown.chars().take(keep).collect::<String>() + "…";
    }
    let x = (LEFT as i32 - 8 - text_width(&shown, size)).max(4);
    text(area, &shown, (x, y + (row - size as i32) / 2), size, INK)
}

fn axis(
    lanes: &Lanes,
    area: &Area<'_>,
    x_end: f64,
    bottom: i32,
    x_of: &impl Fn(f64) -> i32,
) -> Drawn {
    for value in ticks(x_end) {
        let x = x_of(value);
        area.draw(&PathElement::new([(x, TOP), (x, bottom)], FAINT)).map_err(draw_error)?;
        let label = tick(value, (0.0, x_end));
        text(area, &label, (x - text_width(&label, 12) / 2, bottom + 6), 12, INK)?;
    }
    let (left, right) = (x_of(0.0), x_of(x_end));
    area.draw(&PathElement::new([(left, bottom), (right, bottom)], INK)).map_err(draw_error)?;
    let middle = (left + right) / 2 - text_width(&lanes.x_label, 13) / 2;
    text(area, &lanes.x_label, (middle, bottom + 24), 13, INK)
}

/// Returns the values that have a tick, the end of the axis among them if it is round.
fn ticks(x_end: f64) -> impl Iterator<Item = f64> {
    let step = round_step(x_end);
    // Rounding must not leave out the last one: 0.7 / 0.1 is a little less than 7.
    let last = (x_end / step + 1e-6) as u32;
    (0..=last).map(move |index| step * f64::from(index))
}

/// Distance of ticks: 1, 2 or 5 times a power of ten, at least a tenth of the axis.
fn round_step(x_end: f64) -> f64 {
    let rough = x_end / 10.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= rough * 0.999_999);
    factor.unwrap_or(10.0) * power
}

/// Draws a strip from light to dark with the meaning of full dark beside it.
fn shade_legend(lanes: &Lanes, area: &Area<'_>) -> Drawn {
    if lanes.shade_label.is_empty() {
        return Ok(());
    }
    let x = WIDTH as i32 - RIGHT as i32 - text_width(&lanes.shade_label, 12);
    text(area, &lanes.shade_label, (x, 8), 12, INK)?;
    for step in 0..6 {
        let color = PALETTE[0].mix(opacity(f64::from(step) / 5.0));
        let from = x - 68 + step * 10;
        area.draw(&Rectangle::new([(from, 8), (from + 10, 20)], color.filled()))
            .map_err(draw_error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_on_round_numbers() {
        for (end, step) in [(3.7, 0.5), (10.0, 1.0), (120.0, 20.0), (0.3, 0.05)] {
            assert!((round_step(end) - step).abs() < 1e-9, "{end}: {}", round_step(end));
        }
        for (end, count) in [(0.3, 7), (0.6, 7), (0.7, 8), (0.65, 7), (10.0, 11)] {
            assert_eq!(ticks(end).count(), count, "{end}");
        }
    }

    fn span(from: f64, to: f64, shade: f64) -> Span {
        Span { from, to, shade }
    }

    #[test]
    fn wide_spans_cover_their_columns() {
        let spans = [span(0.0, 0.2, 1.0), span(0.4, 0.8, 0.0)];
        let opacities = opacities(&spans, 1.0, 10);
        assert_eq!(runs(&opacities), [(0..2, 1.0), (4..8, FAINTEST)]);
    }

    #[test]
    fn a_task_that_runs_in_half_of_each_narrow_quantum_leaves_no_gap() {
        // Quanta of 1.9 pixels, in whose first half the task runs.
        let spans: Vec<Span> =
            (0..100).map(|q| f64::from(q) * 1.9).map(|from| span(from, from + 0.95, 0.5)).collect();
        let opacities = opacities(&spans, 190.0, 190);
        assert!(opacities.iter().all(|opacity| *opacity >= FAINTEST), "{opacities:?}");
        let mean = opacities.iter().sum::<f64>() / 190.0;
        // Half of the time at 0.15 + 0.85 * 0.5, and a little for columns that it only touches.
        assert!((0.2875..0.33).contains(&mean), "{mean}");
    }

    #[test]
    fn a_blocked_task_has_no_color() {
        assert_eq!(runs(&opacities(&[], 1.0, 10)), []);
        assert_eq!(runs(&opacities(&[span(0.5, 0.5, 1.0)], 1.0, 10)), []);
    }
}
