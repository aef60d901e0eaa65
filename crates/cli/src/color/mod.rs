//! `memweir color`: programs in banks of their own.

mod plan;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// Options of `memweir color`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Assign page colors to the jobs of a batch
    Plan(Box<plan::Args>),
}

/// Plans.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    match &args.action {
        Action::Plan(args) => plan::execute(args),
    }
}
