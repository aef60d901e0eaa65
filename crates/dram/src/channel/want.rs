//! The next command that each bank needs for its waiting requests, with the earliest time that the
//! bank itself allows, cached until the state of the bank changes; and the soonest of them all.

use super::Channel;
use super::select::{Choice, WAITING, bits, column};
use crate::command::CommandKind;
use crate::config::Scheduler;
use crate::queue::{CLOSED, NIL};
use crate::timer::NEVER;

/// The next commands that the requests of one direction need at a bank. Times are the earliest that
/// the bank itself allows, so they change only when the state of the bank does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    /// Read or write of the open row.
    column_at: u64,
    column_key: u64,
    /// Activate or precharge.
    row_at: u64,
    row_key: u64,
    column_slot: u16,
    row_slot: u16,
    row: Row,
}

/// The row command that a bank needs.
#[derive(Clone, Copy, Debug)]
enum Row {
    Open,
    Close,
}

impl Want {
    pub(super) const NOTHING: Self = Self {
        column_at: NEVER,
        column_key: NEVER,
        row_at: NEVER,
        row_key: NEVER,
        column_slot: NIL,
        row_slot: NIL,
        row: Row::Open,
    };
}

/// The soonest of the wanted commands. It is compared without branches, as most comparisons are a
/// toss-up.
#[derive(Clone, Copy)]
struct Soonest {
    /// The time in the upper half and the key in the lower.
    rank: u128,
    /// The bank, and in the lowest bit whether the row command is meant.
    place: usize,
}

impl Soonest {
    const NONE: Self = Self { rank: u128::MAX, place: 0 };

    #[inline]
    fn offer(&mut self, at: u64, key: u64, place: usize) {
        let rank = u128::from(at) << 64 | u128::from(key);
        let is_sooner = rank < self.rank;
        self.rank = if is_sooner { rank } else { self.rank };
        self.place = if is_sooner { place } else { self.place };
    }
}

/// Earliest times of commands as far as the levels above the bank are concerned.
#[derive(Clone, Copy)]
struct RankTimes {
    column: u64,
    /// Times of an activate and of a precharge.
    row: [u64; 2],
}

impl Channel {
    fn rank_times(&self, rank: usize, way: usize) -> RankTimes {
        let time = |command| self.timer.of_rank(command, rank).max(self.floor);
        RankTimes {
            column: time(column(way)),
            row: [time(CommandKind::Activate), time(CommandKind::Precharge)],
        }
    }

    /// Offers the soonest command for the requests that wait at the banks of a rank.
    pub(super) fn offer_waiting(&mut self, number: usize, way: usize, best: &mut Choice) {
        let shape = self.shape();
        let first = number * shape.banks_of_rank();
        let rank = &mut self.ranks[number];
        let work = rank.work[way] & !rank.refreshing;
        let stale = std::mem::take(&mut rank.stale[way]) & rank.work[way];
        for bit in bits(stale) {
            self.wants[way][first + bit] = self.want(first + bit, way);
        }
        if work == 0 {
            return;
        }
        let times = self.rank_times(number, way);
        let of_group = !0u64 >> (64 - shape.banks);
        let mut soonest = Soonest::NONE;
        for group in 0..shape.groups {
            let work = work & of_group << (group * shape.banks);
            if work != 0 {
                let times = self.group_times(number * shape.groups + group, way, times);
                for bit in bits(work) {
                    self.compare(first + bit, way, times, &mut soonest);
                }
            }
        }
        best.offer(self.choice_of(soonest, way));
    }

    /// Computes the wanted commands of one bank again and offers the sooner one.
    #[inline]
    pub(super) fn offer_bank(&mut self, bank: usize, way: usize, best: &mut Choice) {
        let (number, bit) = (self.shape().rank_of(bank), self.bit(bank));
        let times = self.rank_times(number, way);
        let times = self.group_times(self.shape().group_of(bank), way, times);
        self.ranks[number].stale[way] &= !(1 << bit);
        self.wants[way][bank] = self.want(bank, way);
        let mut soonest = Soonest::NONE;
        self.compare(bank, way, times, &mut soonest);
        best.offer(self.choice_of(soonest, way));
    }

