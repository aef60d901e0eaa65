//! A BPF scheduler that holds and releases jobs without freezing them (`sched_ext`, Linux 6.12 and
//! later).
//!
//! The scheduler in `bpf/` owns the tasks of the policy `SCHED_EXT` alone. A job is a cgroup with a
//! [`Slot`]; each slot has a dispatch queue in the kernel, and CPUs take tasks from the queues of
//! *selected* slots. [`Scheduler::select`] exchanges the selection: it writes the new one into
//! memory that the kernel shares, makes it active by one store, and kicks the CPUs, so that tasks
//! of deselected jobs stop and idle CPUs look for others. A held job sees no signal and no freezer.
//!
//! A job may have a budget of lines that it draws from memory in each [`PERIOD`], as in MemGuard:
//! [`Scheduler::limit`]. Perf events of its cgroup charge the budget in the kernel, which holds the
//! job from the moment at which it is used up to the next period.
//!
//! The decision which jobs are selected is made elsewhere. So is the choice of the tasks: whoever
//! holds a [`Scheduler`] gives them the policy [`SCHED_EXT`].
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut scheduler = memweir_scx::load(memweir_scx::Budgets::Off)?;
//! let group = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/sys/fs/cgroup/job")?);
//! let slot = scheduler.admit(group)?;
//! scheduler.select(&[])?; // held
//! scheduler.select(&[slot])?; // released
//! # Ok(())
//! # }
//! ```
//!
//! The kernel ends the scheduler, and schedules its tasks as ordinary ones, when the [`Scheduler`]
//! is dropped or its process dies in any way; when a runnable task has waited for
//! [`WATCHDOG`]; and on an error of the program. [`Scheduler::ended`] shows the last two.
//!
//! Loading needs the feature `libbpf`. The program is compiled ahead of time (`bpf/build.sh`), and
//! CO-RE adapts it to the running kernel.

mod budgets;
mod host;
#[cfg(feature = "libbpf")]
mod loader;
mod selection;
mod slots;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use budgets::{Budgets, Counter, PERIOD, Usage};
pub use selection::SLOTS;
pub use slots::Slot;

/// The scheduling policy of tasks that belong to the scheduler, for `sched_setscheduler`.
pub const SCHED_EXT: i32 = 7;

/// Longest time that a runnable task may wait before the kernel ends the scheduler.
pub const WATCHDOG: Duration = Duration::from_secs(30);

/// A loaded scheduler. Dropping it gives all tasks back to the kernel's own.
pub trait Scheduler: Send {
    /// Gives a slot to the job whose cgroup has this id, the inode number of its directory. The
    /// slot is not selected.
    ///
    /// # Errors
    /// All [`SLOTS`] are taken, or the kernel refuses.
    fn admit(&mut self, group: u64) -> io::Result<Slot>;

    /// Takes the slot back from a job whose cgroup has no processes left.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn dismiss(&mut self, group: u64, slot: Slot) -> io::Result<()>;

    /// Lets exactly the jobs of these slots run, and tasks that belong to no job.
    ///
    /// # Errors
    /// If the CPUs cannot be kicked. The selection is active even then, but takes effect late.
    fn select(&mut self, slots: &[Slot]) -> io::Result<()>;

    /// Limits a job to so many lines in each [`PERIOD`], 0 for no limit. `counters` count them: one
    /// for each event and CPU. Each call replaces the limit and the counters; the account goes on.
    ///
    /// # Errors
    /// If the scheduler was loaded with [`Budgets::Off`], or the kernel refuses a counter.
    fn limit(&mut self, slot: Slot, lines: u32, counters: Vec<Counter>) -> io::Result<()>;

    /// Returns what the job of a slot has used since it was admitted, as its counters have counted.
    fn usage(&self, slot: Slot) -> Usage;

    /// Returns the events of the counters of a slot, in the order in which [`limit`](Self::limit)
    /// took them.
    fn events(&self, slot: Slot) -> Vec<BorrowedFd<'_>>;

    /// Returns a number that changes when a CPU comes or goes.
    fn hotplugs(&self) -> u64;

    /// Returns the reason for which the kernel has ended the scheduler, if it has.
    fn ended(&self) -> Option<Ended>;
}

/// Why the kernel ended a scheduler, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The kind of reason.
    pub reason: String,
    /// Details, such as the task that waited too long. May be empty.
    pub message: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", "") => f.write_str("no reason given"),
            (reason, "") => f.write_str(reason),
            (reason, message) => write!(f, "{reason}: {message}"),
        }
    }
}

/// A scheduler that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The feature `libbpf` is off.
    #[error("this memweir was built without the feature `sched-ext`")]
    NotBuilt,
    /// The kernel has no `sched_ext`.
    #[error(
        "this kernel takes no schedulers in BPF (/sys/kernel/sched_ext is missing; Linux 6.12 and \
         later have it with CONFIG_SCHED_CLASS_EXT)"
    )]
    NoKernelSupport,
    /// Only one scheduler can be loaded at a time.
    #[error("another scheduler is loaded: {0}")]
    Occupied(String),
    /// The kernel or libbpf refuses the program.
    #[error("the kernel refuses the scheduler: {0}")]
    Refused(String),
}

impl LoadError {
    /// Returns help for the user, where there is any.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::NotBuilt => Some("cargo build --release --features sched-ext"),
            Self::NoKernelSupport => None,
            Self::Occupied(_) => Some("stop the other scheduler; the kernel takes one at a time"),
            Self::Refused(_) => Some("run as root"),
        }
    }
}

/// Loads the scheduler. From then on it schedules every task of the policy [`SCHED_EXT`].
///
/// # Errors
/// If it was not built in, or the kernel has no `sched_ext`, runs another scheduler, or refuses
/// this one.
pub fn load(budgets: Budgets) -> Result<Box<dyn Scheduler>, LoadError> {
    host::check()?;
    #[cfg(feature = "libbpf")]
    return Ok(Box::new(loader::Loaded::load(budgets)?));
    #[cfg(not(feature = "libbpf"))]
    {
        let _ = budgets;
        Err(LoadError::NotBuilt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_that_of_the_program() {
        let source = include_str!("../bpf/memweir.bpf.c");
        assert!(source.contains(&format!("\t.timeout_ms = {},\n", WATCHDOG.as_millis())));
    }
}
