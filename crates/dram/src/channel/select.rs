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

/// Earliest times of commands to a rank, as far as rank and channel are concerned.
#[derive(Clone, Copy)]
struct RankTimes {
    column: u64,
    activate: u64,
    precharge: u64,
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
        for number in 0..self.ranks.len() {
            let rank = &self.ranks[number];
            if self.options.sleeps() && self.offer_sleep(number, &mut best) {
                continue;
            }
            self.offer_active(number, &mut best);
            if rank.owed > 0 {
                self.offer_refresh(number, &mut best);
                continue;
            }
            if rank.refreshing != 0 {
                self.offer_bank_refresh(number, &mut best);
            }
            if !in_order {
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
        if !is_served || rank.owed > 0 || rank.refreshing >> self.bit(bank) & 1 == 1 {
            return;
        }
        let times = self.rank_times(number, way);
        let mut best = self.choice;
        self.offer_bank(bank, way, times, &mut best);
        self.choice = best;
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
            activate: time(CommandKind::Activate),
            precharge: time(CommandKind::Precharge),
        }
    }

    /// Requests whose rows were opened for them.
    fn offer_active(&self, number: usize, best: &mut Choice) {
        let rank = &self.ranks[number];
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
        }
    }

    /// What waits for the banks of a rank.
    fn offer_waiting(&self, number: usize, way: usize, best: &mut Choice) {
        let rank = &self.ranks[number];
        let work = rank.work[way] & !rank.refreshing;
        if work == 0 {
            return;
        }
        let times = self.rank_times(number, way);
        let first = number * self.shape().banks_of_rank();
        for bit in bits(work) {
            self.offer_bank(first + bit, way, times, best);
        }
    }

    /// What waits for one bank.
    #[inline]
    fn offer_bank(&self, number: usize, way: usize, times: RankTimes, best: &mut Choice) {
        let bank = &self.banks[number];
        let list = &bank.lists[way];
        let group = self.shape().group_of(number);
        let mut offer = |command: CommandKind, earliest: u64, slot: u16| {
            let at = earliest.max(self.timer.of_bank(command, number, group));
            if at <= best.at {
                let key = WAITING | self.priority(number, slot);
                best.offer(Choice { at, key, command, slot, bank: number as u16 });
            }
        };
        if bank.row == CLOSED {
            offer(CommandKind::Activate, times.activate, list.other);
            return;
        }
        let is_held = list.hit != NIL && list.other != NIL && self.is_aged(list.other, list.hit);
        if list.hit != NIL && !is_held {
            offer(column(way), times.column, list.hit);
        }
        let may_close = list.hit == NIL || is_held || self.options.scheduler == Scheduler::FrFcfs;
        if list.other != NIL && bank.active == NIL && may_close {
            offer(CommandKind::Precharge, times.precharge, list.other);
        }
    }

    /// Whether `other` has waited for too long to let the younger `hit` go first.
    fn is_aged(&self, other: u16, hit: u16) -> bool {
        let (other, hit) = (self.slots.get(other), self.slots.get(hit));
        other.number < hit.number
            && self.floor.saturating_sub(other.accepted) > self.options.age_limit
    }

    fn priority(&self, bank: usize, slot: u16) -> u64 {
        let request = self.slots.get(slot);
        let is_in_turn = self.options.scheduler == Scheduler::PerBank
            && self.floor.saturating_sub(request.accepted) <= self.options.age_limit;
        if !is_in_turn {
            return request.number;
        }
        // Banks in turn, after whatever is too old.
        let banks = self.banks.len();
        let distance = (bank + banks - self.last_bank - 1) % banks;
        (1 << 61) | distance as u64
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
