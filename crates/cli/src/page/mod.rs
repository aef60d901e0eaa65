//! `memweir page`: paging to byte-addressable memory.

mod energy;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// Options of `memweir page`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Tell the energy of swap areas of DRAM, flash and NVM with direct read
    Energy(Box<energy::Args>),
}

/// Computes.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    match &args.action {
        Action::Energy(args) => energy::execute(args),
    }
}
