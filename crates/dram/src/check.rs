//! A checker of command traces that is not part of the controller.
//!
//! It reads the commands of a memory system and reports those that break the rules of its standard:
//! the pairwise distances, the states of banks and ranks, the command and data buses, and the
//! refresh intervals. The rules of DDR3, DDR4, DDR5, LPDDR2 and LPDDR4 are written here by hand,
//! over the *values* of a device's timing parameters. They follow the authors' knowledge and a
//! comparison with Ramulator, DRAMsim3, DRAMPower, DRAMSys and gem5; the texts of the standards
//! were not read. The checker uses neither a family's table of constraints nor any code of the
//! controller, so a mistake in either does not hide itself.
//!
//! The checker needs constant memory: it keeps the history that the rules refer to (a few commands
//! of each bank, group and rank) and the first violations.

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
use crate::config::MemoryConfig;
use crate::observer::Observer;

use bus::Buses;
use limits::Limits;
use rank::Rank;
use rule::Report;

/// Rule checker. It reads the commands of a memory system, those of each channel in the order of
/// time, and records the commands that break a rule.
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
    /// the largest number that every distance can be added.
    pub const LAST_CYCLE: Cycles = Cycles(1 << 62);

    /// Builds a checker for the memory that `config` describes. At cycle zero, all banks are closed
    /// and were refreshed until then. Of the controller's options, the checker uses one: refresh on
    /// or off.
    ///
    /// # Errors
    /// If a device lacks a parameter that the rules of its standard use.
    pub fn new(config: &MemoryConfig) -> Result<Self, Refusal> {
        let limits = config.ranks.iter().map(|spec| Limits::of(spec, config.refresh));
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

    /// Checks the next command, whose time is below [`Checker::LAST_CYCLE`]. A command that is
    /// earlier than the previous one on its channel is a violation, and no other rule is checked
    /// for it.
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

    /// Checks that all refreshes due by `end` have happened.
    pub fn finish(&mut self, end: Cycles) {
        for (channel, parts) in self.channels.iter().enumerate() {
            for (rank, part) in parts.ranks.iter().enumerate() {
                part.finish(&mut self.report, end, channel as u16, rank as u16);
            }
        }
    }

    /// Returns the number of checked commands.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Returns the cycle of the latest checked command.
    #[must_use]
    pub fn last(&self) -> Cycles {
        self.last
    }

    /// Returns the number of violations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.report.counts.values().sum()
    }

    /// Returns the number of violations of each rule that was broken.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Rule, u64> {
        &self.report.counts
    }

    /// Returns the first violations, at most [`Violation::KEPT`].
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.report.kept
    }
}

impl Observer for Checker {
    fn command(&mut self, command: &Command) {
        self.check(command);
    }
}
