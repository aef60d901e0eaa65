//! Renders reports for people: tables, bars, sparklines, progress lines and plots.
//!
//! Nothing here measures or decides. Text goes to the writer that the caller names.

pub(crate) mod bank;
pub(crate) mod bars;
pub(crate) mod batch;
pub(crate) mod comparison;
pub(crate) mod map;
pub(crate) mod page;
pub(crate) mod plot;
pub(crate) mod profile;
pub(crate) mod progress;
pub(crate) mod replay;
pub(crate) mod sim;
pub(crate) mod text;
pub(crate) mod watch;
