//! Contention of many cores: cores with similar responses share a clock.
//!
//! Looking at every core after every change costs in proportion to the number of cores. But the
//! response of a piece to the stretches depends only on its shares of waiting, so pieces whose
//! shares are equal after rounding form a class. Its clock advances at the class's speed and counts
//! time without contention, so a piece that begins at clock time `t` ends at `t + time` however the
//! speed changes meanwhile. A change then costs a look at every class in use, of which there are at
//! most 98 on one memory, that of pieces without traffic included, and one heap operation.
//!
//! Only the response to contention is rounded: on one memory a share by at most 2.2 % of itself,
//! and a speed by less, which may be above that of the exact share. Demands and times are not, so
//! traffic is conserved as exactly as without classes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::contention::{Contention, Piece};
use crate::stretch::{
    Curve, Group, Groups, LEAST_STALL, RESOURCES, asked, saturate, settle, time_of,
};

/// Busy shares are summed as integers in units of 2^-40, so that no rounding accumulates however
/// often pieces come and go.
const UNIT: f64 = (1u64 << 40) as f64;

/// Entries up to which a queue is not pruned, however few members its class has.
const LEAST_PRUNED: usize = 16;

/// Steps of equal ratio, from [`LEAST_STALL`] to 1, to which shares of waiting are rounded. There
/// are fewer for each of several resources, so that classes do not become too many.
fn steps<const R: usize>() -> f64 {
    match R {
        1 => 96.0,
        2 => 48.0,
        _ => 24.0,
    }
}

/// Further steps of that ratio below [`LEAST_STALL`]. On one memory no share is less; on several, a
/// task may wait for one of them during a small part of its stall, and still wait long for it if it
/// is saturated.
fn steps_below<const R: usize>() -> f64 {
    match R {
        1 => 0.0,
        _ => 2.0 * steps::<R>(),
    }
}

/// Returns the step nearest to a share; zero for none. A share above zero is not rounded to none,
/// because nothing could slow such a piece down.
fn step<const R: usize>(share: f64) -> u8 {
    if share <= 0.0 {
        return 0;
    }
    let (steps, below) = (steps::<R>(), steps_below::<R>());
    let place = 1.0 + (share / LEAST_STALL).ln() / -LEAST_STALL.ln() * steps;
    (place.round() + below).clamp(1.0, 1.0 + below + steps) as u8
}

/// Returns the share that a step stands for.
fn share<const R: usize>(step: u8) -> f64 {
    let place = f64::from(step) - 1.0 - steps_below::<R>();
    match step {
        0 => 0.0,
        _ => LEAST_STALL.powf(1.0 - place / steps::<R>()),
    }
}

/// Returns the share with which a piece takes part in the contention for `R` resources.
pub(super) fn rounded<const R: usize>(exact: f64) -> f64 {
    share::<R>(step::<R>(exact))
}

/// End of a piece by the clock of its class, its core, and a stamp. An entry whose stamp differs
/// from the core's belongs to a piece that was taken away.
type Entry = Reverse<(OrderedTime, u32, u32)>;

/// A time that is not negative: such floats are ordered like their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderedTime(u64);

impl OrderedTime {
    fn new(time: f64) -> Self {
        Self(time.max(0.0).to_bits())
    }

    fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// A class of pieces with the same response.
#[derive(Debug)]
struct Class<const R: usize, const W: usize> {
    /// The shares of waiting, in steps.
    key: [u8; R],
    /// Index in the list of used classes, if it has members.
    place: usize,
    members: u32,
    /// Sums of the busy shares that the members cause without contention.
    load: [u64; R],
    /// The part of those busy shares that writes cause, if that matters.
    writes: [u64; W],
    queue: BinaryHeap<Entry>,
}

/// State of a core.
#[derive(Clone, Copy, Debug)]
struct Member<const R: usize, const W: usize> {
    /// The class of its piece, if it has one.
    class: Option<usize>,
    /// End of the piece by the clock of its class.
    end: f64,
    stamp: u32,
    load: [u64; R],
    writes: [u64; W],
}

impl<const R: usize, const W: usize> Member<R, W> {
    /// Returns true if the core executes the piece of this class with this stamp.
    fn executes(&self, class: usize, stamp: u32) -> bool {
        self.class == Some(class) && self.stamp == stamp
    }
}

/// Classes with members, column by column.
#[derive(Debug)]
struct Used<const R: usize, const W: usize> {
    classes: Vec<usize>,
    /// The solver's input for each class, per resource.
    rates: [Vec<f64>; R],
    shares: [Vec<f64>; R],
    writes: [Vec<f64>; W],
    /// Speed of each clock, 1 without contention, and its inverse.
    speeds: Vec<f64>,
    times: Vec<f64>,
    /// Time that each clock shows.
    clocks: Vec<f64>,
    /// End of the first piece by the clock of each class.
    firsts: Vec<f64>,
}

/// Contention model by classes of cores.
#[derive(Debug)]
pub(super) struct Classes<const R: usize, const W: usize> {
    curves: [Curve; RESOURCES],
    /// True if every resource is as fast as unloaded until it saturates.
    flat: bool,
    members: Vec<Member<R, W>>,
    classes: Vec<Class<R, W>>,
    by_key: HashMap<[u8; R], usize>,
    used: Used<R, W>,
    stretch: [f64; R],
    /// Time to which the clocks have advanced.
    at: f64,
    /// True if the pieces have changed since the stretches were computed.
    stale: bool,
}

impl<const R: usize, const W: usize> Classes<R, W> {
    /// Advances the clocks to `now`.
    fn advance(&mut self, now: f64) {
        let elapsed = now - self.at;
        self.at = now;
        if elapsed > 0.0 {
            for (clock, speed) in self.used.clocks.iter_mut().zip(&self.used.speeds) {
                *clock += elapsed * speed;
            }
        }
    }

    /// Computes the stretches for the current pieces.
    fn settle(&mut self) {
        self.stale = false;
        let used = &mut self.used;
        if self.flat && used.rates.iter().all(|rates| asked(rates) <= 1.0) {
            let calm = self.stretch == [1.0; R];
            self.stretch = [1.0; R];
            if calm {
                return;
            }
        } else if R == 1 && self.flat {
            let (rates, shares) = (&used.rates[0], &used.shares[0]);
            let delay = saturate(rates, shares, &mut used.speeds);
            for (time, share) in used.times.iter_mut().zip(shares) {
                *time = 1.0 + share * delay;
            }
            self.stretch[0] = 1.0 + delay;
            return;
        } else {
            let groups = Groups {
                rates: used.rates.each_ref().map(Vec::as_slice),
                shares: used.shares.each_ref().map(Vec::as_slice),
                writes: used.writes.each_ref().map(Vec::as_slice),
            };
            settle(&groups, &self.curves, &mut self.stretch);
        }
        for (number, (speed, time)) in used.speeds.iter_mut().zip(&mut used.times).enumerate() {
            let share = used.shares.each_ref().map(|shares| shares[number]);
            *time = time_of(&share, &self.stretch);
            *speed = 1.0 / *time;
        }
    }

    /// Returns the class of pieces with this response, which is in use from now on.
    fn class_of(&mut self, group: &Group<R, W>) -> usize {
        let key = group.share.map(step::<R>);
        let next = self.classes.len();
        let class = *self.by_key.entry(key).or_insert(next);
        if class == next {
            let queue = BinaryHeap::new();
            self.classes.push(Class {
                key,
                place: 0,
                members: 0,
                load: [0; R],
                writes: [0; W],
                queue,
            });
        }
        if self.classes[class].members == 0 {
            self.use_class(class);
        }
        class
    }

    fn use_class(&mut self, class: usize) {
        let used = &mut self.used;
        let share = self.classes[class].key.map(share::<R>);
        let time = time_of(&share, &self.stretch);
        self.classes[class].place = used.classes.len();
        used.classes.push(class);
        used.times.push(time);
        used.speeds.push(1.0 / time);
        used.rates.iter_mut().for_each(|rates| rates.push(0.0));
        used.shares.iter_mut().zip(share).for_each(|(shares, share)| shares.push(share));
        used.writes.iter_mut().for_each(|writes| writes.push(0.0));
        used.clocks.push(0.0);
        used.firsts.push(f64::INFINITY);
    }

