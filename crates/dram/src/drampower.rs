//! Command traces for DRAMPower (5 and 6): comma-separated cycle, command, rank, bank group, bank,
//! row and column, one file for each channel, with `END` as the last command.
//!
//! A bank is counted over the groups of its rank, and a column in beats, not in bursts. Entries of
//! power-down are told apart by open banks, as DRAMPower wants it. Reads and writes have an empty
//! eighth field, the place of the data: DRAMPower refuses a trace without it, and takes its
//! toggling rates where it is empty.

use std::io::{self, Write};

use memweir_core::Cycles;

use crate::command::{BankAddress, Command, CommandKind};
use crate::config::MemoryConfig;

/// Writes commands, channel by channel. It keeps the first error of an output and writes nothing
/// after it.
#[derive(Debug)]
pub struct DrampowerWriter<W> {
    outputs: Vec<W>,
    ranks: Vec<Rank>,
    ranks_of_channel: usize,
    banks_of_group: u16,
    burst_length: u32,
    /// True if a refresh of a bank number concerns all groups.
    same_bank: bool,
    error: Option<io::Error>,
}

/// State of a rank.
#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    /// One bit for each bank.
    open: u64,
    /// True while it is powered down with open banks.
    active: bool,
}

impl<W: Write> DrampowerWriter<W> {
    /// Creates a writer of the commands of the memory that `config` describes, with one output for
    /// each of its channels, which should be buffered.
    ///
    /// # Panics
    /// If there is not one output for each channel.
    #[must_use]
    pub fn new(config: &MemoryConfig, outputs: Vec<W>) -> Self {
        assert_eq!(outputs.len(), config.controllers() as usize, "an output for each channel");
        let organization = config.spec().organization;
        Self {
            ranks: vec![Rank::default(); outputs.len() * config.ranks.len()],
            outputs,
            ranks_of_channel: config.ranks.len(),
            banks_of_group: organization.banks as u16,
            burst_length: organization.burst_length,
            same_bank: config.spec().family == "ddr5",
            error: None,
        }
    }

    /// Writes the next command.
    pub fn write(&mut self, command: &Command) {
        let Command { at, kind, to, row, column } = command;
        let BankAddress { channel, rank, group, bank } = *to;
        let bank = group * self.banks_of_group + bank;
        let place = usize::from(channel) * self.ranks_of_channel + usize::from(rank);
        let name = self.ranks[place].name(*kind, bank, self.same_bank);
        let column = column * self.burst_length;
        let data = if matches!(name, "RD" | "RDA" | "WR" | "WRA") { "," } else { "" };
        self.line(
            usize::from(channel),
            format_args!("{},{name},{rank},{group},{bank},{row},{column}{data}", at.0),
        );
    }

    fn line(&mut self, channel: usize, line: std::fmt::Arguments<'_>) {
        if self.error.is_none() {
            self.error = writeln!(self.outputs[channel], "{line}").err();
        }
    }

    /// Ends each trace at the cycle `end`.
    ///
    /// # Errors
    /// The first error of an output.
    pub fn finish(mut self, end: Cycles) -> io::Result<Vec<W>> {
        for channel in 0..self.outputs.len() {
            self.line(channel, format_args!("{},END,0,0,0,0,0", end.0));
        }
        match self.error {
            Some(error) => Err(error),
            None => {
                self.outputs.iter_mut().try_for_each(Write::flush)?;
                Ok(self.outputs)
            }
        }
    }
}

