//! What `memweir color run` and the preload library say to each other: the order to place a
//! program's pages, which travels in the environment, and the counters that come back.

mod counters;
mod order;

pub use counters::{COUNTERS, Counter, POOLS};
pub use order::{MAX_PRELOAD_COLORS, Order, Shortage};

/// Variable of the environment that holds the [`Order`].
pub const ORDER_VARIABLE: &str = "MEMWEIR_COLOR";
