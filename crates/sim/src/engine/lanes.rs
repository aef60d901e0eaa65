//! Contention of few cores: each is looked at whenever anything changes.
//!
//! This is the inner loop of most experiments. Everything is in arrays of fixed length, so that on
//! few cores it stays in registers.

use super::contention::{Contention, Piece};
use crate::stretch::{Curve, Group, Groups, RESOURCES, asked, saturate, settle};

/// Up to `N` cores side by side.
#[derive(Debug)]
pub(super) struct Lanes<const R: usize, const N: usize> {
    curves: [Curve; RESOURCES],
    /// Whether every resource is as fast as unloaded until it saturates.
    flat: bool,
    /// What the pieces ask of each resource.
    rates: [[f64; N]; R],
    shares: [[f64; N]; R],
    /// When each piece is over, at the present stretch; never, for an idle core.
    ends: [f64; N],
    /// How fast each piece goes, 1 where nothing contends.
    speeds: [f64; N],
    stretch: [f64; R],
    /// Whether every stretch is 1.
    calm: bool,
    /// Whether the stretches no longer belong to what the cores do.
    stale: bool,
}

impl<const R: usize, const N: usize> Lanes<R, N> {
    /// Finds the stretches that belong to what the cores do, and moves the ends accordingly.
    #[inline(always)]
    fn settle(&mut self, now: f64) {
        self.stale = false;
        if self.flat && self.rates.iter().all(|rates| asked(rates) <= 1.0) {
            if !self.calm {
                self.calm = true;
                self.stretch = [1.0; R];
                self.rescale(now);
            }
            return;
        }
        self.calm = false;
        if R == 1 && self.flat {
            // What is left of each piece follows from its speed before.
            let left: [f64; N] =
                std::array::from_fn(|lane| (self.ends[lane] - now) * self.speeds[lane]);
            let (rates, shares) = (&self.rates[0], &self.shares[0]);
            let stretch = saturate(rates, shares, &mut self.speeds, self.stretch[0]);
            for lane in 0..N {
                self.ends[lane] = now + left[lane] * (1.0 + shares[lane] * (stretch - 1.0));
            }
            self.stretch[0] = stretch;
        } else {
            let groups = Groups {
                rates: self.rates.each_ref().map(|rates| &rates[..]),
                shares: self.shares.each_ref().map(|shares| &shares[..]),
            };
            settle(&groups, &self.curves, &mut self.stretch);
            self.rescale(now);
        }
    }

    fn rescale(&mut self, now: f64) {
        for lane in 0..N {
            let left = (self.ends[lane] - now) * self.speeds[lane];
            let time = self.time(lane);
            self.speeds[lane] = 1.0 / time;
            self.ends[lane] = now + left * time;
        }
    }

    /// Time that a core's piece takes over that where nothing contends.
    fn time(&self, lane: usize) -> f64 {
        let mut time = 1.0;
        for place in 0..R {
            time += self.shares[place][lane] * (self.stretch[place] - 1.0);
        }
        time
    }

    /// Puts a piece that ends at a time in a core's lane.
    #[inline(always)]
    fn fill(&mut self, core: usize, group: &Group<R>, end: f64, speed: f64) {
        for place in 0..R {
            put(&mut self.rates[place], core, group.rate[place]);
            put(&mut self.shares[place], core, group.share[place]);
        }
        put(&mut self.ends, core, end);
        put(&mut self.speeds, core, speed);
        self.stale = true;
    }
}

/// All bits of one of four lanes.
const LANE: [[u64; 4]; 4] =
    [[u64::MAX, 0, 0, 0], [0, u64::MAX, 0, 0], [0, 0, u64::MAX, 0], [0, 0, 0, u64::MAX]];

/// Writes one figure of a column, and its neighbors again: whoever reads several at once right
/// afterwards would have to wait for one that was written alone.
#[inline(always)]
fn put<const N: usize>(column: &mut [f64; N], core: usize, value: f64) {
    let (fours, _) = column.as_chunks_mut::<4>();
    let (four, mask) = (&mut fours[core / 4], &LANE[core % 4]);
    *four = std::array::from_fn(|lane| {
        let (old, new) = (four[lane].to_bits() & !mask[lane], value.to_bits() & mask[lane]);
        f64::from_bits(old | new)
    });
}

impl<const R: usize, const N: usize> Contention<R> for Lanes<R, N> {
    fn new(_cores: usize, curves: [Curve; RESOURCES]) -> Self {
        Self {
            flat: curves.iter().all(Curve::is_flat),
            curves,
            rates: [[0.0; N]; R],
            shares: [[0.0; N]; R],
            ends: [f64::INFINITY; N],
            speeds: [1.0; N],
            stretch: [1.0; R],
            calm: true,
            stale: false,
        }
    }

    #[inline(always)]
    fn begin(&mut self, now: f64, core: usize, piece: &Piece<R>) {
        let time = if self.calm { 1.0 } else { piece.group.time(&self.stretch) };
        self.fill(core, &piece.group, now + piece.time * time, 1.0 / time);
    }

    fn end(&mut self, _now: f64, core: usize) {
        self.fill(core, &Piece::pause(0.0).group, f64::INFINITY, 1.0);
    }

    fn left(&self, now: f64, core: usize) -> f64 {
        ((self.ends[core] - now) * self.speeds[core]).max(0.0)
    }

    #[inline(always)]
    fn next(&mut self, now: f64) -> (f64, usize) {
        if self.stale {
            self.settle(now);
        }
        let (fours, _) = self.ends.as_chunks::<4>();
        let mut next = first_of(&fours[0]);
        for (number, ends) in fours.iter().enumerate().skip(1) {
            let (end, place) = first_of(ends);
            next = sooner(next, (end, 4 * number + place));
        }
        next
    }
}

/// The earliest of four times, and which that is; of equals the first. Which it will be cannot be
/// guessed: so without branches, and in pairs, for the shortest way to the result.
#[inline(always)]
fn first_of(times: &[f64; 4]) -> (f64, usize) {
    sooner(sooner((times[0], 0), (times[1], 1)), sooner((times[2], 2), (times[3], 3)))
}

#[inline(always)]
fn sooner(one: (f64, usize), other: (f64, usize)) -> (f64, usize) {
    let sooner = other.0 < one.0;
    (if sooner { other.0 } else { one.0 }, if sooner { other.1 } else { one.1 })
}