    /// Returns the earliest times with the limits of the bank group included.
    #[inline]
    fn group_times(&self, group: usize, way: usize, times: RankTimes) -> RankTimes {
        let time = |command, earliest: u64| self.timer.of_group(command, group).max(earliest);
        RankTimes {
            column: time(column(way), times.column),
            row: [
                time(CommandKind::Activate, times.row[0]),
                time(CommandKind::Precharge, times.row[1]),
            ],
        }
    }

    /// Compares the wanted commands of a bank with the soonest so far.
    #[inline]
    fn compare(&self, bank: usize, way: usize, times: RankTimes, soonest: &mut Soonest) {
        let want = &self.wants[way][bank];
        let column = want.column_at.max(times.column);
        let row = want.row_at.max(times.row[want.row as usize]);
        let (mut column_key, mut row_key) = (want.column_key, want.row_key);
        if self.options.scheduler == Scheduler::PerBank {
            column_key = self.in_turn(bank, want.column_slot, column_key);
            row_key = self.in_turn(bank, want.row_slot, row_key);
        }
        soonest.offer(column, column_key, bank << 1);
        soonest.offer(row, row_key, bank << 1 | 1);
    }

    fn choice_of(&self, soonest: Soonest, way: usize) -> Choice {
        let at = (soonest.rank >> 64) as u64;
        if at == NEVER {
            return Choice::NONE;
        }
        let bank = soonest.place >> 1;
        let want = &self.wants[way][bank];
        let (command, slot) = match (soonest.place & 1, want.row) {
            (0, _) => (column(way), want.column_slot),
            (_, Row::Open) => (CommandKind::Activate, want.row_slot),
            (_, Row::Close) => (CommandKind::Precharge, want.row_slot),
        };
        Choice { at, key: soonest.rank as u64, command, slot, bank: bank as u16 }
    }

    /// Returns the wanted commands of one bank.
    fn want(&self, number: usize, way: usize) -> Want {
        let bank = &self.banks[number];
        let list = &bank.lists[way];
        let key = |slot: u16| WAITING | self.slots.get(slot).number;
        let mut want = Want::NOTHING;
        if bank.row == CLOSED {
            if list.other != NIL {
                want.row_at = self.timer.of_bank(CommandKind::Activate, number);
                (want.row_key, want.row_slot) = (key(list.other), list.other);
            }
            return want;
        }
        let is_held = list.hit != NIL && list.other != NIL && self.is_aged(list.other, list.hit);
        if list.hit != NIL && !is_held {
            want.column_at = self.timer.of_bank(column(way), number);
            (want.column_key, want.column_slot) = (key(list.hit), list.hit);
        }
        let may_close = list.hit == NIL || is_held || self.options.scheduler == Scheduler::FrFcfs;
        if list.other != NIL && bank.active == NIL && may_close {
            want.row = Row::Close;
            want.row_at = self.timer.of_bank(CommandKind::Precharge, number);
            (want.row_key, want.row_slot) = (key(list.other), list.other);
        }
        want
    }

    /// Returns true if `other` has waited too long to let the younger `hit` go first.
    fn is_aged(&self, other: u16, hit: u16) -> bool {
        let (other, hit) = (self.slots.get(other), self.slots.get(hit));
        other.number < hit.number
            && self.floor.saturating_sub(other.accepted) > self.options.age_limit
    }

    /// Returns the key of a request where banks take turns; a request beyond the age limit goes
    /// first.
    fn in_turn(&self, bank: usize, slot: u16, key: u64) -> u64 {
        if slot == NIL {
            return key;
        }
        let waited = self.floor.saturating_sub(self.slots.get(slot).accepted);
        if waited > self.options.age_limit {
            return key;
        }
        let banks = self.banks.len();
        let distance = (bank + banks - self.last_bank - 1) % banks;
        WAITING | 1 << 61 | distance as u64
    }
}
