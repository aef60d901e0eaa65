//! Blocking and resuming jobs.
//!
//! [`open()`] chooses a mechanism by trying it and returns it as a [`Blocker`]. Cgroups of both
//! versions are in `blocker/cgroup.rs`, signals in `blocker/sigstop.rs`, the BPF scheduler in
//! `blocker/sched_ext.rs`, a job's processes as `/proc` shows them in `blocker/processes.rs`, the
//! guardian of the jobs in `blocker/custody.rs`, the CPU share that a batch with blocked jobs keeps
//! beside other programs in `blocker/share.rs`, limits of bandwidth in `blocker/limits.rs`. The
//! choice of the jobs is made elsewhere.

mod cgroup;
mod custody;
mod limits;
mod open;
pub(crate) mod processes;
mod sched_ext;
mod share;
mod sigstop;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use memweir_core::{BytesPerSec, JobId, Nanos};

pub use limits::{BandwidthLimits, LimitFailure, LimitUse};
pub use open::{OpenError, Opened, open, open_limited, probe};
pub use share::Demand;

use crate::OsError;

/// The ways to block, in the order in which they are tried. [`SchedExt`](Self::SchedExt) is used on
/// demand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// `cgroup.freeze`, one leaf per job under one group that memweir owns.
    CgroupV2,
    /// SIGSTOP and SIGCONT to every process of the job's session.
    Sigstop,
    /// The freezer controller of cgroup v1.
    CgroupV1,
    /// A BPF scheduler, which holds the runnable tasks of blocked jobs.
    SchedExt,
}

memweir_core::named! {
    pub Mechanism, "mechanism":
    CgroupV2 = "cgroup-v2",
    Sigstop = "sigstop",
    CgroupV1 = "cgroup-v1",
    SchedExt = "sched-ext",
}

/// The place where a job's first process is spawned.
#[derive(Debug)]
pub enum SpawnTarget {
    /// In this cgroup v2 directory, by `clone3` with `CLONE_INTO_CGROUP`.
    CgroupV2(OwnedFd),
    /// Moved into this cgroup v1 directory before exec.
    CgroupV1(PathBuf),
    /// In a session of its own.
    Session,
}

fn unknown(job: JobId) -> OsError {
    OsError::new(format!("job {job}"), io::Error::other("it is not in this batch"))
}

fn birth_while_blocked(job: JobId) -> OsError {
    let source = io::Error::from_raw_os_error(libc::EBUSY);
    OsError::new(format!("preparing job {job} while all jobs are blocked"), source)
}

/// Blocks every job of a batch but the chosen ones.
///
/// If the process that owns a blocker dies, no job stays blocked: the guardian resumes them.
pub trait Blocker: Send {
    /// Returns the mechanism of this blocker.
    fn mechanism(&self) -> Mechanism;

    /// Creates the place in which `job` will be spawned, not blocked. Fails with `EBUSY` between
    /// [`block_all`](Blocker::block_all) and the next `run_*`: a process spawned then could not
    /// even set itself up.
    fn prepare(&mut self, job: JobId) -> Result<SpawnTarget, OsError>;

    /// Registers `pid` as the first process of `job`.
    fn spawned(&mut self, job: JobId, pid: i32) -> Result<(), OsError>;

    /// Takes over a job that an earlier memweir started and that runs on, with every process of it.
    /// `pid` is its first process. Its CPU time counts from now on.
    ///
    /// The default refuses.
    fn adopt(&mut self, job: JobId, _pid: i32) -> Result<(), OsError> {
        let source = io::ErrorKind::Unsupported.into();
        Err(OsError::new(format!("adopting job {job}"), source))
    }

    /// Stops every job at once (step 1 of iabw section 4.1). Returns without waiting for the
    /// kernel's confirmation, which can take tens of milliseconds while no user code runs.
    fn block_all(&mut self) -> Result<(), OsError>;

    /// Stops every job for a time in which nothing calls this. The default is
    /// [`block_all`](Blocker::block_all).
    fn block_for_long(&mut self) -> Result<(), OsError> {
        self.block_all()
    }

    /// Lets exactly these jobs run (step 4).
    fn run_only(&mut self, jobs: &[JobId]) -> Result<(), OsError>;

    /// Lets every job run.
    fn run_all(&mut self) -> Result<(), OsError>;

    /// Sets the demand of the batch, so that it competes with other programs as if no job was
    /// blocked. Takes effect with the next [`run_only`](Blocker::run_only). The default does
    /// nothing, for batches without competitors.
    fn set_demand(&mut self, _demand: Demand) {}

    /// Returns the CPU time that the job's processes have used since the job was spawned.
    fn cpu_time(&mut self, job: JobId) -> Result<Nanos, OsError>;

    /// Returns the threads of the job, to be [spread](crate::spread::spread); no search of all
    /// processes is made for them. The default returns none, for mechanisms that place threads
    /// themselves.
    fn threads(&mut self, _job: JobId) -> Vec<i32> {
        Vec::new()
    }

    /// Returns true if any process of the job is left (children that outlive the first one count).
    fn populated(&mut self, job: JobId) -> Result<bool, OsError>;

    /// Sends a signal to every process of the job. Blocked jobs receive SIGKILL at once (under the
    /// v1 freezer when the next `run_*` is called). A signal that the job handles stays pending
    /// while it is blocked, so a job must run to act on SIGTERM; one that it does not handle ends a
    /// frozen v2 job at once, as SIGKILL does, and a held one (`SchedExt`) when it next runs.
    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), OsError>;

    /// Releases the place of a job that is over. Fails with `EBUSY` while processes are left in it;
    /// the place is then released when they are gone, at the latest by the guardian.
    fn retire(&mut self, job: JobId) -> Result<(), OsError>;

    /// Limits the bandwidth of a job, before it is prepared or adopted.
    ///
    /// The default refuses.
    fn limit(&mut self, job: JobId, _rate: BytesPerSec) -> Result<(), OsError> {
        let source = io::ErrorKind::Unsupported.into();
        Err(OsError::new(format!("limiting job {job}"), source))
    }

    /// Ends the limit of a job's bandwidth, usually after the job is retired, and returns its use;
    /// `None` if it has none. The default knows no limits.
    fn take_limit_use(&mut self, _job: JobId) -> Option<LimitUse> {
        None
    }

    /// Takes the limits that were found not to hold since the last call, each job once. The default
    /// knows no limits.
    fn limit_failures(&mut self) -> Vec<LimitFailure> {
        Vec::new()
    }

    /// Takes the messages that the user has not seen yet, such as that a guardian died.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}
