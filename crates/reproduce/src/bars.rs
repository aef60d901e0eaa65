//! Bars with their mean.

use memweir_plot::{BarSet, Bars};

use crate::statistics::mean;

/// Returns [`Bars::of`] with the mean of each set behind its values.
pub(crate) fn with_means(
    categories: impl IntoIterator<Item: Into<String>>,
    sets: impl IntoIterator<Item = (impl Into<String>, Vec<f64>)>,
) -> Bars {
    let mut bars = Bars::of(categories, sets);
    bars.categories.push("mean".to_owned());
    for BarSet { values, .. } in &mut bars.sets {
        values.push(mean(&*values));
    }
    bars
}
