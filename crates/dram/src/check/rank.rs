//! State of a rank and its banks, as the rules need it.

use std::iter::StepBy;
use std::ops::Range;

use memweir_core::Cycles;

use crate::command::{BankAddress, Command, CommandKind};
use crate::spec::BankRefresh;

use super::limits::{Limits, Refresh};
use super::refresh::Covered;
use super::rule::{Report, Rule};

/// The state of a rank.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    limits: Limits,
    groups: Vec<Last>,
    banks: Vec<Bank>,
    last: Last,
    any: Option<Command>,
    /// The last four activates, and refreshes of single banks where they count (LPDDR), the oldest
    /// at `oldest`.
    activates: [Option<Command>; 4],
    oldest: usize,
    precharge: Option<Command>,
    refresh: Option<Command>,
    bank_refresh: Option<Command>,
    /// Banks refreshed in this turn, as bits.
    turn: u64,
    sleep: Option<Command>,
    woken: Option<Command>,
}

/// The last command of each kind.
#[derive(Clone, Debug, Default)]
struct Last {
    activate: Option<Command>,
    read: Option<Command>,
    write: Option<Command>,
}

#[derive(Clone, Debug, Default)]
struct Bank {
    row: Option<u32>,
    last: Last,
    /// The command that closed it, and the cycle in which the precharge began.
    closed: Option<(Command, u64)>,
    refresh: Option<Command>,
    covered: Covered,
}

impl Rank {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            groups: vec![Last::default(); usize::from(limits.groups)],
            banks: vec![Bank::default(); usize::from(limits.groups) * usize::from(limits.banks)],
            limits,
            last: Last::default(),
            any: None,
            activates: [None; 4],
            oldest: 0,
            precharge: None,
            refresh: None,
            bank_refresh: None,
            turn: 0,
            sleep: None,
            woken: None,
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn check(&mut self, report: &mut Report, command: &Command) {
        use CommandKind as K;
        if !self.is_there(command) {
            return report.state(Rule::Address, None, command);
        }
        self.check_awake(report, command);
        match command.kind {
            K::Activate => self.activate(report, command),
            K::Precharge => {
                self.check_precharges(report, command);
                let bank = self.bank_of(command);
                self.close(report, bank, command);
            }
            K::PrechargeAll => {
                self.check_precharges(report, command);
                (0..self.banks.len()).for_each(|bank| self.close(report, bank, command));
            }
            K::Read | K::ReadAutoPrecharge => self.read(report, command),
            K::Write | K::WriteAutoPrecharge => self.write(report, command),
            K::Refresh => self.refresh_all(report, command),
            K::RefreshBank => self.refresh_bank(report, command),
            K::PowerDownEnter => self.power_down(report, command),
            K::SelfRefreshEnter => self.self_refresh(report, command),
            K::PowerDownExit | K::SelfRefreshExit => {}
        }
        self.any = Some(*command);
    }

    /// Checks the refreshes that are due at `end`.
    pub(super) fn finish(&self, report: &mut Report, end: Cycles, channel: u16, rank: u16) {
        let Some(limits) = &self.limits.refresh else { return };
        if matches!(self.sleep, Some(Command { kind: CommandKind::SelfRefreshEnter, .. })) {
            return;
        }
        for (number, bank) in self.banks.iter().enumerate() {
            let number = number as u16;
            let (group, bank_of_group) = (number / self.limits.banks, number % self.limits.banks);
            let place = BankAddress { channel, rank, group, bank: bank_of_group };
            bank.covered.check(report, limits, end.0, place, None);
        }
    }

    fn is_there(&self, command: &Command) -> bool {
        command.to.group < self.limits.groups
            && command.to.bank < self.limits.banks
            && command.row < self.limits.rows
            && command.column < self.limits.columns
    }

    fn bank_of(&self, command: &Command) -> usize {
        usize::from(command.to.group * self.limits.banks + command.to.bank)
    }

