//! Accesses that continue at a later time than they entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::core::Attempt;
use crate::clock::Time;

/// An access that continues at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at: Time,
    order: u64,
    core: usize,
    attempt: Attempt,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Accesses by the times at which they continue; of those at one time, the first to be put here is
/// the first.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    heap: BinaryHeap<Reverse<Due>>,
    /// Number of accesses put there so far.
    count: u64,
}

impl Delayed {
    /// Puts an access of a core here until `at`.
    pub(super) fn push(&mut self, at: Time, core: usize, attempt: Attempt) {
        self.count += 1;
        self.heap.push(Reverse(Due { at, order: self.count, core, attempt }));
    }

    /// Returns the time at which the first access continues; never if there is none.
    pub(super) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse(due)| due.at)
    }

    /// Takes the first access, with its core.
    pub(super) fn pop(&mut self) -> Option<(usize, Attempt)> {
        self.heap.pop().map(|Reverse(due)| (due.core, due.attempt))
    }

    /// Drops all accesses.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::PhysAddr;

    use super::*;
    use crate::stream::AccessKind;

    #[test]
    fn accesses_come_by_time_and_then_in_order() {
        let attempt = |number| Attempt {
            number: Some(number),
            address: PhysAddr(0),
            kind: AccessKind::Load,
            counted: true,
        };
        let mut delayed = Delayed::default();
        assert_eq!(delayed.next(), Time::NEVER);
        for (number, at) in [(0, 9), (1, 5), (2, 9), (3, 5)] {
            delayed.push(Time(at), 0, attempt(number));
        }
        assert_eq!(delayed.next(), Time(5));
        let order = std::iter::from_fn(|| delayed.pop()).filter_map(|(_, attempt)| attempt.number);
        assert_eq!(order.collect::<Vec<_>>(), [1, 3, 0, 2]);
    }
}
