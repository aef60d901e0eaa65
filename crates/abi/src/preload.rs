//! Protocol between memweir and its preload library: the orders to place a program's pages, and to
//! page it, which travel in the environment, and the counters that come back.

/// Defines an enum whose variants number words of a file of counters, and their names in JSON.
macro_rules! named_words {
    (
        $(#[$enum_doc:meta])*
        $kind:ident: $($(#[$doc:meta])* $variant:ident = $name:literal,)*
    ) => {
        $(#[$enum_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum $kind { $($(#[$doc])* $variant,)* }

        impl $kind {
            /// All variants and their names in JSON.
            pub const ALL: &[(&'static str, Self)] = &[$(($name, Self::$variant),)*];
        }
    };
}

mod counters;
mod delivery;
mod fields;
mod order;
pub mod page;

use std::ffi::CStr;

pub use counters::{
    COUNTER_WORDS, COUNTERS, Counter, ENTRY, MAX_PRELOAD_COLORS, POOLS, color_word,
};
pub use delivery::{Delivery, release_numbers};
pub use order::{MAX_POOL_PAGES, Order, Shortage};

/// Name of the file in memory that a program maps if it has loaded the library and the library
/// could not do its work.
pub const UNREACHED_MARK: &CStr = c"memweir-unreached";

/// Variable of the environment that holds the [`Order`].
pub const ORDER_VARIABLE: &str = "MEMWEIR_COLOR";
