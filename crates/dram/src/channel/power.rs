//! Power-down and self-refresh of ranks without waiting requests.

use super::bus::CommandBus;
use super::candidate::{Candidate, HOUSEKEEPING, REFRESH};
use super::rows::RowBuffers;
use crate::command::CommandKind;
use crate::config::MemoryConfig;
use crate::timer::{NEVER, Shape};

/// Power states of all ranks of a channel. Only an awake rank is sent other commands than those
/// that wake it.
#[derive(Clone, Debug)]
pub(super) struct Power {
    ranks: Vec<RankPower>,
    /// Idle cycles after which a rank enters power-down and self-refresh.
    power_down_after: u64,
    self_refresh_after: u64,
}

#[derive(Clone, Debug)]
struct RankPower {
    state: PowerState,
    /// Cycle in which a request was last served. A rank for which one waits is not put to sleep.
    last_use: u64,
}

/// Power state of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PowerState {
    Awake,
    PowerDown,
    SelfRefresh,
}

/// Work that is due at a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Requests wait for it.
    Requests,
    /// Only a refresh is due.
    Refresh,
    /// Nothing.
    None,
}

impl Power {
    pub(super) fn new(config: &MemoryConfig, shape: Shape) -> Self {
        let rank = RankPower { state: PowerState::Awake, last_use: 0 };
        Self {
            ranks: vec![rank; shape.ranks],
            power_down_after: config.power.power_down_after.map_or(NEVER, |after| after.0),
            self_refresh_after: config.power.self_refresh_after.map_or(NEVER, |after| after.0),
        }
    }

    /// Returns true if ranks ever enter power-down or self-refresh.
    #[inline]
    pub(super) fn is_managed(&self) -> bool {
        self.power_down_after != NEVER || self.self_refresh_after != NEVER
    }

    pub(super) fn is_awake(&self, rank: usize) -> bool {
        self.ranks[rank].state == PowerState::Awake
    }

    pub(super) fn is_in_self_refresh(&self, rank: usize) -> bool {
        self.ranks[rank].state == PowerState::SelfRefresh
    }

    /// Records that a request for the rank is served at `now`.
    pub(super) fn touch(&mut self, rank: usize, now: u64) {
        self.ranks[rank].last_use = now;
    }

    /// Records that a command put a rank to sleep or woke it.
    pub(super) fn change(&mut self, command: CommandKind, rank: usize) {
        self.ranks[rank].state = match command {
            CommandKind::PowerDownEnter => PowerState::PowerDown,
            CommandKind::SelfRefreshEnter => PowerState::SelfRefresh,
            _ => PowerState::Awake,
        };
    }

    /// Offers to put a rank to sleep or to wake it; returns true if it can get no other command.
    pub(super) fn offer(
        &self,
        number: usize,
        duty: Duty,
        rows: &RowBuffers,
        bus: &CommandBus,
        best: &mut Candidate,
    ) -> bool {
        let rank = &self.ranks[number];
        // Behind the end of time is never.
        let after = |idle: u64| rank.last_use.saturating_add(idle);
        let deep = after(self.self_refresh_after);
        let mut offer = |command, key, at| {
            if at != NEVER {
                best.offer(bus.to_rank(command, number, key, at));
            }
        };
        match rank.state {
            PowerState::SelfRefresh => {
                // The rank has performed any owed refresh itself.
                if duty == Duty::Requests {
                    offer(CommandKind::SelfRefreshExit, REFRESH, 0);
                }
                true
            }
            PowerState::PowerDown => {
                // Self-refresh can only be entered from the awake state.
                let at = if duty == Duty::None { deep } else { 0 };
                offer(CommandKind::PowerDownExit, REFRESH, at);
                true
            }
            PowerState::Awake if duty != Duty::None => false,
            PowerState::Awake => {
                let light = after(self.power_down_after);
                let command = rows.closing_or(CommandKind::SelfRefreshEnter, number);
                offer(command, HOUSEKEEPING, deep);
                // Power-down is only entered before self-refresh is due.
                if light < deep && bus.floor() < deep {
                    offer(CommandKind::PowerDownEnter, HOUSEKEEPING, light);
                }
                // Until then, rows are closed that are idle for their timeout.
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Cycles;

    use super::*;
    use crate::spec::MemorySpec;

    /// Power-down after 10 idle cycles, self-refresh after 1,000.
    fn power() -> (Power, RowBuffers, CommandBus) {
        let mut config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        config.power.power_down_after = Some(Cycles(10));
        config.power.self_refresh_after = Some(Cycles(1000));
        let bus = CommandBus::new(&config);
        let shape = bus.shape();
        (Power::new(&config, shape), RowBuffers::new(&config, shape), bus)
    }

    /// Returns the command for rank 0 and its cycle, if there is one.
    fn offered(
        (power, rows, bus): &(Power, RowBuffers, CommandBus),
        duty: Duty,
    ) -> Option<(CommandKind, u64)> {
        let mut best = Candidate::NONE;
        power.offer(0, duty, rows, bus, &mut best);
        (best != Candidate::NONE).then_some((best.command, best.at))
    }

    #[test]
    fn idle_ranks_fall_asleep_by_stages() {
        let mut all = power();
        all.0.touch(0, 100);
        assert_eq!(offered(&all, Duty::None), Some((CommandKind::PowerDownEnter, 110)));
        all.0.change(CommandKind::PowerDownEnter, 0);
        assert_eq!(offered(&all, Duty::None), Some((CommandKind::PowerDownExit, 1100)));
        all.0.change(CommandKind::PowerDownExit, 0);
        all.2.reach(1100);
        assert_eq!(offered(&all, Duty::None), Some((CommandKind::SelfRefreshEnter, 1100)));
        all.0.change(CommandKind::SelfRefreshEnter, 0);
        assert!(all.0.is_in_self_refresh(0));
        assert_eq!(offered(&all, Duty::None), None);
    }

    #[test]
    fn a_rank_that_waits_for_longer_than_time_lasts_stays_awake() {
        let mut all = power();
        (all.0.power_down_after, all.0.self_refresh_after) = (NEVER - 1, NEVER - 1);
        all.0.touch(0, 100);
        assert_eq!(offered(&all, Duty::None), None);
    }

    #[test]
    fn requests_wake_a_rank_and_refreshes_wake_it_from_power_down_only() {
        let mut all = power();
        assert_eq!(offered(&all, Duty::Refresh), None, "an awake rank gets other commands");
        all.0.change(CommandKind::PowerDownEnter, 0);
        assert!(!all.0.is_awake(0));
        for duty in [Duty::Requests, Duty::Refresh] {
            assert_eq!(offered(&all, duty), Some((CommandKind::PowerDownExit, 0)));
        }
        all.0.change(CommandKind::SelfRefreshEnter, 0);
        assert_eq!(offered(&all, Duty::Refresh), None);
        assert_eq!(offered(&all, Duty::Requests), Some((CommandKind::SelfRefreshExit, 0)));
    }
}
