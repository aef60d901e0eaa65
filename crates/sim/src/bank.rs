//! Bank-level simulation: each request of the programs goes through caches, controller queues and
//! banks.
//!
//! A run covers milliseconds of machine time; the flow level in the rest of this crate covers
//! hours. Time jumps from one miss to the next, and the instructions between them are computed in
//! closed form.
//!
//! | module | contents |
//! |---|---|
//! | [`clock`] | time between clock domains |
//! | [`window`] | the reorder window of a core, in closed form |
//! | [`banks`] | numbering of banks |
//! | [`cache`] | private and shared caches |
//! | [`os`] | the operating system of the machine: colored pages |
//! | [`stream`], [`instructions`], [`misses`], [`synthetic`] | access streams of the cores |
//! | [`machine`] | configuration of a machine and of its programs |
//! | [`system`] | the running machine |
//! | [`experiment`] | a machine, programs, and the colors of their pages |
//! | [`characteristics`] | published figures of real programs |
//! | [`fit`] | fitting of a synthetic program to given characteristics |
//! | [`observed`] | memory systems with an observer of their commands |
//! | [`outcome`] | results: slowdowns, conflicts, metrics |
//! | [`indicators`] | indicators of the gain from bank partitioning |
//! | [`scenario`] | scenario files, sweeps and reports |
//! | [`tally`] | counters of each program |

pub mod banks;
pub mod cache;
pub mod characteristics;
pub mod clock;
pub mod experiment;
pub mod fit;
pub mod indicators;
pub mod instructions;
pub mod machine;
pub mod misses;
pub mod observed;
pub mod os;
pub mod outcome;
mod packed;
pub mod scenario;
pub mod stream;
pub mod synthetic;
pub mod system;
pub mod tally;
pub mod window;
