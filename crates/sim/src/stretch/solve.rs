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

/// A root is found when it moves by less than this share of itself: steps shrink quadratically, so
/// the next one would be lost in rounding.
const STEP: f64 = 1e-8;

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
    let asked: [bool; R] =
        std::array::from_fn(|place| groups.iter().any(|group| group.rate[place] > 0.0));
    let contended = asked.iter().filter(|asked| **asked).count();
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
        if contended < 2 || moved <= SETTLED {
            return;
        }
    }
}

/// The stretch of one resource while the others stay.
fn root<const R: usize>(
    groups: &[Group<R>],
    curve: &Curve,
    stretch: &[f64; R],
    place: usize,
) -> f64 {
    let busy = Busy { groups, stretch, place };
    let saturated = curve.saturated();
    if busy.at(saturated).0 >= 1.0 {
        return busy.saturated(stretch[place].max(saturated), saturated);
    }
    if curve.is_flat() {
        return 1.0;
    }
    for (from, to) in curve.pieces() {
        if busy.at(to.stretch).0 <= to.utilization {
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

impl<const R: usize> Busy<'_, R> {
    /// The busy share, and how fast it falls.
    #[inline]
    fn at(&self, stretch: f64) -> (f64, f64) {
        let (mut busy, mut fall) = (0.0, 0.0);
        let mut stretches = *self.stretch;
        stretches[self.place] = stretch;
        for group in self.groups {
            let speed = 1.0 / group.time(&stretches);
            let served = group.rate[self.place] * speed;
            busy += served;
            fall += served * speed * group.share[self.place];
        }
        (busy, fall)
    }

    /// Where the busy share is 1. Its inverse is concave and rises, so every tangent's root lies
    /// left of the root, and from there Newton's steps approach it without passing it.
    fn saturated(&self, start: f64, least: f64) -> f64 {
        let mut x = start;
        for _ in 0..MOST_STEPS {
            let (busy, fall) = self.at(x);
            let next = (x + busy * (busy - 1.0) / fall).max(least);
            let step = (next - x).abs();
            x = next;
            if step <= STEP * x {
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
            let (busy, fall) = self.at(x);
            let step = (busy - utilization - slope * (x - start)) / (fall + slope);
            x += step;
            if step.abs() <= STEP * x {
                break;
            }
        }
        x.max(start)
    }
}
