//! Data that two programs share: memweir, its plugins inside other programs, and the kernel.
//!
//! | module | programs | data |
//! |---|---|---|
//! | [`softpmu`] | memweir, the QEMU plugin | counters of a job, last-level cache, turns |
//! | [`preload`] | memweir, the preload library | orders, counters that come back |
//! | [`kernel`] | the kernel, all others | userfaultfd, pagemap, `stat` lines |
//!
//! Each layout is written here once, and both sides are compiled against it. Layouts in memory are
//! `repr(C)` and consist of atomics or words, for which all zeros is a valid value; texts have a
//! parser that refuses or accepts any input. This crate maps no memory, opens no file and makes no
//! system call: its users do.
//!
//! An order crosses the environment as text, and counters come back as words:
//!
//! ```
//! use memweir_abi::preload::page::{PageCounter, PageCounters};
//! use memweir_abi::preload::{Delivery, Order, Shortage};
//! use memweir_core::address_map::{ColorSet, Coloring, Span, XorFunction};
//!
//! let banks: Span = [XorFunction(1 << 13), XorFunction(1 << 14)].into_iter().collect();
//! let order = Order {
//!     coloring: Coloring::of_span(&banks, 12, 0),
//!     colors: "0-1".parse::<ColorSet>()?,
//!     cache: None,
//!     shortage: Shortage::Wait,
//!     delivery: Delivery::Move,
//!     pool_pages: 512,
//!     limit_pages: 0,
//!     counters: String::new(),
//! };
//! assert_eq!(order.to_string().parse::<Order>()?, order);
//!
//! let mut file = vec![0; 4096];
//! file[8 * PageCounter::Upgrades as usize] = 3;
//! assert_eq!(PageCounters::of(&file).get(PageCounter::Upgrades), 3);
//! # Ok::<(), memweir_core::input::Refusal>(())
//! ```

#![forbid(unsafe_code)]

pub mod kernel;
pub mod preload;
pub mod softpmu;
