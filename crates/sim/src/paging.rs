//! Scenarios of `memweir page sim`: applications in turn, in DRAM and a swap area
//! ([`memweir_swap`]).
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`] | scenario files |
//! | [`study`] | all runs of a scenario, at every point of a sweep |
//! | [`report`] | results in the form in which they are written |

pub mod report;
pub mod scenario;
pub mod study;

#[cfg(test)]
mod tests;
