//! Refresh: when it is due, and which banks wait for it.
//!
//! A rank is refreshed as a whole, or bank by bank in turn. Due refreshes that cannot be sent add
//! up. Banks are refreshed in turn even when they are late: none twice before all others.

use super::bus::CommandBus;
use super::candidate::{Candidate, REFRESH, bits};
use super::rows::RowBuffers;
use crate::command::CommandKind;
use crate::config::{MemoryConfig, RefreshPolicy};
use crate::spec::BankRefresh;
use crate::timer::{BankId, NEVER, Shape};

/// Refresh of all ranks of a channel.
///
/// `due` is the earliest cycle in which the next refresh of any rank falls due.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    ranks: Vec<RankRefresh>,
    due: u64,
    /// True if banks are refreshed one by one.
    per_bank: bool,
    shape: Shape,
}

/// Refresh of a rank. A *turn* is that of the banks that are refreshed together.
#[derive(Clone, Debug)]
struct RankRefresh {
    /// Cycle in which the next refresh falls due.
    due: u64,
    interval: u64,
    /// Refreshes of the whole rank that are due.
    owed: u32,
    /// Mask of the banks that wait for their own refresh.
    waiting: u64,
    /// The turn of the banks that begin to wait next.
    turn: usize,
    /// The turn after that of the last bank refresh.
    next_turn: usize,
    /// Bank refreshes that are due while the bank whose turn it is still waits for its previous
    /// one.
    late_turns: u32,
    bank_refresh: BankRefresh,
}

impl Refresh {
    pub(super) fn new(config: &MemoryConfig, shape: Shape) -> Self {
        let ranks = (0..shape.ranks).map(|rank| RankRefresh::new(rank, config)).collect();
        let per_bank = config.refresh == RefreshPolicy::PerBank;
        let mut refresh = Self { ranks, due: NEVER, per_bank, shape };
        refresh.find_due();
        refresh
    }

    /// Returns the cycle in which the next refresh falls due.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Returns true if a refresh of the whole rank is due.
    #[inline]
    pub(super) fn is_owed(&self, rank: usize) -> bool {
        self.ranks[rank].owed > 0
    }

    /// Returns the mask of the banks of a rank that wait for their own refresh.
    #[inline]
    pub(super) fn waiting(&self, rank: usize) -> u64 {
        self.ranks[rank].waiting
    }

    /// Returns true if a refresh has to come before commands for requests at the bank.
    #[inline]
    pub(super) fn holds(&self, bank: BankId) -> bool {
        let rank = &self.ranks[bank.rank];
        rank.owed > 0 || rank.waiting & bank.mask() != 0
    }

