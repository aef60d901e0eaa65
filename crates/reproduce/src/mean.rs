//! The mean that figures show.

use std::borrow::Borrow;

use memweir_core::metrics;

/// Returns the mean; NaN of no values, which no statement of a paper agrees with.
pub(crate) fn mean<V: Borrow<f64>>(values: impl IntoIterator<Item = V>) -> f64 {
    let values: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    metrics::mean(&values).unwrap_or(f64::NAN)
}
