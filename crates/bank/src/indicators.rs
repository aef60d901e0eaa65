//! Indicators of the gain from bank partitioning (bpm section 5.3, B9).

use memweir_core::BytesPerSec;
use serde::Serialize;

/// The four indicators of bpm Fig. 7, from programs that ran alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Indicators {
    /// Average(RBL): mean of the programs' row-buffer localities, weighted by their bandwidths; 0
    /// to 1.
    pub average_rbl: f64,
    /// Sum(BW): sum of their bandwidths, in bytes per second.
    pub sum_bandwidth: f64,
    /// Stdev(RBL): standard deviation of the localities, weighted by the bandwidths.
    pub stdev_rbl: f64,
    /// Sum(BW) * Stdev(RBL).
    pub product: f64,
}

impl Indicators {
    /// Computes the indicators of programs from their bandwidths and row-buffer localities.
    /// Programs without traffic have no weight; if none has traffic, all indicators are zero.
    #[must_use]
    pub fn of(programs: &[(BytesPerSec, f64)]) -> Self {
        let sum: f64 = programs.iter().map(|(bandwidth, _)| bandwidth.0).sum();
        if sum <= 0.0 {
            return Self::default();
        }
        let mean = |value: &dyn Fn(f64) -> f64| -> f64 {
            programs.iter().map(|(bandwidth, rbl)| bandwidth.0 * value(*rbl)).sum::<f64>() / sum
        };
        let average_rbl = mean(&|rbl| rbl);
        let stdev_rbl = mean(&|rbl| (rbl - average_rbl).powi(2)).sqrt();
        Self { average_rbl, sum_bandwidth: sum, stdev_rbl, product: sum * stdev_rbl }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_the_weight() {
        // Weights 3 and 1: mean 0.75, squares 0.25^2 * 3/4 + 0.75^2 * 1/4 = 0.1875.
        let indicators = Indicators::of(&[(BytesPerSec(3.0), 1.0), (BytesPerSec(1.0), 0.0)]);
        assert_eq!((indicators.average_rbl, indicators.sum_bandwidth), (0.75, 4.0));
        assert!((indicators.stdev_rbl - 0.1875f64.sqrt()).abs() < 1e-12);
        assert!((indicators.product - 4.0 * 0.1875f64.sqrt()).abs() < 1e-12);
        assert_eq!(Indicators::of(&[(BytesPerSec(0.0), 0.7)]), Indicators::default());
    }
}
