//! Flow-level simulation: what a policy would do on a machine or a mix that one does not have.
//!
//! Tasks make progress; along it they demand traffic with memories. A memory serves what its
//! service curve allows, and what exceeds that stretches the tasks. The policies are those of
//! `memweir-policy`, the very objects that decide live. Nothing here does I/O but the readers of
//! workloads and machines, and nothing knows a clock: equal seeds give equal results.
//!
//! | module | what lives there |
//! |---|---|
//! | [`machine`] | cores, nodes and memories |
//! | [`service`] | what a memory can carry |
//! | [`program`] | what a program demands along its unhindered progress |
//! | [`task`] | a program that is to be executed |

#![forbid(unsafe_code)]

pub mod machine;
pub mod program;
pub mod service;
pub mod task;

pub use machine::{Machine, Memory, Node};
pub use program::{Demand, Flow, Program, Span};
pub use service::ServiceCurve;
pub use task::{Placement, Task};
