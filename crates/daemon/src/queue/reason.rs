//! Reasons for which a job waits, or a request about it is refused, as sentences for people.

use std::fmt;

use memweir_core::JobId;

use super::job::{End, Loss, State};

/// The reason for which a pending job waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A user holds it.
    Held {
        /// Name of the user.
        by: String,
    },
    /// An earlier job has not ended.
    After {
        /// The earlier job.
        job: JobId,
    },
    /// An earlier job has failed.
    AfterFailed {
        /// The earlier job.
        job: JobId,
    },
    /// As many jobs of its array run as may.
    ArrayLimit {
        /// Jobs that run.
        running: u32,
        /// Jobs that may run.
        limit: u32,
    },
    /// Every core is busy.
    NoCore {
        /// Cores that jobs occupy.
        busy: u32,
        /// Cores that there are.
        cores: u32,
    },
    /// As many jobs take turns on the cores as may.
    NoPlace {
        /// Cores' worth of jobs that take turns.
        busy: u32,
        /// Cores' worth of jobs that may.
        admit: u32,
    },
    /// A job in front of it needs more cores than are free.
    Behind {
        /// The job in front.
        job: JobId,
        /// Cores that it needs.
        cores: u32,
    },
    /// No job starts, because the queue drains.
    Drains,
    /// It is admitted and starts when the policy first selects it.
    Turn,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { by } => write!(f, "held by {by}"),
            Self::After { job } => write!(f, "waits for job {job}"),
            Self::AfterFailed { job } => {
                write!(f, "waits for job {job}, which failed: requeue that one, or cancel this one")
            }
            Self::ArrayLimit { running, limit } => {
                let run = if *running == 1 { "runs" } else { "run" };
                write!(f, "array limit: {running} of {limit} {run}")
            }
            Self::NoCore { busy, cores } => write!(f, "no free core: {busy} of {cores} busy"),
            Self::NoPlace { busy, admit } => {
                write!(f, "no free place: jobs on {busy} of {admit} cores take turns")
            }
            Self::Behind { job, cores } => {
                write!(f, "job {job} is in front and needs {cores} cores")
            }
            Self::Drains => f.write_str("the queue drains"),
            Self::Turn => f.write_str("starts in one of the next quanta"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Supervisor => "its supervisor ended without an exit code, as if it was killed",
            Self::Restart => "the machine was restarted while it ran",
            Self::Files => "its files in the state directory cannot be read",
        })
    }
}

/// A request that does not fit the state of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("job {job} {}: {rule}", described(*state, *held))]
pub struct WrongState {
    /// The job.
    pub job: JobId,
    /// Its state.
    pub state: State,
    /// True if it is held.
    pub held: bool,
    /// The rule that the request breaks.
    pub rule: &'static str,
}

fn described(state: State, held: bool) -> &'static str {
    match state {
        State::Pending if held => "is held",
        State::Pending => "is pending",
        State::Starting | State::Running => "runs",
        State::Ended(End::Canceled(_)) => "was canceled",
        State::Ended(_) => "has ended",
    }
}
