//! What a controller does next: of all commands that are wanted the one that can issue first, and
//! of several at the same time the one that counts most.

use super::sleep::Sleep;
use super::{Channel, Rank};
use crate::command::CommandKind;
use crate::config::{PagePolicy, Scheduler};
use crate::queue::{CLOSED, NIL};
use crate::request::Direction;
use crate::spec::BankRefresh;
use crate::timer::NEVER;

/// A command and its earliest time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) at: u64,
    /// The smallest counts most.
    key: u64,
    pub(super) command: CommandKind,
    /// The request that it serves, if it does.
    pub(super) slot: u16,
    /// The bank that it goes to, or one of its rank.
    pub(super) bank: u16,
}

/// Ranks of keys: requests whose row was opened for them, then refresh, then what waits, then
/// housekeeping.
const REFRESH: u64 = 1 << 62;
const WAITING: u64 = 2 << 62;
const HOUSEKEEPING: u64 = 3 << 62;

impl Choice {
    /// Nothing to do.
    pub(super) const NONE: Self =
        Self { at: NEVER, key: NEVER, command: CommandKind::Refresh, slot: NIL, bank: 0 };

    #[inline]
    fn offer(&mut self, other: Self) {
        if (other.at, other.key) < (self.at, self.key) {
            *self = other;
        }
    }
}

/// What the requests of one direction want of a bank, with earliest times as far as the bank alone
/// is concerned: they change only when something happens to the bank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    /// An access to the open row.
    column_at: u64,
    column_key: u64,
    /// Opening or closing a row.
    row_at: u64,
    row_key: u64,
    column_slot: u16,
    row_slot: u16,
    row: Row,
}

/// Whether a row is to be opened or closed.
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

/// The soonest of what is wanted, compared without branches: most comparisons are a toss-up.
#[derive(Clone, Copy)]
struct Soonest {
    /// The time, and below it the key.
    rank: u128,
    /// The bank, and in the lowest bit whether its row is meant.
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

/// Earliest times of commands as far as everything above the bank is concerned.
#[derive(Clone, Copy)]
struct RankTimes {
    column: u64,
    /// Opening and closing.
    row: [u64; 2],
}

/// The command that moves data.
fn column(way: usize) -> CommandKind {
    if way == 0 { CommandKind::Read } else { CommandKind::Write }
}

/// The set bits of `mask`, ascending.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

impl Channel {
    /// Chooses anew.
    pub(super) fn select(&mut self) {
        self.choose_direction();
        let mut best = Choice::NONE;
        let way = usize::from(self.draining);
        let in_order = self.options.scheduler == Scheduler::Fcfs;
        self.in_hurry = false;
        for number in 0..self.ranks.len() {
            self.in_hurry |= self.offer_active(number, &mut best);
        }
        for number in 0..self.ranks.len() {
            if self.options.sleeps() && self.offer_sleep(number, &mut best) {
                continue;
            }
            if self.ranks[number].owed > 0 {
                self.offer_refresh(number, &mut best);
                continue;
            }
            if self.ranks[number].refreshing != 0 {
                self.offer_bank_refresh(number, &mut best);
            }
            if !in_order && !self.in_hurry {
                self.offer_waiting(number, way, &mut best);
            }
            if matches!(self.options.page, PagePolicy::Adaptive { .. }) {
                self.offer_timeouts(number, &mut best);
            }
        }
        if in_order {
            self.offer_oldest(way, &mut best);
        }
        self.choice = best;
    }

