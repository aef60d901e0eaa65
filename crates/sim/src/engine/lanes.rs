//! Contention of few cores: each is looked at whenever anything changes.

use super::contention::{Contention, Piece};
use crate::stretch::{Curve, Group, RESOURCES, settle};

/// Cores side by side.
#[derive(Debug)]
pub(super) struct Lanes<const R: usize> {
    curves: [Curve; RESOURCES],
    /// Whether every resource is as fast as unloaded until it saturates.
    flat: bool,
    groups: Vec<Group<R>>,
    /// When each piece is over, at the present stretch; never, for an idle core.
    ends: Vec<f64>,
    /// How fast each piece goes, 1 where nothing contends.
    speeds: Vec<f64>,
    stretch: [f64; R],
    /// Whether every stretch is 1.
    calm: bool,
    /// Whether the stretches no longer belong to what the cores do.
    stale: bool,
}

impl<const R: usize> Lanes<R> {
    /// Finds the stretches that belong to what the cores do, and moves the ends accordingly.
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
        settle(&self.groups, &self.curves, &mut self.stretch);
        self.rescale(now);
    }

    /// Whether no resource is asked for more than it can carry. Summed afresh each time, so that
    /// no rounding adds up.
    fn unloaded(&self) -> bool {
        let mut busy = [0.0; R];
        for group in &self.groups {
            for (busy, rate) in busy.iter_mut().zip(&group.rate) {
                *busy += rate;
            }
        }
        busy.iter().all(|busy| *busy <= 1.0)
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

impl<const R: usize> Contention<R> for Lanes<R> {
    fn new(cores: usize, curves: [Curve; RESOURCES]) -> Self {
        Self {
            flat: curves.iter().all(Curve::is_flat),
            curves,
            groups: vec![Piece::pause(0.0).group; cores],
            ends: vec![f64::INFINITY; cores],
            speeds: vec![1.0; cores],
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
        let mut next = (f64::INFINITY, 0);
        for (core, end) in self.ends.iter().enumerate() {
            if *end < next.0 {
                next = (*end, core);
            }
        }
        next
    }
}
