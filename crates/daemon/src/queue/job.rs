//! One job of the queue and the states of its life.
//!
//! The methods that change a state return the changed job, so that the service can write it to the
//! store before the queue sees it.

use std::sync::Arc;

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_run::batch::Alone;
use serde::{Deserialize, Serialize};

use super::reason::WrongState;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not started, or is to run again.
    Pending,
    /// Its supervisor is about to start it, or has.
    Starting,
    /// It runs, or is blocked in favor of others.
    Running,
    /// It is over.
    Ended(End),
}

/// End of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ended with this code, or 128 plus the signal that ended it.
    Exited(i32),
    /// It was killed while the kernel killed processes around it for want of memory.
    OutOfMemory,
    /// A user canceled it; the code is absent if it had not started or did not end by itself.
    Canceled(Option<i32>),
    /// Nobody saw its end.
    Lost(Loss),
}

/// Reason for which nobody saw the end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its supervisor ended without leaving an exit code.
    Supervisor,
    /// The machine was restarted while it ran.
    Restart,
    /// Its files in the state directory cannot be read.
    Files,
}

/// A moment on two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970, for display: this clock may be set.
    pub wall_ms: u64,
    /// Milliseconds of the machine's uptime since the queue was made; see
    /// [`Reading`](crate::uptime::Reading).
    pub uptime_ms: u64,
}

impl End {
    /// Returns the exit code that stands for the end: that of the job where it ended by itself, 143
    /// for a canceled one as after SIGTERM, 137 for one that was killed or lost, as after SIGKILL.
    #[must_use]
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Canceled(Some(code)) if code != 0 => code,
            Self::Canceled(_) => 143,
            Self::OutOfMemory | Self::Lost(_) => 137,
        }
    }
}

/// Place of a job in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// First job of the array.
    pub array: JobId,
    /// Index of this job.
    pub index: u32,
    /// Jobs of the array that may run at the same time; any number if absent.
    pub limit: Option<u32>,
}

/// Source of the time and bandwidth that are expected of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", content = "job", rename_all = "kebab-case")]
pub enum Source {
    /// The submission.
    Submission,
    /// The submission for one of the two, the profile store for the other.
    SubmissionAndStore,
    /// The profile store.
    Store,
    /// The profile store, from before the program's file was replaced; the job is profiled again.
    Replaced,
    /// The first run of the same command, as this job.
    Job(JobId),
}

/// A job of the queue. Its command, directory and environment stay in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Name for people.
    pub name: String,
    /// User id of the submitter, as whom it runs.
    pub user: u32,
    /// Cores that it occupies.
    pub cores: u32,
    /// Jobs with a higher priority start first.
    pub priority: i32,
    /// Jobs that must have succeeded before.
    pub after: Vec<JobId>,
    /// Its place in an array, if it is in one.
    pub array: Option<Membership>,
    /// Name of the user who holds it.
    pub held_by: Option<String>,
    /// Its state.
    pub state: State,
    /// Number of its starts.
    pub attempt: u32,
    /// True once a user has canceled it.
    pub canceled: bool,
    /// Estimated execution time alone.
    pub expected_time: Option<Nanos>,
    /// Estimated mean bandwidth alone.
    pub expected_bandwidth: Option<BytesPerSec>,
    /// Source of the two estimates; absent where there is none.
    pub expected_from: Option<Source>,
    /// Limit of its bandwidth.
    pub bandwidth_limit: Option<BytesPerSec>,
    /// Key of its command in the profile store; absent where it has none.
    pub program: Option<Arc<str>>,
    /// Its command as one line for people.
    pub command: String,
    /// Times in milliseconds since 1970: of its submission, last start and end.
    pub submitted: u64,
    /// Time of its last start.
    pub started: Option<u64>,
    /// Time of its end.
    pub ended: Option<Moment>,
}

