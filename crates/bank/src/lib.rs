//! Bank-level simulation: each request of the programs goes through caches, controller queues and
//! banks.
//!
//! A run covers milliseconds of machine time. Time jumps from one miss to the next, and the
//! instructions between them are computed in closed form. Equal seeds give equal results.
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
//! | [`tally`] | counters of each program |
//!
//! # Examples
//!
//! Two programs on one channel take longer together than one of them alone.
//!
//! ```
//! use memweir_bank::clock::Clock;
//! use memweir_bank::experiment::{
//!     ColoredBy, Conditions, Machine, MemoryUnit, ProgramSpec, Source,
//! };
//! use memweir_bank::machine::CoreConfig;
//! use memweir_bank::os::{Exhausted, FaultCosts, Start};
//! use memweir_bank::synthetic::Structure;
//! use memweir_dram::{MemoryConfig, MemorySpec};
//!
//! let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").expect("shipped"));
//! let machine = Machine {
//!     clock: Clock::gigahertz(3.0),
//!     cores: 2,
//!     threads_per_core: 1,
//!     core: CoreConfig { width: 4, window: 128, mshrs: 16, l1: None, l2: None },
//!     llc: None,
//!     memories: vec![MemoryUnit { name: "dram".to_owned(), config }],
//!     colored_by: ColoredBy::Banks,
//!     start: Start::Fresh,
//!     exhausted: Exhausted::Spill,
//!     faults: FaultCosts::default(),
//! };
//! let structure = Structure { intensity: 60.0, burst_intensity: 60.0, ..Structure::default() };
//! let program =
//!     |name| ProgramSpec::new(name, Source::Synthetic(Box::new(structure.clone())), 50_000);
//! let cycles = |programs: &[ProgramSpec]| {
//!     let execution = machine.execute(programs, Conditions::default()).expect("free pages");
//!     execution.memories[0].0
//! };
//! assert!(cycles(&[program("one"), program("two")]) > cycles(&[program("one")]));
//! ```

#![forbid(unsafe_code)]

pub mod banks;
pub mod cache;
pub mod cached_trace;
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
pub mod stream;
pub mod synthetic;
pub mod system;
pub mod tally;
pub mod window;
