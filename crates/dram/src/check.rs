//! A checker of command traces that is not part of the controller.
//!
//! It reads the commands of a memory system and tells which of them break the rules of its standard: the
//! pairwise distances, the states of banks and ranks, the command and data buses, and the intervals
//! of refresh. The rules of DDR3, DDR4, DDR5, LPDDR2 and LPDDR4 are written here by hand, over the
//! *values* of the timing parameters of a device, as the authors know them and beside those of
//! Ramulator, DRAMsim3, DRAMPower, DRAMSys and gem5: the texts of the standards were not read. Neither
//! the table of constraints of a family nor any code of the controller is used, so that a mistake made
//! in one of them does not excuse itself.
//!
//! The checker needs constant memory: it keeps what the rules look back at (a few commands of each
//! bank, group and rank) and the first violations.

mod bus;
mod limits;
mod rank;
mod refresh;
mod rule;
#[cfg(test)]
mod tests;
pub mod text;

pub use rule::{Rule, Violation};

use std::collections::BTreeMap;

use memweir_core::Cycles;
use memweir_core::input::Refusal;

use crate::command::Command;
use crate::config::{MemoryConfig, RefreshPolicy};
use crate::system::Observer;

use bus::Buses;
use limits::Limits;
use rank::Rank;
use rule::Report;

/// Reads the commands of a memory system, each channel in the order of time, and remembers which
/// break a rule.
#[derive(Clone, Debug)]
pub struct Checker {
    channels: Vec<Channel>,
    report: Report,
    commands: u64,
    last: Cycles,
}

#[derive(Clone, Debug)]
struct Channel {
    buses: Buses,
    ranks: Vec<Rank>,
}

impl Checker {
    /// The last cycle that a command can have: five hundred years at 300 MHz, and far enough from
    /// the end of numbers for every distance.
    pub const LAST_CYCLE: Cycles = Cycles(1 << 62);

    /// A checker for the memory that `config` describes, all of whose banks are closed at cycle zero
    /// and were refreshed until then. Of the controller's options it looks at one: whether there is
    /// refresh at all.
    ///
    /// # Errors
    /// If a device lacks a parameter that the rules of its standard speak of.
    pub fn new(config: &MemoryConfig) -> Result<Self, Refusal> {
        let refreshed = config.refresh != RefreshPolicy::Off;
        let limits = config.ranks.iter().map(|spec| Limits::of(spec, refreshed));
        let limits = limits.collect::<Result<Vec<_>, _>>()?;
        let channel =
            Channel { buses: Buses::default(), ranks: limits.into_iter().map(Rank::new).collect() };
        Ok(Self {
            channels: vec![channel; config.controllers() as usize],
            report: Report::default(),
            commands: 0,
            last: Cycles::ZERO,
        })
    }

    /// Checks the next command, whose time is below [`Checker::LAST_CYCLE`]. One that is before the
    /// command before it on its channel is a violation, and nothing more is asked of it.
    pub fn check(&mut self, command: &Command) {
        self.commands += 1;
        self.last = self.last.max(command.at);
        let channel = self.channels.get_mut(usize::from(command.to.channel));
        let Some(Channel { buses, ranks }) = channel else {
            return self.report.state(Rule::Address, None, command);
        };
        let Some(rank) = ranks.get_mut(usize::from(command.to.rank)) else {
            return self.report.state(Rule::Address, None, command);
        };
        if !buses.check_order(&mut self.report, command) {
            return;
        }
        buses.check(&mut self.report, rank.limits(), command);
        rank.check(&mut self.report, command);
    }

    /// Checks that all refreshes that were due at `end` have happened.
    pub fn finish(&mut self, end: Cycles) {
        for (channel, parts) in self.channels.iter().enumerate() {
            for (rank, part) in parts.ranks.iter().enumerate() {
                part.finish(&mut self.report, end, channel as u16, rank as u16);
            }
        }
    }

    /// How many commands were checked.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// When the last of them was issued.
    #[must_use]
    pub fn last(&self) -> Cycles {
        self.last
    }

    /// How many violations there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.report.count()
    }

    /// How many of them break each rule; a rule that is kept is not among them.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Rule, u64> {
        self.report.counts()
    }

    /// The first of them, at most [`Violation::KEPT`].
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        self.report.kept()
    }
}

impl Observer for Checker {
    fn command(&mut self, command: &Command) {
        self.check(command);
    }
}
