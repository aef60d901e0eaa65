//! Minimum distances between commands.

use memweir_core::Cycles;

use crate::command::CommandKind;

/// The part of a memory within which a constraint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// All of a (sub-)channel.
    Channel,
    /// A rank.
    Rank,
    /// A bank group.
    BankGroup,
    /// A bank.
    Bank,
}

memweir_core::named! {
    pub Level, "level":
    Channel = "channel",
    Rank = "rank",
    BankGroup = "bank-group",
    Bank = "bank",
}

/// The parts that a constraint binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The part that the first command addressed.
    Same,
    /// The other parts of the same level in the next larger one: for ranks, the other ranks.
    Others,
}

/// A minimum distance between commands: after `window` commands `from` (or any other that its rule
/// names), counted from the oldest, `to` waits for `wait` cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The level at which it holds.
    pub level: Level,
    /// The parts of that level that it binds.
    pub scope: Scope,
    /// The earlier command.
    pub from: CommandKind,
    /// The later command, which waits.
    pub to: CommandKind,
    /// Cycles between the two.
    pub wait: Cycles,
    /// The number of earlier commands to count back: 1, except for a window of activates (tFAW: 4).
    pub window: u8,
    /// The line of the constraint table that it comes from; a window counts all commands of its
    /// line.
    pub rule: u16,
}
