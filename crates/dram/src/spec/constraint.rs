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

impl Level {
    /// Every level and its name in files, from the channel inward.
    pub const ALL: [(&'static str, Self); 4] = [
        ("channel", Self::Channel),
        ("rank", Self::Rank),
        ("bank-group", Self::BankGroup),
        ("bank", Self::Bank),
    ];
}

/// Whom a constraint binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The part that the first command went to.
    Same,
    /// The other parts of the same level in the next larger one: for ranks, the other ranks.
    Others,
}

/// After `window` commands `from` (or any other that its rule names), counted from the oldest, `to` waits for `wait` cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// Where it holds.
    pub level: Level,
    /// Which parts of that level it binds.
    pub scope: Scope,
    /// The command that came first.
    pub from: CommandKind,
    /// The command that waits.
    pub to: CommandKind,
    /// Cycles from the one to the other.
    pub wait: Cycles,
    /// How many commands back: 1, except for a window of activations (tFAW: 4).
    pub window: u8,
    /// The line of the table that it comes from: a window counts all commands of its line.
    pub rule: u16,
}
