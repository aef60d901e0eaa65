//! The commands that waiting requests need next at each bank, with the earliest cycle that the bank
//! itself allows, kept until the state of the bank changes; and the soonest of them all.

use memweir_core::Direction;

use super::bus::CommandBus;
use super::candidate::{Candidate, WAITING, bits};
use super::queues::Queues;
use super::rows::RowBuffers;
use super::slots::{CLOSED, NIL};
use crate::command::CommandKind;
use crate::config::{MemoryConfig, Scheduler};
use crate::timer::{BankId, NEVER, Shape};

/// The next commands for the waiting requests of all banks.
///
/// An entry that is not stale is what [`Needs::of`] computes from the queues and row buffers of
/// the same bank.
#[derive(Clone, Debug)]
pub(super) struct Needs {
    /// Entries by direction and bank.
    entries: [Vec<Need>; 2],
    /// Masks of the banks whose entry is out of date, by rank and direction.
    stale: Vec<[u64; 2]>,
    scheduler: Scheduler,
    /// A request that has waited for longer goes first at its bank.
    age_limit: u64,
    /// The bank that was served last (per-bank scheduler).
    last_bank: usize,
}

/// The next commands that the requests of one direction need at a bank. Times are the earliest that
/// the bank itself allows, so they change only when the state of the bank does.
#[derive(Clone, Copy, Debug)]
struct Need {
    /// Read or write of the open row.
    column_at: u64,
    column_key: u64,
    /// Activate or precharge.
    row_at: u64,
    row_key: u64,
    column_slot: u16,
    row_slot: u16,
    row: RowCommand,
}

/// The row command that a bank needs.
#[derive(Clone, Copy, Debug)]
enum RowCommand {
    Activate,
    Precharge,
}

impl Need {
    const NOTHING: Self = Self {
        column_at: NEVER,
        column_key: NEVER,
        row_at: NEVER,
        row_key: NEVER,
        column_slot: NIL,
        row_slot: NIL,
        row: RowCommand::Activate,
    };
}

/// The state of a channel from which the needs follow.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bus: &'a CommandBus,
    pub(super) queues: &'a Queues,
    pub(super) rows: &'a RowBuffers,
}

/// The soonest of the needed commands. It is compared without branches, as most comparisons are a
/// toss-up.
#[derive(Clone, Copy)]
struct Soonest {
    /// The time in the upper half and the key in the lower.
    rank: u128,
    /// Twice the bank index, plus one for the row command of the bank.
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

impl RankTimes {
    #[inline]
    fn of(bus: &CommandBus, rank: usize, direction: Direction) -> Self {
        let time = |command| bus.timer().of_rank(command, rank).max(bus.floor());
        Self {
            column: time(CommandKind::from(direction)),
            row: [time(CommandKind::Activate), time(CommandKind::Precharge)],
        }
    }

    /// Returns the times with the limits of a bank group included.
    #[inline]
    fn in_group(self, bus: &CommandBus, group: usize, direction: Direction) -> Self {
        let time = |command, earliest: u64| bus.timer().of_group(command, group).max(earliest);
        Self {
            column: time(CommandKind::from(direction), self.column),
            row: [
                time(CommandKind::Activate, self.row[0]),
                time(CommandKind::Precharge, self.row[1]),
            ],
        }
    }
}

impl Needs {
    pub(super) fn new(config: &MemoryConfig, shape: Shape) -> Self {
        let banks = shape.ranks * shape.banks_of_rank();
        Self {
            entries: [(); 2].map(|()| vec![Need::NOTHING; banks]),
            stale: vec![[0; 2]; shape.ranks],
            scheduler: config.scheduler,
            age_limit: config.age_limit.map_or(NEVER, |limit| limit.0),
            last_bank: 0,
        }
    }

    /// Records that a request has arrived at the bank.
    pub(super) fn arrived(&mut self, bank: BankId, direction: Direction) {
        self.stale[bank.rank][direction as usize] |= bank.mask();
    }

    /// Records that a command was sent to these banks of a rank.
    pub(super) fn changed(&mut self, rank: usize, banks: u64) {
        self.stale[rank].iter_mut().for_each(|stale| *stale |= banks);
    }

    /// Records that a request at the bank was served.
    pub(super) fn served(&mut self, bank: BankId) {
        self.last_bank = bank.index;
    }

