//! `memweir sweep`: the results of sweeps in shards.

mod merge;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// The actions of `memweir sweep`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Merge the files of a sweep's shards, and say which points are missing
    Merge(merge::Args),
}

/// Runs the subcommand.
pub(crate) fn execute(action: &Action) -> Result<Outcome, Failure> {
    match action {
        Action::Merge(args) => merge::execute(args),
    }
}
