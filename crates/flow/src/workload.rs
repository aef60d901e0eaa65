//! Workloads as data: programs, placements of their pages, and batches of them.
//!
//! | module | contents |
//! |---|---|
//! | [`synthetic`] | programs from a mean, phases, fluctuation and shares |
//! | [`recording`] | programs from recordings of `memweir profile` |
//! | [`catalog`] | SPEC CPU2006 and NPB programs from published figures |
//! | [`pages`] | placements of pages, and the share of traffic that each memory gets from them |
//! | [`mix`] | batches: the generators of both papers |
//! | [`requirement`] | time and bandwidth of a task alone, for iabw eq. (8) to (10) |

pub mod catalog;
pub mod mix;
pub mod pages;
pub mod recording;
pub mod requirement;
pub mod synthetic;
