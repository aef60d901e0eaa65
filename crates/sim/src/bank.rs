//! The machine at bank level: every request of its programs goes through caches, controller queues
//! and banks.
//!
//! Milliseconds of a machine, request by request; the flow level of the rest of this crate does
//! hours. Time jumps from one miss to the next: what happens between them is computed.
//!
//! | module | what lives there |
//! |---|---|
//! | [`clock`] | time between clock domains |
//! | [`window`] | the reorder window of a core, in closed form |
//! | [`banks`] | banks by number |
//! | [`cache`] | private and shared caches |
//! | [`os`] | the operating system of the machine: colored pages |
//! | [`stream`], [`instructions`], [`misses`], [`synthetic`] | what cores execute |
//! | [`machine`] | what a machine is made of, and what it executes |
//! | [`system`] | the machine as it runs |
//! | [`experiment`] | a machine, programs, and who may use which pages |
//! | [`characteristics`] | published figures of real programs |
//! | [`fit`] | the structure of a program that behaves as asked |
//! | [`observed`] | memory systems whose commands somebody looks at |
//! | [`outcome`] | what came of it: slowdowns, conflicts, metrics |
//! | [`indicators`] | what tells how much bank partitioning gains |
//! | [`scenario`] | files that say all of this, sweeps, and what came of them |
//! | [`tally`] | what is counted of each program |

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
