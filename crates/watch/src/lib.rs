//! Watching what others run: control groups, systemd units, Slurm steps and containers, found as
//! they come and go, with their CPU time and their memory traffic.
//!
//! * [`Selection`] chooses [`Subject`]s among the groups of the cgroup v2 tree;
//! * [`Watch`] measures them: each [`Watch::tick`] returns one [`Row`] per subject;
//! * [`Metrics`] keeps series for Prometheus, of a watch or of a batch, and [`MetricsServer`]
//!   serves them.
//!
//! ```
//! use memweir_core::Nanos;
//! use memweir_linux::cgroup_tree::CgroupTree;
//! use memweir_watch::{Selection, Watch};
//!
//! if let Ok(tree) = CgroupTree::open() {
//!     let mut watch = Watch::new(tree, Selection::default(), None);
//!     watch.tick(Nanos::ZERO).unwrap();
//!     for row in watch.tick(Nanos::from_millis(100)).unwrap() {
//!         println!("{} used {:?} s of CPU time", row.name, row.cpu_s);
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

mod metrics;
mod selection;
mod server;
mod subject;
mod watch;

pub use metrics::{Direction, KEEP_ENDED, MeterFacts, Metrics, Series, State};
pub use selection::{Selection, WrongPattern};
pub use server::MetricsServer;
pub use subject::{Kind, Subject};
pub use watch::{MeterFailure, Row, Watch};
