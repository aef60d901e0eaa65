//! Maintenance that controllers do on their own: refresh, and closing idle rows.

use super::select::{Choice, HOUSEKEEPING, REFRESH, bits};
use super::{Channel, Rank};
use crate::command::CommandKind;
use crate::queue::NIL;
use crate::spec::BankRefresh;

impl Channel {
    /// Offers the refresh of a rank, or the precharge of its banks that must come first.
    pub(super) fn offer_refresh(&self, number: usize, best: &mut Choice) {
        let rank = &self.ranks[number];
        if rank.active != 0 {
            return;
        }
        self.offer_to_rank(number, rank.closing_or(CommandKind::Refresh), REFRESH, 0, best);
    }

    /// Offers a command to a whole rank, not before `after`.
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

    /// Offers the refresh of some banks, or the precharges that must come first.
    pub(super) fn offer_bank_refresh(&self, number: usize, best: &mut Choice) {
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
        let Some(bank) = banks().min_by_key(|bank| rank.turns_until(bank - first, self.shape()))
        else {
            return;
        };
        let together = banks().filter(|other| match rank.bank_refresh {
            BankRefresh::SameNumber => other % self.shape().banks == bank % self.shape().banks,
            _ => *other == bank,
        });
        let times = together.map(|bank| self.timer.for_bank(CommandKind::RefreshBank, bank));
        offer(times.max().unwrap_or(0), CommandKind::RefreshBank, bank, best);
    }

    /// Offers to close rows that are idle for longer than their timeout.
    pub(super) fn offer_timeouts(&self, number: usize, best: &mut Choice) {
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
    /// Returns `command`, which needs all banks closed, or the precharge that closes them.
    pub(super) fn closing_or(&self, command: CommandKind) -> CommandKind {
        if self.open != 0 { CommandKind::PrechargeAll } else { command }
    }
}
