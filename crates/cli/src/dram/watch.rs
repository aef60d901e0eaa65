//! Observers of the commands of a replay: the rule checker, the energy meter, the command file.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use memweir_core::{Cycles, Picos};
use memweir_dram::check::{Checker, text};
use memweir_dram::command::Command;
use memweir_dram::drive::PartObserver;
use memweir_dram::energy::{EnergyMeter, EnergyReport};
use memweir_dram::request::Completion;
use memweir_dram::{MemoryConfig, Observer, drampower};
use memweir_run::files::Replacement;

use super::timeline::Timeline;
use crate::failure::Failure;
use crate::render::text::counted;

/// The requested observers of a memory's commands.
pub(super) struct Watch {
    /// Clock of the memory.
    clock: Picos,
    meter: EnergyMeter,
    checker: Option<Checker>,
    commands: Option<CommandFile>,
}

/// A file of commands, which appears when the replay has ended.
struct CommandFile {
    path: PathBuf,
    writer: Commands,
    replacements: Vec<Replacement>,
}

/// Writer of commands in one of the formats.
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

impl CommandFile {
    fn create(path: &Path, format: CommandsFormat, config: &MemoryConfig) -> Result<Self, Failure> {
        let mut replacements = Vec::new();
        let mut file = |path: &Path| {
            let replacement = Replacement::of(path);
            let file = replacement.and_then(|replacement| {
                let file = replacement.file().try_clone()?;
                replacements.push(replacement);
                Ok(BufWriter::new(file))
            });
            file.map_err(|error| Failure::write(path, error))
        };
        let writer = match format {
            CommandsFormat::Memweir => Commands::Own(text::CommandWriter::new(file(path)?)),
            CommandsFormat::Drampower => {
                let channels = config.controllers();
                let files = (0..channels).map(|channel| file(&of_channel(path, channel, channels)));
                let files = files.collect::<Result<_, _>>()?;
                Commands::Drampower(drampower::DrampowerWriter::new(config, files))
            }
        };
        Ok(Self { path: path.to_owned(), writer, replacements })
    }

    fn finish(self, end: Cycles) -> Result<(), Failure> {
        let written = match self.writer {
            Commands::Own(writer) => writer.finish().map(drop),
            Commands::Drampower(writer) => writer.finish(end).map(drop),
        };
        let mut replacements = self.replacements.into_iter();
        written
            .and_then(|()| replacements.try_for_each(Replacement::commit))
            .map_err(|error| Failure::write(&self.path, error))
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

impl Watch {
    /// Observes the energy alone.
    pub(super) fn new(config: &MemoryConfig) -> Self {
        let (clock, meter) = (config.spec().clock, EnergyMeter::new(config));
        Self { clock, meter, checker: None, commands: None }
    }

    /// Holds the commands against the rules, too.
    pub(super) fn checked(self, config: &MemoryConfig) -> Result<Self, Failure> {
        let checker = Checker::new(config);
        let checker =
            checker.map_err(|refusal| refusal.written_in("command line").key("--check"))?;
        Ok(Self { checker: Some(checker), ..self })
    }

    /// Writes the commands to a file, too.
    pub(super) fn written(
        self,
        config: &MemoryConfig,
        path: &Path,
        format: CommandsFormat,
    ) -> Result<Self, Failure> {
        Ok(Self { commands: Some(CommandFile::create(path, format, config)?), ..self })
    }

    /// Returns the names of the command files while they are unfinished.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &Path> {
        self.commands.iter().flat_map(|file| &file.replacements).filter_map(Replacement::temporary)
    }

    /// Returns the first cycle of the memory that does not begin before `time`.
    pub(super) fn cycle(&self, time: Picos) -> Cycles {
        Cycles(time.0.div_ceil(self.clock.0))
    }

    /// Returns the energy drawn in the measured time up to `end`; `None` where a device's file does
    /// not say enough of it.
    pub(super) fn energy(&self, end: Cycles) -> Option<EnergyReport> {
        (!self.meter.is_partial()).then(|| self.meter.report(end))
    }

    /// Ends the command file and the check at the cycle `end`. A file that cannot be written does
    /// not cost the check.
    pub(super) fn finish(mut self, end: Cycles) -> (Result<(), Failure>, Option<Checker>) {
        let written = self.commands.map_or(Ok(()), |file| file.finish(end));
        if let Some(checker) = &mut self.checker {
            checker.finish(end);
        }
        (written, self.checker)
    }
}

impl Observer for Watch {
    #[inline]
    fn command(&mut self, command: &Command) {
        self.meter.count(command);
        if let Some(checker) = &mut self.checker {
            checker.check(command);
        }
        match self.commands.as_mut().map(|file| &mut file.writer) {
            Some(Commands::Own(writer)) => writer.write(command),
            Some(Commands::Drampower(writer)) => writer.write(command),
            None => {}
        }
    }
}

/// Observers of the driven memories: one for each, and one of all.
pub(super) struct Watches<'a> {
    /// Those of each memory. The clock of the first is the driver's.
    pub(super) each: &'a mut [Watch],
    pub(super) timeline: Option<&'a mut Timeline>,
}

impl PartObserver for Watches<'_> {
    fn measured(&mut self, part: usize, completion: &Completion, latency: Option<u64>) {
        if let Some(timeline) = &mut self.timeline {
            timeline.count(part, completion, latency);
        }
    }

    fn begins(&mut self, at: Cycles) {
        let time = Picos(at.0 * self.each[0].clock.0);
        for watch in &mut *self.each {
            watch.meter.restart(watch.cycle(time));
        }
    }

    fn command(&mut self, part: usize, command: &Command) {
        self.each[part].command(command);
    }
}

/// Says what a finished check has found, with the first violations in full.
pub(super) fn found(check: &Checker) -> String {
    let commands = counted(check.commands(), "command");
    match check.count() {
        0 if check.commands() == 1 => format!("{commands} keeps all rules"),
        0 => format!("{commands} keep all rules"),
        count => {
            let first = check.violations().iter().take(10);
            let first: String = first.map(|violation| format!("\n  {violation}")).collect();
            format!("{} in {commands}:{first}", counted(count, "violation"))
        }
    }
}
