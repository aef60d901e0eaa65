//! Effects of a command on the state of a channel.

use memweir_core::Cycles;

use super::Channel;
use crate::command::{BankAddress, Command, CommandKind};
use crate::config::PagePolicy;
use crate::observer::Observer;
use crate::queue::{CLOSED, NIL};
use crate::request::{Completion, Direction, RowOutcome};

/// The largest factor between a learned timeout and the initial one, in either direction.
const TIMEOUT_RANGE: u64 = 16;

impl Channel {
    /// Issues the selected command at `now` and selects the next.
    pub(super) fn issue(&mut self, now: u64, observer: &mut impl Observer) {
        let choice = self.choice;
        let (bank, slot) = (choice.bank as usize, choice.slot);
        let rank = self.shape().rank_of(bank);
        let command = match choice.command {
            CommandKind::Read | CommandKind::Write => {
                self.with_precharge(choice.command, bank, slot, now)
            }
            other => other,
        };
        let (mut row, mut column) = (0, 0);
        match command {
            CommandKind::Activate => row = self.slots.get(slot).row,
            CommandKind::Read
            | CommandKind::ReadAutoPrecharge
            | CommandKind::Write
            | CommandKind::WriteAutoPrecharge => {
                (row, column) = (self.slots.get(slot).row, self.slots.get(slot).column);
            }
            _ => {}
        }
        self.timer.issue(command, bank, now);
        self.floor = now + 1;
        self.grow_stale(command, bank);
        observer.command(&Command {
            at: Cycles(now),
            kind: command,
            to: self.address(command, bank),
            row,
            column,
        });
        match command {
            CommandKind::Activate => self.activate(bank, slot, now),
            CommandKind::Precharge => self.precharge(bank, slot),
            CommandKind::Read
            | CommandKind::ReadAutoPrecharge
            | CommandKind::Write
            | CommandKind::WriteAutoPrecharge => self.access(command, bank, slot, now),
            CommandKind::PrechargeAll => self.precharge_all(rank),
            CommandKind::Refresh => {
                self.ranks[rank].owed -= 1;
                self.stats.refreshes += 1;
            }
            CommandKind::RefreshBank => self.refresh_bank(bank),
            CommandKind::PowerDownEnter
            | CommandKind::PowerDownExit
            | CommandKind::SelfRefreshEnter
            | CommandKind::SelfRefreshExit => self.fall_asleep_or_wake(command, rank, now),
        }
        self.select();
    }

    /// Marks the wanted commands that `command` affects as out of date: those of its bank, or of
    /// its rank.
    fn grow_stale(&mut self, command: CommandKind, bank: usize) {
        let banks = match command {
            CommandKind::Activate
            | CommandKind::Precharge
            | CommandKind::Read
            | CommandKind::ReadAutoPrecharge
            | CommandKind::Write
            | CommandKind::WriteAutoPrecharge => 1 << self.bit(bank),
            _ => !0,
        };
        let rank = self.shape().rank_of(bank);
        self.ranks[rank].stale.iter_mut().for_each(|stale| *stale |= banks);
    }

    /// Returns the column command, with automatic precharge if it should close the row.
    fn with_precharge(
        &self,
        command: CommandKind,
        bank: usize,
        slot: u16,
        now: u64,
    ) -> CommandKind {
        let PagePolicy::Closed { accesses } = self.options.page else { return command };
        let state = &self.banks[bank];
        let is_needed = state.active != NIL && state.active != slot;
        let closing = match command {
            CommandKind::Read => CommandKind::ReadAutoPrecharge,
            _ => CommandKind::WriteAutoPrecharge,
        };
        let is_last = state.accesses + 1 >= accesses;
        if is_last && !is_needed && self.timer.for_bank(closing, bank) <= now {
            closing
        } else {
            command
        }
    }

    /// Returns the address of a command; fields below the level of the command are zero.
    fn address(&self, command: CommandKind, bank: usize) -> BankAddress {
        let shape = self.shape();
        let rank = shape.rank_of(bank);
        let bit = bank - rank * shape.banks_of_rank();
        let (group, bank) = match command {
            CommandKind::PrechargeAll
            | CommandKind::Refresh
            | CommandKind::PowerDownEnter
            | CommandKind::PowerDownExit
            | CommandKind::SelfRefreshEnter
            | CommandKind::SelfRefreshExit => (0, 0),
            // A refresh of banks with the same number addresses the bank in the first group.
            _ => (bit / shape.banks, bit % shape.banks),
        };
        BankAddress {
            channel: self.number,
            rank: rank as u16,
            group: group as u16,
            bank: bank as u16,
        }
    }

    fn activate(&mut self, bank: usize, slot: u16, now: u64) {
        self.stats.activates += 1;
        self.settle(slot, RowOutcome::Miss, bank);
        let (request, row) = {
            let slot = self.slots.get(slot);
            (slot.request, slot.row)
        };
        let state = &mut self.banks[bank];
        if state.timed_out == row {
            // The timeout closed it too early.
            state.timeout = longer(state.timeout, self.options.page);
        }
        state.timed_out = CLOSED;
        state.row = row;
        state.opener = request.source;
        state.accesses = 0;
        state.last_use = now;
        self.leave_list(bank, slot, request.direction);
        let state = &mut self.banks[bank];
        state.active = slot;
        for list in &mut state.lists {
            self.slots.sort(list, row);
        }
        let (rank, bit) = (self.shape().rank_of(bank), self.bit(bank));
        let rank = &mut self.ranks[rank];
        rank.active |= 1 << bit;
        rank.open |= 1 << bit;
        rank.last_use = now;
    }