    /// Takes a class without members out of use.
    fn disuse(&mut self, class: usize) {
        let place = self.classes[class].place;
        self.classes[class].queue.clear();
        let used = &mut self.used;
        used.classes.swap_remove(place);
        for column in used.rates.iter_mut().chain(&mut used.shares).chain(&mut used.writes) {
            column.swap_remove(place);
        }
        used.speeds.swap_remove(place);
        used.times.swap_remove(place);
        used.clocks.swap_remove(place);
        used.firsts.swap_remove(place);
        if let Some(moved) = used.classes.get(place) {
            self.classes[*moved].place = place;
        }
    }

    /// Updates the sums and the first end of a class from its members.
    fn refresh(&mut self, class: usize) {
        let members = &self.members;
        let entry = &mut self.classes[class];
        while let Some(Reverse((_, core, stamp))) = entry.queue.peek()
            && !members[*core as usize].executes(class, *stamp)
        {
            entry.queue.pop();
        }
        let first = entry.queue.peek().map_or(f64::INFINITY, |Reverse((end, ..))| end.get());
        self.used.firsts[entry.place] = first;
        for (rates, load) in self.used.rates.iter_mut().zip(entry.load) {
            rates[entry.place] = load as f64 / UNIT;
        }
        for (writes, load) in self.used.writes.iter_mut().zip(entry.writes) {
            writes[entry.place] = load as f64 / UNIT;
        }
    }

    /// Removes the entries of pieces that were taken away once they outnumber the others. A task of
    /// many time slices leaves one after each, and they would come to the top only near its end.
    fn prune(&mut self, class: usize) {
        let members = &self.members;
        let entry = &mut self.classes[class];
        if entry.queue.len() > 2 * entry.members as usize + LEAST_PRUNED {
            let executed = |(_, core, stamp): &(OrderedTime, u32, u32)| {
                members[*core as usize].executes(class, *stamp)
            };
            entry.queue.retain(|Reverse(piece)| executed(piece));
        }
    }

    /// Takes a core's piece out of its class.
    fn leave(&mut self, core: usize) {
        let member = &mut self.members[core];
        let Some(class) = member.class.take() else { return };
        let entry = &mut self.classes[class];
        entry.members -= 1;
        let sums = entry.load.iter_mut().chain(&mut entry.writes);
        for (sum, load) in sums.zip(member.load.into_iter().chain(member.writes)) {
            *sum -= load;
        }
        match entry.members {
            0 => self.disuse(class),
            _ => self.refresh(class),
        }
    }
}

impl<const R: usize, const W: usize> Contention<R, W> for Classes<R, W> {
    fn new(cores: usize, curves: [Curve; RESOURCES]) -> Self {
        let idle =
            Member { class: None, end: f64::INFINITY, stamp: 0, load: [0; R], writes: [0; W] };
        Self {
            flat: curves.iter().all(Curve::is_flat),
            curves,
            members: vec![idle; cores],
            classes: Vec::new(),
            by_key: HashMap::new(),
            used: Used {
                classes: Vec::new(),
                rates: [const { Vec::new() }; R],
                shares: [const { Vec::new() }; R],
                writes: [const { Vec::new() }; W],
                speeds: Vec::new(),
                times: Vec::new(),
                clocks: Vec::new(),
                firsts: Vec::new(),
            },
            stretch: [1.0; R],
            at: 0.0,
            stale: false,
        }
    }