    /// Records the refreshes that are due at `now`. A rank in self-refresh does them itself.
    pub(super) fn fall_due(&mut self, now: u64, refreshes_itself: impl Fn(usize) -> bool) {
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            if rank.due > now {
                continue;
            }
            rank.due += rank.interval;
            if refreshes_itself(number) {
                continue;
            }
            if self.per_bank {
                rank.late_turns += 1;
                rank.begin_turns(self.shape);
            } else {
                rank.owed += 1;
            }
        }
        self.find_due();
    }

    fn find_due(&mut self) {
        self.due = self.ranks.iter().map(|rank| rank.due).min().unwrap_or(NEVER);
    }

    /// Records that a refresh was sent to a whole rank.
    pub(super) fn rank_refreshed(&mut self, rank: usize) {
        self.ranks[rank].owed -= 1;
    }

    /// Records that a refresh was sent to a bank.
    pub(super) fn bank_refreshed(&mut self, bank: BankId) {
        let rank = &mut self.ranks[bank.rank];
        let turn = rank.turn_of(bank.bit, self.shape);
        rank.next_turn = (turn + 1) % rank.turns(self.shape);
        rank.waiting &= !rank.banks_of(turn, self.shape);
        rank.begin_turns(self.shape);
    }

    /// Records that a rank enters self-refresh.
    pub(super) fn enter_self_refresh(&mut self, rank: usize) {
        let rank = &mut self.ranks[rank];
        (rank.owed, rank.waiting, rank.late_turns) = (0, 0, 0);
    }

    /// Records that a rank leaves self-refresh at `now`. Two self-refreshes are separated by a
    /// refresh, as in DDR4; otherwise a rank that is often woken for a short time would get none.
    pub(super) fn leave_self_refresh(&mut self, rank: usize, now: u64) {
        let rank = &mut self.ranks[rank];
        if rank.interval == NEVER {
            return;
        }
        rank.due = now + rank.interval;
        if self.per_bank {
            rank.waiting = u64::MAX >> (u64::BITS - self.shape.banks_of_rank() as u32);
            rank.turn = rank.next_turn;
        } else {
            rank.owed = 1;
        }
        self.find_due();
    }

    /// Offers the refresh of a rank, or the precharge of its banks that must come first. It waits
    /// for requests whose row was opened for them.
    pub(super) fn offer_rank(
        &self,
        rank: usize,
        rows: &RowBuffers,
        bus: &CommandBus,
        best: &mut Candidate,
    ) {
        if rows.active_banks(rank) == 0 {
            let command = rows.closing_or(CommandKind::Refresh, rank);
            best.offer(bus.to_rank(command, rank, REFRESH, 0));
        }
    }

    /// Offers the refresh of the banks that have waited longest, or the precharges that must come
    /// first.
    pub(super) fn offer_banks(
        &self,
        number: usize,
        rows: &RowBuffers,
        bus: &CommandBus,
        best: &mut Candidate,
    ) {
        let rank = &self.ranks[number];
        let first = self.shape.first_bank(number);
        let open = rank.waiting & rows.open_banks(number);
        if open != 0 {
            for bit in bits(open & !rows.active_banks(number)) {
                best.offer(bus.to_bank(CommandKind::Precharge, first + bit, REFRESH));
            }
            return;
        }
        let Some(bit) = bits(rank.waiting).min_by_key(|bit| rank.turns_until(*bit, self.shape))
        else {
            return;
        };
        let refresh = |bit: usize| bus.to_bank(CommandKind::RefreshBank, first + bit, REFRESH);
        let together = rank.waiting & rank.banks_of(rank.turn_of(bit, self.shape), self.shape);
        let at = bits(together).map(|bit| refresh(bit).at).max().unwrap_or(0);
        best.offer(Candidate { at, ..refresh(bit) });
    }
}

impl RankRefresh {
    fn new(number: usize, config: &MemoryConfig) -> Self {
        let spec = &config.ranks[number];
        let interval = match config.refresh {
            RefreshPolicy::Off => None,
            RefreshPolicy::PerBank => spec.bank_refresh_interval(),
            RefreshPolicy::AllBank | RefreshPolicy::Staggered => spec.refresh_interval(),
        };
        let interval = interval.map_or(NEVER, |interval| interval.0.max(1));
        let first = match config.refresh {
            RefreshPolicy::Staggered if interval != NEVER => {
                interval / config.ranks.len() as u64 * (number as u64 + 1)
            }
            _ => interval,
        };
        Self {
            due: first,
            interval,
            owed: 0,
            waiting: 0,
            turn: 0,
            next_turn: 0,
            late_turns: 0,
            bank_refresh: spec.bank_refresh,
        }
    }

    fn turns(&self, shape: Shape) -> usize {
        match self.bank_refresh {
            BankRefresh::SameNumber => shape.banks,
            _ => shape.banks_of_rank(),
        }
    }

    /// Returns the turn of a bank, given by its bit.
    fn turn_of(&self, bit: usize, shape: Shape) -> usize {
        bit % self.turns(shape)
    }

    /// Returns the number of turns from the next one to that of a bank.
    fn turns_until(&self, bit: usize, shape: Shape) -> usize {
        let turns = self.turns(shape);
        (self.turn_of(bit, shape) + turns - self.next_turn) % turns
    }

    /// Returns the mask of the banks that are refreshed together in a turn.
    fn banks_of(&self, turn: usize, shape: Shape) -> u64 {
        match self.bank_refresh {
            BankRefresh::SameNumber => {
                let groups = (0..shape.groups).map(|group| group * shape.banks + turn);
                groups.fold(0, |banks, bank| banks | 1 << bank)
            }
            _ => 1 << turn,
        }
    }

