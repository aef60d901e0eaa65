//! Page colors for programs (B3, B4, B13): what to refuse before a program starts, what to put
//! into its environment, and the audit of where its pages are.
//!
//! The pages themselves are placed by the preload library (`plugins/preload`), or by a kernel that can
//! ([`kernel`]). Nothing here renders or parses arguments.

#![forbid(unsafe_code)]

pub mod audit;
mod compaction;
mod counters;
pub mod kernel;
mod plan;
mod processes;
mod run;

pub use counters::Totals;
pub use plan::{CacheColors, Wish};
pub use run::Colored;

/// Why a program was not started colored, or not audited.
pub use memweir_linux::preload::NotStarted as ColorError;

use memweir_linux::preload::Lack;

pub(crate) fn machine(reason: impl Into<String>, remedy: impl Into<String>) -> ColorError {
    Lack::new(reason, remedy).into()
}
