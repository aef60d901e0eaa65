//! Bars in the colors of the palette.

use memweir_plot::{BarSet, Bars, PALETTE};

use crate::statistics::mean;

/// Returns bars of these categories; each set has a name and its values.
pub(crate) fn of(
    categories: impl IntoIterator<Item: Into<String>>,
    sets: impl IntoIterator<Item = (impl Into<String>, Vec<f64>)>,
) -> Bars {
    let sets = sets.into_iter().zip(PALETTE.into_iter().cycle());
    let sets = sets.map(|((name, values), color)| BarSet { name: name.into(), values, color });
    Bars {
        categories: categories.into_iter().map(Into::into).collect(),
        sets: sets.collect(),
        ..Bars::default()
    }
}

/// Returns the same with the mean of each set behind its values.
pub(crate) fn with_means(
    categories: impl IntoIterator<Item: Into<String>>,
    sets: impl IntoIterator<Item = (impl Into<String>, Vec<f64>)>,
) -> Bars {
    let mut bars = of(categories, sets);
    bars.categories.push("mean".to_owned());
    for BarSet { values, .. } in &mut bars.sets {
        values.push(mean(&*values));
    }
    bars
}
