//! The scheduling bandwidth target as a function of the ideal average bandwidth: iabw section 5.2.

use memweir_core::{BytesPerSec, Parabola};
use serde::{Deserialize, Serialize};

/// A polynomial of degree two from a machine's calibration, as in iabw eq. (11):
///
/// ```text
/// target = quadratic x IABW^2 + linear x IABW + constant        (both in GB/s, 10^9 bytes/s)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetCurve {
    /// Coefficient of the square, in 1/(GB/s).
    pub quadratic: f64,
    /// Coefficient of the ideal average bandwidth, without unit.
    pub linear: f64,
    /// Constant, in GB/s.
    pub constant: f64,
    /// Lowest ideal average bandwidth that was calibrated, in bytes per second.
    pub iabw_min: BytesPerSec,
    /// Highest ideal average bandwidth that was calibrated, in bytes per second.
    pub iabw_max: BytesPerSec,
    /// Coefficient of determination of the fit, at most 1; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
}

/// Error for points that determine no curve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// A polynomial of degree two needs three abscissae.
    #[error("a target curve needs points at three different bandwidths or more, got {distinct}")]
    TooFewPoints {
        /// Different ideal average bandwidths among the points.
        distinct: usize,
    },
    /// A point is no valid measurement.
    #[error("point {index} is not finite or is negative")]
    Invalid {
        /// Index of the point, from zero.
        index: usize,
    },
}

impl TargetCurve {
    /// Returns the curve of the paper's machine (eight Itanium 2 cores on one bus), iabw eq. (11):
    ///
    /// ```text
    /// -0.0118 x IABW^2 + 1.4571 x IABW - 6.2403       (both in transactions per microsecond)
    /// ```
    ///
    /// Its transactions are 128 bytes long, so that one per microsecond is 0.128 GB/s. The range is
    /// that of the training workloads of its Table 1, 23.2 to 62.9 transactions per microsecond.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            quadratic: -0.0118 / PAPER_TRANSACTION_GB,
            linear: 1.4571,
            constant: -6.2403 * PAPER_TRANSACTION_GB,
            iabw_min: BytesPerSec::from_gb(23.2 * PAPER_TRANSACTION_GB),
            iabw_max: BytesPerSec::from_gb(62.9 * PAPER_TRANSACTION_GB),
            r_squared: None,
        }
    }

    /// Fits the curve to `(ideal average bandwidth, best target)` pairs by least squares.
    ///
    /// # Errors
    /// If a figure is negative or not finite, or fewer than three abscissae differ.
    pub fn fit(points: &[(BytesPerSec, BytesPerSec)]) -> Result<Self, FitError> {
        let valid = |rate: BytesPerSec| rate.0.is_finite() && rate.0 >= 0.0;
        if let Some(index) = points.iter().position(|(x, y)| !valid(*x) || !valid(*y)) {
            return Err(FitError::Invalid { index });
        }
        let mut abscissae: Vec<f64> = points.iter().map(|(x, _)| x.0).collect();
        abscissae.sort_by(f64::total_cmp);
        abscissae.dedup();
        let [iabw_min, .., iabw_max] = abscissae[..] else {
            return Err(FitError::TooFewPoints { distinct: abscissae.len() });
        };
        let (iabw_min, iabw_max) = (BytesPerSec(iabw_min), BytesPerSec(iabw_max));
        let in_gb: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.as_gb(), y.as_gb())).collect();
        let fitted =
            Parabola::fit(&in_gb).ok_or(FitError::TooFewPoints { distinct: abscissae.len() })?;
        Ok(Self {
            quadratic: fitted.quadratic,
            linear: fitted.linear,
            constant: fitted.constant,
            iabw_min,
            iabw_max,
            r_squared: Some(fitted.r_squared),
        })
    }

    /// Returns the scheduling bandwidth target for a workload: the curve, at most `peak`, never
    /// negative.
    ///
    /// The curve is not extrapolated. Above the calibrated range its last value holds. Below the
    /// range, the target falls in proportion to the ideal average bandwidth from its value at the
    /// lower end: a constant would aim above the workload's requirements.
    #[must_use]
    pub fn apply(&self, iabw: BytesPerSec, peak: Option<BytesPerSec>) -> BytesPerSec {
        let inside = iabw.max(self.iabw_min).min(self.iabw_max);
        let mut target = self.polynomial(inside);
        if iabw.0 < self.iabw_min.0 {
            target = target * (iabw.0 / self.iabw_min.0);
        }
        let target = target.max(BytesPerSec::ZERO);
        peak.map_or(target, |peak| target.min(peak))
    }

    /// Evaluates the polynomial, without regard to the calibrated range.
    fn polynomial(&self, iabw: BytesPerSec) -> BytesPerSec {
        let x = iabw.as_gb();
        BytesPerSec::from_gb((self.quadratic * x + self.linear) * x + self.constant)
    }
}

