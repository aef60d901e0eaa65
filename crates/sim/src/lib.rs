//! Flow-level simulation: what a policy would do on a machine or a mix that one does not have.
//!
//! Tasks make progress; along it they demand traffic with memories. A memory serves what its
//! service curve allows, and what exceeds that stretches the tasks. The policies are those of
//! `memweir-policy`, the very objects that decide live. Nothing here does I/O but the readers of
//! workloads and machines, and nothing knows a clock: equal seeds give equal results.
//!
//! An [`Experiment`] is simulated by [`simulate`], whose page shows one, or by a [`Simulation`], into
//! which a policy, a recorder and a page migrator can be hooked. [`speeds`] answers for a single
//! moment how fast the tasks that run together are.
//!
//! | module | what lives there |
//! |---|---|
//! | [`bank`] | the other fidelity: every request through caches, controllers and banks |
//! | [`paging`] | another question: pages of applications in turn, in DRAM and a swap area |
//! | [`machine`] | cores, nodes and memories |
//! | [`hardware`] | machines and media as data files |
//! | [`service`] | what a memory can carry |
//! | [`program`] | what a program demands along its unhindered progress |
//! | [`task`] | a program that is to be executed |
//! | [`experiment`] | machine, tasks and scheduler |
//! | [`outcome`] | what came of it, and the papers' metrics |
//! | [`batch`] | the quantum loop around the scheduler |
//! | [`kernel`] | the operating system below: a fair scheduler |
//! | [`engine`] | tasks on cores, from event to event |
//! | [`stretch`] | how far contention stretches the tasks that run together |
//! | [`record`] | hooks: timelines and page migration |
//! | [`workload`] | programs and batches as data |
//! | [`scenario`] | files that say all of this, sweeps, and what came of them |
//! | [`optimal`] | the shortest turnaround possible, or a bound below it |

#![forbid(unsafe_code)]

pub mod bank;
pub mod batch;
pub mod engine;
pub mod experiment;
pub mod hardware;
pub mod kernel;
pub mod machine;
pub mod optimal;
pub mod outcome;
pub mod paging;
pub mod program;
pub mod record;
pub mod scenario;
pub mod service;
pub mod stretch;
pub mod task;
pub mod workload;

pub use batch::{Simulation, simulate};
pub use experiment::{Experiment, KernelConfig, Knowledge, Overheads, SimError};
pub use hardware::Hardware;
pub use machine::{Impossible, Machine, Memory, Node, View};
pub use outcome::{Outcome, QuantumOutcome, TaskOutcome};
pub use program::{Demand, Flow, Program, Span};
pub use record::{Migration, Migrator, PageCopy, Recorder, TaskQuantum};
pub use service::ServiceCurve;
pub use stretch::{Contender, Solver, Stretch, speeds};
pub use task::{Placement, Task};
