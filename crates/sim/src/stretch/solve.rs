//! The root: stretches at which every resource is exactly as busy as its curve says.
//!
//! The busy share of a resource falls as its own stretch or another's rises, and what its curve
//! says rises, so each resource has one root while the others stay. If reads and writes cost alike,
//! the busy shares are the slopes of one concave function of the stretches, and giving each resource
//! its root in turn climbs that function: it converges to the one solution.

use super::Curve;
use super::moments::{Moments, asked};

/// A task, or tasks that respond alike: alone, the sums are those of one task.
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

/// Groups that run together, column by column: each figure of [`Group`] of all of them, per resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a, const R: usize> {
    pub(crate) rates: [&'a [f64]; R],
    pub(crate) shares: [&'a [f64]; R],
}

impl<const R: usize> Groups<'_, R> {
    fn len(&self) -> usize {
        self.rates[0].len()
    }

    #[inline]
    fn group(&self, number: usize) -> Group<R> {
        Group {
            rate: self.rates.map(|rates| rates[number]),
            share: self.shares.map(|shares| shares[number]),
        }
    }
}

/// A root is found when it moves by less than this share of itself: steps shrink quadratically at
/// least, so that the next one would change nothing that matters.
const STEP: f64 = 1e-6;

/// Steps of less than this share of the stretch are the last in [`saturate`]: the next one would be of
/// the order of its cube.
const SMALL: f64 = 1e-3;

/// Steps towards one root. Quadratic convergence needs less than ten.
const MOST_STEPS: usize = 60;

/// Rounds over all resources end when no stretch moves by more than this share of itself.
const SETTLED: f64 = 1e-11;

/// Rounds at most.
const MOST_ROUNDS: usize = 1_000;

/// Moves `stretch` from wherever it is to the solution.
pub(crate) fn settle<const R: usize>(
    groups: &Groups<'_, R>,
    curves: &[Curve],
    stretch: &mut [f64; R],
) {
    if R == 1 {
        stretch[0] = root(groups, &curves[0], stretch, 0);
        return;
    }
    let asked: [bool; R] = groups.rates.map(|rates| rates.iter().any(|rate| *rate > 0.0));
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

/// The same for the only resource, if it is saturated and the groups' speeds belong to `stretch`, and
/// so they do to the solution afterwards. Two steps do nearly always.
#[inline(always)]
pub(crate) fn saturate(rates: &[f64], shares: &[f64], speeds: &mut [f64], stretch: f64) -> f64 {
    let mut x = (stretch + moments(rates, shares, speeds).leap_to_capacity()).max(1.0);
    for _ in 0..MOST_STEPS {
        set_speeds(shares, speeds, x);
        let next = (x + moments(rates, shares, speeds).step_to_capacity()).max(1.0);
        let step = next - x;
        x = next;
        if step.abs() <= SMALL * x {
            break;
        }
    }
    set_speeds(shares, speeds, x);
    x
}

#[inline(always)]
fn moments(rates: &[f64], shares: &[f64], speeds: &[f64]) -> Moments {
    let groups = rates.len();
    let (shares, speeds) = (&shares[..groups], &speeds[..groups]);
    Moments::new(groups, |number| (rates[number], shares[number], speeds[number]))
}

#[inline(always)]
fn set_speeds(shares: &[f64], speeds: &mut [f64], stretch: f64) {
    for (speed, share) in speeds.iter_mut().zip(shares) {
        *speed = 1.0 / (1.0 + share * (stretch - 1.0));
    }
}

/// The stretch of one resource while the others stay.
#[inline]
fn root<const R: usize>(
    groups: &Groups<'_, R>,
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
    groups: &'a Groups<'a, R>,
    stretch: &'a [f64; R],
    place: usize,
}

impl<const R: usize> Busy<'_, R> {
    #[inline]
    fn at(&self, stretch: f64) -> Moments {
        let (place, mut stretches) = (self.place, *self.stretch);
        stretches[place] = stretch;
        Moments::new(self.groups.len(), |number| {
            let group = self.groups.group(number);
            (group.rate[place], group.share[place], 1.0 / group.time(&stretches))
        })
    }

    /// Whether the resource is asked for more than it can carry when it stretches by so much.
    #[inline]
    fn exceeds_capacity(&self, stretch: f64) -> bool {
        let unloaded = R == 1 && stretch == 1.0;
        let busy = match unloaded {
            true => asked(self.groups.rates[0]),
            false => self.at(stretch).busy(),
        };
        busy > 1.0
    }

    /// Where the busy share is 1, at `least` or above.
    #[inline]
    fn saturated(&self, start: f64, least: f64) -> f64 {
        let mut x = (start + self.at(start).leap_to_capacity()).max(least);
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
            let moments = self.at(x);
            let over = moments.busy() - utilization - slope * (x - start);
            let step = over / (moments.fall() + slope);
            x += step;
            if step.abs() <= STEP * x {
                break;
            }
        }
        x.max(start)
    }
}
