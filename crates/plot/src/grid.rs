//! Drawing of a [`Grid`]: shaded cells in rows and columns.

use plotters::prelude::*;

use super::chart::RIGHT;
use super::lanes::opacity;
use super::{Area, Drawn, FAINT, Grid, INK, PALETTE, WIDTH, draw_error, text, text_width};

/// Height above the first row, for the title and the columns' labels.
const TOP: i32 = 56;
const BOTTOM: i32 = 12;
/// Largest side of a cell in pixels.
const LARGEST: i32 = 34;
const SMALLEST: i32 = 6;
/// Least width for the labels of rows.
const LABELS: i32 = 60;

/// Width in pixels for the labels of rows.
fn label_room(grid: &Grid) -> i32 {
    let widest = grid.rows.iter().map(|row| text_width(&row.label, 12)).max().unwrap_or(0);
    (widest + 32).max(LABELS)
}

/// Side of a cell in pixels: the largest that fits, within [`SMALLEST`] and [`LARGEST`].
fn side(grid: &Grid) -> i32 {
    let room = WIDTH as i32 - label_room(grid) - RIGHT as i32;
    (room / grid.columns.len().max(1) as i32).clamp(SMALLEST, LARGEST)
}

/// Height of the panel in pixels.
pub(super) fn height(grid: &Grid) -> u32 {
    (TOP + grid.rows.len() as i32 * side(grid) + BOTTOM) as u32
}

/// Draws labels, cells and the border.
pub(super) fn draw(grid: &Grid, area: &Area<'_>) -> Drawn {
    text(area, &grid.title, (20, 6), 15, INK)?;
    let (left, side) = (label_room(grid), side(grid));
    let size = if side >= 20 { 12 } else { 9 };
    for (number, label) in grid.columns.iter().enumerate() {
        let middle = left + number as i32 * side + side / 2;
        text(area, label, (middle - text_width(label, size) / 2, TOP - 18), size, INK)?;
    }
    for (number, row) in grid.rows.iter().enumerate() {
        let y = TOP + number as i32 * side;
        let x = left - 10 - text_width(&row.label, 12);
        text(area, &row.label, (x, y + (side - 12) / 2), 12, INK)?;
        for (column, shade) in row.cells.iter().enumerate() {
            let x = left + column as i32 * side;
            cell(area, (x, y), side, *shade)?;
        }
    }
    if let Some(border) = grid.border {
        let x = left + border as i32 * side;
        let bottom = TOP + grid.rows.len() as i32 * side + 4;
        let line = PathElement::new([(x, TOP - 20), (x, bottom)], PALETTE[5].stroke_width(2));
        area.draw(&line).map_err(draw_error)?;
    }
    Ok(())
}

fn cell(area: &Area<'_>, (x, y): (i32, i32), side: i32, shade: f64) -> Drawn {
    let corners = [(x + 1, y + 1), (x + side - 1, y + side - 1)];
    // Any nonzero shade must be visible beside an empty cell.
    let style = match shade {
        shade if shade > 0.0 => PALETTE[0].mix(opacity(shade.min(1.0))).filled(),
        _ => FAINT.mix(0.6).filled(),
    };
    area.draw(&Rectangle::new(corners, style)).map_err(draw_error)
}
