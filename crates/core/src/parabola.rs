//! A polynomial of degree two through measured points: the regression of iabw Fig. 6 and 8.

/// `quadratic x^2 + linear x + constant`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parabola {
    /// Coefficient of the square.
    pub quadratic: f64,
    /// Coefficient of the abscissa.
    pub linear: f64,
    /// The constant.
    pub constant: f64,
    /// Share of the ordinates' variance that the curve explains, at most 1.
    pub r_squared: f64,
}

impl Parabola {
    /// Fits the parabola with the least squared error. `None` if fewer than three abscissae differ,
    /// or a point is not finite.
    ///
    /// ```
    /// use memweir_core::Parabola;
    ///
    /// let squares = Parabola::fit(&[(0.0, 1.0), (1.0, 2.0), (2.0, 5.0), (3.0, 10.0)]).unwrap();
    /// assert!((squares.at(4.0) - 17.0).abs() < 1e-9);
    /// ```
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if !points.iter().all(|(x, y)| x.is_finite() && y.is_finite()) {
            return None;
        }
        let low = points.iter().map(|(x, _)| *x).reduce(f64::min)?;
        let high = points.iter().map(|(x, _)| *x).reduce(f64::max)?;
        if low >= high {
            return None;
        }
        // Powers of raw rates span forty orders of magnitude; on [-1, 1] the equations are
        // well-conditioned.
        let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0);
        let scaled: Vec<(f64, f64)> =
            points.iter().map(|(x, y)| ((x - middle) / half, *y)).collect();
        let [c0, c1, c2] = least_squares(&scaled)?;
        // c2 ((x - m)/h)^2 + c1 (x - m)/h + c0, multiplied out.
        let quadratic = c2 / (half * half);
        Some(Self {
            quadratic,
            linear: c1 / half - 2.0 * quadratic * middle,
            constant: c0 - c1 * middle / half + quadratic * middle * middle,
            r_squared: r_squared(&scaled, |x| (c2 * x + c1) * x + c0),
        })
    }

    /// Returns the value at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        (self.quadratic * x + self.linear) * x + self.constant
    }

    /// Returns the slope at `x`.
    #[must_use]
    pub fn slope_at(&self, x: f64) -> f64 {
        2.0 * self.quadratic * x + self.linear
    }
}

/// Returns the coefficients (constant first) of the parabola with the least squared error: the
/// normal equations, solved by Gaussian elimination with pivoting. `None` if they are singular.
fn least_squares(points: &[(f64, f64)]) -> Option<[f64; 3]> {
    let mut rows = [[0.0; 4]; 3];
    for (x, y) in points {
        let powers = [1.0, *x, x * x];
        for (row, power) in rows.iter_mut().zip(powers) {
            for (cell, other) in row.iter_mut().zip([1.0, *x, x * x, *y]) {
                *cell += power * other;
            }
        }
    }
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let top = rows[column];
        if top[column].abs() < 1e-12 * points.len() as f64 {
            return None;
        }
        for (index, row) in rows.iter_mut().enumerate() {
            if index != column {
                let factor = row[column] / top[column];
                for (cell, above) in row.iter_mut().zip(top) {
                    *cell -= factor * above;
                }
            }
        }
    }
    Some([rows[0][3] / rows[0][0], rows[1][3] / rows[1][1], rows[2][3] / rows[2][2]])
}

/// Returns the share of the variance of the ordinates that the curve explains.
fn r_squared(points: &[(f64, f64)], curve: impl Fn(f64) -> f64) -> f64 {
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
    let residual: f64 = points.iter().map(|(x, y)| (y - curve(*x)).powi(2)).sum();
    // Equal ordinates have no variance; a constant explains them fully.
    if total == 0.0 { 1.0 } else { 1.0 - residual / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_and_slope_by_hand() {
        // 2 x^2 - 3 x + 1.
        let points = [(0.0, 1.0), (1.0, 0.0), (2.0, 3.0), (5.0, 36.0)];
        let fitted = Parabola::fit(&points).unwrap();
        assert!((fitted.at(3.0) - 10.0).abs() < 1e-9 && (fitted.slope_at(3.0) - 9.0).abs() < 1e-9);
        assert!((fitted.r_squared - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_the_curve_does_not_explain_is_the_residual() {
        // The best line through 0 2 0 2 has a slope of 0.4, and no parabola is better: residuals
        // -0.4 1.2 -1.2 0.4, squares 3.2 of 4.
        let points = [(0.0, 0.0), (1.0, 2.0), (2.0, 0.0), (3.0, 2.0)];
        let fitted = Parabola::fit(&points).unwrap();
        let found = [fitted.quadratic, fitted.linear, fitted.constant, fitted.r_squared];
        for (found, expected) in found.into_iter().zip([0.0, 0.4, 0.4, 0.2]) {
            assert!((found - expected).abs() < 1e-12, "{fitted:?}");
        }
        let flat = Parabola::fit(&[(0.0, 3.0), (1.0, 3.0), (2.0, 3.0)]).unwrap();
        assert_eq!(flat.r_squared, 1.0);
    }

    #[test]
    fn raw_rates_are_fitted_as_well() {
        let points = [0.0, 1.0, 2.0, 3.0].map(|x: f64| (1e11 + 1e8 * x, x * x));
        let fitted = Parabola::fit(&points).unwrap();
        assert!((fitted.at(1e11 + 2.5e8) - 6.25).abs() < 1e-6, "{fitted:?}");
    }

    #[test]
    fn what_determines_no_parabola_is_refused() {
        assert_eq!(Parabola::fit(&[(2.0, 1.0), (2.0, 2.0), (2.0, 3.0)]), None);
        assert_eq!(Parabola::fit(&[]), None);
        assert_eq!(Parabola::fit(&[(1.0, 1.0), (2.0, 2.0), (2.0, 3.0)]), None);
        assert_eq!(Parabola::fit(&[(1.0, 1.0), (2.0, 2.0), (f64::NAN, 3.0)]), None);
    }
}
