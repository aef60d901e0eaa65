//! Energy of a memory, computed from the commands that it receives.
//!
//! The data sheet's currents (IDD) become energies as in DRAMPower: each command has an energy
//! above the background, and in every cycle a rank is in exactly one background state. Of the
//! difference between active and precharged standby, the first open bank draws the share
//! `bank_share` (DRAMPower's rho) and every open bank an equal part of the rest. With `I_rho =
//! IDD2N + rho (IDD3N - IDD2N)` and `I_1 = I_rho + (IDD3N - I_rho) / banks`, for each rail of a
//! device and at its voltage V:
//!
//! | kind | energy |
//! |---|---|
//! | activate | V (IDD0 - I_1) tRAS |
//! | precharge | V (IDD0 - IDD2N) tRP, of each bank that was open |
//! | read, write | V (IDD4 - IDD3N) BL/2 |
//! | refresh | V (IDD5B - IDD3N) tRFC, during which all banks count as open |
//! | active standby | V I_rho in cycles with an open bank, V (I_1 - I_rho) in those of each one |
//! | precharged standby, power-down, self-refresh | V IDD2N, IDD3P or IDD2P, IDD6 |
//!
//! Self-refresh begins with one refresh. A refresh of single banks draws a part of the energy of a
//! refresh of all banks: the share of the rows that it refreshes, which follows from its banks and
//! its interval. Termination and the toggling of the interface itself are not counted.
//!
//! For devices with an `[array]` (NVM), other energies replace those of activate, precharge, read
//! and write: an activate reads a row from the array, a precharge writes back each line that was
//! written since the activate, and each read or write moves a line from or to the row buffer.
//!
//! While commands arrive, only counts and cycles are kept; a report computes the energies.

mod draw;
mod rank;
mod report;
#[cfg(test)]
mod tests;

pub use report::{EnergyKind, EnergyReport};

use memweir_core::Cycles;

use crate::command::Command;
use crate::config::MemoryConfig;
use crate::observer::Observer;

use rank::Rank;

/// Energy meter: counts the commands of a memory system.
#[derive(Clone, Debug)]
pub struct EnergyMeter {
    ranks: Vec<Rank>,
    of_channel: usize,
}

impl EnergyMeter {
    /// Creates a meter for the memory that `config` describes, at cycle zero, with all banks
    /// closed.
    #[must_use]
    pub fn new(config: &MemoryConfig) -> Self {
        let channels = 0..config.controllers();
        let ranks = channels.flat_map(|_| config.ranks.iter().map(Rank::new));
        Self { ranks: ranks.collect(), of_channel: config.ranks.len() }
    }

    /// Forgets the energy drawn until `at`, which is not before the last command.
    pub fn restart(&mut self, at: Cycles) {
        self.ranks.iter_mut().for_each(|rank| rank.restart(at.0));
    }

    /// Counts the next command of its rank.
    #[inline]
    pub fn count(&mut self, command: &Command) {
        let (channel, rank) = (usize::from(command.to.channel), usize::from(command.to.rank));
        if let Some(rank) = self.ranks.get_mut(channel * self.of_channel + rank) {
            rank.count(command);
        }
    }

    /// Returns the energy drawn until the end of the run at `until`, which is not before the last
    /// command, since the last [`restart`](Self::restart). Devices without energy parameters in
    /// their files draw nothing.
    #[must_use]
    pub fn report(&self, until: Cycles) -> EnergyReport {
        let mut report = EnergyReport::default();
        for rank in &self.ranks {
            rank.clone().draw_until(until.0, &mut report);
        }
        report
    }

    /// Returns true if the file of a device has no energy parameters.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.ranks.iter().any(Rank::is_unknown)
    }
}

impl Observer for EnergyMeter {
    #[inline]
    fn command(&mut self, command: &Command) {
        self.count(command);
    }
}
