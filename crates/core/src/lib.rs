//! The vocabulary of memweir.
//!
//! This crate holds the types that every other crate uses: units, counters, a program's recorded
//! behavior, the metrics of the papers, and reports of wrong input. It does no I/O, uses no
//! operating system, and makes no decisions.

#![forbid(unsafe_code)]

pub mod address_map;
pub mod cache;
pub mod counts;
mod direction;
pub mod input;
pub mod job;
pub mod medium;
pub mod metrics;
pub mod names;
pub mod parabola;
pub mod placement;
pub mod profile;
pub mod segment;
pub mod stop;
pub mod units;
pub mod verdict;
pub mod words;

pub use counts::Counts;
pub use direction::Direction;
pub use job::{JobId, Priority};
pub use medium::{MAX_MEDIA, Media, Medium, MediumId, Traffic};
pub use parabola::Parabola;
pub use stop::Stop;
pub use units::{
    ABSURD_BANDWIDTH, Bytes, BytesPerSec, Cycles, Joules, LINE_BYTES, Lines, Nanos, PAGE, PhysAddr,
    Picos, Seconds, TransPerMicro, Watts,
};
