//! Real, unmodified programs on a machine that one does not have, in virtual time.
//!
//! Each program runs under the software PMU, whose plugin lets a thread execute only while it has
//! the turn ([`memweir_linux::gate`]). The cost of a turn is counted in *progress*: time on a
//! machine where the thread is alone and every memory is as fast as the local DRAM ([`cost`]). The
//! emulated cores ([`cores`]) give turns to the threads that the operating system of the simulator
//! puts on them ([`memweir_flow::kernel`]); at the end of each epoch the solver of the flow engine
//! ([`memweir_flow::stretch`]) computes how far contention and slow memories have stretched the
//! threads' work, and the threads are charged for that time ([`epoch`]). Nothing depends on the
//! speed of the host or on its other load.
//!
//! | module | contents |
//! |---|---|
//! | [`cost`] | from the machine file to the cost of instructions and misses |
//! | [`threads`] | the interface of emulated threads, and the real ones |
//! | [`cores`] | cores that give turns |
//! | [`epoch`] | the effect of contention on an epoch |
//! | [`machine`] | cores, operating system, jobs and the clock |
//! | [`world`] | the machine as the batch scheduler sees it |
//! | [`batch`] | the use case |
//!
//! This crate uses `memweir-run`, its peer among the use cases, on purpose: an emulated batch *is*
//! a batch run elsewhere. Only the machine differs, that is, its clock, its processes, its blocker
//! and its meter, which are traits there. With the same loop an emulation makes the same calls to
//! the scheduler as a live run, its decisions can be recorded and replayed by the same hook, and
//! reports, timelines and logs are the same.

#![forbid(unsafe_code)]

pub mod batch;
pub mod cores;
pub mod cost;
pub mod epoch;
pub mod machine;
pub mod threads;
pub mod world;

pub use batch::{EmulateOptions, Emulated, MachineReport, check, emulate, emulate_each};