impl Job {
    /// Creates a pending job on one core.
    #[must_use]
    pub fn new(id: JobId, name: impl Into<String>, user: u32) -> Self {
        Self {
            id,
            name: name.into(),
            user,
            cores: 1,
            priority: 0,
            after: Vec::new(),
            array: None,
            held_by: None,
            state: State::Pending,
            attempt: 0,
            canceled: false,
            expected_time: None,
            expected_bandwidth: None,
            expected_from: None,
            bandwidth_limit: None,
            program: None,
            command: String::new(),
            submitted: 0,
            started: None,
            ended: None,
        }
    }

    /// Returns the end of a job that is over.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        match self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Returns true for a job that has ended with exit code 0.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        self.state == State::Ended(End::Exited(0))
    }

    /// Returns true if a run of the job tells more of its command than is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.program.is_some() && matches!(self.expected_from, None | Some(Source::Replaced))
    }

    /// Returns the job with what the first run of its command, as another job, has shown.
    #[must_use]
    pub fn learned(&self, alone: Alone, from: JobId) -> Self {
        Self {
            expected_time: Some(alone.time),
            expected_bandwidth: Some(alone.bandwidth),
            expected_from: Some(Source::Job(from)),
            ..self.clone()
        }
    }

    /// Returns the job held by a user.
    ///
    /// # Errors
    /// It is not pending.
    pub fn held(&self, by: &str) -> Result<Self, WrongState> {
        match self.state {
            State::Pending => Ok(Self { held_by: Some(by.to_owned()), ..self.clone() }),
            _ => Err(self.wrong("only a pending job can be held")),
        }
    }

    /// Returns the job released.
    ///
    /// # Errors
    /// It is not held.
    pub fn released(&self) -> Result<Self, WrongState> {
        match &self.held_by {
            Some(_) if self.state == State::Pending => Ok(Self { held_by: None, ..self.clone() }),
            _ => Err(self.wrong("only a held job can be released")),
        }
    }

    /// Returns the job canceled at `now`: at once if it is pending, otherwise as a request to its
    /// processes.
    ///
    /// # Errors
    /// It has ended.
    pub fn canceled(&self, now: Moment) -> Result<Self, WrongState> {
        match self.state {
            State::Pending => Ok(self.ended(End::Canceled(None), now)),
            State::Starting | State::Running => Ok(Self { canceled: true, ..self.clone() }),
            State::Ended(_) => Err(self.wrong("only a job that has not ended can be canceled")),
        }
    }

    /// Returns the job pending again.
    ///
    /// # Errors
    /// It has not ended.
    pub fn requeued(&self) -> Result<Self, WrongState> {
        match self.state {
            State::Ended(_) => Ok(self.pending()),
            _ => Err(self.wrong("only a job that has ended can be requeued; cancel it first")),
        }
    }

    /// Returns the job as if its last attempt had never begun.
    #[must_use]
    pub fn pending(&self) -> Self {
        let (started, ended) = (None, None);
        Self { state: State::Pending, canceled: false, started, ended, ..self.clone() }
    }

    /// Returns the job at the start of a new attempt.
    #[must_use]
    pub fn starting(&self, now: u64) -> Self {
        let attempt = self.attempt + 1;
        Self { state: State::Starting, attempt, started: Some(now), ..self.clone() }
    }

    /// Returns the job running.
    #[must_use]
    pub fn running(&self) -> Self {
        Self { state: State::Running, ..self.clone() }
    }

    /// Returns the job ended at `now`. The end of a job that was canceled counts as such.
    #[must_use]
    pub fn ended(&self, end: End, now: Moment) -> Self {
        let end = match end {
            End::Exited(_) | End::OutOfMemory if self.canceled => {
                End::Canceled(Some(end.exit_code()))
            }
            End::Lost(_) if self.canceled => End::Canceled(None),
            end => end,
        };
        Self { state: State::Ended(end), held_by: None, ended: Some(now), ..self.clone() }
    }

    fn wrong(&self, rule: &'static str) -> WrongState {
        let held = self.held_by.is_some();
        WrongState { job: self.id, state: self.state, held, rule }
    }
}
