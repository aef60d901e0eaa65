//! `memweir page`: paging to byte-addressable memory.

mod energy;
mod refs;
mod run;
mod sim;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// The actions of `memweir page`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a program with less DRAM than it wants; its cold pages live in slower memory and are
    /// read there
    Run(Box<run::Args>),
    /// Compute the energy of swap areas of DRAM, flash and NVM with direct read
    Energy(Box<energy::Args>),
    /// Simulate applications that take turns, with less DRAM than they want and a swap area
    Sim(Box<sim::Args>),
    /// Turn a recording of `memweir profile --addresses` into references to pages
    Refs(refs::Args),
}

/// Runs the chosen action.
pub(crate) fn execute(action: &Action) -> Result<Outcome, Failure> {
    match action {
        Action::Run(args) => run::execute(args),
        Action::Energy(args) => energy::execute(args),
        Action::Sim(args) => sim::execute(args),
        Action::Refs(args) => refs::execute(args),
    }
}
