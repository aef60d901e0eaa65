//! Reasons for which a command ended without its result, and their exit codes.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use memweir_core::input::InputError;
use memweir_flow::SimError;
use memweir_linux::launch::LaunchError;
use memweir_linux::preload::NotStarted;
use memweir_run::batch::RunError;
use memweir_run::platform::PlatformError;
use memweir_run::policy_program::FailedPolicy;
use memweir_run::recording::RecordingError;
use memweir_run::store::StoreError;
use memweir_sweep::SweepError;

/// The exit codes, as every `--help` lists them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
    0  everything ended well
    1  a job failed; the runs of a profile ended differently, or those of `emulate --verify`; a
       replay decided differently under the same policy; a calibration no longer holds; a memory
       broke a rule; no map was found; a trace or a record was truncated; points of a merged sweep
       are missing
    2  wrong usage or wrong input; nothing was started
    3  this machine cannot do it: no such meter, mechanism or permission
    4  a result could not be written
    5  memweir found a fault of its own
    6  a policy program failed; the jobs were ended, or released as --on-exit says
  130  interrupted";

/// The exit codes of the commands that wrap one program.
pub(crate) const PROGRAM_EXIT_CODES: &str = "\
Exit codes:
  that of the program, or 128 + N if signal N ended it; without the program's end:
    2  wrong usage or wrong input; nothing was started
    3  this machine cannot do it: no such mechanism or permission
    4  a result could not be written
    5  memweir found a fault of its own";

/// End of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything ended well.
    Success,
    /// A job failed.
    JobFailed,
    /// A replay decided differently under the same policy.
    Different,
    /// The machine differs from its calibration.
    Changed,
    /// A memory's commands broke a rule of its standard.
    Violation,
    /// No map was found.
    Refused,
    /// A trace or a record of decisions was truncated and may have lost a part.
    Truncated,
    /// Points of a sweep have not run.
    Incomplete,
    /// The machine cannot do it, and the result says so.
    Impossible,
    /// A signal ended the work.
    Interrupted,
    /// The program that the command wrapped ended with this status.
    Program(u8),
}

impl Outcome {
    /// Returns this outcome, or `other` if everything ended well.
    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Success { other } else { self }
    }
}

/// Reason for which a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Wrong input; nothing was started.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The machine cannot do it.
    #[error("{0}")]
    Machine(String),
    /// A result could not be written.
    #[error("cannot write {what}: {source}")]
    Write {
        /// The file.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A signal ended the work.
    #[error("{0}")]
    Interrupted(String),
    /// A fault of this program: its results are of no use.
    #[error("a fault of memweir: {0}")]
    Fault(String),
    /// A policy in another process failed; the jobs were ended or released.
    #[error(transparent)]
    Policy(#[from] FailedPolicy),
    /// A figure could not be drawn.
    #[error(transparent)]
    Plot(#[from] crate::render::plot::PlotError),
}

/// Returns the refusal of an option or argument of the command line.
pub(crate) fn refusal_of(option: &str, reason: impl Into<String>) -> InputError {
    InputError::new("command line", reason).key(option)
}

impl Failure {
    /// A file that could not be written.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { what: path.display().to_string(), source }
    }

    /// A recording that could not be written to `path`.
    pub(crate) fn recording(path: &Path, error: RecordingError) -> Self {
        match error {
            RecordingError::Io { source, .. } => Self::write(path, source),
            error => Self::write(path, io::Error::other(error)),
        }
    }

    /// Standard output that could not be written.
    pub(crate) fn stdout(source: io::Error) -> Self {
        Self::Write { what: "standard output".to_owned(), source }
    }
}

impl From<NotStarted> for Failure {
    fn from(error: NotStarted) -> Self {
        match error {
            NotStarted::Request(refusal) => Self::Input(refusal.written_in("command line")),
            NotStarted::Machine(error) => Self::Machine(error.to_string()),
        }
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        Self::Machine(error.to_string())
    }
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Self {
        Self::Input(InputError::new("scenario", error.to_string()))
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Input(input) => Self::Input(input),
            SweepError::Write { path, source } => Self::write(&path, source),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Input(input) => Self::Input(input),
            RunError::Store(error) => error.into(),
            RunError::Platform(error) => error.into(),
            RunError::Output { path, source } => Self::write(&path, source),
            other => Self::Machine(other.to_string()),
        }
    }
}

impl From<PlatformError> for Failure {
    fn from(error: PlatformError) -> Self {
        match error {
            PlatformError::Invalid(input) => Self::Input(input),
            PlatformError::Io { path, source } => Self::Input(
                InputError::unreadable(&path, &source)
                    .help("`memweir calibrate` writes a calibration"),
            ),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(input) => Self::Input(input),
            StoreError::Damaged(_) => {
                Self::Input(InputError::new("profile store", error.to_string()))
            }
            StoreError::NoSuchEntry { .. } => Self::Input(
                InputError::new("command line", error.to_string())
                    .help("`memweir store list` lists the keys"),
            ),
            other => Self::Machine(other.to_string()),
        }
    }
}

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> Self {
        Self::from(match failure {
            Failure::Input(_) => 2,
            Failure::Machine(_) => 3,
            Failure::Write { .. } | Failure::Plot(_) => 4,
            Failure::Fault(_) => 5,
            Failure::Policy(_) => 6,
            Failure::Interrupted(_) => 130,
        })
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Success => 0,
            Outcome::JobFailed
            | Outcome::Different
            | Outcome::Changed
            | Outcome::Violation
            | Outcome::Refused
            | Outcome::Truncated
            | Outcome::Incomplete => 1,
            Outcome::Impossible => 3,
            Outcome::Interrupted => 130,
            Outcome::Program(status) => status,
        })
    }
}
