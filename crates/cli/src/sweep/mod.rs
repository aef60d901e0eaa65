//! `memweir sweep`: the results of sweeps in shards.

mod merge;

use crate::failure::{Failure, Outcome};

/// Options of `memweir sweep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Merge the files of a sweep's shards, and say which points are missing
    Merge(merge::Args),
}

/// Runs the subcommand.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    match &args.command {
        Command::Merge(args) => merge::execute(args),
    }
}
