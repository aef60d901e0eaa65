//! Workloads as data: programs, where their pages are, and batches of them.
//!
//! | module | what lives there |
//! |---|---|
//! | [`synthetic`] | programs from a mean, phases, fluctuation and shares |
//! | [`recording`] | programs from recordings of `memweir profile` |
//! | [`catalog`] | SPEC CPU2006 and NPB programs from published figures |
//! | [`pages`] | which share of the traffic goes to which memory, from where the pages are |
//! | [`mix`] | batches: the generators of both papers |
//! | [`requirement`] | what a task requires, as iabw eq. (8) to (10) take it |

pub mod catalog;
pub mod mix;
pub mod pages;
pub mod recording;
pub mod requirement;
pub mod synthetic;
