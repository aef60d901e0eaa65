//! Counts the activity of a rank.

use std::sync::Arc;

use crate::command::{Command, CommandKind};
use crate::spec::{BankRefresh, Level, MemorySpec};

use super::draw::draw;
use super::report::EnergyReport;

/// Commands, and cycles in each background state.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) activates: u64,
    /// Open banks that were closed.
    pub(super) precharges: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) refreshes: u64,
    pub(super) bank_refreshes: u64,
    /// Lines that were written back to the cells of an NVM.
    pub(super) written_back: u64,
    /// Cycles with an open bank, and the same summed over the open banks.
    pub(super) active: u64,
    pub(super) active_banks: u64,
    pub(super) precharged: u64,
    pub(super) active_power_down: u64,
    pub(super) precharged_power_down: u64,
    pub(super) self_refresh: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    activated: u64,
    /// Cycle until which the bank is open or being refreshed; [`OPEN`] if no close is scheduled.
    until: u64,
    /// Lines that were written since the activate: bit `i` is line `i` modulo 128.
    dirty: u128,
}

/// End of an open bank without a scheduled close.
const OPEN: u64 = u64::MAX;

/// Power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleep {
    Awake,
    PowerDown,
    SelfRefresh,
}

/// A rank: its background state since the last command, and its counts.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    spec: Arc<MemorySpec>,
    counts: Counts,
    banks: Vec<Bank>,
    /// Banks that are open or being refreshed.
    active: u64,
    /// Those of them with a known end, and the first of these ends.
    ending: u64,
    next_end: u64,
    sleep: Sleep,
    /// Cycle in which the operations in progress end. A rank in power-down draws standby current
    /// until then (DDR3 and DDR4: "power-down IDD spec will not be applied until finishing those
    /// operations").
    settled: u64,
    now: u64,
    row_active: u64,
    /// Cycles from a read or a write to the automatic precharge after it, tRAS apart.
    read_to_precharge: u64,
    write_to_precharge: u64,
    precharge: u64,
    activate: u64,
    refresh: u64,
    bank_refresh: u64,
}