    /// Checks that the rank is awake: power-down, self-refresh and a refresh of all banks exclude
    /// other commands.
    fn check_awake(&mut self, report: &mut Report, command: &Command) {
        use CommandKind as K;
        match command.kind {
            K::PowerDownExit => self.wake(report, command, K::PowerDownEnter),
            K::SelfRefreshExit => self.wake(report, command, K::SelfRefreshEnter),
            _ => {
                if let Some(sleep) = self.sleep {
                    report.state(Rule::Asleep, Some(&sleep), command);
                }
                self.check_woken(report, command);
                if command.kind != K::PowerDownEnter
                    && let Some(limits) = &self.limits.refresh
                {
                    report.distance(Rule::TRfc, self.refresh.as_ref(), limits.all, command);
                }
            }
        }
    }

    fn wake(&mut self, report: &mut Report, command: &Command, from: CommandKind) {
        match self.sleep.take() {
            Some(sleep) if sleep.kind == from => {
                let Some(limits) = &self.limits.sleep else { return };
                if from == CommandKind::SelfRefreshEnter {
                    let least = limits.self_refresh;
                    report.distance(Rule::TCkesr, Some(&sleep), least, command);
                    for bank in &mut self.banks {
                        bank.covered.slept(sleep.at.0, command.at.0);
                    }
                } else {
                    report.distance(Rule::TCke, Some(&sleep), limits.least, command);
                }
            }
            other => report.state(Rule::Awake, other.as_ref(), command),
        }
        self.woken = Some(*command);
    }

    fn check_woken(&self, report: &mut Report, command: &Command) {
        let Some(limits) = &self.limits.sleep else { return };
        let Some(woken) = &self.woken else { return };
        if woken.kind == CommandKind::SelfRefreshExit {
            let wait = limits.self_refresh_exit;
            report.distance(Rule::TXs, Some(woken), wait, command);
        } else if command.kind == CommandKind::PowerDownEnter {
            report.distance(Rule::TCke, Some(woken), limits.least, command);
        } else {
            report.distance(Rule::TXp, Some(woken), limits.exit, command);
        }
    }

    fn activate(&mut self, report: &mut Report, command: &Command) {
        let (limits, number) = (&self.limits, self.bank_of(command));
        let bank = &mut self.banks[number];
        if bank.row.is_some() {
            report.state(Rule::OpenBank, bank.last.activate.as_ref(), command);
        }
        report.distance(Rule::TRc, bank.last.activate.as_ref(), limits.row_cycle, command);
        bank.check_precharged(report, limits, command);
        let group = &mut self.groups[usize::from(command.to.group)];
        if let Some(last) = self.last.activate.filter(|last| last.to.group != command.to.group) {
            report.distance(Rule::TRrdS, Some(&last), limits.row_to_row, command);
        }
        let in_group = limits.row_to_row_in_group;
        report.distance(Rule::TRrdL, group.activate.as_ref(), in_group, command);
        if let Some(bank_limits) = limits.bank_limits() {
            report.distance(Rule::TRfcPb, bank.refresh.as_ref(), bank_limits.busy, command);
            let any = self.bank_refresh.as_ref();
            report.distance(Rule::TRefsbrd, any, bank_limits.to_row, command);
        }
        bank.row = Some(command.row);
        bank.last = Last { activate: Some(*command), ..Last::default() };
        group.activate = Some(*command);
        self.last.activate = Some(*command);
        self.check_window(report, command);
    }

    /// Checks tFAW: in this window, no more than four banks may be activated (LPDDR: or refreshed
    /// one by one).
    fn check_window(&mut self, report: &mut Report, command: &Command) {
        let fourth = self.activates[self.oldest].as_ref();
        report.distance(Rule::TFaw, fourth, self.limits.four_activates, command);
        self.activates[self.oldest] = Some(*command);
        self.oldest = (self.oldest + 1) % self.activates.len();
    }

    fn check_precharges(&mut self, report: &mut Report, command: &Command) {
        let wait = self.limits.precharge_to_precharge;
        let last = self.precharge.replace(*command);
        report.distance(Rule::TPpd, last.as_ref(), wait, command);
    }