    fn begin(&mut self, now: f64, core: usize, piece: &Piece<R, W>) {
        self.advance(now);
        self.leave(core);
        let class = self.class_of(&piece.group);
        let member = &mut self.members[core];
        let entry = &mut self.classes[class];
        member.class = Some(class);
        member.end = self.used.clocks[entry.place] + piece.time;
        member.stamp = member.stamp.wrapping_add(1);
        let units = |rate: f64| (rate * UNIT).round() as u64;
        (member.load, member.writes) = (piece.group.rate.map(units), piece.group.writes.map(units));
        entry.members += 1;
        let sums = entry.load.iter_mut().chain(&mut entry.writes);
        for (sum, load) in sums.zip(member.load.into_iter().chain(member.writes)) {
            *sum += load;
        }
        entry.queue.push(Reverse((OrderedTime::new(member.end), core as u32, member.stamp)));
        self.prune(class);
        self.refresh(class);
        self.stale = true;
    }

    fn end(&mut self, now: f64, core: usize) {
        self.advance(now);
        self.leave(core);
        self.stale = true;
    }

    fn left(&self, now: f64, core: usize) -> f64 {
        let member = &self.members[core];
        let Some(class) = member.class else { return 0.0 };
        let place = self.classes[class].place;
        let clock = self.used.clocks[place] + (now - self.at) * self.used.speeds[place];
        (member.end - clock).max(0.0)
    }

    fn next(&mut self, now: f64, until: f64) -> Option<(f64, usize)> {
        if self.stale {
            self.advance(now);
            self.settle();
        }
        let mut next = (f64::INFINITY, 0);
        let used = &self.used;
        let clocks = used.firsts.iter().zip(&used.clocks).zip(&used.times);
        for (place, ((first, clock), time)) in clocks.enumerate() {
            let end = self.at + (first - clock).max(0.0) * time;
            if end < next.0 {
                next = (end, place);
            }
        }
        if next.0 > until {
            return None;
        }
        let first = used.classes.get(next.1).and_then(|class| self.classes[*class].queue.peek());
        first.map(|Reverse((_, core, _))| (next.0, *core as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_by_little() {
        assert_eq!((share::<1>(0), share::<1>(97)), (0.0, 1.0));
        assert!((share::<1>(1) - LEAST_STALL).abs() < 1e-12);
        // A third of the steps is above 1/64, the others are between that and its third power.
        assert_eq!((share::<2>(145), share::<5>(73)), (1.0, 1.0));
        assert!((share::<2>(97) - LEAST_STALL).abs() < 1e-12);
        assert!((share::<5>(1) - LEAST_STALL.powi(3)).abs() < 1e-12);
        for value in [LEAST_STALL, 0.02, 0.123, 0.5, 0.99, 1.0] {
            let rounded = share::<1>(step::<1>(value));
            assert!((rounded / value - 1.0).abs() < 0.022, "{value} {rounded}");
            assert_eq!(step::<1>(rounded), step::<1>(value));
        }
        for value in [4e-6, 1e-4, 0.002, 0.0123, 0.02, 0.5] {
            assert!((rounded::<2>(value) / value - 1.0).abs() < 0.045, "{value}");
            assert!((rounded::<5>(value) / value - 1.0).abs() < 0.091, "{value}");
        }
        assert_eq!((step::<2>(0.0), step::<2>(1e-9)), (0, 1));
    }

    /// One core is busy for an hour, which is a short time for the two tasks between which the
    /// other one alternates: what is left of their pieces never comes to the top of the queue.
    #[test]
    fn time_slices_leave_few_entries_behind() {
        let mut classes = Classes::<1, 0>::new(2, std::array::from_fn(|_| Curve::flat()));
        let group = Group { rate: [0.25], share: [0.5], writes: [] };
        classes.begin(0.0, 0, &Piece { time: 4e12, group });
        let (slice, mut left) = (4e6, [1e13; 2]);
        for turn in 0..10_000 {
            let now = f64::from(turn) * slice;
            let task = turn as usize % 2;
            classes.begin(now, 1, &Piece { time: left[task], group });
            assert_eq!(classes.next(now, f64::INFINITY), Some((4e12, 0)));
            left[task] = classes.left(now + slice, 1);
            assert!(classes.classes[0].queue.len() <= 2 * 2 + LEAST_PRUNED);
        }
        assert_eq!(left, [1e13 - 5_000.0 * slice; 2]);
    }
}
