//! `memweir dram check`: a command trace held against the rules of its standard.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use memweir_core::Cycles;
use memweir_core::input::InputError;
use memweir_dram::MemoryConfig;
use memweir_dram::check::{Checker, Rule, Violation, text};
use memweir_dram::command::{BankAddress, Command};
use serde::Serialize;

use super::devices::{DeviceArgs, Side};
use super::source::Progress;
use crate::failure::{Failure, Outcome, refusal_of};
use crate::output;
use crate::render::text::{Table, count, counted};

/// Examples for the help.
pub(super) const EXAMPLES: &str = "\
Examples:
  memweir dram replay trace.bin --memory ddr4-2400 --commands commands.txt
  memweir dram check commands.txt --memory ddr4-2400
  memweir dram check other.txt --memory lpddr4-3200 --ranks 2 --refresh off --json

A command is a line `cycle command channel rank group bank row column`; docs/dram-check.md tells the
names of the commands and the rules. The exit code is 1 if a rule is broken.";

/// Options of `memweir dram check`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The command trace, as `dram replay --commands` writes it (`-`: standard input)
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    #[command(flatten)]
    devices: DeviceArgs,
    /// The cycle at which the trace ends, by which refreshes must have happened [default: that of
    /// the last command]
    #[arg(long, value_name = "CYCLE")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=Checker::LAST_CYCLE.0))]
    end: Option<u64>,
    /// Violations to print in full; the rest are only counted
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=Violation::KEPT as u64))]
    show: u64,
    /// Write the result as JSON (`-`: to standard output instead of the report)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = "Output")]
    json: Option<PathBuf>,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report {
    commands: u64,
    end_cycle: u64,
    violations: u64,
    by_rule: BTreeMap<&'static str, u64>,
    first: Vec<Found>,
}

/// A violation that is shown in full.
#[derive(Serialize)]
struct Found {
    rule: &'static str,
    /// The command that breaks the rule; absent where a command never came.
    command: Option<Named>,
    #[serde(flatten)]
    place: BankAddress,
    /// The command after which it had to wait; absent where that is the start.
    after: Option<Named>,
    /// Distances, for rules about distances.
    required_cycles: Option<u64>,
    actual_cycles: Option<u64>,
    text: String,
}

#[derive(Serialize)]
struct Named {
    cycle: u64,
    name: &'static str,
    row: u32,
}

impl From<Command> for Named {
    fn from(command: Command) -> Self {
        Self { cycle: command.at.0, name: command.kind.name(), row: command.row }
    }
}

impl From<&Violation> for Found {
    fn from(violation: &Violation) -> Self {
        let distance = violation.required != Cycles::ZERO;
        Self {
            rule: violation.rule.name(),
            command: violation.second.map(Named::from),
            place: violation.place,
            after: violation.first.map(Named::from),
            required_cycles: distance.then_some(violation.required.0),
            actual_cycles: distance.then_some(violation.actual.0),
            text: violation.to_string(),
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json], [&*args.trace])?;
    let config = args.devices.config()?;
    Side::First.check(&config)?;
    let mut checker = Checker::new(&config)
        .map_err(|refusal| refusal.written_in("command line").key("--memory"))?;
    read(&args.trace, &mut checker)?;
    let last = checker.last().0;
    let end = args.end.unwrap_or(last);
    if checker.commands() == 0 && args.end.is_none() {
        let help = "`--end CYCLE` asks whether an idle memory may go without refresh so long";
        let error = InputError::new(args.trace.display().to_string(), "the trace has no commands");
        return Err(error.help(help).into());
    }
    if end < last {
        let reason = format!("the trace goes on to cycle {last}");
        return Err(refusal_of("--end", reason).into());
    }
    checker.finish(Cycles(end));
    let first = checker.violations().iter().take(args.show as usize);
    let report = Report {
        commands: checker.commands(),
        end_cycle: end,
        violations: checker.count(),
        by_rule: checker.counts().iter().map(|(rule, count)| (rule.name(), *count)).collect(),
        first: first.map(Found::from).collect(),
    };
    output::report(args.json.as_deref(), &report, || {
        let elsewhere = checker.counts().contains_key(&Rule::Address);
        shown(&report, elsewhere.then(|| places(&config)))
    })?;
    Ok(if report.violations == 0 { Outcome::Success } else { Outcome::Violation })
}

/// Reads the commands of a file.
fn read(path: &Path, checker: &mut Checker) -> Result<(), Failure> {
    let (name, input, size): (String, Box<dyn BufRead>, Option<u64>) =
        if output::is_stdout(Some(path)) {
            ("standard input".to_owned(), Box::new(std::io::stdin().lock()), None)
        } else {
            let name = path.display().to_string();
            let wrong = |error: std::io::Error| InputError::new(name.clone(), error.to_string());
            let file = File::open(path).map_err(wrong)?;
            let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
            (name, Box::new(BufReader::new(file)), size)
        };
    let mut reader = text::Reader::new(name, input);
    let progress = Progress::new(size);
    while let Some(command) = reader.next() {
        checker.check(&command?);
        if checker.commands().is_multiple_of(super::source::LOOK_EVERY) {
            progress.show(reader.taken());
        }
    }
    progress.finish();
    Ok(())
}

/// The memory's extent, for a trace that goes beyond it.
fn places(config: &MemoryConfig) -> String {
    let built = &config.spec().organization;
    format!(
        "\nThe memory has channels 0 to {}, ranks 0 to {}, groups 0 to {}, banks 0 to {}, rows 0 to {} and columns 0 to {}; \
         `--channels` and `--ranks` make it larger.\n",
        config.controllers() - 1,
        config.ranks.len() - 1,
        built.bank_groups - 1,
        built.banks - 1,
        built.rows - 1,
        built.lines_of_row() - 1
    )
}

fn shown(report: &Report, places: Option<String>) -> String {
    let commands = counted(report.commands, "command");
    let end = count(report.end_cycle);
    if report.violations == 0 {
        let keep = if report.commands == 1 { "keeps" } else { "keep" };
        return format!("{commands} up to cycle {end} {keep} all rules\n");
    }
    let table = Table::of(&report.by_rule)
        .left("rule", |(rule, _)| **rule)
        .right("violations", |(_, number)| count(**number));
    let mut text = format!(
        "{} in {commands} up to cycle {end}\n\n{table}\n\n",
        counted(report.violations, "violation"),
    );
    for found in &report.first {
        let _ = writeln!(text, "{}", found.text);
    }
    let more = report.violations - report.first.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "and {} more", count(more));
    }
    text + &places.unwrap_or_default()
}
