//! Timers of the cores, and the choice of the one that fires next.

use std::hint::select_unpredictable;

use memweir_core::Nanos;

/// Purpose of a core's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The slice of the running task ends.
    Slice,
    /// The core looks for a longer queue.
    Balance,
}

const TIMERS: [Timer; 2] = [Timer::Slice, Timer::Balance];

/// Time of a timer that is not set.
const NEVER: Nanos = Nanos(u64::MAX);

/// The timers of all cores as a tournament tree: neighbors compete, then the winners, and the
/// earliest is at the root. Setting a timer, set before or not, takes one comparison per level.
#[derive(Debug)]
pub(super) struct Timers {
    /// Winners: the root is at 1, and the two candidates for a place are at twice its index and the
    /// next one. The second half holds the timers themselves, core by core.
    rounds: Vec<(Nanos, usize)>,
}

impl Timers {
    /// Creates timers, none of them set.
    pub(super) fn new(cores: usize) -> Self {
        let leaves = (cores * TIMERS.len()).next_power_of_two();
        // Of equal times the first wins, so each place belongs to the first leaf below it.
        let leaf = |place: usize| place << (leaves.ilog2() - place.max(1).ilog2());
        Self { rounds: (0..2 * leaves).map(|place| (NEVER, leaf(place))).collect() }
    }

    fn leaf(&self, core: usize, timer: Timer) -> usize {
        self.rounds.len() / 2 + core * TIMERS.len() + timer as usize
    }

    /// Sets a timer to fire at `time` instead of its former time.
    pub(super) fn set(&mut self, core: usize, timer: Timer, time: Nanos) {
        let mut place = self.leaf(core, timer);
        let mut winner = (time, place);
        self.rounds[place] = winner;
        while place > 1 {
            // Leaves are in the order of cores and kinds, so of equal times the first wins. The
            // winner is unpredictable, hence the code without branches. It is carried along instead
            // of read back, because the processor would stall on a load of one value that was just
            // stored in two parts.
            let other = self.rounds[place ^ 1];
            let loses = other < winner;
            winner.0.0 = select_unpredictable(loses, other.0.0, winner.0.0);
            winner.1 = select_unpredictable(loses, other.1, winner.1);
            place /= 2;
            self.rounds[place] = winner;
        }
    }

    /// Cancels a timer.
    pub(super) fn clear(&mut self, core: usize, timer: Timer) {
        self.set(core, timer, NEVER);
    }

    pub(super) fn is_set(&self, core: usize, timer: Timer) -> bool {
        self.rounds[self.leaf(core, timer)].0 != NEVER
    }

    /// Returns the timer that fires next: of equal times that of the first core, and of one core
    /// its slice. The time is `NEVER` if no timer is set.
    pub(super) fn next(&self) -> (Nanos, usize, Timer) {
        let (time, leaf) = self.rounds[1];
        let number = leaf - self.rounds.len() / 2;
        (time, number / TIMERS.len(), TIMERS[number % TIMERS.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timers_fire_in_the_order_of_time_core_and_kind() {
        let mut timers = Timers::new(3);
        assert_eq!(timers.next().0, NEVER);
        timers.set(2, Timer::Slice, Nanos(5));
        timers.set(1, Timer::Balance, Nanos(5));
        timers.set(1, Timer::Slice, Nanos(5));
        timers.set(0, Timer::Balance, Nanos(9));
        timers.set(0, Timer::Slice, Nanos(1));
        timers.set(0, Timer::Slice, Nanos(7));
        let mut order = Vec::new();
        while timers.next().0 != NEVER {
            let (time, core, timer) = timers.next();
            assert!(timers.is_set(core, timer));
            timers.clear(core, timer);
            assert!(!timers.is_set(core, timer));
            order.push((time.0, core, timer));
        }
        let expected = [
            (5, 1, Timer::Slice),
            (5, 1, Timer::Balance),
            (5, 2, Timer::Slice),
            (7, 0, Timer::Slice),
            (9, 0, Timer::Balance),
        ];
        assert_eq!(order, expected);
    }

    proptest! {
        #[test]
        fn the_next_timer_is_the_first_in_a_list_of_them(
            cores in 1usize..12,
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), any::<bool>(), 0u64..8),
                1..60,
            ),
        ) {
            let (mut timers, mut list) = (Timers::new(cores), vec![NEVER; 2 * cores]);
            for (core, balance, time) in changes {
                let (core, timer) = (core.index(cores), TIMERS[usize::from(balance)]);
                // Few distinct times, so that several are equal; zero stands for no time.
                let time = if time == 0 { NEVER } else { Nanos(time) };
                timers.set(core, timer, time);
                list[2 * core + usize::from(balance)] = time;
                let first = list.iter().enumerate().min_by_key(|(place, time)| (**time, *place));
                let (place, time) = first.expect("there are cores");
                prop_assert_eq!(timers.next(), (*time, place / 2, TIMERS[place % 2]));
            }
        }
    }
}
