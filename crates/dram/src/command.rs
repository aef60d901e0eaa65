//! Commands on the bus between a controller and its devices.

use memweir_core::{Cycles, Direction};
use serde::Serialize;

/// A command to the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Opens a row of a bank.
    Activate,
    /// Closes a bank.
    Precharge,
    /// Closes all banks of a rank.
    PrechargeAll,
    /// Reads a burst from the open row.
    Read,
    /// Reads a burst and closes the bank after it.
    ReadAutoPrecharge,
    /// Writes a burst into the open row.
    Write,
    /// Writes a burst and closes the bank after it.
    WriteAutoPrecharge,
    /// Refreshes all banks of a rank.
    Refresh,
    /// Refreshes one bank (LPDDR), or the banks of that number in all groups (DDR5; the group is
    /// zero).
    RefreshBank,
    /// Enters power-down, with open or closed banks.
    PowerDownEnter,
    /// Leaves power-down.
    PowerDownExit,
    /// Enters self-refresh.
    SelfRefreshEnter,
    /// Leaves self-refresh.
    SelfRefreshExit,
}

memweir_core::named! {
    pub CommandKind, "command":
    Activate = "activate",
    Precharge = "precharge",
    PrechargeAll = "precharge-all",
    Read = "read",
    ReadAutoPrecharge = "read-auto",
    Write = "write",
    WriteAutoPrecharge = "write-auto",
    Refresh = "refresh",
    RefreshBank = "refresh-bank",
    PowerDownEnter = "power-down",
    PowerDownExit = "power-up",
    SelfRefreshEnter = "self-refresh",
    SelfRefreshExit = "self-refresh-exit",
}

impl From<Direction> for CommandKind {
    /// Returns the command that moves data in this direction.
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Read => Self::Read,
            Direction::Write => Self::Write,
        }
    }
}

impl CommandKind {
    /// Number of commands.
    pub const COUNT: usize = 13;

    /// Returns the direction in which it moves data; `None` if it moves none.
    #[must_use]
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Read | Self::ReadAutoPrecharge => Some(Direction::Read),
            Self::Write | Self::WriteAutoPrecharge => Some(Direction::Write),
            _ => None,
        }
    }

    /// Returns true if it addresses a whole rank.
    pub(crate) fn is_to_rank(self) -> bool {
        matches!(
            self,
            Self::PrechargeAll
                | Self::Refresh
                | Self::PowerDownEnter
                | Self::PowerDownExit
                | Self::SelfRefreshEnter
                | Self::SelfRefreshExit
        )
    }

    /// Returns true if it addresses one bank for a request, and changes the state of no other.
    pub(crate) fn is_to_bank(self) -> bool {
        !self.is_to_rank() && self != Self::RefreshBank
    }
}

/// The bank that a command addresses. Fields below the level of the command (the bank of a
/// [`CommandKind::Refresh`]) are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct BankAddress {
    /// Channel, counted over all sub-channels.
    pub channel: u16,
    /// Rank of the channel.
    pub rank: u16,
    /// Bank group of the rank.
    pub group: u16,
    /// Bank of the group.
    pub bank: u16,
}

/// One command as it was issued. The trace of a channel is in ascending order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Issue time in memory cycles.
    pub at: Cycles,
    /// Kind of command.
    pub kind: CommandKind,
    /// Addressed bank.
    pub to: BankAddress,
    /// The row that a [`CommandKind::Activate`] opens, or that a read or write addresses; otherwise
    /// zero.
    pub row: u32,
    /// The column of a read or write, in bursts; otherwise zero.
    pub column: u32,
}
