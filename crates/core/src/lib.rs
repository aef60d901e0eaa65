//! The vocabulary of memweir.
//!
//! Here live the words that every other crate speaks: units, counters, a program's recorded
//! behavior, the metrics of the papers, and the way wrong input is reported. Nothing here does
//! I/O, knows the operating system, or decides anything.

#![forbid(unsafe_code)]

pub mod address_map;
pub mod cache;
pub mod counts;
pub mod input;
pub mod job;
pub mod medium;
pub mod metrics;
pub mod names;
pub mod parabola;
pub mod placement;
pub mod preload;
pub mod profile;
pub mod segment;
pub mod softpmu;
pub mod units;
pub mod verdict;

pub use counts::Counts;
pub use job::JobId;
pub use medium::{MAX_MEDIA, Media, Medium, MediumId, Traffic};
pub use parabola::Parabola;
pub use units::{
    Bytes, BytesPerSec, Cycles, Joules, LINE_BYTES, Lines, Nanos, PhysAddr, Picos, Seconds,
    TransPerMicro, Watts,
};
