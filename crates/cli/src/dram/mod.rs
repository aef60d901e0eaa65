//! `memweir dram`: memories at bank level, driven by traces.

mod caches;
pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod curve;
mod devices;
pub(crate) mod list;
mod memory;
mod render;
pub(crate) mod replay;
pub(crate) mod show;
mod source;
mod sweep;
mod timeline;
mod watch;

use clap::Subcommand;

/// The actions of `memweir dram`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Serve a trace of memory accesses and tell how long it took, and why
    Replay(Box<replay::Args>),
    /// Measure bandwidth against latency, for people and for the flow model of `memweir sim`
    Curve(Box<curve::Args>),
    /// Hold a command trace against the rules of its standard
    Check(check::Args),
    /// Write a trace in another format
    Convert(convert::Args),
    /// List the memories that come with memweir
    List(list::Args),
    /// Show a memory: organization, timing, currents, and where the figures come from
    Show(show::Args),
}