/// One 128-byte transaction of the paper's machine per microsecond, in GB/s.
const PAPER_TRANSACTION_GB: f64 = 0.128;

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::units::Bytes;
    use proptest::prelude::*;

    fn gb(value: f64) -> BytesPerSec {
        BytesPerSec::from_gb(value)
    }

    /// A rate of the paper: 128-byte transactions per microsecond.
    fn paper_rate(transactions: f64) -> BytesPerSec {
        Bytes(128).over(memweir_core::Nanos(1000)) * transactions
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1.0)
    }

    #[test]
    fn the_papers_curve_gives_the_papers_targets() {
        let curve = TargetCurve::paper();
        // -0.0118 x 33.3^2 + 1.4571 x 33.3 - 6.2403 = 29.196..., its workload #06 (tuned by hand
        // to 28).
        let target = curve.apply(paper_rate(33.3), None);
        assert!((target.0 / paper_rate(29.19616).0 - 1.0).abs() < 1e-5, "{target}");
        // At 25.0, workload #12: -7.375 + 36.4275 - 6.2403 = 22.8122.
        let target = curve.apply(paper_rate(25.0), None);
        assert!((target.0 / paper_rate(22.8122).0 - 1.0).abs() < 1e-5, "{target}");
        // Above its range as at 62.9: -46.6856... + 91.6516... - 6.2403.
        let target = curve.apply(paper_rate(70.0), None);
        assert!((target.0 / paper_rate(38.72565).0 - 1.0).abs() < 1e-5, "{target}");
    }

    #[test]
    fn the_peak_and_the_calibrated_range_bound_the_target() {
        let curve = TargetCurve {
            quadratic: 0.0,
            linear: 1.0,
            constant: -2.0,
            iabw_min: gb(10.0),
            iabw_max: gb(20.0),
            r_squared: None,
        };
        assert_eq!(curve.apply(gb(15.0), None), gb(13.0));
        assert_eq!(curve.apply(gb(15.0), Some(gb(12.0))), gb(12.0));
        assert_eq!(curve.apply(gb(90.0), None), gb(18.0));
        // Below the range, in the proportion of its lower end: 8 of 10.
        assert_eq!(curve.apply(gb(5.0), None), gb(4.0));
        assert_eq!(curve.apply(gb(0.0), None), gb(0.0));
    }

    #[test]
    fn the_range_of_a_fit_is_that_of_its_points_in_any_order() {
        let points = [20.0, 5.0, 10.0].map(|x| (gb(x), gb(x)));
        let curve = TargetCurve::fit(&points).unwrap();
        assert_eq!((curve.iabw_min, curve.iabw_max), (gb(5.0), gb(20.0)));
    }

    #[test]
    fn a_curve_below_zero_aims_at_nothing() {
        let curve = TargetCurve { constant: -1e3, ..TargetCurve::paper() };
        assert_eq!(curve.apply(gb(5.0), Some(gb(6.0))), BytesPerSec::ZERO);
    }

    #[test]
    fn platform_files_can_hold_a_curve() {
        let fitted = TargetCurve { r_squared: Some(0.97), ..TargetCurve::paper() };
        for curve in [TargetCurve::paper(), fitted] {
            let text = toml::to_string(&curve).unwrap();
            assert_eq!(toml::from_str::<TargetCurve>(&text).unwrap(), curve, "{text}");
        }
        let misspelt = toml::from_str::<TargetCurve>("quadratc = 1.0").unwrap_err();
        assert!(misspelt.message().contains("unknown field `quadratc`"), "{misspelt}");
    }

    #[test]
    fn fits_a_hand_computed_parabola() {
        // Through (0,1), (1,2), (2,5), (3,10): y = x^2 + 1 exactly.
        let points = [(0.0, 1.0), (1.0, 2.0), (2.0, 5.0), (3.0, 10.0)];
        let curve = TargetCurve::fit(&points.map(|(x, y)| (gb(x), gb(y)))).unwrap();
        assert!(close(curve.quadratic, 1.0) && close(curve.linear, 0.0), "{curve:?}");
        assert!(close(curve.constant, 1.0) && close(curve.r_squared.unwrap(), 1.0), "{curve:?}");
        assert_eq!((curve.iabw_min, curve.iabw_max), (gb(0.0), gb(3.0)));
    }

    #[test]
    fn r_squared_is_the_share_explained() {
        // Two points at each of three places: the parabola goes through their means 2, 1 and 4, so
        // that each of the six residuals is 1. Around their mean 7/3 the ordinates' squares sum to
        // 48 - 6 (7/3)^2 = 46/3.
        let points = [(1.0, 1.0), (1.0, 3.0), (2.0, 0.0), (2.0, 2.0), (3.0, 3.0), (3.0, 5.0)];
        let curve = TargetCurve::fit(&points.map(|(x, y)| (gb(x), gb(y)))).unwrap();
        let expected = 1.0 - 6.0 / (46.0 / 3.0);
        assert!(close(curve.r_squared.unwrap(), expected), "{curve:?}");
    }

    #[test]
    fn refuses_what_determines_no_parabola() {
        let two = [(gb(1.0), gb(1.0)), (gb(2.0), gb(2.0)), (gb(2.0), gb(3.0))];
        assert_eq!(TargetCurve::fit(&two), Err(FitError::TooFewPoints { distinct: 2 }));
        assert_eq!(TargetCurve::fit(&[]), Err(FitError::TooFewPoints { distinct: 0 }));
        for invalid in [f64::NAN, f64::INFINITY, -1.0] {
            let points = [(gb(1.0), gb(1.0)), (gb(invalid), gb(2.0))];
            assert_eq!(TargetCurve::fit(&points), Err(FitError::Invalid { index: 1 }));
        }
    }

    proptest! {
        #[test]
        fn recovers_any_parabola_from_its_points(
            quadratic in -2.0..2.0f64, linear in -3.0..3.0f64, start in 0.1..50.0f64,
            step in 0.1..20.0f64, count in 3usize..40,
        ) {
            // A constant that keeps every ordinate positive.
            let last = start + step * count as f64;
            let constant = 2.0 * last * last + 3.0 * last;
            let value = |x: f64| (quadratic * x + linear) * x + constant;
            let points: Vec<_> = (0..count)
                .map(|i| start + step * i as f64)
                .map(|x| (gb(x), gb(value(x))))
                .collect();
            let curve = TargetCurve::fit(&points).unwrap();
            for (x, y) in points {
                let fitted = curve.polynomial(x);
                prop_assert!((fitted.0 / y.0 - 1.0).abs() < 1e-7, "{fitted} is not {y}");
            }
        }

        #[test]
        fn the_target_is_always_between_zero_and_the_peak(
            iabw in 0.0..200.0f64, peak in 0.1..100.0f64, quadratic in -1.0..1.0f64,
            linear in -2.0..2.0f64, constant in -50.0..50.0f64,
        ) {
            let curve = TargetCurve { quadratic, linear, constant, ..TargetCurve::paper() };
            let target = curve.apply(gb(iabw), Some(gb(peak)));
            prop_assert!(target.0 >= 0.0 && target.0 <= gb(peak).0);
        }
    }
}
