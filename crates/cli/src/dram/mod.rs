//! `memweir dram`: memories at bank level, driven by traces.

mod caches;
mod check;
mod convert;
mod curve;
mod devices;
mod list;
mod memory;
mod render;
mod replay;
mod show;
mod source;
mod sweep;
mod watch;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// The actions of `memweir dram`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Serve a trace of memory accesses and tell how long it took, and why
    Replay(Box<replay::Args>),
    /// Measure bandwidth against latency, for people and for the flow model of `memweir sim`
    Curve(Box<curve::Args>),
    /// Hold a command trace against the rules of its standard
    Check(check::Args),
    /// Write a trace in another format
    Convert(convert::Args),
    /// List the memories that come with memweir
    List(list::Args),
    /// Show a memory: organization, timing, currents, and where the figures come from
    Show(show::Args),
}

/// Replays, measures, converts, lists or shows.
pub(crate) fn execute(action: &Action) -> Result<Outcome, Failure> {
    match action {
        Action::Replay(args) => replay::execute(args),
        Action::Curve(args) => curve::execute(args),
        Action::Check(args) => check::execute(args),
        Action::Convert(args) => convert::execute(args),
        Action::List(args) => list::execute(args),
        Action::Show(args) => show::execute(args),
    }
}
