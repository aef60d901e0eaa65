//! Page colors for programs (B3, B4, B13): what to refuse before a program starts, what to put
//! into its environment, and the audit of where its pages are.
//!
//! The pages themselves are placed by the preload library (`plugins/preload`). Nothing here
//! renders or parses arguments.

#![forbid(unsafe_code)]

pub mod audit;
mod compaction;
mod plan;
mod program;
mod run;

pub use plan::{CacheColors, Wish};
pub use program::check as check_program;
pub use run::{Colored, Totals};

use memweir_core::input::Refusal;

/// Why a program was not started colored, or not audited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColorError {
    /// What was asked for makes no sense.
    #[error(transparent)]
    Wish(#[from] Refusal),
    /// This machine cannot do it.
    #[error("{reason}; {remedy}")]
    Machine {
        /// What is missing.
        reason: String,
        /// What would help.
        remedy: String,
    },
}

pub(crate) fn machine(reason: impl Into<String>, remedy: impl Into<String>) -> ColorError {
    ColorError::Machine { reason: reason.into(), remedy: remedy.into() }
}
