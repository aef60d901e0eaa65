//! Checks that every bank is refreshed often enough.

use memweir_core::Cycles;

use crate::command::{BankAddress, Command};

use super::limits::Refresh;
use super::rule::{Report, Rule, Violation};

/// Refresh state of a bank.
///
/// Each refresh covers one interval (tREFI) of the bank's retention. Refreshes may be postponed,
/// and later ones make up for them. They may also be pulled in; this counts up to the same number.
#[derive(Clone, Debug, Default)]
pub(super) struct Covered {
    /// Cycle until which the refreshes so far suffice.
    until: u64,
    last: Option<Command>,
    /// Cycle of `last`, moved forward by the time in self-refresh.
    since: u64,
}

impl Covered {
    /// Records that `command` refreshes the bank, which suffices for `interval` cycles.
    pub(super) fn refresh(
        &mut self,
        report: &mut Report,
        limits: &Refresh,
        interval: u64,
        command: &Command,
    ) {
        self.check(report, limits, command.at.0, command.to, Some(command));
        let pulled_in = command.at.0 + limits.postponed * interval;
        self.until = (self.until.max(self.floor(limits, command.at.0)) + interval).min(pulled_in);
        (self.last, self.since) = (Some(*command), command.at.0);
    }

    /// Returns the cycle from which counting starts again after a violation, so that it is reported
    /// once.
    fn floor(&self, limits: &Refresh, now: u64) -> u64 {
        let Some(interval) = limits.interval else { return 0 };
        now.saturating_sub((limits.postponed + 1) * interval)
    }

    /// Records that the device refreshed itself from `since` to `now`.
    pub(super) fn slept(&mut self, since: u64, now: u64) {
        self.until += now - since;
        self.since += now - since;
    }

    /// Reports a violation if the refreshes of the bank do not suffice at `now`.
    pub(super) fn check(
        &self,
        report: &mut Report,
        limits: &Refresh,
        now: u64,
        place: BankAddress,
        second: Option<&Command>,
    ) {
        let Some(interval) = limits.interval else { return };
        let longest = (limits.postponed + 1) * interval;
        if now > self.until + longest || now > self.since + longest {
            report.add(Violation {
                rule: Rule::TRefi,
                place,
                first: self.last,
                second: second.copied(),
                required: Cycles(longest),
                actual: Cycles(now - self.until.min(self.since)),
            });
        }
    }
}