    /// Removes a request from the list of its bank.
    fn leave_list(&mut self, bank: usize, slot: u16, direction: Direction) {
        let way = super::index(direction);
        let state = &mut self.banks[bank];
        self.slots.unlink(&mut state.lists[way], state.row, slot);
        self.waiting[way] -= 1;
        if state.lists[way].length == 0 {
            let (rank, bit) = (self.shape().rank_of(bank), self.bit(bank));
            self.ranks[rank].work[way] &= !(1 << bit);
        }
    }

    fn precharge(&mut self, bank: usize, slot: u16) {
        self.stats.precharges += 1;
        let is_refreshing = self.ranks[self.shape().rank_of(bank)].refreshing >> self.bit(bank) & 1;
        let state = &mut self.banks[bank];
        if slot == NIL {
            state.timed_out = if is_refreshing == 1 { CLOSED } else { state.row };
        } else {
            // Another row was still open: the timeout should have closed it.
            state.timeout = shorter(state.timeout, self.options.page);
            self.settle(slot, RowOutcome::Conflict, bank);
        }
        self.close(bank);
    }

    fn precharge_all(&mut self, rank: usize) {
        let first = rank * self.shape().banks_of_rank();
        for bit in 0..self.shape().banks_of_rank() {
            if self.ranks[rank].open >> bit & 1 == 1 {
                self.stats.precharges += 1;
                self.close(first + bit);
            }
        }
    }

    fn close(&mut self, bank: usize) {
        let state = &mut self.banks[bank];
        state.row = CLOSED;
        for list in &mut state.lists {
            self.slots.sort(list, CLOSED);
        }
        let (rank, bit) = (self.shape().rank_of(bank), self.bit(bank));
        self.ranks[rank].open &= !(1 << bit);
    }

    fn refresh_bank(&mut self, bank: usize) {
        self.stats.refreshes += 1;
        let (rank, bit) = (self.shape().rank_of(bank), self.bit(bank));
        let (turn, turns) = self.ranks[rank].turn_of(bit, self.shape());
        self.ranks[rank].next_turn = (turn + 1) % turns;
        let together = match self.ranks[rank].bank_refresh {
            crate::spec::BankRefresh::SameNumber => {
                let banks = self.shape().banks;
                let groups = 0..self.shape().groups;
                groups.fold(0, |mask, group| mask | 1 << (group * banks + bit % banks))
            }
            _ => 1 << bit,
        };
        self.ranks[rank].refreshing &= !together;
        self.ranks[rank].begin_turns(self.timer.shape());
    }

    fn access(&mut self, command: CommandKind, bank: usize, slot: u16, now: u64) {
        self.settle(slot, RowOutcome::Hit, bank);
        let (rank, bit) = (self.shape().rank_of(bank), self.bit(bank));
        let request = self.slots.get(slot).request;
        if self.banks[bank].active == slot {
            self.banks[bank].active = NIL;
            self.ranks[rank].active &= !(1 << bit);
        } else {
            self.leave_list(bank, slot, request.direction);
        }
        match request.direction {
            Direction::Read => self.owed_reads = self.owed_reads.saturating_sub(1),
            Direction::Write => self.slots.write_leaves(request.address),
        }
        self.last_bank = bank;
        let state = &mut self.banks[bank];
        state.accesses += 1;
        state.last_use = now;
        let served = &mut self.ranks[rank];
        served.last_use = now;
        let done = now + served.latency[super::index(request.direction)];
        self.stats.data_cycles += served.burst;
        let waited = self.slots.get(slot);
        let completion = Completion {
            request,
            accepted: Cycles(waited.accepted),
            done: Cycles(done),
            outcome: waited.outcome.unwrap_or(RowOutcome::Hit),
            blamed: waited.blamed,
        };
        self.slots.release(slot);
        self.answer(completion);
        if matches!(command, CommandKind::ReadAutoPrecharge | CommandKind::WriteAutoPrecharge) {
            self.close(bank);
        }
    }

    /// Fixes the row-buffer outcome of a request, if this is the first command for it.
    fn settle(&mut self, slot: u16, outcome: RowOutcome, bank: usize) {
        let slot = self.slots.get_mut(slot);
        if slot.outcome.is_some() {
            return;
        }
        slot.outcome = Some(outcome);
        match outcome {
            RowOutcome::Hit => self.stats.row_hits += 1,
            RowOutcome::Miss => self.stats.row_misses += 1,
            RowOutcome::Conflict => {
                self.stats.row_conflicts += 1;
                slot.blamed = Some(self.banks[bank].opener);
            }
        }
    }
}

fn longer(timeout: u64, page: PagePolicy) -> u64 {
    match page {
        PagePolicy::Adaptive { timeout: first } => (timeout * 2).min(first.0 * TIMEOUT_RANGE),
        _ => timeout,
    }
}

fn shorter(timeout: u64, page: PagePolicy) -> u64 {
    match page {
        PagePolicy::Adaptive { timeout: first } => {
            (timeout / 2).max(first.0 / TIMEOUT_RANGE).max(1)
        }
        _ => timeout,
    }
}
