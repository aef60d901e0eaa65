//! Simulation of paging: applications that take turns in the foreground, with less DRAM than they
//! need and a swap area (drswap sections III and V). It counts pages that are copied, pages that
//! are read in place, and processes that are killed.
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | DRAM, the swap area and page faults: the code that runs for every reference |
//! | [`area`] | media of swap areas, and the time of their faults |
//! | [`app`] | model of an application's accesses to its pages |
//! | [`trace`] | accesses recorded from a real program |
//! | [`session`] | applications in turn, and the results |
//! | [`phone`] | the applications of drswap Table III |
//!
//! Time follows the schedule: a minute in the foreground lasts a minute, regardless of its faults.
//! The time of the faults is added up separately, as the delay of switches. Equal seeds give equal
//! results.
//!
//! # Examples
//!
//! The news readers of drswap with less DRAM than they need, on each of the shipped swap areas, of
//! which only one is read in place.
//!
//! ```
//! use std::sync::Arc;
//!
//! use memweir_core::{Bytes, Nanos};
//! use memweir_policy::paging;
//! use memweir_swap::area::{SWAPS, SwapKind};
//! use memweir_swap::memory::Killer;
//! use memweir_swap::phone::{self, Phone};
//! use memweir_swap::session::SessionSpec;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let phone = Phone::shipped();
//! let news = phone.group("news").expect("a group of the table");
//! let session = SessionSpec {
//!     apps: news.into_iter().map(|app| phone::app(app, &phone.assumed)).collect(),
//!     dram: Bytes(96 << 20),
//!     swap: Bytes(512 << 20),
//!     rounds: 2,
//!     foreground: Nanos::from_secs_f64(60.0),
//!     victims: Arc::new(*paging::find("fifo").expect("a policy")),
//!     killer: Killer::default(),
//! };
//! for (name, text) in SWAPS {
//!     let counts = session.run(&SwapKind::parse(name, text)?, 1).counts;
//!     assert!(counts.swap_outs > 0 && counts.killed == 0);
//!     assert_eq!(counts.direct_reads > 0, name == "nvm");
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod app;
pub mod area;
pub mod memory;
pub mod phone;
pub mod session;
pub mod trace;

#[cfg(test)]
mod tests;

use memweir_core::{Bytes, PAGE};

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
