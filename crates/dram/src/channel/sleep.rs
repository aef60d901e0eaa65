//! Power-down and self-refresh of ranks without waiting requests.

use super::Channel;
use super::select::{Choice, HOUSEKEEPING, REFRESH};
use crate::command::CommandKind;
use crate::timer::NEVER;

/// Power state of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    PowerDown,
    SelfRefresh,
}

impl Channel {
    /// Offers to put a rank to sleep or to wake it; returns true if it can get no other command.
    pub(super) fn offer_sleep(&self, number: usize, best: &mut Choice) -> bool {
        let rank = &self.ranks[number];
        let requests = rank.active | rank.work[0] | rank.work[1];
        let is_wanted = requests != 0 || rank.owed > 0 || rank.refreshing != 0;
        let after = |idle: u64| if idle == NEVER { NEVER } else { rank.last_use + idle };
        let deep = after(self.options.self_refresh_after);
        let mut offer = |command, key, at| {
            if at != NEVER {
                self.offer_to_rank(number, command, key, at, best);
            }
        };
        match rank.sleep {
            Sleep::SelfRefresh => {
                // The rank has performed any owed refresh itself.
                if requests != 0 {
                    offer(CommandKind::SelfRefreshExit, REFRESH, 0);
                }
                true
            }
            Sleep::PowerDown => {
                // Self-refresh can only be entered from the awake state.
                let at = if is_wanted { 0 } else { deep };
                offer(CommandKind::PowerDownExit, REFRESH, at);
                true
            }
            Sleep::Awake if is_wanted => false,
            Sleep::Awake => {
                let light = after(self.options.power_down_after);
                if deep != NEVER {
                    offer(rank.closing_or(CommandKind::SelfRefreshEnter), HOUSEKEEPING, deep);
                }
                // Power-down is only entered before self-refresh is due.
                if light < deep && self.floor < deep {
                    offer(CommandKind::PowerDownEnter, HOUSEKEEPING, light);
                }
                true
            }
        }
    }

    /// Records that a command put a rank to sleep or woke it.
    pub(super) fn fall_asleep_or_wake(&mut self, command: CommandKind, number: usize, now: u64) {
        let all_banks = u64::MAX >> (u64::BITS - self.shape().banks_of_rank() as u32);
        let rank = &mut self.ranks[number];
        match command {
            CommandKind::PowerDownEnter => rank.sleep = Sleep::PowerDown,
            CommandKind::SelfRefreshEnter => {
                rank.sleep = Sleep::SelfRefresh;
                (rank.owed, rank.refreshing, rank.late_turns) = (0, 0, 0);
            }
            CommandKind::SelfRefreshExit if rank.interval != NEVER => {
                rank.sleep = Sleep::Awake;
                rank.due = now + rank.interval;
                // Two self-refreshes are separated by a refresh, as in DDR4; otherwise a rank that
                // is often woken for a short time would get none.
                if self.options.per_bank_refresh {
                    (rank.refreshing, rank.turn) = (all_banks, rank.next_turn);
                } else {
                    rank.owed = 1;
                }
                self.find_due();
            }
            _ => rank.sleep = Sleep::Awake,
        }
    }
}
