//! Real programs, unmodified, on a machine that one does not have: in virtual time.
//!
//! Each program runs under the software PMU, whose plugin lets a thread execute only while it has
//! the turn ([`memweir_linux::gate`]). What a turn costs is counted in *progress*: time on a machine
//! where the thread is alone and every memory is as fast as the local DRAM ([`cost`]). The emulated
//! cores ([`cores`]) give turns to the threads that the operating system of the simulator puts on
//! them ([`memweir_sim::kernel`]); at the end of each epoch the solver of the flow engine
//! ([`memweir_sim::stretch`]) says how far contention and slow memories have stretched what the
//! threads did, and that is what they are charged for ([`epoch`]). Nothing depends on how fast the
//! host is or what else runs there.
//!
//! | module | what lives there |
//! |---|---|
//! | [`cost`] | from the machine file to the cost of instructions and misses |
//! | [`threads`] | what is asked of the emulated threads, and the real ones |
//! | [`cores`] | cores that give turns |
//! | [`epoch`] | what contention makes of an epoch |
//! | [`machine`] | cores, operating system, jobs and the clock |
//! | [`world`] | the machine as the batch scheduler sees it |
//! | [`batch`] | the use case |
//!
//! This crate uses `memweir-run`, its peer among the use cases, on purpose: an emulated batch *is* a
//! batch run elsewhere. Only what stands for the machine differs, its clock, its processes, its
//! blocker and its meter, which are traits there. With the same loop an emulation makes the same
//! calls to the scheduler as a live run, its decisions can be recorded and replayed by the same
//! hook, and reports, timelines and logs are the same.

#![forbid(unsafe_code)]

pub mod batch;
pub mod cores;
pub mod cost;
pub mod epoch;
pub mod machine;
pub mod threads;
pub mod world;

pub use batch::{
    EmulateOptions, Emulation, EmulationReport, MachineReport, check, emulate, emulate_each,
};