    /// Precharges a bank; a closed bank ignores this.
    fn close(&mut self, report: &mut Report, number: usize, command: &Command) {
        let (limits, bank) = (&self.limits, &mut self.banks[number]);
        if bank.row.take().is_none() {
            return;
        }
        let last = &bank.last;
        report.distance(Rule::TRas, last.activate.as_ref(), limits.row_active, command);
        let wait = limits.read_to_precharge;
        report.distance(Rule::TRtp, last.read.as_ref(), wait, command);
        let wait = limits.write_to_precharge;
        report.distance(Rule::TWr, last.write.as_ref(), wait, command);
        bank.closed = Some((*command, command.at.0));
    }

    fn read(&mut self, report: &mut Report, command: &Command) {
        let (limits, number) = (&self.limits, self.bank_of(command));
        let (bank, group) =
            (&mut self.banks[number], &mut self.groups[usize::from(command.to.group)]);
        bank.check_column(report, limits, command);
        let other_group = |last: &&Command| last.to.group != command.to.group;
        let last = self.last.read.as_ref().filter(other_group);
        report.distance(Rule::TCcdS, last, limits.read_to_read, command);
        let wait = limits.read_to_read_in_group;
        report.distance(Rule::TCcdL, group.read.as_ref(), wait, command);
        let last = self.last.write.as_ref().filter(other_group);
        report.distance(Rule::TWtrS, last, limits.write_to_read, command);
        let wait = limits.write_to_read_in_group;
        report.distance(Rule::TWtrL, group.write.as_ref(), wait, command);
        for part in [&mut bank.last, group, &mut self.last] {
            part.read = Some(*command);
        }
        if command.kind == CommandKind::ReadAutoPrecharge {
            bank.close_after(command, limits.read_to_precharge, limits.row_active);
        }
    }

    fn write(&mut self, report: &mut Report, command: &Command) {
        let (limits, number) = (&self.limits, self.bank_of(command));
        let (bank, group) =
            (&mut self.banks[number], &mut self.groups[usize::from(command.to.group)]);
        bank.check_column(report, limits, command);
        let other_group = |last: &&Command| last.to.group != command.to.group;
        let last = self.last.write.as_ref().filter(other_group);
        report.distance(Rule::TCcdS, last, limits.write_to_write, command);
        let wait = limits.write_to_write_in_group;
        report.distance(Rule::TCcdL, group.write.as_ref(), wait, command);
        let last = self.last.read.as_ref();
        report.distance(Rule::ReadToWrite, last, limits.read_to_write, command);
        for part in [&mut bank.last, group, &mut self.last] {
            part.write = Some(*command);
        }
        if command.kind == CommandKind::WriteAutoPrecharge {
            bank.close_after(command, limits.write_to_precharge, limits.row_active);
        }
    }

    fn refresh_all(&mut self, report: &mut Report, command: &Command) {
        let Some(limits) = &self.limits.refresh else {
            return report.state(Rule::NoSuchCommand, None, command);
        };
        self.banks.iter().for_each(|bank| bank.check_idle(report, &self.limits, command));
        if let Some(bank_limits) = &limits.bank {
            let last = self.bank_refresh.as_ref();
            report.distance(Rule::TRfcPb, last, bank_limits.busy, command);
        }
        let interval = limits.interval.unwrap_or(0);
        for bank in &mut self.banks {
            bank.covered.refresh(report, limits, interval, command);
        }
        self.turn = 0;
        self.refresh = Some(*command);
    }