    /// Offers the soonest command for the requests that wait at the banks of a rank, except those
    /// in the mask `held`.
    #[inline]
    pub(super) fn offer(
        &mut self,
        rank: usize,
        direction: Direction,
        held: u64,
        view: View<'_>,
        best: &mut Candidate,
    ) {
        let shape = view.bus.shape();
        let first = shape.first_bank(rank);
        let work = view.queues.work(rank, direction);
        let stale = std::mem::take(&mut self.stale[rank][direction as usize]) & work;
        for bit in bits(stale) {
            self.entries[direction as usize][first + bit] = self.of(first + bit, direction, view);
        }
        let work = work & !held;
        if work == 0 {
            return;
        }
        let times = RankTimes::of(view.bus, rank, direction);
        let of_group = !0u64 >> (64 - shape.banks);
        let mut soonest = Soonest::NONE;
        for group in 0..shape.groups {
            let work = work & of_group << (group * shape.banks);
            if work != 0 {
                let times = times.in_group(view.bus, rank * shape.groups + group, direction);
                for bit in bits(work) {
                    self.compare(first + bit, direction, times, view, &mut soonest);
                }
            }
        }
        best.offer(self.candidate(soonest, direction));
    }

    /// Computes the needs of one bank again and offers the sooner command.
    #[inline(always)]
    pub(super) fn offer_bank(
        &mut self,
        bank: BankId,
        direction: Direction,
        view: View<'_>,
        best: &mut Candidate,
    ) {
        let group = view.bus.shape().group_of(bank.index);
        let times = RankTimes::of(view.bus, bank.rank, direction);
        let times = times.in_group(view.bus, group, direction);
        self.stale[bank.rank][direction as usize] &= !bank.mask();
        self.entries[direction as usize][bank.index] = self.of(bank.index, direction, view);
        let mut soonest = Soonest::NONE;
        self.compare(bank.index, direction, times, view, &mut soonest);
        best.offer(self.candidate(soonest, direction));
    }

    /// Offers the column and the row command of a bank to `soonest`. Always inlined: each selection
    /// runs it for every bank with waiting requests.
    #[inline(always)]
    fn compare(
        &self,
        bank: usize,
        direction: Direction,
        times: RankTimes,
        view: View<'_>,
        soonest: &mut Soonest,
    ) {
        let need = &self.entries[direction as usize][bank];
        let column = need.column_at.max(times.column);
        let row = need.row_at.max(times.row[need.row as usize]);
        let (mut column_key, mut row_key) = (need.column_key, need.row_key);
        if self.scheduler == Scheduler::PerBank {
            column_key = self.in_turn(bank, need.column_slot, column_key, view);
            row_key = self.in_turn(bank, need.row_slot, row_key, view);
        }
        soonest.offer(column, column_key, bank << 1);
        soonest.offer(row, row_key, bank << 1 | 1);
    }

    fn candidate(&self, soonest: Soonest, direction: Direction) -> Candidate {
        let at = (soonest.rank >> 64) as u64;
        if at == NEVER {
            return Candidate::NONE;
        }
        let bank = soonest.place >> 1;
        let need = &self.entries[direction as usize][bank];
        let (command, slot) = match (soonest.place & 1, need.row) {
            (0, _) => (CommandKind::from(direction), need.column_slot),
            (_, RowCommand::Activate) => (CommandKind::Activate, need.row_slot),
            (_, RowCommand::Precharge) => (CommandKind::Precharge, need.row_slot),
        };
        Candidate { at, key: soonest.rank as u64, command, slot, bank: bank as u16 }
    }

    /// Returns the needs of one bank.
    fn of(&self, bank: usize, direction: Direction, view: View<'_>) -> Need {
        let timer = view.bus.timer();
        let list = view.queues.list(bank, direction);
        let key = |slot: u16| WAITING | view.queues.get(slot).number;
        let mut need = Need::NOTHING;
        if view.rows.row(bank) == CLOSED {
            if list.other != NIL {
                need.row_at = timer.of_bank(CommandKind::Activate, bank);
                (need.row_key, need.row_slot) = (key(list.other), list.other);
            }
            return need;
        }
        let is_held =
            list.hit != NIL && list.other != NIL && self.is_aged(list.other, list.hit, view);
        if list.hit != NIL && !is_held {
            need.column_at = timer.of_bank(CommandKind::from(direction), bank);
            (need.column_key, need.column_slot) = (key(list.hit), list.hit);
        }
        let may_close = list.hit == NIL || is_held || self.scheduler == Scheduler::FrFcfs;
        if list.other != NIL && view.rows.active(bank) == NIL && may_close {
            need.row = RowCommand::Precharge;
            need.row_at = timer.of_bank(CommandKind::Precharge, bank);
            (need.row_key, need.row_slot) = (key(list.other), list.other);
        }
        need
    }

    /// Returns true if `other` has waited too long to let the younger `hit` go first.
    fn is_aged(&self, other: u16, hit: u16, view: View<'_>) -> bool {
        let (other, hit) = (view.queues.get(other), view.queues.get(hit));
        other.number < hit.number
            && view.bus.floor().saturating_sub(other.accepted) > self.age_limit
    }

