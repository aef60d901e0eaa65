//! Protocol between memweir and its preload library: the orders to place a program's pages, and to
//! page it, which travel in the environment, and the counters that come back.

mod counters;
mod delivery;
mod fields;
mod order;
pub mod page;

use std::ffi::CStr;

pub use counters::{
    COUNTER_WORDS, COUNTERS, Counter, ENTRY, MAX_PRELOAD_COLORS, POOLS, color_word,
};
pub use delivery::Delivery;
pub use order::{Order, Shortage};

/// Name of the file in memory that a program maps if it has loaded the library and the library
/// could not do its work.
pub const UNREACHED_MARK: &CStr = c"memweir-unreached";

/// Variable of the environment that holds the [`Order`].
pub const ORDER_VARIABLE: &str = "MEMWEIR_COLOR";
