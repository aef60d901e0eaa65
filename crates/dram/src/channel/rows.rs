//! The row buffers of a channel's banks: open rows, and the page policy that decides when they are
//! closed.

use super::bus::CommandBus;
use super::candidate::{Candidate, HOUSEKEEPING, bits};
use super::queues::Queues;
use super::slots::{CLOSED, NIL};
use crate::command::CommandKind;
use crate::config::{MemoryConfig, PagePolicy};
use crate::request::Source;
use crate::timer::{BankId, NEVER, Shape};

/// The largest factor between a learned timeout and the initial one, in either direction.
const TIMEOUT_RANGE: u64 = 16;

/// The row buffers of all banks.
///
/// A bank has its bit among the open ones if and only if it has an open row, and among the active
/// ones if and only if the request for which that row was opened has not been served.
#[derive(Clone, Debug)]
pub(super) struct RowBuffers {
    banks: Vec<RowBuffer>,
    ranks: Vec<Masks>,
    policy: PagePolicy,
    shape: Shape,
}

#[derive(Clone, Debug)]
struct RowBuffer {
    /// The open row, or [`CLOSED`].
    row: u32,
    /// The requester for which the row was opened.
    opener: Source,
    /// The request for which the row was opened, until it is served.
    active: u16,
    /// Accesses since the row was opened.
    accesses: u32,
    /// Cycle in which the row was last used.
    last_use: u64,
    /// Idle cycles after which the row is closed (adaptive page policy).
    timeout: u64,
    /// The row that such a timeout closed, until the next activate.
    timed_out: u32,
}

/// Banks of a rank as masks.
#[derive(Clone, Copy, Debug, Default)]
struct Masks {
    open: u64,
    active: u64,
}

/// Why a bank is precharged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// A request needs another row.
    Conflict,
    /// The row was idle for its timeout.
    Timeout,
    /// The bank is refreshed.
    Refresh,
}

impl RowBuffers {
    pub(super) fn new(config: &MemoryConfig, shape: Shape) -> Self {
        let bank = RowBuffer {
            row: CLOSED,
            opener: Source::default(),
            active: NIL,
            accesses: 0,
            last_use: 0,
            timeout: match config.page {
                PagePolicy::Adaptive { timeout } => timeout.0,
                _ => NEVER,
            },
            timed_out: CLOSED,
        };
        Self {
            banks: vec![bank; shape.ranks * shape.banks_of_rank()],
            ranks: vec![Masks::default(); shape.ranks],
            policy: config.page,
            shape,
        }
    }

    /// Returns the open row of a bank, or [`CLOSED`].
    #[inline]
    pub(super) fn row(&self, bank: usize) -> u32 {
        self.banks[bank].row
    }

    /// Returns the requester for which the bank's row was last opened.
    pub(super) fn opener(&self, bank: usize) -> Source {
        self.banks[bank].opener
    }

    /// Returns the request for which the bank's row was opened, until it is served; else [`NIL`].
    #[inline]
    pub(super) fn active(&self, bank: usize) -> u16 {
        self.banks[bank].active
    }

    /// Returns the mask of the banks of a rank with an open row.
    #[inline]
    pub(super) fn open_banks(&self, rank: usize) -> u64 {
        self.ranks[rank].open
    }

    /// Returns the mask of the banks of a rank whose row was opened for a request that waits.
    #[inline]
    pub(super) fn active_banks(&self, rank: usize) -> u64 {
        self.ranks[rank].active
    }

    /// Returns `command`, which needs all banks of a rank closed, or the precharge that closes
    /// them.
    pub(super) fn closing_or(&self, command: CommandKind, rank: usize) -> CommandKind {
        if self.ranks[rank].open != 0 { CommandKind::PrechargeAll } else { command }
    }

    /// Opens a row at `now` for a request.
    pub(super) fn open(&mut self, bank: BankId, row: u32, slot: u16, opener: Source, now: u64) {
        let state = &mut self.banks[bank.index];
        if state.timed_out == row {
            // The timeout closed it too early.
            state.timeout = longer(state.timeout, self.policy);
        }
        *state = RowBuffer {
            row,
            opener,
            active: slot,
            accesses: 0,
            last_use: now,
            timeout: state.timeout,
            timed_out: CLOSED,
        };
        self.ranks[bank.rank].open |= bank.mask();
        self.ranks[bank.rank].active |= bank.mask();
    }

    /// Keeps the open row of a bank for a hit, as if it had been opened for it.
    pub(super) fn keep(&mut self, bank: BankId, slot: u16) {
        self.banks[bank.index].active = slot;
        self.ranks[bank.rank].active |= bank.mask();
    }

    /// Records an access to the open row at `now`; returns true if the row was opened for it.
    #[inline]
    pub(super) fn access(&mut self, bank: BankId, slot: u16, now: u64) -> bool {
        let state = &mut self.banks[bank.index];
        state.accesses += 1;
        state.last_use = now;
        let is_active = state.active == slot;
        if is_active {
            state.active = NIL;
            self.ranks[bank.rank].active &= !bank.mask();
        }
        is_active
    }

    /// Closes the row of a bank by a precharge, and learns from the reason.
    pub(super) fn precharge(&mut self, bank: BankId, reason: Closing) {
        let state = &mut self.banks[bank.index];
        match reason {
            // The timeout should have closed the row.
            Closing::Conflict => state.timeout = shorter(state.timeout, self.policy),
            Closing::Timeout => state.timed_out = state.row,
            Closing::Refresh => state.timed_out = CLOSED,
        }
        self.close(bank);
    }

