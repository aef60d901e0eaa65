//! The other simulator: applications that take turns in the foreground, with less DRAM than they
//! want and a swap area (drswap sections III and V). What it counts are pages: which are copied,
//! which are read in place, which processes are killed.
//!
//! | module | what lives there |
//! |---|---|
//! | [`memory`] | DRAM, the swap area and what faults do: the part that is run for every reference |
//! | [`swap`] | what a swap area is made of, and what its faults cost in time |
//! | [`app`] | what an application does to its pages, as a model |
//! | [`trace`] | the same, recorded from a real program |
//! | [`session`] | applications in turn, and what came of it |
//! | [`phone`] | the applications of drswap Table III |
//! | [`scenario`] | files that say all of this |
//! | [`study`] | all runs of a scenario, at every point of a sweep |
//! | [`report`] | what came of them, as it is written |
//!
//! Time passes by the schedule: a minute in the foreground is a minute however many faults there
//! are. What faults take is added up beside it, as the delay of switches.

pub mod app;
pub mod memory;
pub mod phone;
pub mod report;
pub mod scenario;
pub mod session;
pub mod study;
pub mod swap;
pub mod trace;

#[cfg(test)]
mod tests;

use memweir_core::Bytes;

/// Bytes of a page.
pub const PAGE: Bytes = memweir_page::energy::PAGE;

/// Whole pages of so many bytes, at least one of anything.
#[must_use]
pub fn pages(size: Bytes) -> u32 {
    u32::try_from(size.0.div_ceil(PAGE.0)).unwrap_or(u32::MAX)
}

/// What is done to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written, or read and written at once.
    Write,
}
