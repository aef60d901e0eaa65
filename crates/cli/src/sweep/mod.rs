//! `memweir sweep`: the results of sweeps in shards.

pub(crate) mod merge;

use clap::Subcommand;

/// The actions of `memweir sweep`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Merge the files of a sweep's shards, and say which points are missing
    Merge(merge::Args),
}