impl Rank {
    /// Returns the name of a command to this rank, and follows it.
    fn name(&mut self, kind: CommandKind, bank: u16, same_bank: bool) -> &'static str {
        let bit = 1u64 << (bank % 64);
        match kind {
            CommandKind::Activate => self.open |= bit,
            CommandKind::Precharge
            | CommandKind::ReadAutoPrecharge
            | CommandKind::WriteAutoPrecharge => self.open &= !bit,
            CommandKind::PrechargeAll => self.open = 0,
            CommandKind::PowerDownEnter => self.active = self.open != 0,
            _ => {}
        }
        match kind {
            CommandKind::Activate => "ACT",
            CommandKind::Precharge => "PRE",
            CommandKind::PrechargeAll => "PREA",
            CommandKind::Read => "RD",
            CommandKind::ReadAutoPrecharge => "RDA",
            CommandKind::Write => "WR",
            CommandKind::WriteAutoPrecharge => "WRA",
            CommandKind::Refresh => "REFA",
            CommandKind::RefreshBank if same_bank => "REFSB",
            CommandKind::RefreshBank => "REFB",
            CommandKind::PowerDownEnter if self.active => "PDEA",
            CommandKind::PowerDownEnter => "PDEP",
            CommandKind::PowerDownExit if self.active => "PDXA",
            CommandKind::PowerDownExit => "PDXP",
            CommandKind::SelfRefreshEnter => "SREFEN",
            CommandKind::SelfRefreshExit => "SREFEX",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MemorySpec;

    fn at(
        cycle: u64,
        kind: CommandKind,
        to: (u16, u16, u16, u16),
        row: u32,
        column: u32,
    ) -> Command {
        let (channel, rank, group, bank) = to;
        Command {
            at: Cycles(cycle),
            kind,
            to: BankAddress { channel, rank, group, bank },
            row,
            column,
        }
    }

    fn written(config: &MemoryConfig, commands: &[Command], end: u64) -> Vec<String> {
        let outputs = vec![Vec::new(); config.controllers() as usize];
        let mut writer = DrampowerWriter::new(config, outputs);
        commands.iter().for_each(|command| writer.write(command));
        let outputs = writer.finish(Cycles(end)).unwrap();
        outputs.into_iter().map(|bytes| String::from_utf8(bytes).unwrap()).collect()
    }

    /// The commands of the sample that comes with DRAMPower's tests (`ddr4.csv`), without its data.
    #[test]
    fn a_trace_reads_as_the_sample_of_drampower() {
        use CommandKind::{Activate, Precharge, Read, Write};
        let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        let bank = (0, 0, 0, 0);
        let commands = [(0, Activate), (15, Write), (20, Read), (40, Precharge)]
            .map(|(cycle, kind)| at(cycle, kind, bank, 0, 0));
        let wanted = "0,ACT,0,0,0,0,0\n15,WR,0,0,0,0,0,\n20,RD,0,0,0,0,0,\n40,PRE,0,0,0,0,0\n\
                      45,END,0,0,0,0,0\n";
        assert_eq!(written(&config, &commands, 45), [wanted]);
    }

    #[test]
    fn banks_count_over_groups_and_power_down_knows_open_banks() {
        use CommandKind::{
            Activate, PowerDownEnter, PowerDownExit, PrechargeAll, ReadAutoPrecharge, Refresh,
        };
        let config = MemoryConfig::with_channels(MemorySpec::shipped("ddr4-2400").unwrap(), 2);
        let (bank, rank) = ((1, 0, 2, 3), (1, 0, 0, 0));
        let commands = [
            at(10, Activate, bank, 77, 0),
            at(11, PowerDownEnter, rank, 0, 0),
            at(20, PowerDownExit, rank, 0, 0),
            at(30, ReadAutoPrecharge, bank, 77, 5),
            at(60, PowerDownEnter, rank, 0, 0),
            at(70, PowerDownExit, rank, 0, 0),
            at(71, PrechargeAll, rank, 0, 0),
            at(90, Refresh, rank, 0, 0),
        ];
        let wanted = "10,ACT,0,2,11,77,0\n11,PDEA,0,0,0,0,0\n20,PDXA,0,0,0,0,0\n\
                      30,RDA,0,2,11,77,40,\n60,PDEP,0,0,0,0,0\n70,PDXP,0,0,0,0,0\n\
                      71,PREA,0,0,0,0,0\n90,REFA,0,0,0,0,0\n500,END,0,0,0,0,0\n";
        assert_eq!(written(&config, &commands, 500), ["500,END,0,0,0,0,0\n", wanted]);
    }
}
