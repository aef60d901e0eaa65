//! The memweir command: parses arguments, calls a use case, renders what it returns.
//!
//! A library, so that the fuzz targets reach the parsers of its options.

mod calibrate;
mod choice;
mod cli;
mod color;
mod completions;
mod doctor;
mod dram;
mod emulate;
mod export;
mod failure;
mod fit;
mod foreground;
mod guardian;
mod hog;
mod hogsim;
mod interrupt;
mod man;
mod map;
mod output;
mod page;
mod profile;
mod queue;
mod render;
mod replay;
mod reproduce;
mod run;
mod shared;
mod sim;
mod store;
mod sweep;
mod top;
mod value;
mod watch;

use std::error::Error;
use std::num::{ParseFloatError, ParseIntError};
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
pub use cli::command;
use cli::{Cli, Command};
use failure::Failure;
use memweir_daemon::protocol::Request;
use memweir_linux::{signals, tell};

/// Runs the command that the process's arguments name.
#[must_use]
pub fn main() -> ExitCode {
    signals::let_large_writes_fail();
    let outcome = match called() {
        Command::Guardian => guardian::watch(),
        Command::Supervisor => queue::daemon::supervise(),
        Command::Run(args) => run::execute(*args),
        Command::Sim(args) => sim::execute(&args),
        Command::Color(color::Action::Run(args)) => color::run::execute(&args),
        Command::Color(color::Action::Audit(args)) => color::audit::execute(&args),
        Command::Color(color::Action::Plan(args)) => color::plan::execute(&args),
        Command::Emulate(args) => emulate::execute(&args),
        Command::Fit(args) => fit::execute(&args),
        Command::Replay(args) => replay::execute(&args),
        Command::Store(args) => store::execute(args),
        Command::Hog(args) => hog::execute(&args),
        Command::Hogsim(args) => hogsim::execute(&args),
        Command::Profile(args) => profile::execute(&args),
        Command::Calibrate(args) => calibrate::execute(&args),
        Command::Dram(dram::Action::Replay(args)) => dram::replay::execute(&args),
        Command::Dram(dram::Action::Curve(args)) => dram::curve::execute(&args),
        Command::Dram(dram::Action::Check(args)) => dram::check::execute(&args),
        Command::Dram(dram::Action::Convert(args)) => dram::convert::execute(&args),
        Command::Dram(dram::Action::List(args)) => dram::list::execute(&args),
        Command::Dram(dram::Action::Show(args)) => dram::show::execute(&args),
        Command::Sweep(sweep::Action::Merge(args)) => sweep::merge::execute(&args),
        Command::Reproduce(args) => reproduce::execute(&args),
        Command::Doctor(args) => doctor::execute(&args),
        Command::Completions(args) => completions::execute(&args),
        Command::Page(page::Action::Run(args)) => page::run::execute(&args),
        Command::Page(page::Action::Energy(args)) => page::energy::execute(&args),
        Command::Page(page::Action::Sim(args)) => page::sim::execute(&args),
        Command::Page(page::Action::Refs(args)) => page::refs::execute(&args),
        Command::Map(map::Action::Detect(args)) => map::detect::execute(&args),
        Command::Map(map::Action::Show(args)) => map::show::execute(&args),
        Command::Map(map::Action::Decode(args)) => map::decode::execute(&args),
        Command::Map(map::Action::Import(args)) => map::import::execute(&args),
        Command::Map(map::Action::Kernel(args)) => map::kernel::execute(&args),
        Command::Man(args) => man::execute(&args),
        Command::Watch(args) => watch::execute(&args),
        Command::Top(args) => top::execute(&args),
        Command::Daemon(args) => queue::daemon::execute(&args),
        Command::Submit(args) => queue::submit::execute(&args),
        Command::Queue(args) => queue::list::queue(&args),
        Command::Log(args) => queue::log::execute(&args),
        Command::Wait(args) => queue::verbs::wait(&args),
        Command::Hold(args) => queue::verbs::change(&args, |ids| Request::Hold { ids }),
        Command::Release(args) => queue::verbs::change(&args, |ids| Request::Release { ids }),
        Command::Cancel(args) => queue::verbs::change(&args, |ids| Request::Cancel { ids }),
        Command::Requeue(args) => queue::verbs::change(&args, |ids| Request::Requeue { ids }),
        Command::Drain(args) => queue::verbs::drain(&args),
        Command::Status(args) => queue::list::status(&args),
    };
    outcome.map_or_else(ended, ExitCode::from)
}

/// Shows the reason for which a command ended without its result.
fn ended(failure: Failure) -> ExitCode {
    tell!("{failure}");
    ExitCode::from(&failure)
}

/// The command that the process's arguments name. Wrong arguments end the process.
fn called() -> Command {
    let first = std::env::args_os().nth(1);
    if first.as_ref().is_some_and(|name| name == guardian::NAME) {
        return Command::Guardian;
    }
    if first.is_some_and(|name| name == queue::daemon::SUPERVISOR) {
        return Command::Supervisor;
    }
    let matches =
        command().try_get_matches().unwrap_or_else(|error| numbered(advised(error)).exit());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command
}

/// Advises dashes in front of the command that an unknown option belongs to, where clap advises
/// them in front of the option.
fn advised(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage)
        && usage.to_string().contains("-- CMD")
        && error.get(ContextKind::Suggested).is_some()
    {
        let advice = format!("if '{option}' is an option of the command, use '-- CMD {option}'");
        let advice = ContextValue::StyledStrs(vec![advice.into()]);
        error.insert(ContextKind::Suggested, advice);
    }
    error
}

/// Says which number an option takes, in place of the error of Rust's parser.
fn numbered(error: clap::Error) -> clap::Error {
    let expected = match error.source() {
        Some(source) if source.is::<ParseIntError>() => "write a whole number",
        Some(source) if source.is::<ParseFloatError>() => "write a number such as 0.5",
        _ => return error,
    };
    // An error of this kind has no place for the parser's.
    let mut plain = clap::Error::new(ErrorKind::InvalidValue).with_cmd(&command());
    for (kind, value) in error.context() {
        plain.insert(kind, value.clone());
    }
    plain.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![expected.into()]));
    plain
}