impl Rank {
    pub(super) fn new(spec: &Arc<MemorySpec>) -> Self {
        let get = |name: &str| spec.timing.get(name).map_or(0, |cycles| cycles.0);
        let precharge = get("tRP");
        // The time to the next activate, less that of the precharge itself.
        let to_precharge = |column: CommandKind| {
            let next = (Level::Bank, column, CommandKind::Activate);
            let rule = spec.constraints.iter().find(|c| (c.level, c.from, c.to) == next);
            rule.map_or(0, |rule| rule.wait.0.saturating_sub(precharge))
        };
        Self {
            counts: Counts::default(),
            banks: vec![Bank::default(); spec.organization.banks_of_rank() as usize],
            active: 0,
            ending: 0,
            next_end: OPEN,
            sleep: Sleep::Awake,
            settled: 0,
            now: 0,
            row_active: get("tRAS"),
            read_to_precharge: to_precharge(CommandKind::ReadAutoPrecharge),
            write_to_precharge: to_precharge(CommandKind::WriteAutoPrecharge),
            precharge,
            activate: get("tRCD"),
            refresh: get("tRFC"),
            bank_refresh: spec.bank_refresh_time().map_or(0, |cycles| cycles.0),
            spec: Arc::clone(spec),
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.spec.currents.is_none() && self.spec.array.is_none()
    }

    /// Counts a command, after the background cycles before it.
    #[inline]
    pub(super) fn count(&mut self, command: &Command) {
        use CommandKind as K;
        let at = command.at.0;
        self.pass(at);
        let organization = &self.spec.organization;
        let number = usize::from(command.to.group) * organization.banks as usize
            + usize::from(command.to.bank);
        match command.kind {
            K::Activate => {
                self.counts.activates += 1;
                self.banks[number].activated = at;
                self.banks[number].until = OPEN;
                self.active |= 1 << number;
                self.ending &= !(1 << number);
                self.settled = self.settled.max(at + self.activate);
            }
            K::Precharge => self.close(number, at),
            K::PrechargeAll => (0..self.banks.len()).for_each(|bank| self.close(bank, at)),
            K::Read | K::ReadAutoPrecharge => {
                self.counts.reads += 1;
                if command.kind == K::ReadAutoPrecharge {
                    self.close(number, at + self.read_to_precharge);
                }
            }
            K::Write | K::WriteAutoPrecharge => {
                self.counts.writes += 1;
                self.banks[number].dirty |= 1 << (command.column % u128::BITS);
                if command.kind == K::WriteAutoPrecharge {
                    self.close(number, at + self.write_to_precharge);
                }
            }
            K::Refresh => self.refresh_all(at),
            K::RefreshBank => {
                self.counts.bank_refreshes += 1;
                self.refresh_some(number, at + self.bank_refresh);
            }
            K::PowerDownEnter => self.sleep = Sleep::PowerDown,
            K::SelfRefreshEnter => {
                self.refresh_all(at);
                self.sleep = Sleep::SelfRefresh;
            }
            K::PowerDownExit | K::SelfRefreshExit => self.sleep = Sleep::Awake,
        }
    }

    fn refresh_all(&mut self, at: u64) {
        self.counts.refreshes += 1;
        self.settled = self.settled.max(at + self.refresh);
        (0..self.banks.len()).for_each(|bank| self.hold(bank, at + self.refresh));
    }

    fn refresh_some(&mut self, number: usize, until: u64) {
        self.settled = self.settled.max(until);
        if self.spec.bank_refresh == BankRefresh::SameNumber {
            let banks = self.spec.organization.banks as usize;
            (number % banks..self.banks.len())
                .step_by(banks)
                .for_each(|bank| self.hold(bank, until));
        } else {
            self.hold(number, until);
        }
    }

    /// Counts a bank as open until `until`.
    fn hold(&mut self, number: usize, until: u64) {
        self.banks[number].until = until;
        self.active |= 1 << number;
        self.ending |= 1 << number;
        self.next_end = self.next_end.min(until);
    }

    /// Closes a bank, if it is open, at `at` or when its timing allows.
    fn close(&mut self, number: usize, at: u64) {
        if self.active >> number & 1 == 0 || self.banks[number].until != OPEN {
            return;
        }
        let bank = &mut self.banks[number];
        self.counts.precharges += 1;
        self.counts.written_back += u64::from(bank.dirty.count_ones());
        bank.dirty = 0;
        let at = at.max(bank.activated + if at > self.now { self.row_active } else { 0 });
        self.settled = self.settled.max(at + self.precharge);
        if at > self.now {
            self.hold(number, at);
        } else {
            self.active &= !(1 << number);
        }
    }

    /// Advances the time to `to` in the background state.
    #[inline]
    fn pass(&mut self, to: u64) {
        while self.next_end <= to {
            let end = self.next_end;
            self.stay(end);
            self.next_end = OPEN;
            for number in 0..self.banks.len() {
                if self.ending >> number & 1 == 0 {
                } else if self.banks[number].until <= end {
                    self.ending &= !(1 << number);
                    self.active &= !(1 << number);
                } else {
                    self.next_end = self.next_end.min(self.banks[number].until);
                }
            }
        }
        self.stay(to);
    }

    /// Counts the cycles up to `to`, in which no bank changes.
    #[inline]
    fn stay(&mut self, to: u64) {
        if self.sleep == Sleep::PowerDown && self.now < self.settled {
            self.spend(Sleep::Awake, self.settled.min(to));
        }
        self.spend(self.sleep, to);
    }

    /// Counts the cycles up to `to` in this state.
    #[inline]
    fn spend(&mut self, state: Sleep, to: u64) {
        let cycles = to.saturating_sub(self.now);
        self.now = self.now.max(to);
        let counts = &mut self.counts;
        match (state, self.active.count_ones()) {
            (Sleep::SelfRefresh, 0) => counts.self_refresh += cycles,
            (Sleep::PowerDown, 0) => counts.precharged_power_down += cycles,
            (Sleep::PowerDown, _) => counts.active_power_down += cycles,
            (Sleep::Awake, 0) => counts.precharged += cycles,
            // The energy of a refresh until its end counts as standby (DRAMPower), in any power
            // state.
            (Sleep::Awake | Sleep::SelfRefresh, open) => {
                counts.active += cycles;
                counts.active_banks += cycles * u64::from(open);
            }
        }
    }

    /// Counts from `at` on alone. Lines that were written before count when they are written back.
    pub(super) fn restart(&mut self, at: u64) {
        self.pass(at);
        self.counts = Counts::default();
    }

    /// Adds the energy drawn until `until`.
    pub(super) fn draw_until(mut self, until: u64, report: &mut EnergyReport) {
        self.pass(until);
        for bank in &self.banks {
            self.counts.written_back += u64::from(bank.dirty.count_ones());
        }
        draw(&self.spec, &self.counts, report);
    }
}