    /// Returns the key of a request where banks take turns; a request beyond the age limit goes
    /// first.
    fn in_turn(&self, bank: usize, slot: u16, key: u64, view: View<'_>) -> u64 {
        if slot == NIL {
            return key;
        }
        let waited = view.bus.floor().saturating_sub(view.queues.get(slot).accepted);
        if waited > self.age_limit {
            return key;
        }
        let banks = self.entries[0].len();
        let distance = (bank + banks - self.last_bank - 1) % banks;
        WAITING | 1 << 61 | distance as u64
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{Cycles, PhysAddr};

    use super::*;
    use crate::decode::Place;
    use crate::request::{Request, Source};
    use crate::spec::MemorySpec;

    /// A bus, queues, row buffers and needs that belong together.
    struct Parts(CommandBus, Queues, RowBuffers, Needs);

    impl Parts {
        fn new(scheduler: Scheduler) -> Self {
            let mut config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
            (config.scheduler, config.age_limit) = (scheduler, Some(Cycles(100)));
            let bus = CommandBus::new(&config);
            let shape = bus.shape();
            let queues = Queues::new(&config, shape);
            Self(bus, queues, RowBuffers::new(&config, shape), Needs::new(&config, shape))
        }

        fn bank(&self, bank: u16) -> BankId {
            self.0.shape().bank(bank.into())
        }

        /// A read of a row arrives in cycle zero.
        fn read(&mut self, bank: u16, row: u32) {
            let direction = Direction::Read;
            let request = Request { address: PhysAddr(0), direction, source: Source(0), tag: 0 };
            let place = Place { channel: 0, bank, row, column: 0 };
            let id = self.bank(bank);
            self.1.push(request, 0, place, id, self.2.row(bank.into()));
            self.3.arrived(id, direction);
        }

        /// A row is open, and the request for which it was opened has been served.
        fn open(&mut self, bank: u16, row: u32) {
            let id = self.bank(bank);
            self.2.open(id, row, 0, Source(0), 0);
            self.2.access(id, 0, 0);
        }

        /// Returns the command that goes first and its bank.
        fn first(&mut self, held: u64) -> Option<(CommandKind, u16)> {
            let view = View { bus: &self.0, queues: &self.1, rows: &self.2 };
            let mut best = Candidate::NONE;
            self.3.offer(0, Direction::Read, held, view, &mut best);
            (best != Candidate::NONE).then_some((best.command, best.bank))
        }
    }

    #[test]
    fn the_oldest_of_the_commands_that_can_be_sent_goes_first() {
        let mut parts = Parts::new(Scheduler::FrFcfs);
        assert_eq!(parts.first(0), None);
        parts.read(4, 1);
        parts.open(2, 7);
        parts.read(2, 7);
        assert_eq!(parts.first(0), Some((CommandKind::Activate, 4)));
        assert_eq!(parts.first(1 << 4), Some((CommandKind::Read, 2)), "bank 4 is held");
    }

    #[test]
    fn an_open_row_is_kept_for_its_hits_until_another_request_is_too_old() {
        let mut parts = Parts::new(Scheduler::FrFcfsHit);
        parts.open(0, 7);
        parts.read(0, 8);
        parts.read(0, 7);
        assert_eq!(parts.first(0), Some((CommandKind::Read, 0)));
        parts.0.reach(101);
        parts.3.changed(0, 1);
        assert_eq!(parts.first(0), Some((CommandKind::Precharge, 0)));
    }

    #[test]
    fn entries_are_kept_until_they_are_stale() {
        let mut parts = Parts::new(Scheduler::FrFcfs);
        parts.read(1, 5);
        assert_eq!(parts.first(0), Some((CommandKind::Activate, 1)));
        parts.open(1, 5);
        parts.1.sort(1, 5);
        parts.3.changed(0, 0b10);
        assert_eq!(parts.first(0), Some((CommandKind::Read, 1)));
    }

    #[test]
    fn banks_take_turns() {
        let mut parts = Parts::new(Scheduler::PerBank);
        for bank in [6, 3, 1] {
            parts.read(bank, 0);
        }
        parts.3.served(parts.bank(3));
        assert_eq!(parts.first(0), Some((CommandKind::Activate, 6)));
        parts.3.served(parts.bank(6));
        assert_eq!(parts.first(0), Some((CommandKind::Activate, 1)));
        // So do row-buffer hits, of which the older one is that of bank 9.
        let mut parts = Parts::new(Scheduler::PerBank);
        for bank in [9, 4] {
            parts.open(bank, 7);
            parts.read(bank, 7);
        }
        assert_eq!(parts.first(0), Some((CommandKind::Read, 4)));
        parts.0.reach(101);
        assert_eq!(parts.first(0), Some((CommandKind::Read, 9)), "both are beyond the age limit");
    }
}
