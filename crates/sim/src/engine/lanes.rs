//! Contention of few cores: each is looked at whenever anything changes.
//!
//! This is the inner loop of most experiments. Everything is in arrays of fixed length, so that on
//! few cores it stays in registers.

use super::contention::{Contention, Piece};
use crate::stretch::{Curve, Group, RESOURCES, WIDTH, saturate, settle};

/// Up to `N` cores side by side.
#[derive(Debug)]
pub(super) struct Lanes<const R: usize, const N: usize> {
    curves: [Curve; RESOURCES],
    /// Whether every resource is as fast as unloaded until it saturates.
    flat: bool,
    groups: [Group<R>; N],
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
    #[inline]
    fn settle(&mut self, now: f64) {
        self.stale = false;
        if self.flat && self.unloaded() {
            if !self.calm {
                self.calm = true;
                self.stretch = [1.0; R];
                self.rescale(now);
            }
            return;
        }
        self.calm = false;
        if R == 1 && self.flat {
            let before = self.speeds;
            self.stretch[0] = saturate(&self.groups, &mut self.speeds, self.stretch[0]);
            for ((end, speed), group) in self.ends.iter_mut().zip(before).zip(&self.groups) {
                *end = now + (*end - now) * speed * group.time(&self.stretch);
            }
        } else {
            settle(&self.groups, &self.curves, &mut self.stretch);
            self.rescale(now);
        }
    }

    /// Whether no resource is asked for more than it can carry. Summed afresh each time, so that
    /// no rounding adds up.
    #[inline]
    fn unloaded(&self) -> bool {
        (0..R).all(|place| {
            let mut busy = [0.0; WIDTH];
            for (lane, group) in self.groups.iter().enumerate() {
                busy[lane % WIDTH] += group.rate[place];
            }
            (busy[0] + busy[1]) + (busy[2] + busy[3]) <= 1.0
        })
    }

    fn rescale(&mut self, now: f64) {
        let lanes = self.ends.iter_mut().zip(&mut self.speeds).zip(&self.groups);
        for ((end, speed), group) in lanes {
            let left = (*end - now) * *speed;
            let time = group.time(&self.stretch);
            *speed = 1.0 / time;
            *end = now + left * time;
        }
    }
}

impl<const R: usize, const N: usize> Contention<R> for Lanes<R, N> {
    fn new(_cores: usize, curves: [Curve; RESOURCES]) -> Self {
        Self {
            flat: curves.iter().all(Curve::is_flat),
            curves,
            groups: [Piece::pause(0.0).group; N],
            ends: [f64::INFINITY; N],
            speeds: [1.0; N],
            stretch: [1.0; R],
            calm: true,
            stale: false,
        }
    }

    #[inline]
    fn begin(&mut self, now: f64, core: usize, piece: &Piece<R>) {
        self.groups[core] = piece.group;
        let time = if self.calm { 1.0 } else { piece.group.time(&self.stretch) };
        self.speeds[core] = 1.0 / time;
        self.ends[core] = now + piece.time * time;
        self.stale = true;
    }

    fn end(&mut self, _now: f64, core: usize) {
        self.groups[core] = Piece::pause(0.0).group;
        self.speeds[core] = 1.0;
        self.ends[core] = f64::INFINITY;
        self.stale = true;
    }

    fn left(&self, now: f64, core: usize) -> f64 {
        ((self.ends[core] - now) * self.speeds[core]).max(0.0)
    }

    #[inline]
    fn next(&mut self, now: f64) -> (f64, usize) {
        if self.stale {
            self.settle(now);
        }
        // Which core is next cannot be guessed: without branches.
        let (mut first, mut place) = (f64::INFINITY, 0);
        for core in 0..N {
            let sooner = self.ends[core] < first;
            place = if sooner { core } else { place };
            first = if sooner { self.ends[core] } else { first };
        }
        (first, place)
    }
}
