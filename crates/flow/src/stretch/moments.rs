//! Derivatives of a resource's busy share, and the steps to its capacity that follow from them.

/// Columns in which sums are formed side by side, for processors with vector units.
const WIDTH: usize = 4;

/// The busy share of a resource whose stretch moves by `d`, as a series:
///
/// ```text
/// busy(d) = sum over groups of w / (1 + z d) = m_0 - m_1 d + m_2 d^2 - m_3 d^3 + ...
/// m_k = sum over groups of w z^k,  w = rate * speed,  z = share * speed
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    busy: f64,
    fall: f64,
    bend: f64,
    turn: f64,
}

impl Moments {
    /// Computes the moments of `groups` groups; `group` returns the busy share, the share of
    /// waiting and the speed of each.
    #[inline(always)]
    pub(super) fn new(groups: usize, group: impl Fn(usize) -> (f64, f64, f64)) -> Self {
        // Negative zero is the identity of addition, so the compiler can drop the first one.
        let mut sums = [[-0.0; WIDTH]; 4];
        for first in (0..groups).step_by(WIDTH) {
            let columns: [_; WIDTH] = std::array::from_fn(|column| match first + column < groups {
                true => group(first + column),
                false => (0.0, 0.0, 0.0),
            });
            let slowing = columns.map(|(_, share, speed)| share * speed);
            let mut moments = columns.map(|(rate, _, speed)| rate * speed);
            for sum in &mut sums {
                *sum = each(*sum, moments, |sum, moment| sum + moment);
                moments = each(moments, slowing, |moment, slowing| moment * slowing);
            }
        }
        let [busy, fall, bend, turn] = sums.map(total);
        Self { busy, fall, bend, turn }
    }

    pub(super) fn busy(&self) -> f64 {
        self.busy
    }

    /// Returns the slope at which the busy share falls.
    pub(super) fn fall(&self) -> f64 {
        self.fall
    }

    /// Returns the change of the stretch that leads to a busy share of 1, from any distance. It
    /// replaces the groups by two that share all four moments with the real ones (Gaussian
    /// quadrature with two points). With one or two groups, or two kinds of them, it is exact;
    /// otherwise the error is of the order of the fourth power of the step, with a small factor. It
    /// never divides by a value that may vanish: everything is multiplied by the determinant.
    #[inline(always)]
    pub(super) fn leap_to_capacity(&self) -> f64 {
        let Self { busy, fall, bend, turn } = *self;
        let over = busy - 1.0;
        let determinant = busy * bend - fall * fall;
        if determinant <= ALIKE * busy * bend {
            return over * busy / fall;
        }
        // busy(d) = (busy + (a busy - fall) d) / (1 + a d + c d^2), a and c over the determinant.
        let (a, c) = (busy * turn - fall * bend, fall * turn - bend * bend);
        let (linear, constant) = (determinant * fall - a * over, determinant * over);
        let root = (linear * linear + 4.0 * c * constant).max(0.0).sqrt();
        // The root that vanishes with the excess over the capacity, without cancellation.
        let (above, below) = match linear >= 0.0 {
            true => (2.0 * constant, linear + root),
            false => (root - linear, 2.0 * c),
        };
        above / below
    }

    /// Returns the change of the stretch if the capacity is near: Halley's step, which is the same
    /// for the busy share and for its inverse. The inverse is nearly straight (exactly, if all
    /// groups respond alike), so one step nearly reaches the root.
    #[inline(always)]
    pub(super) fn step_to_capacity(&self) -> f64 {
        let (over, fall) = (self.busy - 1.0, self.fall);
        let curved = fall * fall - over * self.bend;
        if curved > 0.25 * fall * fall {
            over * fall / curved
        } else {
            // Far away, this takes Newton's step on the inverse.
            (over + 1.0) * over / fall
        }
    }
}

/// Groups respond alike if the determinant of their moments is less than this share of its parts: a
/// smaller one is mostly rounding, and Newton's step on the inverse of the busy share is as exact.
const ALIKE: f64 = 1e-9;

#[inline(always)]
fn each(one: [f64; WIDTH], other: [f64; WIDTH], join: impl Fn(f64, f64) -> f64) -> [f64; WIDTH] {
    std::array::from_fn(|column| join(one[column], other[column]))
}

#[inline(always)]
fn total(columns: [f64; WIDTH]) -> f64 {
    (columns[0] + columns[2]) + (columns[1] + columns[3])
}

/// Returns the busy share that all groups cause without contention, given that of each.
#[inline(always)]
pub(crate) fn asked(rates: &[f64]) -> f64 {
    let (whole, last) = rates.as_chunks::<WIDTH>();
    let mut sums = [-0.0; WIDTH];
    for rates in whole {
        sums = each(sums, *rates, |sum, rate| sum + rate);
    }
    for (sum, rate) in sums.iter_mut().zip(last) {
        *sum += rate;
    }
    total(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(groups: &[(f64, f64, f64)]) -> Moments {
        Moments::new(groups.len(), |number| groups[number])
    }

    /// Two groups ask for 1 and 1.5 of the capacity; the first waits half of its time, the second
    /// always: with the stretch moved by 2 they get 1 / (1 + 2 / 2) + 1.5 / (1 + 2) = 1.
    #[test]
    fn the_leap_is_exact_for_two_kinds_of_groups() {
        let two = [(1.0, 0.5, 1.0), (1.5, 1.0, 1.0)];
        assert!((moments(&two).leap_to_capacity() - 2.0).abs() < 1e-12);
        let five = [(0.5, 0.5), (0.75, 1.0), (0.5, 0.5), (0.75, 1.0), (0.0, 0.9)];
        let five = five.map(|(rate, share)| (rate, share, 1.0));
        assert!((moments(&five).leap_to_capacity() - 2.0).abs() < 1e-12);
        // From the other side: 3 is too far.
        let back = [(1.0, 0.5, 1.0 / 2.5), (1.5, 1.0, 1.0 / 4.0)];
        assert!((moments(&back).leap_to_capacity() + 1.0).abs() < 1e-12);
    }

    /// One group asks for 0.99 of the capacity and hardly waits; the other asks for a hundred times
    /// the capacity.
    #[test]
    fn the_leap_reaches_far() {
        let two = [(0.99, 1.0 / 64.0, 1.0), (100.0, 1.0, 1.0)];
        let far = moments(&two).leap_to_capacity();
        let busy = 0.99 / (1.0 + far / 64.0) + 100.0 / (1.0 + far);
        assert!((busy - 1.0).abs() < 1e-9, "{far} {busy}");
    }

    /// One group hardly waits and the other always does: the busy share is 4, and falls by
    /// 1/64 + 3. Newton's step on its inverse is 4 * 3 over that.
    #[test]
    fn far_away_a_step_is_newtons() {
        let far = moments(&[(1.0, 1.0 / 64.0, 1.0), (3.0, 1.0, 1.0)]).step_to_capacity();
        assert!((far - 12.0 / (3.0 + 1.0 / 64.0)).abs() < 1e-12, "{far}");
    }

    #[test]
    fn groups_that_respond_alike_are_one() {
        let moments = moments(&[(0.5, 0.25, 1.0); 5]);
        assert!((moments.busy() - 2.5).abs() < 1e-12 && (moments.fall() - 0.625).abs() < 1e-12);
        assert!((moments.leap_to_capacity() - 6.0).abs() < 1e-9);
        assert!((moments.step_to_capacity() - 6.0).abs() < 1e-9);
    }
}