    /// Closes the row of a bank with others of its rank, or after its last access.
    pub(super) fn close(&mut self, bank: BankId) {
        self.banks[bank.index].row = CLOSED;
        self.ranks[bank.rank].open &= !bank.mask();
    }

    /// Returns true if the row should be closed after the next access, which serves `slot`: it is
    /// the last of those that the policy allows, and the row was not opened for another request.
    #[inline]
    pub(super) fn closes_after(&self, bank: usize, slot: u16) -> bool {
        let PagePolicy::Closed { accesses } = self.policy else { return false };
        let state = &self.banks[bank];
        state.accesses + 1 >= accesses && (state.active == NIL || state.active == slot)
    }

    /// Offers to close rows that no waiting request needs once they are idle for their timeout.
    pub(super) fn offer_timeouts(
        &self,
        rank: usize,
        refreshing: u64,
        queues: &Queues,
        bus: &CommandBus,
        best: &mut Candidate,
    ) {
        if !matches!(self.policy, PagePolicy::Adaptive { .. }) {
            return;
        }
        let Masks { open, active } = self.ranks[rank];
        for bit in bits(open & !active & !refreshing) {
            let bank = self.shape.first_bank(rank) + bit;
            if queues.has_hit(bank) {
                continue;
            }
            let state = &self.banks[bank];
            let idle = bus.to_bank(CommandKind::Precharge, bank, HOUSEKEEPING);
            best.offer(Candidate { at: idle.at.max(state.last_use + state.timeout), ..idle });
        }
    }
}

fn longer(timeout: u64, policy: PagePolicy) -> u64 {
    match policy {
        PagePolicy::Adaptive { timeout: first } => (timeout * 2).min(first.0 * TIMEOUT_RANGE),
        _ => timeout,
    }
}

fn shorter(timeout: u64, policy: PagePolicy) -> u64 {
    match policy {
        PagePolicy::Adaptive { timeout: first } => {
            (timeout / 2).max(first.0 / TIMEOUT_RANGE).max(1)
        }
        _ => timeout,
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Cycles;

    use super::*;
    use crate::spec::MemorySpec;

    fn rows(page: PagePolicy) -> (RowBuffers, CommandBus, Queues) {
        let mut config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        config.page = page;
        let bus = CommandBus::new(&config);
        let shape = bus.shape();
        (RowBuffers::new(&config, shape), bus, Queues::new(&config, shape))
    }

    #[test]
    fn masks_follow_the_rows() {
        let (mut rows, bus, _) = rows(PagePolicy::Open);
        let bank = bus.shape().bank(5);
        assert_eq!(rows.closing_or(CommandKind::Refresh, 0), CommandKind::Refresh);
        rows.open(bank, 77, 3, Source(9), 10);
        assert_eq!((rows.row(5), rows.active(5), rows.opener(5)), (77, 3, Source(9)));
        assert_eq!((rows.open_banks(0), rows.active_banks(0)), (1 << 5, 1 << 5));
        assert_eq!(rows.closing_or(CommandKind::Refresh, 0), CommandKind::PrechargeAll);
        assert!(!rows.access(bank, 4, 11), "a hit that came in between");
        assert!(rows.access(bank, 3, 12));
        assert_eq!((rows.open_banks(0), rows.active_banks(0)), (1 << 5, 0));
        rows.close(bank);
        assert_eq!((rows.row(5), rows.open_banks(0)), (CLOSED, 0));
    }

    #[test]
    fn the_last_access_closes_unless_the_row_was_opened_for_another_request() {
        let (mut rows, bus, _) = rows(PagePolicy::Closed { accesses: 2 });
        let bank = bus.shape().bank(0);
        rows.open(bank, 1, 3, Source(0), 0);
        assert!(!rows.closes_after(0, 3));
        rows.access(bank, 8, 1);
        assert!(!rows.closes_after(0, 9));
        assert!(rows.closes_after(0, 3));
    }

    /// Returns the cycle in which the row of bank 0, opened at cycle 0, is closed for idleness.
    fn timeout(rows: &RowBuffers, bus: &CommandBus, queues: &Queues) -> u64 {
        let mut best = Candidate::NONE;
        rows.offer_timeouts(0, 0, queues, bus, &mut best);
        best.at
    }

    #[test]
    fn timeouts_learn_within_their_range() {
        let (mut rows, bus, queues) = rows(PagePolicy::Adaptive { timeout: Cycles(1000) });
        let bank = bus.shape().bank(0);
        let open = |rows: &mut RowBuffers, row| {
            rows.open(bank, row, 0, Source(0), 0);
            rows.access(bank, 0, 0);
        };
        open(&mut rows, 1);
        assert_eq!(timeout(&rows, &bus, &queues), 1000);
        for _ in 0..9 {
            rows.precharge(bank, Closing::Timeout);
            open(&mut rows, 1);
        }
        assert_eq!(timeout(&rows, &bus, &queues), 16_000, "it closed the row too early");
        rows.precharge(bank, Closing::Refresh);
        open(&mut rows, 1);
        assert_eq!(timeout(&rows, &bus, &queues), 16_000, "a refresh teaches nothing");
        rows.precharge(bank, Closing::Conflict);
        open(&mut rows, 2);
        assert_eq!(timeout(&rows, &bus, &queues), 8_000, "it should have closed the row");
        for row in 3..20 {
            rows.precharge(bank, Closing::Conflict);
            open(&mut rows, row);
        }
        assert_eq!(timeout(&rows, &bus, &queues), 62);
    }
}
