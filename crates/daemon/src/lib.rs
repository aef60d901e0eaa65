//! A queue of jobs, and the daemon that runs them under the policies of `memweir run`.
//!
//! * [`queue`] decides which jobs may start and says why the others wait; it does no I/O;
//! * [`store`] keeps the queue in SQLite, so that a daemon that is killed loses no job;
//! * [`profiles`] knows of jobs what their programs did before, and learns from first runs;
//! * [`protocol`] is the language between clients and the daemon, [`client`] one side of it;
//! * [`daemon`] runs the queue: it is a backend of the same
//!   [`QuantumLoop`](memweir_policy::QuantumLoop) as a batch;
//! * [`supervisor`] is the parent of one job, which outlives the daemon and keeps the job's exit
//!   code.
//!
//! ```
//! use memweir_daemon::queue::{Capacity, Job, Queue};
//! use memweir_core::JobId;
//!
//! let mut queue = Queue::new(Capacity { cores: 1, admit: 1 });
//! queue.insert(Job::new(JobId(1), "first", 0));
//! queue.insert(Job::new(JobId(2), "second", 0));
//! assert_eq!(queue.admit_next(), Some(JobId(1)));
//! assert_eq!(queue.admit_next(), None);
//! let reason = queue.reason(JobId(2)).unwrap();
//! assert_eq!(reason.to_string(), "no free core: 1 of 1 busy");
//! ```

#![forbid(unsafe_code)]

mod attempt;
mod backend;
pub mod client;
pub mod daemon;
mod launcher;
pub mod places;
pub mod profiles;
pub mod protocol;
pub mod queue;
mod recovery;
mod server;
pub mod service;
pub mod store;
pub mod supervisor;
pub mod uptime;
mod view;
