//! Selects the next command: of all candidates the one that can issue first, and of several at the
//! same time the one with the smallest key.

use super::Channel;
use super::sleep::Sleep;
use crate::command::CommandKind;
use crate::config::{PagePolicy, Scheduler};
use crate::queue::{CLOSED, NIL};
use crate::request::Direction;
use crate::timer::NEVER;

/// A command and its earliest time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
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
/// then waiting requests, then housekeeping.
pub(super) const REFRESH: u64 = 1 << 62;
pub(super) const WAITING: u64 = 2 << 62;
pub(super) const HOUSEKEEPING: u64 = 3 << 62;

impl Choice {
    /// No command.
    pub(super) const NONE: Self =
        Self { at: NEVER, key: NEVER, command: CommandKind::Refresh, slot: NIL, bank: 0 };

    #[inline]
    pub(super) fn offer(&mut self, other: Self) {
        if (other.at, other.key) < (self.at, self.key) {
            *self = other;
        }
    }
}

/// Returns the command that moves data in a direction.
pub(super) fn column(way: usize) -> CommandKind {
    if way == 0 { CommandKind::Read } else { CommandKind::Write }
}

/// Iterates over the set bits of `mask` in ascending order.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

impl Channel {
    /// Selects the next command.
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

    /// Selects the next command when only a request for `bank` has arrived.
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
        let mut best = self.choice;
        self.offer_bank(bank, way, &mut best);
        self.choice = best;
    }

    /// Starts or stops draining writes.
    fn choose_direction(&mut self) {
        let [reads, writes] = self.waiting;
        let was_draining = self.draining;
        if !self.draining {
            if (writes >= self.options.high && self.owed_reads == 0) || reads == 0 {
                self.draining = true;
            }
        } else if reads != 0 {
            if writes == 0 || writes < self.options.low {
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

    /// Offers requests whose rows were opened for them; returns true if one has exceeded the age
    /// limit. Without that limit, accesses in the other direction could go before it forever, and
    /// each would make it wait for a turnaround of the bus.
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

    /// Offers the oldest request, unless another one is still being served.
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
}