    /// Makes banks wait for the refreshes that are due, unless a bank would have to wait for two.
    fn begin_turns(&mut self, shape: Shape) {
        while self.late_turns > 0 {
            let banks = self.banks_of(self.turn, shape);
            if self.waiting & banks != 0 {
                return;
            }
            self.waiting |= banks;
            self.turn = (self.turn + 1) % self.turns(shape);
            self.late_turns -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Source;
    use crate::spec::MemorySpec;

    fn refresh(device: &str, policy: RefreshPolicy) -> (Refresh, RowBuffers, CommandBus, u64) {
        let mut config = MemoryConfig::new(MemorySpec::shipped(device).unwrap());
        config.refresh = policy;
        let bus = CommandBus::new(&config);
        let refresh = Refresh::new(&config, bus.shape());
        let due = refresh.due();
        (refresh, RowBuffers::new(&config, bus.shape()), bus, due)
    }

    const AWAKE: fn(usize) -> bool = |_| false;

    #[test]
    fn owed_refreshes_of_a_rank_add_up() {
        let (mut refresh, _, bus, due) = refresh("ddr4-2400", RefreshPolicy::AllBank);
        refresh.fall_due(due, AWAKE);
        refresh.fall_due(2 * due, AWAKE);
        assert_eq!(refresh.due(), 3 * due);
        assert!(refresh.holds(bus.shape().bank(7)));
        refresh.rank_refreshed(0);
        assert!(refresh.is_owed(0));
        refresh.rank_refreshed(0);
        assert!(!refresh.is_owed(0));
    }

    #[test]
    fn banks_wait_in_turn_and_never_for_two_refreshes() {
        let (mut refresh, rows, bus, interval) = refresh("lpddr4-3200", RefreshPolicy::PerBank);
        let banks = bus.shape().banks_of_rank();
        let all = u64::MAX >> (64 - banks);
        for turn in 0..banks as u64 + 2 {
            refresh.fall_due(refresh.due(), AWAKE);
            assert_eq!(refresh.waiting(0), (1 << (turn + 1).min(banks as u64)) - 1);
        }
        assert_eq!(refresh.due(), interval * (banks as u64 + 3));
        let mut best = Candidate::NONE;
        refresh.offer_banks(0, &rows, &bus, &mut best);
        assert_eq!((best.command, best.bank), (CommandKind::RefreshBank, 0));
        refresh.bank_refreshed(bus.shape().bank(0));
        assert_eq!(refresh.waiting(0), all, "its next refresh was late");
        let mut best = Candidate::NONE;
        refresh.offer_banks(0, &rows, &bus, &mut best);
        assert_eq!(best.bank, 1, "bank 0 comes after all others");
    }

    #[test]
    fn banks_with_one_number_are_refreshed_together() {
        let (mut refresh, mut rows, bus, due) = refresh("ddr5-4800", RefreshPolicy::PerBank);
        let shape = bus.shape();
        refresh.fall_due(due, AWAKE);
        let together = (0..shape.groups).fold(0, |mask, group| mask | 1 << (group * shape.banks));
        assert_eq!(refresh.waiting(0), together);
        let open = shape.bank(shape.banks);
        rows.open(open, 4, 0, Source(0), 0);
        let mut best = Candidate::NONE;
        refresh.offer_banks(0, &rows, &bus, &mut best);
        assert_eq!(best, Candidate::NONE, "a request comes first");
        rows.access(open, 0, 1);
        refresh.offer_banks(0, &rows, &bus, &mut best);
        assert_eq!((best.command, best.bank), (CommandKind::Precharge, open.index as u16));
        rows.close(open);
        refresh.bank_refreshed(shape.bank(0));
        assert_eq!(refresh.waiting(0), 0);
    }

    #[test]
    fn self_refresh_does_what_is_due_and_is_followed_by_a_refresh() {
        let (mut refresh, _, _, due) = refresh("ddr4-2400", RefreshPolicy::AllBank);
        refresh.fall_due(due, AWAKE);
        refresh.enter_self_refresh(0);
        refresh.fall_due(2 * due, |_| true);
        assert!(!refresh.is_owed(0));
        refresh.leave_self_refresh(0, 2 * due + 5);
        assert!(refresh.is_owed(0));
        assert_eq!(refresh.due(), 3 * due + 5);
    }
}
