//! The last step to the stretch of one saturated resource, by a polynomial, for up to four groups.
//!
//! Multiplied by all its denominators, the capacity less the busy share is
//!
//! ```text
//! p(d) = product of (1 + s_i d) - sum over i of r_i * product over the others of (1 + s_j d)
//! ```
//!
//! with the rates `r_i`, the shares of waiting `s_i` and the delay `d`. Its coefficients do not
//! depend on the guess of the root, and all its derivatives follow from them without a division: so
//! a step of the fourth order takes less time than evaluating the busy share at another delay.

/// Number of groups. If there are fewer, the others have no rate and no share of waiting.
pub(super) const GROUPS: usize = 4;

/// Largest last step, as a share of the stretch: the error that remains is of the order of the
/// step's fourth power, some 1e-10.
const SMALL: f64 = 3e-3;

/// Coefficients in ascending order of the power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quartic([f64; GROUPS + 1]);

impl Quartic {
    /// Computes the coefficients for these groups.
    #[inline(always)]
    pub(super) fn new(rates: &[f64; GROUPS], shares: &[f64; GROUPS]) -> Self {
        // Two groups at a time: q = 1 + q1 d + q2 d^2 is the product of their denominators, and
        // n = n0 + n1 d the sum of their rates, each times the other's denominator.
        let pair = |one: usize, other: usize| {
            let (q1, q2) = (shares[one] + shares[other], shares[one] * shares[other]);
            let (n0, n1) = (
                rates[one] + rates[other],
                rates[one] * shares[other] + rates[other] * shares[one],
            );
            (q1, q2, n0, n1)
        };
        let ((q1, q2, n0, n1), (t1, t2, m0, m1)) = (pair(0, 1), pair(2, 3));
        // p = (q - n) t - m q, with t and m of the second pair.
        let (l0, l1) = (1.0 - n0, q1 - n1);
        Self([
            l0 - m0,
            (l0 * t1 - m0 * q1) + (l1 - m1),
            (l0 * t2 + l1 * t1) + (q2 - m0 * q2) - m1 * q1,
            l1 * t2 + (t1 - m1) * q2,
            q2 * t2,
        ])
    }

    /// Returns the root if the guess is near enough for one step.
    #[inline(always)]
    pub(super) fn root_near(&self, guess: f64) -> Option<f64> {
        let step = self.step(guess);
        let root = guess + step;
        (root >= 0.0 && step.abs() <= SMALL * (1.0 + root)).then_some(root)
    }

    /// Returns the distance from a delay to the root, by Householder's method with three
    /// derivatives.
    #[inline(always)]
    fn step(&self, d: f64) -> f64 {
        let [c0, c1, c2, c3, c4] = self.0;
        let d2 = d * d;
        // The value, and the derivatives over the factorials of their orders.
        let value = (c0 + c1 * d) + d2 * ((c2 + c3 * d) + c4 * d2);
        let slope = (c1 + 2.0 * c2 * d) + d2 * (3.0 * c3 + 4.0 * c4 * d);
        let bend = (c2 + 3.0 * c3 * d) + 6.0 * c4 * d2;
        let turn = c3 + 4.0 * c4 * d;
        let (square, product) = (slope * slope, value * bend);
        -value * (square - product) / (slope * (square - 2.0 * product) + value * value * turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four groups always wait and ask for half of the capacity each: (1 + d)^4 - 2 (1 + d)^3,
    /// which is zero at 1.
    #[test]
    fn coefficients_by_hand() {
        let alike = Quartic::new(&[0.5; 4], &[1.0; 4]);
        assert_eq!(alike, Quartic([-1.0, -2.0, 0.0, 2.0, 1.0]));
        let root = alike.root_near(1.004).expect("near");
        assert!((root - 1.0).abs() < 1e-9, "{root}");
        // One group asks for twice the capacity and waits half of its time, the others do nothing:
        // 1 + d / 2 - 2, which is zero at 2.
        let one = Quartic::new(&[0.0, 2.0, 0.0, 0.0], &[0.0, 0.5, 0.0, 0.0]);
        assert_eq!(one, Quartic([-1.0, 0.5, 0.0, 0.0, 0.0]));
        assert_eq!(one.root_near(2.004), Some(2.0));
    }

    #[test]
    fn a_guess_that_is_too_far_is_refused() {
        let alike = Quartic::new(&[0.5; 4], &[1.0; 4]);
        assert_eq!(alike.root_near(1.2), None);
        assert_eq!(alike.root_near(0.0), None);
        // Without any demand there is no root.
        assert_eq!(Quartic::new(&[0.0; 4], &[0.0; 4]).root_near(1.0), None);
    }
}
