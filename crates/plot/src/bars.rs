//! Drawing of [`Bars`]: grouped or stacked values of categories.

use plotters::prelude::*;

use super::chart::{Axis, Entry, LEFT, Mark, RIGHT, axes, draw_levels, heading};
use super::{Area, Arrangement, Bars, Drawn, INK, draw_error, text, text_width};

/// Share of a category's width that its bars fill.
const FILLED: f64 = 0.78;

/// Draws `bars` with title, legend, axes, names and values.
pub(super) fn draw(bars: &Bars, area: &Area<'_>) -> Drawn {
    let sets =
        bars.sets.iter().map(|set| Entry { name: &set.name, color: set.color, mark: Mark::Box });
    let entries: Vec<_> = sets.chain(bars.levels.iter().map(Entry::level)).collect();
    let heading = heading(&bars.title, &entries, area)?;
    let count = bars.categories.len().max(1) as f64;
    let x = Axis { label: &bars.x_label, ends: (0.0, count), ticks: 0 };
    let y = Axis { label: &bars.y_label, ends: extent(bars), ticks: 7 };
    let mut context = axes(heading, &x, &y, area)?;
    for (set, rectangles) in bars.sets.iter().zip(rectangles(bars)) {
        let boxes =
            rectangles.into_iter().map(|corners| Rectangle::new(corners, set.color.filled()));
        context.draw_series(boxes).map_err(draw_error)?;
    }
    let axis = PathElement::new([(0.0, 0.0), (count, 0.0)], INK.stroke_width(1));
    context.draw_series([axis]).map_err(draw_error)?;
    draw_levels(&bars.levels, x.ends, &mut context)?;
    names(bars, area)
}

/// Returns the rectangles of the bars, per set; values that are not finite have none.
fn rectangles(bars: &Bars) -> Vec<Vec<[(f64, f64); 2]>> {
    let lanes = match bars.arrangement {
        Arrangement::Grouped => bars.sets.len().max(1) as f64,
        Arrangement::Stacked => 1.0,
    };
    let width = FILLED / lanes;
    let mut bases = vec![0.0; bars.categories.len()];
    let mut all = Vec::new();
    for (number, set) in bars.sets.iter().enumerate() {
        let offset = match bars.arrangement {
            Arrangement::Grouped => number as f64 * width,
            Arrangement::Stacked => 0.0,
        };
        let mut rectangles = Vec::new();
        for ((category, base), value) in bases.iter_mut().enumerate().zip(&set.values) {
            if value.is_finite() {
                let left = category as f64 + (1.0 - FILLED) / 2.0 + offset;
                rectangles.push([(left, *base), (left + width, *base + value)]);
                if bars.arrangement == Arrangement::Stacked {
                    *base += value;
                }
            }
        }
        all.push(rectangles);
    }
    all
}

/// Returns the ends of the vertical axis: zero, all bars and levels, and a margin of 6 %.
fn extent(bars: &Bars) -> (f64, f64) {
    let tops = rectangles(bars).into_iter().flatten().map(|[_, (_, top)]| top);
    let values: Vec<f64> = tops.chain(bars.levels.iter().map(|level| level.value)).collect();
    let low = values.iter().copied().fold(0.0, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let air = (high - low) * 0.06;
    match (low < 0.0, high > 0.0) {
        (true, true) => (low - air, high + air),
        (true, false) => (low - air, 0.0),
        (false, true) => (0.0, high + air),
        (false, false) => (0.0, 1.0),
    }
}

/// Draws the names of the categories below the axis: smaller if there are many; in two alternating
/// rows if they still do not fit; and with some left out if two rows do not suffice.
fn names(bars: &Bars, area: &Area<'_>) -> Drawn {
    let (width, height) = area.dim_in_pixel();
    let room = f64::from(width - LEFT - RIGHT) / bars.categories.len().max(1) as f64;
    let longest = |size| {
        bars.categories.iter().map(|name| text_width(name, size)).max().unwrap_or(0) as f64 + 4.0
    };
    let size = [12, 11, 10, 9].into_iter().find(|size| longest(*size) <= room).unwrap_or(9);
    let crowded = longest(size) > room;
    let step = (longest(size) / room / 2.0).ceil().max(1.0) as usize;
    for (shown, (index, name)) in bars.categories.iter().enumerate().step_by(step).enumerate() {
        let middle = f64::from(LEFT) + room * (index as f64 + 0.5);
        let left = middle as i32 - text_width(name, size) / 2;
        let row = if crowded { shown as i32 % 2 * (size as i32 + 2) } else { 0 };
        text(area, name, (left, height as i32 - 46 + 6 + row), size, INK)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(arrangement: Arrangement, values: [[f64; 2]; 2]) -> Bars {
        let sets = ["one", "two"].into_iter().zip(values.map(Vec::from));
        Bars { arrangement, ..Bars::of(["a", "b"], sets) }
    }

    #[test]
    fn groups_stand_beside_each_other_on_zero() {
        let all = rectangles(&bars(Arrangement::Grouped, [[1.0, -2.0], [3.0, f64::NAN]]));
        let [[first, second], [third]] = [&all[0][..], &all[1][..]] else { panic!("{all:?}") };
        assert_eq!([first[0].1, second[0].1, third[0].1], [0.0; 3]);
        assert_eq!([first[1].1, second[1].1, third[1].1], [1.0, -2.0, 3.0]);
        assert!(
            (third[0].0 - first[1].0).abs() < 1e-9,
            "the second set begins where the first ends"
        );
    }

    #[test]
    fn stacks_begin_where_the_one_before_ends() {
        let all = rectangles(&bars(Arrangement::Stacked, [[0.25, 0.5], [0.75, 0.5]]));
        assert_eq!(all[1][0], [(all[0][0][0].0, 0.25), (all[0][0][1].0, 1.0)]);
        assert_eq!(all[1][1][1].1, 1.0);
    }

    #[test]
    fn the_axis_holds_every_bar_and_zero() {
        let (low, high) = extent(&bars(Arrangement::Grouped, [[1.0, -2.0], [3.0, 0.0]]));
        assert!(low < -2.0 && high > 3.0);
        assert_eq!(extent(&bars(Arrangement::Grouped, [[-1.0, -2.0]; 2])).1, 0.0);
        assert_eq!(extent(&Bars::default()), (0.0, 1.0));
    }
}
