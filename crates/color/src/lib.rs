//! Page colors for programs (B3, B4, B13): the checks before a program starts, its environment, and
//! the audit of its pages.
//!
//! The preload library (`plugins/preload`) places the pages, or a kernel that can ([`kernel`]).
//! Nothing here renders or parses arguments.

#![forbid(unsafe_code)]

pub mod audit;
mod compaction;
mod counters;
pub mod kernel;
mod plan;
mod processes;
mod run;

pub use counters::Totals;
pub use plan::{CacheColors, Request};
pub use run::Colored;

/// Error that kept a program from being started colored, or from being audited.
pub use memweir_linux::preload::NotStarted as ColorError;

use memweir_linux::MissingFeature;

pub(crate) fn machine(reason: impl Into<String>, help: impl Into<String>) -> ColorError {
    MissingFeature::new(reason, help).into()
}
