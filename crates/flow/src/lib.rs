//! Flow-level simulation: the effect of a policy on a machine or a mix that one does not have.
//!
//! Tasks make progress, and along it they demand traffic with memories. A memory serves traffic up
//! to its service curve; any excess stretches the tasks. The policies are those of
//! `memweir-policy`, the same objects that decide live. Only the readers of workloads and machines
//! do I/O, and nothing reads a clock: equal seeds give equal results.
//!
//! [`simulate`] runs an [`Experiment`] (its page shows an example); a [`Simulation`] also takes a
//! policy, a recorder and a page migrator as hooks. [`speeds`] returns the speeds of the tasks that
//! run together at a single moment.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | cores, nodes and memories |
//! | [`hardware`] | machines and media as data files |
//! | [`service`] | service curves of memories |
//! | [`program`] | a program's demand along its unhindered progress |
//! | [`task`] | a program that is to be executed |
//! | [`experiment`] | machine, tasks and scheduler |
//! | [`outcome`] | results of an experiment, and the papers' metrics |
//! | [`batch`] | the quantum loop around the scheduler |
//! | [`kernel`] | the operating system below: a fair scheduler |
//! | [`engine`] | tasks on cores, from event to event |
//! | [`stretch`] | contention: the stretch of the tasks that run together |
//! | [`record`] | hooks: timelines and page migration |
//! | [`migration`] | page migration on a model of each task's pages |
//! | [`workload`] | programs and batches as data |
//! | [`optimal`] | the shortest turnaround possible, or a bound below it |

#![forbid(unsafe_code)]

pub mod batch;
pub mod engine;
pub mod experiment;
pub mod hardware;
pub mod kernel;
pub mod machine;
pub mod migration;
pub mod optimal;
pub mod outcome;
pub mod program;
pub mod record;
pub mod service;
pub mod stretch;
pub mod task;
pub mod workload;

pub use batch::{Simulation, simulate};
pub use experiment::{
    Admission, Experiment, KernelConfig, Knowledge, KnowledgeError, Overheads, SimError,
};
pub use hardware::Hardware;
pub use machine::{Impossible, Machine, Memory, Node, View};
pub use outcome::{Outcome, QuantumOutcome, TaskOutcome};
pub use program::{Demand, Flow, Program, Span};
pub use record::{Migration, Migrator, PageCopy, Recorder, TaskQuantum};
pub use service::ServiceCurve;
pub use stretch::{Contender, Solver, Stretch, speeds};
pub use task::{Placement, Task};
