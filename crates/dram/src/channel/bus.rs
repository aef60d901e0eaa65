//! The command bus of a channel: the earliest cycle in which each command can be sent.

use super::candidate::Candidate;
use super::slots::NIL;
use crate::command::CommandKind;
use crate::config::{MemoryConfig, PagePolicy, RefreshPolicy};
use crate::timer::{Shape, Timer};

/// The command bus, with the timing of the devices behind it.
///
/// No command is sent before [`floor`](Self::floor), which never falls: one command is sent per
/// cycle, and none in a cycle that is over.
#[derive(Clone, Debug)]
pub(super) struct CommandBus {
    timer: Timer,
    floor: u64,
}

impl CommandBus {
    pub(super) fn new(config: &MemoryConfig) -> Self {
        let timer = Timer::new(&config.ranks, |command| is_used(config, command));
        Self { timer, floor: 0 }
    }

    #[inline]
    pub(super) fn shape(&self) -> Shape {
        self.timer.shape()
    }

    #[inline]
    pub(super) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// Returns the earliest cycle for the next command.
    #[inline]
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Records that something happened at `now`, so that no command is sent before.
    pub(super) fn reach(&mut self, now: u64) {
        self.floor = self.floor.max(now);
    }

    /// Records that `command` is sent at `now` to this bank, or to its rank.
    pub(super) fn send(&mut self, command: CommandKind, bank: usize, now: u64) {
        self.timer.issue(command, bank, now);
        self.floor = now + 1;
    }

    /// Returns the earliest cycle for a command to one bank.
    #[inline]
    pub(super) fn earliest(&self, command: CommandKind, bank: usize) -> u64 {
        self.timer.for_bank(command, bank).max(self.floor)
    }

    /// Returns the candidate that sends a command to a bank for no request.
    pub(super) fn to_bank(&self, command: CommandKind, bank: usize, key: u64) -> Candidate {
        let at = self.earliest(command, bank);
        Candidate { at, key, command, slot: NIL, bank: bank as u16 }
    }

    /// Returns the candidate that sends a command to a whole rank, not before `after`.
    pub(super) fn to_rank(
        &self,
        command: CommandKind,
        rank: usize,
        key: u64,
        after: u64,
    ) -> Candidate {
        let at = self.timer.for_rank(command, rank).max(self.floor).max(after);
        let bank = self.shape().first_bank(rank) as u16;
        Candidate { at, key, command, slot: NIL, bank }
    }
}

/// Returns true if a controller with these options ever sends `command`.
fn is_used(config: &MemoryConfig, command: CommandKind) -> bool {
    use CommandKind as C;
    let per_bank = config.refresh == RefreshPolicy::PerBank;
    let power = &config.power;
    match command {
        C::Activate | C::Precharge | C::Read | C::Write => true,
        C::PrechargeAll => !per_bank || power.self_refresh_after.is_some(),
        C::Refresh => !per_bank,
        C::RefreshBank => per_bank,
        C::ReadAutoPrecharge | C::WriteAutoPrecharge => {
            matches!(config.page, PagePolicy::Closed { .. })
        }
        C::PowerDownEnter | C::PowerDownExit => power.power_down_after.is_some(),
        C::SelfRefreshEnter | C::SelfRefreshExit => power.self_refresh_after.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::candidate::HOUSEKEEPING;
    use crate::spec::MemorySpec;

    #[test]
    fn one_command_is_sent_per_cycle_and_none_in_the_past() {
        let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        let mut bus = CommandBus::new(&config);
        bus.reach(10);
        bus.reach(7);
        assert_eq!(bus.floor(), 10);
        bus.send(CommandKind::Activate, 3, 12);
        assert_eq!(bus.floor(), 13);
        let to_other = bus.earliest(CommandKind::Precharge, 5);
        assert_eq!(to_other, 13, "a bank that nothing holds back");
        let timing = &config.spec().timing;
        let tras = timing.get("tRAS").unwrap().0;
        assert_eq!(bus.earliest(CommandKind::Precharge, 3), 12 + tras);
        let all = bus.to_rank(CommandKind::PrechargeAll, 0, HOUSEKEEPING, 0);
        assert_eq!((all.at, all.bank), (12 + tras, 0), "the slowest bank decides");
        assert_eq!(bus.to_rank(CommandKind::PrechargeAll, 0, HOUSEKEEPING, 999).at, 999);
    }
}
