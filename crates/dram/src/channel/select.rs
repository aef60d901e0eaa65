//! The arbiter: selects the next command.

use memweir_core::Direction;

use super::Channel;
use super::candidate::{Candidate, HOUSEKEEPING, WAITING, bits};
use super::needs::View;
use super::power::Duty;
use super::slots::{CLOSED, NIL};
use crate::command::CommandKind;
use crate::config::Scheduler;
use crate::timer::BankId;

impl Channel {
    /// Selects the next command.
    pub(super) fn select(&mut self) {
        self.update_drain();
        let mut best = Candidate::NONE;
        let in_order = self.scheduler == Scheduler::Fcfs;
        if !in_order {
            self.keep_rows_of_aged_hits();
        }
        self.in_hurry = false;
        for rank in 0..self.bus.shape().ranks {
            self.in_hurry |= self.offer_active(rank, &mut best);
        }
        for rank in 0..self.bus.shape().ranks {
            if self.power.is_managed() && self.offer_power(rank, &mut best) {
                continue;
            }
            if self.refresh.is_owed(rank) {
                self.refresh.offer_rank(rank, &self.rows, &self.bus, &mut best);
                continue;
            }
            let refreshing = self.refresh.waiting(rank);
            if refreshing != 0 {
                self.refresh.offer_banks(rank, &self.rows, &self.bus, &mut best);
            }
            if !in_order && !self.in_hurry {
                let view = View { bus: &self.bus, queues: &self.queues, rows: &self.rows };
                self.needs.offer(rank, self.drain.served(), refreshing, view, &mut best);
            }
            self.rows.offer_timeouts(rank, refreshing, &self.queues, &self.bus, &mut best);
        }
        if in_order {
            self.offer_oldest(self.drain.served(), &mut best);
        }
        self.selected = best;
    }

    /// Selects the next command when only a request has arrived.
    #[inline]
    pub(super) fn select_after_arrival(&mut self, bank: BankId, direction: Direction) {
        let has_turned = self.update_drain();
        let is_plain = !self.power.is_managed()
            && matches!(self.scheduler, Scheduler::FrFcfs | Scheduler::FrFcfsHit);
        if has_turned || !is_plain || self.may_keep_open(bank) {
            self.select();
            return;
        }
        if direction != self.drain.served() || self.in_hurry || self.refresh.holds(bank) {
            return;
        }
        let mut best = self.selected;
        let view = View { bus: &self.bus, queues: &self.queues, rows: &self.rows };
        self.needs.offer_bank(bank, direction, view, &mut best);
        self.selected = best;
    }

    /// Begins or ends a drain; returns true if the direction that is served has changed.
    #[inline]
    fn update_drain(&mut self) -> bool {
        let (waiting, unserved) = (self.queues.waiting(), self.queues.unserved_reads());
        self.drain.update(waiting, unserved, self.bus.floor())
    }

    /// Returns true if the row of a bank is to be closed next, but not if a request for it arrives:
    /// because it was idle for its timeout, or because none of its hits waited.
    fn may_keep_open(&self, bank: BankId) -> bool {
        let next = &self.selected;
        next.command == CommandKind::Precharge
            && usize::from(next.bank) == bank.index
            && (next.key == HOUSEKEEPING || self.scheduler == Scheduler::FrFcfsHit)
    }

    /// Treats the oldest row-buffer hit of each bank as if its row had been opened for it, if it
    /// has exceeded the age limit. Without that, hits in another rank could go before it forever:
    /// each of them can be sent sooner, as the bus needs more time between ranks.
    fn keep_rows_of_aged_hits(&mut self) {
        let direction = self.drain.served();
        let limit = self.bus.floor().saturating_sub(self.age_limit);
        if !self.queues.any_since_before(direction, limit) {
            return;
        }
        let shape = self.bus.shape();
        for rank in (0..shape.ranks).filter(|rank| self.power.is_awake(*rank)) {
            let inactive = !self.rows.active_banks(rank);
            for bit in bits(self.queues.work(rank, direction) & inactive) {
                let bank = shape.bank(shape.first_bank(rank) + bit);
                let hit = self.queues.list(bank.index, direction).hit;
                let is_aged = hit != NIL && self.queues.get(hit).accepted < limit;
                if is_aged && !self.refresh.holds(bank) {
                    self.queues.take(hit, bank, self.rows.row(bank.index));
                    self.rows.keep(bank, hit);
                    self.needs.changed(rank, bank.mask());
                }
            }
        }
    }

    /// Offers requests whose rows were opened for them; returns true if one has exceeded the age
    /// limit. Without that limit, accesses in the other direction could go before it forever, and
    /// each would make it wait for a turnaround of the bus.
    fn offer_active(&self, rank: usize, best: &mut Candidate) -> bool {
        let floor = self.bus.floor();
        let mut oldest = floor;
        for bit in bits(self.rows.active_banks(rank)) {
            let bank = self.bus.shape().first_bank(rank) + bit;
            let slot = self.rows.active(bank);
            let waiting = self.queues.get(slot);
            let command = CommandKind::from(waiting.request.direction);
            let at = self.bus.earliest(command, bank);
            best.offer(Candidate { at, key: waiting.number, command, slot, bank: bank as u16 });
            oldest = oldest.min(waiting.accepted);
        }
        floor - oldest > self.age_limit
    }

    /// Offers to put a rank to sleep or to wake it; returns true if it can get no other command.
    fn offer_power(&self, rank: usize, best: &mut Candidate) -> bool {
        let waiting = self.queues.work(rank, Direction::Read)
            | self.queues.work(rank, Direction::Write)
            | self.rows.active_banks(rank);
        let duty = if waiting != 0 {
            Duty::Requests
        } else if self.refresh.is_owed(rank) || self.refresh.waiting(rank) != 0 {
            Duty::Refresh
        } else {
            Duty::None
        };
        self.power.offer(rank, duty, &self.rows, &self.bus, best)
    }

    /// Offers the oldest request, unless another one is still being served.
    fn offer_oldest(&self, direction: Direction, best: &mut Candidate) {
        let shape = self.bus.shape();
        let ranks = 0..shape.ranks;
        if ranks.clone().any(|rank| self.rows.active_banks(rank) != 0) {
            return;
        }
        let banks = ranks.flat_map(|rank| {
            let first = shape.first_bank(rank);
            bits(self.queues.work(rank, direction)).map(move |bit| first + bit)
        });
        let head = |bank: usize| self.queues.list(bank, direction).head();
        let Some(bank) = banks.min_by_key(|bank| self.queues.get(head(*bank)).number) else {
            return;
        };
        let place = shape.bank(bank);
        if self.refresh.holds(place) || !self.power.is_awake(place.rank) {
            return;
        }
        let slot = head(bank);
        let command = match self.rows.row(bank) {
            CLOSED => CommandKind::Activate,
            row if row == self.queues.get(slot).row => CommandKind::from(direction),
            _ => CommandKind::Precharge,
        };
        let at = self.bus.earliest(command, bank);
        best.offer(Candidate { at, key: WAITING, command, slot, bank: bank as u16 });
    }
}
