//! Observers of the commands of a replay: the rule checker, the energy meter, the command file.

use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use memweir_core::Cycles;
use memweir_dram::check::{Checker, text};
use memweir_dram::command::Command;
use memweir_dram::drive::PartObserver;
use memweir_dram::energy::{EnergyMeter, EnergyReport};
use memweir_dram::{MemoryConfig, Observer, drampower};

use crate::failure::Failure;
use crate::render::text::counted;

/// The requested observers of a memory's commands.
pub(super) struct Watch {
    meter: EnergyMeter,
    checker: Option<Checker>,
    commands: Option<(PathBuf, Commands)>,
}

/// A file of commands, in one of its formats.
enum Commands {
    Own(text::CommandWriter<BufWriter<File>>),
    Drampower(drampower::DrampowerWriter<BufWriter<File>>),
}

/// Format of a file of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CommandsFormat {
    /// That of `memweir dram check`
    #[default]
    Memweir,
    /// That of DRAMPower 5 and 6, a file for each channel
    Drampower,
}

impl Commands {
    fn create(path: &Path, format: CommandsFormat, config: &MemoryConfig) -> Result<Self, Failure> {
        let file = |path: &Path| match File::create(path) {
            Ok(file) => Ok(BufWriter::new(file)),
            Err(error) => Err(Failure::write(path, error)),
        };
        Ok(match format {
            CommandsFormat::Memweir => Self::Own(text::CommandWriter::new(file(path)?)),
            CommandsFormat::Drampower => {
                let channels = config.controllers();
                let files = (0..channels).map(|channel| file(&of_channel(path, channel, channels)));
                Self::Drampower(drampower::DrampowerWriter::new(
                    config,
                    files.collect::<Result<_, _>>()?,
                ))
            }
        })
    }

    fn finish(self, end: Cycles) -> std::io::Result<()> {
        match self {
            Self::Own(writer) => writer.finish().map(drop),
            Self::Drampower(writer) => writer.finish(end).map(drop),
        }
    }
}

/// Returns the file of a channel: `commands.csv` for the only one, `commands-1.csv` for the second
/// of several.
fn of_channel(path: &Path, channel: u32, channels: u32) -> PathBuf {
    if channels == 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{channel}"));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// Result of the rule checker.
#[derive(Debug)]
pub(super) struct CheckResult {
    commands: u64,
    pub(super) violations: u64,
    first: Vec<String>,
}

/// Violations that are shown in full.
const TOLD: usize = 10;

impl Watch {
    pub(super) fn new(
        config: &MemoryConfig,
        check: bool,
        commands: Option<&Path>,
        format: CommandsFormat,
    ) -> Result<Self, Failure> {
        let checker = check.then(|| Checker::new(config)).transpose();
        let checker = checker.map_err(|refusal| refusal.written_in("command line"))?;
        let create = |path: &Path| -> Result<_, Failure> {
            Ok((path.to_owned(), Commands::create(path, format, config)?))
        };
        Ok(Self {
            meter: EnergyMeter::new(config),
            checker,
            commands: commands.map(create).transpose()?,
        })
    }

    /// Returns the energy drawn up to `end`; `None` where a device's file does not say enough of
    /// it.
    pub(super) fn energy(&self, end: Cycles) -> Option<EnergyReport> {
        (!self.meter.is_partial()).then(|| self.meter.report(end))
    }

    /// Ends the command file and the check at the cycle `end`.
    pub(super) fn finish(self, end: Cycles) -> Result<Option<CheckResult>, Failure> {
        if let Some((path, writer)) = self.commands {
            writer.finish(end).map_err(|error| Failure::write(&path, error))?;
        }
        Ok(self.checker.map(|mut checker| {
            checker.finish(end);
            let first = checker.violations().iter().take(TOLD).map(ToString::to_string).collect();
            CheckResult { commands: checker.commands(), violations: checker.count(), first }
        }))
    }
}

impl Observer for Watch {
    #[inline]
    fn command(&mut self, command: &Command) {
        self.meter.count(command);
        if let Some(checker) = &mut self.checker {
            checker.check(command);
        }
        match &mut self.commands {
            Some((_, Commands::Own(writer))) => writer.write(command),
            Some((_, Commands::Drampower(writer))) => writer.write(command),
            None => {}
        }
    }
}

/// Observers of memories side by side, one for each.
pub(super) struct Watches<'a>(pub(super) &'a mut [Watch]);

impl PartObserver for Watches<'_> {
    fn command(&mut self, part: usize, command: &Command) {
        self.0[part].command(command);
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.violations {
            0 => write!(f, "{} commands keep all rules", self.commands),
            count => {
                write!(f, "{} in {} commands:", counted(count, "violation"), self.commands)?;
                self.first.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
            }
        }
    }
}
