//! Lines in the colors of the palette.

use memweir_plot::{PALETTE, Series, Style};

/// Returns a line for each of these curves, which have a name and their points.
pub(crate) fn of(
    curves: impl IntoIterator<Item = (impl Into<String>, Vec<(f64, f64)>)>,
) -> Vec<Series> {
    let curves = curves.into_iter().zip(PALETTE.into_iter().cycle());
    curves
        .map(|((name, points), color)| Series {
            name: name.into(),
            points,
            style: Style::Line,
            color,
        })
        .collect()
}
