//! Counting the memory traffic of jobs.
//!
//! This module has the contract of every meter and the description of its capabilities. Each meter
//! has a file of its own; the `declared` meter needs no operating system and lives in
//! `memweir-run`.

pub mod cgroup;
pub mod cpu;
pub mod fake;
pub mod kind;
pub mod native;
pub mod perf;
pub mod resctrl;
pub mod software;

pub use kind::{MeterChoice, MeterKind};
pub use native::{Choice, NativeOptions, OpenedMeter, native};

use std::io;

use memweir_core::{BytesPerSec, Counts, JobId, Nanos};

use crate::OsError;
use crate::launch::Launch;

/// One reading of a meter for a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Cumulative counts since the job started.
    pub counts: Counts,
    /// Instruction-pointer samples per code region **since the last reading**; empty where the
    /// meter takes none.
    pub instruction_pointers: Vec<u32>,
    /// Bandwidth expected over the next quantum, where the meter can look ahead.
    pub forecast: Option<BytesPerSec>,
}

/// Capabilities and blind spots of a meter, as plain facts for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// True if [`Counts::instructions`] is counted. Otherwise it is zero and means nothing.
    pub instructions: bool,
    /// True if [`Counts::writes`] is counted apart from the reads. Otherwise it is zero, and a
    /// caveat says whether `reads` leaves the writes out or carries both.
    pub writes: bool,
    /// True if readings carry samples of the instruction pointer.
    pub instruction_pointers: bool,
    /// True if traffic is counted by medium. Otherwise all of it counts as the local DRAM's.
    pub media: bool,
    /// Caveats about the figures for users, one sentence each.
    pub caveats: Vec<String>,
}

/// Kinds of failures, few enough for a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No monitoring group or file descriptor is left.
    Limit,
    /// This process may not count the group.
    Permission,
    /// The group has ended.
    Gone,
    /// Everything else.
    Other,
}

memweir_core::named! {
    pub Reason, "reason":
    Limit = "limit",
    Permission = "permission",
    Gone = "gone",
    Other = "other",
}

impl Reason {
    /// Returns the kind of an error of the operating system.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOSPC | libc::EBUSY) => Self::Limit,
            Some(libc::EACCES | libc::EPERM) => Self::Permission,
            Some(libc::ENOENT | libc::ENODEV | libc::ESRCH) => Self::Gone,
            _ => Self::Other,
        }
    }
}

/// A failure to count a job or a control group. The meter goes on counting the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct MeterError {
    /// Kind of the failure.
    pub reason: Reason,
    /// The failure, for people.
    pub text: String,
}

impl MeterError {
    /// Creates an error for a reason that has no kind of its own.
    pub fn other(text: impl Into<String>) -> Self {
        Self { reason: Reason::Other, text: text.into() }
    }
}

impl From<OsError> for MeterError {
    fn from(error: OsError) -> Self {
        Self { reason: Reason::of(&error.source), text: error.to_string() }
    }
}

/// A source of counts for every job of a batch.
///
/// Order of calls for a job: [`prepare`](Meter::prepare), birth, [`attach`](Meter::attach), exec,
/// any number of [`read`](Meter::read), [`detach`](Meter::detach).
pub trait Meter: Send {
    /// Returns the kind of this meter.
    fn kind(&self) -> MeterKind;

    /// Returns its capabilities and blind spots. They are the same for the whole life of the meter,
    /// so that a report can leave out what was never measured.
    fn capabilities(&self) -> Capabilities;

    /// Changes the command before birth (the software meter puts QEMU in front).
    fn prepare(&mut self, job: JobId, launch: &mut Launch) -> Result<(), MeterError> {
        let _ = (job, launch);
        Ok(())
    }

    /// Starts counting the process `pid`, which is born and has not called exec yet.
    fn attach(&mut self, job: JobId, pid: i32) -> Result<(), MeterError>;

    /// Reads the counts of a job that has used `cpu_time` so far. Works on blocked jobs and on
    /// jobs that have ended but are not detached. `quantum` is the span that a forecast is for.
    fn read(&mut self, job: JobId, cpu_time: Nanos, quantum: Nanos) -> Result<Reading, MeterError>;

    /// Returns messages for the user about the counts of a job, such as programs that ran
    /// uncounted. Called before the job is detached.
    fn notices(&self, job: JobId) -> Vec<String> {
        let _ = job;
        Vec::new()
    }

    /// Stops counting and gives back whatever was opened.
    fn detach(&mut self, job: JobId);

    /// Takes the messages for users since the last call (counts that had to be scaled, samples that
    /// were lost), one sentence each.
    fn take_notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_a_kind() {
        let reason = |errno| Reason::of(&io::Error::from_raw_os_error(errno));
        assert_eq!(reason(libc::ENOSPC), Reason::Limit);
        assert_eq!(reason(libc::EPERM), Reason::Permission);
        assert_eq!(reason(libc::ENODEV), Reason::Gone);
        assert_eq!(reason(libc::EIO), Reason::Other);
    }
}
