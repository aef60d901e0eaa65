//! The root: stretches at which every resource is exactly as busy as its curve says.
//!
//! The busy share of a resource falls as its own stretch or another's rises, and what its curve
//! says rises, so each resource has one root while the others stay. If reads and writes cost alike,
//! the busy shares are the slopes of one concave function of the stretches, and giving each resource
//! its root in turn climbs that function: it converges to the one solution.

use super::Curve;

/// Tasks that respond alike: alone, the sums are those of one task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Group<const R: usize> {
    /// Busy share that they cause at each resource where nothing contends.
    pub(crate) rate: [f64; R],
    /// Share of their time for which they wait for each resource where nothing contends.
    pub(crate) share: [f64; R],
}

impl<const R: usize> Group<R> {
    /// Time over that where nothing contends.
    #[inline]
    pub(crate) fn time(&self, stretch: &[f64; R]) -> f64 {
        let mut time = 1.0;
        for (share, stretch) in self.share.iter().zip(stretch) {
            time += share * (stretch - 1.0);
        }
        time
    }
}

/// A root is found when it moves by less than this share of itself: steps shrink quadratically at
/// least, so that the next one would change nothing that matters.
const STEP: f64 = 1e-6;

/// Steps of less than this share of the stretch are the last in [`saturate`]: the next one, and what
/// the series of the speeds leaves out, are of the order of its cube.
const SMALL: f64 = 3e-4;

/// Steps towards one root. Quadratic convergence needs less than ten.
const MOST_STEPS: usize = 60;

/// Rounds over all resources end when no stretch moves by more than this share of itself.
const SETTLED: f64 = 1e-11;

/// Rounds at most.
const MOST_ROUNDS: usize = 1_000;

/// Moves `stretch` from wherever it is to the solution.
pub(crate) fn settle<const R: usize>(
    groups: &[Group<R>],
    curves: &[Curve],
    stretch: &mut [f64; R],
) {
    if R == 1 {
        stretch[0] = root(groups, &curves[0], stretch, 0);
        return;
    }
    let asked: [bool; R] =
        std::array::from_fn(|place| groups.iter().any(|group| group.rate[place] > 0.0));
    for place in (0..R).filter(|place| !asked[*place]) {
        stretch[place] = 1.0;
    }
    for _ in 0..MOST_ROUNDS {
        let mut moved = 0.0f64;
        for place in (0..R).filter(|place| asked[*place]) {
            let before = stretch[place];
            stretch[place] = root(groups, &curves[place], stretch, place);
            moved = moved.max((stretch[place] - before).abs() / before);
        }
        if moved <= SETTLED {
            return;
        }
    }
}

/// The same for the only resource, if it is saturated and `stretch` and `speeds` were settled before
/// something changed a little; the speed of what is new belongs to `stretch`. The first step needs no
/// division, for the speeds are known, and when a step is small neither does the last.
#[inline(always)]
pub(crate) fn saturate<const R: usize>(
    groups: &[Group<R>],
    speeds: &mut [f64],
    stretch: f64,
) -> f64 {
    let mut x = stretch;
    for _ in 0..MOST_STEPS {
        let mut slopes = Slopes::default();
        for (number, (group, speed)) in groups.iter().zip(&*speeds).enumerate() {
            slopes.add(number % WIDTH, group.rate[0], group.share[0], *speed);
        }
        let next = (x + slopes.step_to_capacity()).max(1.0);
        let step = next - x;
        x = next;
        if step.abs() <= SMALL * x {
            for (group, speed) in groups.iter().zip(speeds) {
                let slower = group.share[0] * *speed * step;
                *speed *= 1.0 - slower + slower * slower;
            }
            break;
        }
        for (group, speed) in groups.iter().zip(&mut *speeds) {
            *speed = 1.0 / (1.0 + group.share[0] * (x - 1.0));
        }
    }
    x
}

