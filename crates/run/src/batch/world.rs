//! What the scheduling loop needs of the outside besides blocking and counting: time, processes
//! and the wish of a person to end the batch. One trait, so that the loop can be driven by a test;
//! the real one is in `live.rs`.

use std::io;

use memweir_core::{JobId, Nanos};
use memweir_linux::Launch;
use memweir_linux::blocker::Birthplace;
use memweir_linux::launch::LaunchError;

/// Something that the loop did not do itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The job's first process ended with this code (128 + signal if a signal ended it).
    Exited(JobId, i32),
    /// SIGINT or SIGTERM arrived.
    Stop,
}

/// Time, processes and signals.
pub trait World {
    /// Time on a clock that never goes back.
    fn now(&self) -> Nanos;

    /// Waits until something occurs or the clock reaches `until`; nothing occurred if the answer is
    /// empty.
    fn wait(&mut self, until: Nanos) -> io::Result<Vec<Occurrence>>;

    /// Makes the job's first process, which waits before exec; its process id.
    fn bear(
        &mut self,
        job: JobId,
        launch: &Launch,
        birthplace: &Birthplace,
    ) -> Result<i32, LaunchError>;

    /// Lets a process that was born run its program.
    fn exec(&mut self, job: JobId) -> Result<(), LaunchError>;

    /// Binds every thread of a job to these CPUs.
    fn bind(&mut self, job: JobId, cpus: &[usize]) -> io::Result<()>;

    /// Forgets a job; a process that is born and has not called exec ends.
    fn forget(&mut self, job: JobId);
}
