//! `memweir map`: address maps of memory controllers.

mod decode;
mod detect;
mod import;
mod kernel;
mod show;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// The actions of `memweir map`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Find the map of this machine, or of a simulated one, from latencies alone
    Detect(detect::Args),
    /// Show a map: its functions, a picture of them, and the page colors that it allows
    Show(show::Args),
    /// Tell where addresses lie: channel, rank, bank, row, column and page color
    Decode(decode::Args),
    /// Make a map file of what another tool has found
    Import(import::Args),
    /// Tell what a kernel that colors pages is told of a map, and load it there
    Kernel(kernel::Args),
}

/// Runs the chosen action on a map.
pub(crate) fn execute(action: &Action) -> Result<Outcome, Failure> {
    match action {
        Action::Detect(args) => detect::execute(args),
        Action::Show(args) => show::execute(args),
        Action::Decode(args) => decode::execute(args),
        Action::Import(args) => import::execute(args),
        Action::Kernel(args) => kernel::execute(args),
    }
}