/// The stretch of one resource while the others stay.
#[inline]
fn root<const R: usize>(
    groups: &[Group<R>],
    curve: &Curve,
    stretch: &[f64; R],
    place: usize,
) -> f64 {
    let busy = Busy { groups, stretch, place };
    let saturated = curve.saturated();
    if busy.exceeds_capacity(saturated) {
        return busy.saturated(stretch[place].max(saturated), saturated);
    }
    if curve.is_flat() {
        return 1.0;
    }
    for (from, to) in curve.pieces() {
        if busy.at(to.stretch).busy() <= to.utilization {
            if from.stretch == to.stretch {
                return from.stretch;
            }
            let slope = (to.utilization - from.utilization) / (to.stretch - from.stretch);
            return busy.rising(from.stretch, from.utilization, slope);
        }
    }
    saturated
}

/// The busy share of one resource as a function of its own stretch.
struct Busy<'a, const R: usize> {
    groups: &'a [Group<R>],
    stretch: &'a [f64; R],
    place: usize,
}

/// The busy share of a resource at one stretch, how fast it falls as that rises, and half of how
/// fast the fall slows down. Summed up in a few columns side by side, for processors that can.
#[derive(Clone, Copy, Debug, Default)]
struct Slopes {
    busy: [f64; WIDTH],
    fall: [f64; WIDTH],
    bend: [f64; WIDTH],
}

/// Columns of [`Slopes`].
pub(crate) const WIDTH: usize = 4;

impl Slopes {
    /// Adds to a column what a group with this busy share and share of waiting does at this speed.
    #[inline]
    fn add(&mut self, column: usize, rate: f64, share: f64, speed: f64) {
        let (served, slowing) = (rate * speed, share * speed);
        let fall = served * slowing;
        self.busy[column] += served;
        self.fall[column] += fall;
        self.bend[column] += fall * slowing;
    }

    #[inline]
    fn sum(column: [f64; WIDTH]) -> f64 {
        (column[0] + column[1]) + (column[2] + column[3])
    }

    #[inline]
    fn busy(&self) -> f64 {
        Self::sum(self.busy)
    }

    /// How far to move the stretch for a busy share of 1: Halley's step, which is the same for the
    /// busy share and for its inverse. That is nearly straight (it is, if all respond alike), so the
    /// step goes nearly all the way.
    #[inline]
    fn step_to_capacity(&self) -> f64 {
        let (over, fall, bend) = (self.busy() - 1.0, Self::sum(self.fall), Self::sum(self.bend));
        let curved = fall * fall - over * bend;
        if curved > 0.25 * fall * fall {
            over * fall / curved
        } else {
            // Far away: Newton's step on the inverse.
            (over + 1.0) * over / fall
        }
    }
}

impl<const R: usize> Busy<'_, R> {
    #[inline]
    fn at(&self, stretch: f64) -> Slopes {
        let mut stretches = *self.stretch;
        stretches[self.place] = stretch;
        let mut slopes = Slopes::default();
        for (number, group) in self.groups.iter().enumerate() {
            let speed = 1.0 / group.time(&stretches);
            slopes.add(number % WIDTH, group.rate[self.place], group.share[self.place], speed);
        }
        slopes
    }

    /// Whether the resource is asked for more than it can carry when it stretches by so much.
    #[inline]
    fn exceeds_capacity(&self, stretch: f64) -> bool {
        let unloaded = R == 1 && stretch == 1.0;
        let busy = match unloaded {
            true => self.groups.iter().map(|group| group.rate[0]).sum(),
            false => self.at(stretch).busy(),
        };
        busy > 1.0
    }

    /// Where the busy share is 1, at `least` or above.
    #[inline]
    fn saturated(&self, start: f64, least: f64) -> f64 {
        let mut x = start;
        for _ in 0..MOST_STEPS {
            let next = (x + self.at(x).step_to_capacity()).max(least);
            let moved = (next - x).abs();
            x = next;
            if moved <= STEP * x {
                break;
            }
        }
        x
    }

    /// Where the busy share meets a line that rises with `slope` from `utilization` at `start`. The
    /// difference is convex and falls, so Newton's steps from the left do not pass the root.
    fn rising(&self, start: f64, utilization: f64, slope: f64) -> f64 {
        let mut x = start;
        for _ in 0..MOST_STEPS {
            let slopes = self.at(x);
            let over = slopes.busy() - utilization - slope * (x - start);
            let step = over / (Slopes::sum(slopes.fall) + slope);
            x += step;
            if step.abs() <= STEP * x {
                break;
            }
        }
        x.max(start)
    }
}