    /// Chooses anew where only a request for `bank` has come.
    #[inline]
    pub(super) fn select_after_arrival(&mut self, bank: usize, way: usize) {
        let was_draining = self.draining;
        self.choose_direction();
        let is_plain = !self.options.sleeps()
            && matches!(self.options.scheduler, Scheduler::FrFcfs | Scheduler::FrFcfsHit);
        if self.draining != was_draining || !is_plain {
            self.select();
            return;
        }
        let number = self.shape().rank_of(bank);
        let rank = &self.ranks[number];
        let is_served = way == usize::from(self.draining);
        if !is_served
            || self.in_hurry
            || rank.owed > 0
            || rank.refreshing >> self.bit(bank) & 1 == 1
        {
            return;
        }
        let times = self.rank_times(number, way);
        let times = self.group_times(self.shape().group_of(bank), way, times);
        let bit = 1 << self.bit(bank);
        self.ranks[number].stale[way] &= !bit;
        self.wants[way][bank] = self.want(bank, way);
        let mut soonest = Soonest::NONE;
        self.compare(bank, way, times, &mut soonest);
        let choice = self.choice_of(soonest, way);
        self.choice.offer(choice);
    }

    /// Begins or ends draining writes.
    fn choose_direction(&mut self) {
        let [reads, writes] = self.waiting;
        let was_draining = self.draining;
        if !self.draining {
            if (writes >= self.options.high && self.owed_reads == 0) || reads == 0 {
                self.draining = true;
            }
        } else if reads != 0 {
            if writes < self.options.low {
                self.draining = false;
            } else if self.floor.saturating_sub(self.drain_began) > self.options.age_limit {
                self.draining = false;
                self.owed_reads = reads;
            }
        }
        if self.draining && (!was_draining || reads == 0) {
            self.drain_began = self.floor;
            self.owed_reads = 0;
        }
    }

    fn rank_times(&self, rank: usize, way: usize) -> RankTimes {
        let time = |command| self.timer.of_rank(command, rank).max(self.floor);
        RankTimes {
            column: time(column(way)),
            row: [time(CommandKind::Activate), time(CommandKind::Precharge)],
        }
    }

    /// Requests whose rows were opened for them; says whether one has waited for too long. Without
    /// end, accesses in the other direction could go before it, each of which makes it wait for the
    /// bus to turn around.
    fn offer_active(&self, number: usize, best: &mut Choice) -> bool {
        let rank = &self.ranks[number];
        let mut oldest = self.floor;
        for bit in bits(rank.active) {
            let bank = number * self.shape().banks_of_rank() + bit;
            let slot = self.banks[bank].active;
            let request = self.slots.get(slot);
            let command = match request.request.direction {
                Direction::Read => CommandKind::Read,
                Direction::Write => CommandKind::Write,
            };
            let at = self.timer.for_bank(command, bank).max(self.floor);
            best.offer(Choice { at, key: request.number, command, slot, bank: bank as u16 });
            oldest = oldest.min(request.accepted);
        }
        self.floor - oldest > self.options.age_limit
    }

