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
//! | [`stream`], [`instructions`], [`synthetic`] | what cores execute |
//! | [`machine`] | what a machine is made of, and what it executes |
//! | [`system`] | the machine as it runs |
//! | [`fit`] | the structure of a program that behaves as asked |
//! | [`indicators`] | what tells how much bank partitioning gains |
//! | [`tally`] | what is counted of each program |

pub mod banks;
pub mod cache;
pub mod clock;
pub mod fit;
pub mod indicators;
pub mod instructions;
pub mod machine;
pub mod os;
pub mod stream;
pub mod synthetic;
pub mod system;
pub mod tally;
pub mod window;