    fn refresh_bank(&mut self, report: &mut Report, command: &Command) {
        let Some(limits @ Refresh { bank: Some(of_bank), .. }) = &self.limits.refresh else {
            return report.state(Rule::NoSuchCommand, None, command);
        };
        let last = self.bank_refresh.as_ref();
        report.distance(Rule::TRfcPb, last, of_bank.busy, command);
        let last = self.last.activate.as_ref();
        report.distance(Rule::TRefsbrd, last, of_bank.from_row, command);
        let (taken, counts) = (self.taken(command, of_bank.kind), of_bank.counts_as_activate);
        let mask: u64 = taken.clone().fold(0, |mask, number| mask | 1 << number);
        if self.turn & mask != 0 {
            let last = self.banks[self.bank_of(command)].refresh.as_ref();
            report.state(Rule::RefreshTurn, last, command);
            self.turn = 0;
        }
        for number in taken {
            let bank = &mut self.banks[number];
            bank.check_idle(report, &self.limits, command);
            bank.covered.refresh(report, limits, of_bank.interval, command);
            bank.refresh = Some(*command);
        }
        self.turn |= mask;
        if self.turn.count_ones() as usize == self.banks.len() {
            self.turn = 0;
        }
        self.bank_refresh = Some(*command);
        if counts {
            self.check_window(report, command);
        }
    }

    /// Returns the banks that a bank refresh covers.
    fn taken(&self, command: &Command, kind: BankRefresh) -> StepBy<Range<usize>> {
        let (number, banks) = (self.bank_of(command), usize::from(self.limits.banks));
        match kind {
            BankRefresh::SameNumber => (number % banks..self.banks.len()).step_by(banks),
            _ => (number..number + 1).step_by(1),
        }
    }

    fn power_down(&mut self, report: &mut Report, command: &Command) {
        if self.limits.sleep.is_none() {
            return report.state(Rule::NoSuchCommand, None, command);
        }
        self.check_quiet(report, command);
        self.sleep = Some(*command);
    }

    fn self_refresh(&mut self, report: &mut Report, command: &Command) {
        if self.limits.sleep.is_none() || self.limits.refresh.is_none() {
            return report.state(Rule::NoSuchCommand, None, command);
        }
        self.check_quiet(report, command);
        self.banks.iter().for_each(|bank| bank.check_idle(report, &self.limits, command));
        if let Some(bank_limits) = self.limits.bank_limits() {
            let last = self.bank_refresh.as_ref();
            report.distance(Rule::TRfcPb, last, bank_limits.busy, command);
        }
        self.turn = 0;
        self.sleep = Some(*command);
    }

    /// Checks that no operation is in progress that needs the clock.
    fn check_quiet(&self, report: &mut Report, command: &Command) {
        report.distance(Rule::PowerDownEntry, self.any.as_ref(), 1, command);
        let (read, write) = (self.limits.read_to_power_down, self.limits.write_to_power_down);
        report.distance(Rule::PowerDownEntry, self.last.read.as_ref(), read, command);
        report.distance(Rule::PowerDownEntry, self.last.write.as_ref(), write, command);
    }
}

impl Bank {
    fn check_column(&self, report: &mut Report, limits: &Limits, command: &Command) {
        match self.row {
            None => {
                let closed = self.closed.as_ref().map(|(command, _)| command);
                report.state(Rule::ClosedBank, closed, command);
            }
            Some(row) if row != command.row => {
                report.state(Rule::OtherRow, self.last.activate.as_ref(), command);
            }
            Some(_) => {}
        }
        let wait = limits.activate_to_column;
        report.distance(Rule::TRcd, self.last.activate.as_ref(), wait, command);
    }

    /// Closes the bank by automatic precharge, which begins when a precharge command could have
    /// come (DDR4).
    fn close_after(&mut self, command: &Command, wait: u64, row_active: u64) {
        let active = self.last.activate.map_or(0, |activate| activate.at.0 + row_active);
        self.row = None;
        self.closed = Some((*command, active.max(command.at.0 + wait)));
    }

    fn check_precharged(&self, report: &mut Report, limits: &Limits, command: &Command) {
        let Some((closed, since)) = &self.closed else { return };
        let precharge = match closed.kind {
            CommandKind::PrechargeAll => limits.precharge_all,
            _ => limits.precharge,
        };
        report.distance(Rule::TRp, Some(closed), since + precharge - closed.at.0, command);
    }

    fn check_idle(&self, report: &mut Report, limits: &Limits, command: &Command) {
        if self.row.is_some() {
            report.state(Rule::RefreshOfOpenBank, self.last.activate.as_ref(), command);
        }
        self.check_precharged(report, limits, command);
    }
}
