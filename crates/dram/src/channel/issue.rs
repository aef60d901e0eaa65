//! Effects of a command: each owner of state learns what concerns it.

use memweir_core::{Cycles, Direction};

use super::Channel;
use super::rows::Closing;
use super::slots::{CLOSED, NIL};
use crate::command::{BankAddress, Command, CommandKind};
use crate::observer::Observer;
use crate::request::RowOutcome;
use crate::timer::BankId;

impl Channel {
    /// Sends the selected command at `now` and selects the next.
    pub(super) fn issue(&mut self, now: u64, observer: &mut impl Observer) {
        let slot = self.selected.slot;
        let bank = self.bus.shape().bank(self.selected.bank.into());
        let command = self.with_precharge(self.selected.command, bank, slot, now);
        self.bus.send(command, bank.index, now);
        self.needs.changed(bank.rank, if command.is_to_bank() { bank.mask() } else { !0 });
        observer.command(&self.describe(command, bank, slot, now));
        match command {
            CommandKind::Activate => self.activate(bank, slot, now),
            CommandKind::Precharge => self.precharge(bank, slot),
            CommandKind::Read | CommandKind::Write => self.access(bank, slot, now),
            CommandKind::ReadAutoPrecharge | CommandKind::WriteAutoPrecharge => {
                self.access(bank, slot, now);
                self.close(bank);
            }
            CommandKind::PrechargeAll => self.precharge_all(bank.rank),
            CommandKind::Refresh => {
                self.stats.refreshes += 1;
                self.refresh.rank_refreshed(bank.rank);
            }
            CommandKind::RefreshBank => {
                self.stats.refreshes += 1;
                self.refresh.bank_refreshed(bank);
            }
            CommandKind::PowerDownEnter
            | CommandKind::PowerDownExit
            | CommandKind::SelfRefreshEnter
            | CommandKind::SelfRefreshExit => self.change_power(command, bank.rank, now),
        }
        self.select();
    }

    /// Returns the command; a read or a write with automatic precharge if it should close the row.
    fn with_precharge(
        &self,
        command: CommandKind,
        bank: BankId,
        slot: u16,
        now: u64,
    ) -> CommandKind {
        let closing = match command {
            CommandKind::Read => CommandKind::ReadAutoPrecharge,
            CommandKind::Write => CommandKind::WriteAutoPrecharge,
            _ => return command,
        };
        let closes = self.rows.closes_after(bank.index, slot)
            && self.bus.timer().for_bank(closing, bank.index) <= now;
        if closes { closing } else { command }
    }

    /// Returns the command as an observer sees it. Fields of the address below the level of the
    /// command are zero, and so are row and column where it has none.
    fn describe(&self, command: CommandKind, bank: BankId, slot: u16, now: u64) -> Command {
        let (row, column) = match command {
            CommandKind::Activate => (self.queues.get(slot).row, 0),
            _ if command.direction().is_some() => {
                (self.queues.get(slot).row, self.queues.get(slot).column)
            }
            _ => (0, 0),
        };
        let banks = self.bus.shape().banks;
        // A refresh of banks with the same number addresses the bank in the first group.
        let (group, number) = match command.is_to_rank() {
            true => (0, 0),
            false => (bank.bit / banks, bank.bit % banks),
        };
        let to = BankAddress {
            channel: self.number,
            rank: bank.rank as u16,
            group: group as u16,
            bank: number as u16,
        };
        Command { at: Cycles(now), kind: command, to, row, column }
    }

    fn activate(&mut self, bank: BankId, slot: u16, now: u64) {
        self.stats.activates += 1;
        self.settle(slot, RowOutcome::Miss, bank);
        let (row, source) = {
            let slot = self.queues.get(slot);
            (slot.row, slot.request.source)
        };
        self.rows.open(bank, row, slot, source, now);
        self.queues.take(slot, bank, row);
        self.queues.sort(bank.index, row);
    }

    fn precharge(&mut self, bank: BankId, slot: u16) {
        let reason = if slot != NIL {
            self.settle(slot, RowOutcome::Conflict, bank);
            Closing::Conflict
        } else if self.refresh.waiting(bank.rank) & bank.mask() != 0 {
            Closing::Refresh
        } else {
            Closing::Timeout
        };
        self.rows.precharge(bank, reason);
        self.queues.sort(bank.index, CLOSED);
    }

    fn precharge_all(&mut self, rank: usize) {
        let first = self.bus.shape().first_bank(rank);
        for bit in super::candidate::bits(self.rows.open_banks(rank)) {
            self.close(self.bus.shape().bank(first + bit));
        }
    }

    fn close(&mut self, bank: BankId) {
        self.rows.close(bank);
        self.queues.sort(bank.index, CLOSED);
    }

    fn access(&mut self, bank: BankId, slot: u16, now: u64) {
        self.settle(slot, RowOutcome::Hit, bank);
        if !self.rows.access(bank, slot, now) {
            self.queues.take(slot, bank, self.rows.row(bank.index));
        }
        let served = self.queues.get(slot);
        if served.request.direction == Direction::Read {
            self.drain.read_served();
        }
        self.stats.data_cycles += self.completions.serve(served, bank.rank, now);
        self.queues.release(slot);
        self.needs.served(bank);
        self.power.touch(bank.rank, now);
    }

    /// Fixes the row-buffer outcome of a request, if this is the first command for it.
    fn settle(&mut self, slot: u16, outcome: RowOutcome, bank: BankId) {
        if self.queues.settle(slot, outcome, self.rows.opener(bank.index)) {
            match outcome {
                RowOutcome::Hit => self.stats.row_hits += 1,
                RowOutcome::Miss => self.stats.row_misses += 1,
                RowOutcome::Conflict => self.stats.row_conflicts += 1,
            }
        }
    }

    fn change_power(&mut self, command: CommandKind, rank: usize, now: u64) {
        self.power.change(command, rank);
        match command {
            CommandKind::SelfRefreshEnter => self.refresh.enter_self_refresh(rank),
            CommandKind::SelfRefreshExit => self.refresh.leave_self_refresh(rank, now),
            _ => {}
        }
    }
}
