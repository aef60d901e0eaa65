//! `memweir color`: programs in banks of their own.

pub(crate) mod audit;
pub(crate) mod plan;
pub(crate) mod run;

use clap::Subcommand;

/// The actions of `memweir color`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a program whose memory lies in pages of chosen colors
    Run(run::Args),
    /// Tell which colors the pages of a process have, now
    Audit(audit::Args),
    /// Assign page colors to the jobs of a batch
    Plan(Box<plan::Args>),
}
