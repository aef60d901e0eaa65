//! What memweir and its preload library say to each other: the orders to place a program's pages,
//! and to page it, which travel in the environment, and the counters that come back.

mod counters;
mod delivery;
mod order;
pub mod page;

pub use counters::{COUNTERS, Counter, POOLS};
pub use delivery::Delivery;
pub use order::{MAX_PRELOAD_COLORS, Order, Shortage};

/// Variable of the environment that holds the [`Order`].
pub const ORDER_VARIABLE: &str = "MEMWEIR_COLOR";
