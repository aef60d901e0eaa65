//! `memweir map`: address maps of memory controllers.

pub(crate) mod decode;
pub(crate) mod detect;
pub(crate) mod import;
pub(crate) mod kernel;
pub(crate) mod show;

use clap::Subcommand;

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
    /// Print the settings of a map for a kernel that colors pages, or load them there
    Kernel(kernel::Args),
}