    /// What waits for the banks of a rank.
    fn offer_waiting(&mut self, number: usize, way: usize, best: &mut Choice) {
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

    /// Earliest times as far as the group is concerned as well.
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

    /// Holds what is wanted of a bank against the soonest of the others.
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

    /// What is wanted of one bank.
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

    /// Whether `other` has waited for too long to let the younger `hit` go first.
    fn is_aged(&self, other: u16, hit: u16) -> bool {
        let (other, hit) = (self.slots.get(other), self.slots.get(hit));
        other.number < hit.number
            && self.floor.saturating_sub(other.accepted) > self.options.age_limit
    }

    /// The key of a request where banks take turns, after whatever is too old.
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

    /// The oldest request, and nothing while another is under way.
    fn offer_oldest(&self, way: usize, best: &mut Choice) {
        if self.ranks.iter().any(|rank| rank.active != 0) {
            return;
        }
        let first = |rank: usize| rank * self.shape().banks_of_rank();
        let banks = self
            .ranks
            .iter()
            .enumerate()
            .flat_map(|(rank, state)| bits(state.work[way]).map(move |bit| first(rank) + bit));
        let oldest =
            banks.min_by_key(|bank| self.slots.get(self.banks[*bank].lists[way].head()).number);
        let Some(number) = oldest else { return };
        let rank = self.shape().rank_of(number);
        let state = &self.ranks[rank];
        if state.owed > 0
            || state.refreshing >> self.bit(number) & 1 == 1
            || !matches!(state.sleep, Sleep::Awake)
        {
            return;
        }
        let bank = &self.banks[number];
        let slot = bank.lists[way].head();
        let command = match bank.row {
            CLOSED => CommandKind::Activate,
            row if row == self.slots.get(slot).row => column(way),
            _ => CommandKind::Precharge,
        };
        let at = self.timer.for_bank(command, number).max(self.floor);
        best.offer(Choice { at, key: WAITING, command, slot, bank: number as u16 });
    }

    /// The refresh of a rank, or closing its banks for it.
    fn offer_refresh(&self, number: usize, best: &mut Choice) {
        let rank = &self.ranks[number];
        if rank.active != 0 {
            return;
        }
        self.offer_to_rank(number, rank.closing_or(CommandKind::Refresh), REFRESH, 0, best);
    }

    /// A command to a whole rank, not before `after`.
    pub(super) fn offer_to_rank(
        &self,
        number: usize,
        command: CommandKind,
        key: u64,
        after: u64,
        best: &mut Choice,
    ) {
        let at = self.timer.for_rank(command, number).max(self.floor).max(after);
        let bank = (number * self.shape().banks_of_rank()) as u16;
        best.offer(Choice { at, key, command, slot: NIL, bank });
    }

    /// The refresh of some banks, or closing them for it.
    fn offer_bank_refresh(&self, number: usize, best: &mut Choice) {
        let rank = &self.ranks[number];
        let first = number * self.shape().banks_of_rank();
        let banks = || bits(rank.refreshing).map(|bit| first + bit);
        let offer = |at: u64, command, bank: usize, best: &mut Choice| {
            let at = at.max(self.floor);
            best.offer(Choice { at, key: REFRESH, command, slot: NIL, bank: bank as u16 });
        };
        if rank.refreshing & rank.open != 0 {
            for bit in bits(rank.refreshing & rank.open & !rank.active) {
                let at = self.timer.for_bank(CommandKind::Precharge, first + bit);
                offer(at, CommandKind::Precharge, first + bit, best);
            }
            return;
        }
        let Some(bank) = banks().next() else { return };
        let together = match rank.bank_refresh {
            BankRefresh::SameNumber => usize::MAX,
            _ => 1,
        };
        let times = banks().take(together);
        let times = times.map(|bank| self.timer.for_bank(CommandKind::RefreshBank, bank));
        offer(times.max().unwrap_or(0), CommandKind::RefreshBank, bank, best);
    }

    /// Rows that have not been used for some time.
    fn offer_timeouts(&self, number: usize, best: &mut Choice) {
        let rank = &self.ranks[number];
        let first = number * self.shape().banks_of_rank();
        for bit in bits(rank.open & !rank.active & !rank.refreshing) {
            let bank = &self.banks[first + bit];
            if bank.lists.iter().any(|list| list.hit != NIL) {
                continue;
            }
            let earliest = self.timer.for_bank(CommandKind::Precharge, first + bit);
            let at = earliest.max(self.floor).max(bank.last_use + bank.timeout);
            let (command, key) = (CommandKind::Precharge, HOUSEKEEPING);
            best.offer(Choice { at, key, command, slot: NIL, bank: (first + bit) as u16 });
        }
    }
}

impl Rank {
    /// `command`, which needs all banks closed, or what closes them.
    pub(super) fn closing_or(&self, command: CommandKind) -> CommandKind {
        if self.open != 0 { CommandKind::PrechargeAll } else { command }
    }
}

/// The key of housekeeping commands to ranks.
pub(super) const SLEEP: u64 = HOUSEKEEPING;
/// The key of commands that wake a rank.
pub(super) const WAKE: u64 = REFRESH;
