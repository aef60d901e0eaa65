//! The statistics that figures show. Those of no values are NaN, which no statement of a paper
//! agrees with.

use std::borrow::Borrow;

use memweir_core::metrics;

/// Returns the mean.
pub(crate) fn mean<V: Borrow<f64>>(values: impl IntoIterator<Item = V>) -> f64 {
    let values: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    metrics::mean(&values).unwrap_or(f64::NAN)
}

/// Returns the highest value.
pub(crate) fn highest<V: Borrow<f64>>(values: impl IntoIterator<Item = V>) -> f64 {
    values.into_iter().fold(f64::NAN, |highest, value| highest.max(*value.borrow()))
}

/// Returns the lowest value.
pub(crate) fn lowest<V: Borrow<f64>>(values: impl IntoIterator<Item = V>) -> f64 {
    values.into_iter().fold(f64::NAN, |lowest, value| lowest.min(*value.borrow()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_by_hand() {
        let values = [3.0, -1.0, 4.0];
        assert_eq!((lowest(values), mean(values), highest(values)), (-1.0, 2.0, 4.0));
        assert!(lowest([0.0; 0]).is_nan() && highest([0.0; 0]).is_nan());
    }
}
