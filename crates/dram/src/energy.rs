//! What a memory draws, from the commands that it is sent.
//!
//! Currents of data sheets (IDD) become energies as in DRAMPower: each command has an energy above the
//! background, and in every cycle a rank is in one background state and no other. Of the difference
//! between active and precharged standby, the first open bank draws the share `bank_share` (DRAMPower's
//! rho) and every open bank an equal part of the rest. With `I_rho = IDD2N + rho (IDD3N - IDD2N)` and
//! `I_1 = I_rho + (IDD3N - I_rho) / banks`, for each rail of a device and at its voltage V:
//!
//! | kind | energy |
//! |---|---|
//! | activate | V (IDD0 - I_1) tRAS |
//! | precharge | V (IDD0 - IDD2N) tRP, of each bank that was open |
//! | read, write | V (IDD4 - IDD3N) BL/2 |
//! | refresh | V (IDD5B - IDD3N) tRFC, during which all banks count as open |
//! | active standby | V I_rho in cycles with an open bank, V (I_1 - I_rho) in those of each open bank |
//! | precharged standby, power-down, self-refresh | V IDD2N, IDD3P or IDD2P, IDD6 |
//!
//! Self-refresh begins with one refresh. A refresh of single banks draws the share of a refresh of all
//! that its banks and its interval make up, as it refreshes so many rows. Termination and the
//! interface's own toggling are not counted.
//!
//! Devices with an `[array]` (NVM) draw, instead of the energies of activate, precharge, read and write:
//! a row read from the array for an activate, each line that was written since then written back when
//! the row is closed, and each read or written line to or from the row buffer.
//!
//! Only counts and cycles are kept while commands come; energies are computed when asked for.

mod draw;
mod rank;
mod report;
#[cfg(test)]
mod tests;

pub use report::{EnergyKind, EnergyReport};

use memweir_core::{Cycles, Picos};

use crate::command::Command;
use crate::config::MemoryConfig;
use crate::system::Observer;

use rank::Rank;

/// Counts what the commands of a memory system draw.
#[derive(Clone, Debug)]
pub struct EnergyMeter {
    clock: Picos,
    ranks: Vec<Rank>,
    of_channel: usize,
}

impl EnergyMeter {
    /// A meter for the memory that `config` describes, at cycle zero, with all banks closed.
    #[must_use]
    pub fn new(config: &MemoryConfig) -> Self {
        let channels = 0..config.controllers();
        let ranks = channels.flat_map(|_| config.ranks.iter().map(Rank::new));
        Self { clock: config.spec().clock, ranks: ranks.collect(), of_channel: config.ranks.len() }
    }

    /// Counts the next command of its rank.
    #[inline]
    pub fn count(&mut self, command: &Command) {
        let (channel, rank) = (usize::from(command.to.channel), usize::from(command.to.rank));
        if let Some(rank) = self.ranks.get_mut(channel * self.of_channel + rank) {
            rank.count(command);
        }
    }

    /// What was drawn until the end of the run at `until`, which is not before the last command.
    /// Devices whose file says nothing of energy draw nothing.
    #[must_use]
    pub fn report(&self, until: Cycles) -> EnergyReport {
        let mut report = EnergyReport::new(Picos(until.0 * self.clock.0));
        for rank in &self.ranks {
            rank.clone().draw_until(until.0, &mut report);
        }
        report
    }

    /// Whether some device says nothing of its energy.
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
