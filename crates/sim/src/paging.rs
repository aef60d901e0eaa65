//! Paging simulator: applications that take turns in the foreground, with less DRAM than they need
//! and a swap area (drswap sections III and V). It counts pages that are copied, pages that are
//! read in place, and processes that are killed.
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | DRAM, the swap area and page faults: the code that runs for every reference |
//! | [`swap`] | media of swap areas, and the time of their faults |
//! | [`app`] | model of an application's accesses to its pages |
//! | [`trace`] | accesses recorded from a real program |
//! | [`session`] | applications in turn, and the results |
//! | [`phone`] | the applications of drswap Table III |
//! | [`scenario`] | scenario files |
//! | [`study`] | all runs of a scenario, at every point of a sweep |
//! | [`report`] | results in the form in which they are written |
//!
//! Time follows the schedule: a minute in the foreground lasts a minute, regardless of its faults.
//! The time of the faults is added up separately, as the delay of switches.

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
pub const PAGE: Bytes = memweir_energy::PAGE;

/// Returns the pages that `size` occupies, rounded up.
#[must_use]
pub fn pages(size: Bytes) -> u32 {
    u32::try_from(size.0.div_ceil(PAGE.0)).unwrap_or(u32::MAX)
}

/// Kind of an access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write, or a read and a write at once.
    Write,
}
