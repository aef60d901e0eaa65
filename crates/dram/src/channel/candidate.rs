//! Candidates: commands that could be sent next. Of all candidates, the channel sends the one that
//! can be sent first, and of several at the same time the one with the smallest key.

use super::slots::NIL;
use crate::command::CommandKind;
use crate::timer::NEVER;

/// A command and its earliest cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) at: u64,
    /// Priority: the smallest key goes first.
    pub(super) key: u64,
    pub(super) command: CommandKind,
    /// The request that it serves, or [`NIL`].
    pub(super) slot: u16,
    /// The bank that it addresses, or a bank of the rank that it addresses.
    pub(super) bank: u16,
}

/// Classes of keys, highest priority first: requests whose row was opened for them, then refresh,
/// then waiting requests, then housekeeping. Within the first and the third class, the number of
/// the request follows.
pub(super) const REFRESH: u64 = 1 << 62;
pub(super) const WAITING: u64 = 2 << 62;
pub(super) const HOUSEKEEPING: u64 = 3 << 62;

impl Candidate {
    /// No command.
    pub(super) const NONE: Self =
        Self { at: NEVER, key: NEVER, command: CommandKind::Refresh, slot: NIL, bank: 0 };

    /// Replaces this candidate if `other` goes first.
    #[inline]
    pub(super) fn offer(&mut self, other: Self) {
        if (other.at, other.key) < (self.at, self.key) {
            *self = other;
        }
    }
}

/// Iterates over the set bits of a mask of banks in ascending order.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_goes_first_and_the_class_decides_between_equals() {
        let of = |at, key| Candidate { at, key, ..Candidate::NONE };
        let mut best = Candidate::NONE;
        for offered in [of(9, REFRESH), of(7, HOUSEKEEPING), of(7, WAITING | 5), of(7, WAITING | 6)]
        {
            best.offer(offered);
        }
        assert_eq!(best, of(7, WAITING | 5));
        best.offer(of(7, 1_000));
        assert_eq!(best.key, 1_000, "a row that was opened is used");
    }

    #[test]
    fn bits_come_in_ascending_order() {
        assert!(bits(1 << 63 | 0b101).eq([0, 2, 63]));
        assert_eq!(bits(0).next(), None);
    }
}
