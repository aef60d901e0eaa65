//! `memweir page`: paging to byte-addressable memory.

pub(crate) mod energy;
pub(crate) mod refs;
pub(crate) mod run;
pub(crate) mod sim;

use clap::Subcommand;

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
