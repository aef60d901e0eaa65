//! The interface between the quantum loop and the machine that executes the jobs.

use memweir_core::{Counts, JobId, Nanos};

use crate::record::{Call, RecordingScheduler};
use crate::scheduler::{Decision, Ending, JobSpec, Observation, QuantumSummary};

/// A machine on which a [`QuantumLoop`](super::QuantumLoop) schedules jobs: this one, an emulated
/// or a simulated one.
///
/// Times are readings of a clock of the backend that never goes back.
pub trait Backend {
    /// Error that ends the loop.
    type Error;

    /// Returns the current time.
    fn now(&mut self) -> Nanos;

    /// Waits until an event occurs or the clock reaches `until`. It may return early without an
    /// event.
    ///
    /// # Errors
    /// If waiting is impossible; the loop ends then.
    fn wait(&mut self, until: Nanos) -> Result<Vec<Event>, Self::Error>;

    /// Returns true if further jobs may arrive.
    fn expects_jobs(&self) -> bool;

    /// Returns true if jobs can be blocked. If blocking fails, every job runs from then on.
    fn can_block(&self) -> bool {
        true
    }

    /// Step 1: blocks all jobs.
    fn block(&mut self);

    /// Step 2: reads the behavior of these jobs, each since it was last read.
    fn read(&mut self, jobs: &[JobId]) -> Vec<Observation>;

    /// Does the work between two quanta for which the jobs must be blocked.
    fn switch(&mut self, _ended: &Quantum) {}

    /// Step 4: resumes `jobs` and no others; they are those that the decision lets run. Returns the
    /// jobs that had to be started for that.
    fn resume(&mut self, decision: &Decision, jobs: &[JobId]) -> Vec<(JobId, Start)>;

    /// Called when the jobs of a new quantum run. The scheduler knows their predicted demands.
    fn quantum_began(&mut self, _scheduler: &RecordingScheduler) {}

    /// Records a quantum that is over. The jobs of the next one run meanwhile.
    fn quantum_ended(&mut self, quantum: &Quantum);

    /// Ends a batch that [`Event::Stop`] has stopped: resumes all jobs, and ends them or leaves
    /// them running. Returns the ends of jobs meanwhile.
    ///
    /// # Errors
    /// As those of [`Backend::wait`].
    fn stop(&mut self) -> Result<Vec<Event>, Self::Error> {
        Ok(Vec::new())
    }
}

/// Event that ends a [`Backend::wait`].
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A job was submitted.
    Arrived(JobSpec),
    /// A job has ended.
    Ended {
        /// Its behavior since it was last read.
        observation: Observation,
        /// Time of that reading.
        at: Nanos,
        /// The manner of its end.
        ending: Ending,
    },
    /// The batch must end.
    Stop,
}

/// Result of starting a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It runs since then.
    At(Nanos),
    /// It could not be started and is over.
    Failed,
}

/// One quantum that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantum {
    /// Time at which its jobs were resumed.
    pub start: Nanos,
    /// Its length, and the bandwidth of the system in it.
    pub summary: QuantumSummary,
    /// The jobs that were not blocked, in ascending order.
    pub jobs: Vec<JobQuantum>,
    /// The last decision in it.
    pub decision: Decision,
    /// Time from blocking its jobs to the resumption of the next ones; absent if none was blocked
    /// or no quantum follows.
    pub switch: Option<Nanos>,
    /// Calls to the scheduler since the last quantum was passed on, if they are recorded. The
    /// selection for the next quantum is among them.
    pub calls: Vec<Call>,
}

/// Record of one job in one quantum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobQuantum {
    /// The job.
    pub job: JobId,
    /// True if it occupied a core; a sleeping job runs without one.
    pub chosen: bool,
    /// Reason for its selection; absent where it was not selected or the policy gives none.
    pub reason: Option<&'static str>,
    /// Time for which it was not blocked.
    pub running: Nanos,
    /// Its predicted speed beside the others, over its speed alone; absent where it had no core of
    /// its own.
    pub speed: Option<f64>,
    /// CPU time that it used; zero if it could not be read, and then part of the next record.
    pub cpu_time: Nanos,
    /// Its counts; absent where nothing was counted.
    pub counts: Option<Counts>,
}
