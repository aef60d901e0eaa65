//! Contention of few cores: every change updates each core.
//!
//! This is the inner loop of most experiments. All data are in arrays of fixed length, and reads
//! have the same width as the writes before them, so that store forwarding works.

use super::contention::{Contention, Piece};
use crate::stretch::{Curve, Group, Groups, RESOURCES, asked, saturate, settle};

/// Contention model of up to `N` cores side by side.
#[derive(Debug)]
pub(super) struct Lanes<const R: usize, const W: usize, const N: usize> {
    curves: [Curve; RESOURCES],
    /// True if every resource is as fast as unloaded until it saturates.
    flat: bool,
    /// Loads of the pieces on each resource.
    groups: [Group<R, W>; N],
    paces: [Pace; N],
    stretch: [f64; R],
    /// True if every stretch is 1.
    calm: bool,
    /// True if the pieces have changed since the stretches were computed.
    stale: bool,
}

/// Pace of a core's piece at the current stretch.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Time at which the piece ends; infinity for an idle core.
    end: f64,
    /// Speed of the piece, 1 without contention.
    speed: f64,
}

impl Pace {
    const IDLE: Self = Self { end: f64::INFINITY, speed: 1.0 };

    /// Returns the rest of the piece, in time without contention.
    #[inline(always)]
    fn left(&self, now: f64) -> f64 {
        (self.end - now) * self.speed
    }
}

impl<const R: usize, const W: usize, const N: usize> Lanes<R, W, N> {
    /// Computes the stretches for the current pieces and moves the ends accordingly.
    #[inline(always)]
    fn settle(&mut self, now: f64) {
        self.stale = false;
        let rates: [[f64; N]; R] = self.columns(|group| &group.rate);
        if self.flat && rates.iter().all(|rates| asked(rates) <= 1.0) {
            if !self.calm {
                self.calm = true;
                self.stretch = [1.0; R];
                self.rescale(now);
            }
            return;
        }
        self.calm = false;
        let shares: [[f64; N]; R] = self.columns(|group| &group.share);
        if R == 1 && self.flat {
            let mut speeds = [1.0; N];
            let delay = saturate(&rates[0], &shares[0], &mut speeds);
            for (lane, pace) in self.paces.iter_mut().enumerate() {
                let end = now + pace.left(now) * (1.0 + shares[0][lane] * delay);
                *pace = Pace { end, speed: speeds[lane] };
            }
            self.stretch[0] = 1.0 + delay;
        } else {
            let writes: [[f64; N]; W] = self.columns(|group| &group.writes);
            let groups = Groups {
                rates: rates.each_ref().map(|rates| &rates[..]),
                shares: shares.each_ref().map(|shares| &shares[..]),
                writes: writes.each_ref().map(|writes| &writes[..]),
            };
            settle(&groups, &self.curves, &mut self.stretch);
            self.rescale(now);
        }
    }

    /// Returns one figure of all pieces, resource by resource.
    #[inline(always)]
    fn columns<const P: usize>(&self, of: impl Fn(&Group<R, W>) -> &[f64; P]) -> [[f64; N]; P] {
        std::array::from_fn(|place| self.groups.each_ref().map(|group| of(group)[place]))
    }

    fn rescale(&mut self, now: f64) {
        for (pace, group) in self.paces.iter_mut().zip(&self.groups) {
            let time = group.time(&self.stretch);
            *pace = Pace { end: now + pace.left(now) * time, speed: 1.0 / time };
        }
    }

    /// Returns the time at which the first piece ends, and its core.
    #[inline(always)]
    fn first(&self) -> (f64, usize) {
        let (fours, _) = self.paces.as_chunks::<4>();
        let mut next = first_of(&fours[0]);
        for (number, paces) in fours.iter().enumerate().skip(1) {
            let (end, place) = first_of(paces);
            next = sooner(next, (end, 4 * number + place));
        }
        next
    }

    /// Returns the first end and its core if it is not after `until`.
    #[cold]
    #[inline(never)]
    fn first_until(&self, until: f64) -> Option<(f64, usize)> {
        Some(self.first()).filter(|(end, _)| *end <= until)
    }
}

impl<const R: usize, const W: usize, const N: usize> Contention<R, W> for Lanes<R, W, N> {
    fn new(_cores: usize, curves: [Curve; RESOURCES]) -> Self {
        Self {
            flat: curves.iter().all(Curve::is_flat),
            curves,
            groups: [Piece::pause(0.0).group; N],
            paces: [Pace::IDLE; N],
            stretch: [1.0; R],
            calm: true,
            stale: false,
        }
    }

    #[inline(always)]
    fn begin(&mut self, now: f64, core: usize, piece: &Piece<R, W>) {
        let time = piece.group.time(&self.stretch);
        self.groups[core] = piece.group;
        self.paces[core] = Pace { end: now + piece.time * time, speed: 1.0 / time };
        self.stale = true;
    }

    fn end(&mut self, _now: f64, core: usize) {
        self.groups[core] = Piece::pause(0.0).group;
        self.paces[core] = Pace::IDLE;
        self.stale = true;
    }

    fn left(&self, now: f64, core: usize) -> f64 {
        self.paces[core].left(now).max(0.0)
    }

    /// Guesses the first piece from the previous stretch and checks the guess, which is nearly
    /// always right. Because the check is a branch, a processor can execute the next steps
    /// speculatively, and solve for the stretch there, while it still works on this one.
    #[inline(always)]
    fn next(&mut self, now: f64, until: f64) -> Option<(f64, usize)> {
        let (guess, core) = self.first();
        if self.stale {
            self.settle(now);
        }
        if guess > until {
            if self.paces.iter().all(|pace| pace.end > until) {
                return None;
            }
        } else {
            let end = self.paces[core].end;
            if end <= until && self.paces.iter().all(|other| end <= other.end) {
                return Some((end, core));
            }
        }
        self.first_until(until)
    }
}

/// Returns the earliest of four ends and its index; the first one in a tie. The winner is
/// unpredictable, so the code compares without branches, and in pairs for the shortest dependency
/// chain.
#[inline(always)]
fn first_of(paces: &[Pace; 4]) -> (f64, usize) {
    let end = |place: usize| (paces[place].end, place);
    sooner(sooner(end(0), end(1)), sooner(end(2), end(3)))
}

#[inline(always)]
fn sooner(one: (f64, usize), other: (f64, usize)) -> (f64, usize) {
    let sooner = other.0 < one.0;
    (if sooner { other.0 } else { one.0 }, if sooner { other.1 } else { one.1 })
}
