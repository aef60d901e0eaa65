//! X7: for a super-linear slowdown, even bandwidth is optimal (iabw eq. (3)-(7)).

use proptest::prelude::*;

/// Slowdown at a bandwidth utilization of `x`: convex, with increasing slope (eq. (7)).
fn slowdown(coefficients: &[f64; 4], x: f64) -> f64 {
    let [linear, square, cube, exponential] = coefficients;
    linear * x + square * x * x + cube * x * x * x + exponential * (3.0 * x).exp()
}

proptest! {
    /// Eq. (5): moving the traffic M of a segment unevenly over its two phases costs more than
    /// T f(M/T), and the more so the more uneven it is.
    #[test]
    fn even_bandwidth_minimizes_the_total_slowdown_of_two_phases(
        coefficients in prop::array::uniform4(0.0..10.0f64),
        a in 0.1..10.0f64, b in 0.1..10.0f64, mean in 0.01..1.0f64, deviation in 0.0..1.0f64,
    ) {
        let total = |b_a: f64| {
            // Eq. (3) and (4) fix the second phase.
            let b_b = (mean * (a + b) - a * b_a) / b;
            a * slowdown(&coefficients, b_a) + b * slowdown(&coefficients, b_b)
        };
        let even = (a + b) * slowdown(&coefficients, mean);
        // As far as the second phase's bandwidth stays positive.
        let furthest = mean * (a + b) / a;
        for direction in [mean, mean - furthest] {
            let near = total(mean - direction * deviation / 2.0);
            let far = total(mean - direction * deviation);
            prop_assert!(even <= near * (1.0 + 1e-9));
            prop_assert!(near <= far * (1.0 + 1e-9));
        }
    }

    /// "This conclusion could still apply if we further divide each phase into finer phases."
    #[test]
    fn and_of_any_number_of_phases(
        coefficients in prop::array::uniform4(0.0..10.0f64),
        phases in prop::collection::vec((0.01..5.0f64, 0.0..1.0f64), 1..30),
    ) {
        let time: f64 = phases.iter().map(|(time, _)| time).sum();
        let traffic: f64 = phases.iter().map(|(time, bandwidth)| time * bandwidth).sum();
        let uneven: f64 =
            phases.iter().map(|(time, x)| time * slowdown(&coefficients, *x)).sum();
        let even = time * slowdown(&coefficients, traffic / time);
        prop_assert!(even <= uneven * (1.0 + 1e-9));
    }
}
