//! Root finding: the stretches at which the busy share of every resource agrees with its curve.
//!
//! The busy share of a resource falls as its own stretch or another's rises, and the utilization on
//! its curve rises, so each resource has one root while the others stay. If reads and writes cost
//! alike, the busy shares are the slopes of one concave function of the stretches, and setting each
//! resource to its root in turn climbs that function: it converges to the one solution.

use super::Curve;
use super::moments::{Moments, asked};
use super::quartic::{GROUPS, Quartic};

/// One task, or several that respond alike, with their busy shares added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Group<const R: usize, const W: usize> {
    /// Busy share that the group causes at each resource without contention.
    pub(crate) rate: [f64; R],
    /// Share of its time for which it waits for each resource without contention.
    pub(crate) share: [f64; R],
    /// The part of the busy share that writes cause, if that matters (`W` is `R`, else zero).
    pub(crate) writes: [f64; W],
}

impl<const R: usize, const W: usize> Group<R, W> {
    /// Returns the group's time over that without contention.
    #[inline]
    pub(crate) fn time(&self, stretch: &[f64; R]) -> f64 {
        time_of(&self.share, stretch)
    }
}

/// Returns the time over that without contention, in which `shares` is the time spent waiting for
/// each resource.
#[inline]
pub(crate) fn time_of<const R: usize>(shares: &[f64; R], stretch: &[f64; R]) -> f64 {
    let mut time = 1.0;
    for (share, stretch) in shares.iter().zip(stretch) {
        time += share * (stretch - 1.0);
    }
    time
}

