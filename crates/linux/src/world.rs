//! Interface of the scheduling loop to the outside, besides blocking and counting: time, processes
//! and signals that end the batch. It is a trait so that tests and emulated machines can drive the
//! loop; [`Live`] is this machine.

mod live;

pub use live::Live;

use std::io;

use memweir_core::{JobId, Nanos};

use crate::blocker::SpawnTarget;
use crate::foreign::ForeignProcess;
use crate::launch::{Launch, LaunchError};

/// Event from outside the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The first process of a job ended.
    Exited {
        /// The job.
        job: JobId,
        /// Its exit code; 128 + signal if a signal ended it.
        code: i32,
        /// CPU time of the process and of the children that it has waited for; `None` where that
        /// is not the time of this world.
        cpu_time: Option<Nanos>,
    },
    /// SIGINT, SIGTERM or SIGHUP arrived.
    Stop,
    /// The terminal asks this process to [suspend](World::suspend) itself (SIGTSTP).
    Suspend,
    /// The job's adopted first process ended. Its exit code went to its parent.
    Vanished(JobId),
    /// Another thread has woken the loop.
    Woken,
}

/// Time, processes and signals.
pub trait World {
    /// Time on a clock that never goes back.
    fn now(&self) -> Nanos;

    /// Stops this process until it is continued. The clock stands still meanwhile. The default does
    /// nothing, for worlds without such requests.
    fn suspend(&mut self) {}

    /// Waits until an event occurs or the clock reaches `until`; returns no event in the latter
    /// case.
    fn wait(&mut self, until: Nanos) -> io::Result<Vec<Occurrence>>;

    /// Creates the job's first process, which waits before exec, and returns its process id.
    fn spawn(
        &mut self,
        job: JobId,
        launch: &Launch,
        target: &SpawnTarget,
    ) -> Result<i32, LaunchError>;

    /// Lets a waiting process run its program.
    fn exec(&mut self, job: JobId) -> Result<(), LaunchError>;

    /// Watches a process that this program has not started as the first process of a job. The
    /// default refuses.
    fn adopt(&mut self, _job: JobId, _process: ForeignProcess) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Binds every thread of a job to these CPUs.
    fn bind(&mut self, job: JobId, cpus: &[usize]) -> io::Result<()>;

    /// Forgets a job; a process that still waits before exec ends.
    fn forget(&mut self, job: JobId);
}