/// Groups that run together, column by column: each figure of [`Group`] for all of them, per
/// resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a, const R: usize, const W: usize> {
    pub(crate) rates: [&'a [f64]; R],
    pub(crate) shares: [&'a [f64]; R],
    pub(crate) writes: [&'a [f64]; W],
}

impl<const R: usize, const W: usize> Groups<'_, R, W> {
    fn len(&self) -> usize {
        self.rates[0].len()
    }

    #[inline]
    fn group(&self, number: usize) -> Group<R, W> {
        Group {
            rate: self.rates.map(|rates| rates[number]),
            share: self.shares.map(|shares| shares[number]),
            writes: self.writes.map(|writes| writes[number]),
        }
    }
}

/// A root is found when it moves by less than this share of itself: steps shrink at least
/// quadratically, so the next one would not change the result noticeably.
const STEP: f64 = 1e-6;

/// Steps of less than this share of the stretch are the last in [`saturate`]: the next one would be
/// of the order of the cube.
const SMALL: f64 = 1e-3;

/// Most steps towards one root. Quadratic convergence needs less than ten.
const MOST_STEPS: usize = 60;

/// Rounds over all resources end when no stretch moves by more than this share of itself.
const SETTLED: f64 = 1e-11;

/// Largest difference of stretches that counts as rounding, as a share of the stretch.
const EXACT: f64 = 1e-14;

/// Most rounds over all resources.
const MOST_ROUNDS: usize = 1_000;

/// Moves `stretch` from any start to the solution.
pub(crate) fn settle<const R: usize, const W: usize>(
    groups: &Groups<'_, R, W>,
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

/// Solves for the only resource, which is saturated: sets the groups' speeds and returns the excess
/// of the stretch over 1. The search starts from a stretch of 1 and not from the last solution,
/// which may not be known yet, so a processor can work on several of these at once. One leap and
/// one step nearly always suffice.
#[inline(always)]
pub(crate) fn saturate(rates: &[f64], shares: &[f64], speeds: &mut [f64]) -> f64 {
    let unloaded = Moments::new(rates.len(), |number| (rates[number], shares[number], 1.0));
    let mut delay = unloaded.leap_to_capacity().max(0.0);
    if let Some(root) = root_of_few(rates, shares, delay) {
        set_speeds(shares, speeds, root);
        return root;
    }
    for _ in 0..MOST_STEPS {
        set_speeds(shares, speeds, delay);
        let next = (delay + moments(rates, shares, speeds).step_to_capacity()).max(0.0);
        let step = next - delay;
        delay = next;
        if step.abs() <= SMALL * (1.0 + delay) {
            break;
        }
    }
    set_speeds(shares, speeds, delay);
    delay
}

/// Returns the delay from a nearby guess if the number of groups is exactly [`GROUPS`].
#[inline(always)]
fn root_of_few(rates: &[f64], shares: &[f64], guess: f64) -> Option<f64> {
    let rates: &[f64; GROUPS] = rates.try_into().ok()?;
    Quartic::new(rates, shares.try_into().ok()?).root_near(guess)
}

#[inline(always)]
fn moments(rates: &[f64], shares: &[f64], speeds: &[f64]) -> Moments {
    let groups = rates.len();
    let (shares, speeds) = (&shares[..groups], &speeds[..groups]);
    Moments::new(groups, |number| (rates[number], shares[number], speeds[number]))
}

#[inline(always)]
fn set_speeds(shares: &[f64], speeds: &mut [f64], delay: f64) {
    for (speed, share) in speeds.iter_mut().zip(shares) {
        *speed = 1.0 / (1.0 + share * delay);
    }
}

/// Returns the stretch of one resource while the others stay.
#[inline]
fn root<const R: usize, const W: usize>(
    groups: &Groups<'_, R, W>,
    curve: &Curve,
    stretch: &[f64; R],
    place: usize,
) -> f64 {
    let busy = Busy { groups, stretch, place };
    if W > 0 && curve.minds_writes() {
        return busy.mixed(curve, stretch[place]);
    }
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
struct Busy<'a, const R: usize, const W: usize> {
    groups: &'a Groups<'a, R, W>,
    stretch: &'a [f64; R],
    place: usize,
}

impl<const R: usize, const W: usize> Busy<'_, R, W> {
    #[inline]
    fn at(&self, stretch: f64) -> Moments {
        let (place, mut stretches) = (self.place, *self.stretch);
        stretches[place] = stretch;
        Moments::new(self.groups.len(), |number| {
            let group = self.groups.group(number);
            (group.rate[place], group.share[place], 1.0 / group.time(&stretches))
        })
    }

    /// Returns true if the load on the resource exceeds its capacity at this stretch.
    #[inline]
    fn exceeds_capacity(&self, stretch: f64) -> bool {
        let unloaded = R == 1 && stretch == 1.0;
        let busy = match unloaded {
            true => asked(self.groups.rates[0]),
            false => self.at(stretch).busy(),
        };
        busy > 1.0
    }

    /// Returns the stretch at which the busy share is 1, at `least` or above.
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

    /// Returns the stretch at which the busy share meets a line that rises with `slope` from
    /// `utilization` at `start`. The difference is convex and falls, so Newton's steps from the
    /// left do not pass the root.
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

    /// Returns the stretch if growth depends on the mix of reads and writes, which changes with the
    /// stretch: a group that waits more asks for less. `start` is a guess of the saturated stretch.
    fn mixed(&self, curve: &Curve, start: f64) -> f64 {
        let grown = falling_zero(1.0, curve.saturated(), |stretch| {
            let (busy, writes) = self.load(stretch);
            let grown = if busy > 0.0 { curve.stretch(busy.min(1.0), writes / busy) } else { 1.0 };
            grown - stretch
        });
        match self.exceeds_capacity(grown) {
            true => self.saturated(start.max(grown), grown),
            false => grown,
        }
    }

    /// Returns the busy share and the part of it that writes cause.
    fn load(&self, stretch: f64) -> (f64, f64) {
        let (place, mut stretches) = (self.place, *self.stretch);
        stretches[place] = stretch;
        let mut load = (0.0, 0.0);
        for number in 0..self.groups.len() {
            let group = self.groups.group(number);
            let speed = 1.0 / group.time(&stretches);
            load.0 += group.rate[place] * speed;
            load.1 += group.writes.get(place).map_or(0.0, |writes| writes * speed);
        }
        load
    }
}

/// Returns the zero of a continuous function that is not negative at `low` and not positive at
/// `high`, by the secant method, in which the value at an end that stays twice is halved (the
/// Illinois rule).
fn falling_zero(low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = ((low, function(low)), (high, function(high)));
    if low.1 <= 0.0 {
        return low.0;
    }
    let mut last = None;
    for _ in 0..MOST_STEPS {
        if high.1 >= 0.0 || high.0 - low.0 <= SETTLED * low.0 {
            return high.0;
        }
        let x = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
        let value = function(x);
        if value.abs() <= EXACT * x {
            return x;
        }
        let left = value > 0.0;
        if left {
            (low, high.1) = ((x, value), if last == Some(left) { 0.5 * high.1 } else { high.1 });
        } else {
            (high, low.1) = ((x, value), if last == Some(left) { 0.5 * low.1 } else { low.1 });
        }
        last = Some(left);
    }
    0.5 * (low.0 + high.0)
}
