//! `memweir daemon` and the commands that talk to it: `submit`, `queue`, `log`, `wait`, `hold`,
//! `release`, `cancel`, `requeue`, `drain` and `status`.

pub(crate) mod daemon;
mod ids;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod submit;
pub(crate) mod verbs;

use std::path::PathBuf;

use memweir_core::input::InputError;
use memweir_daemon::client::{Client, ClientError};
use memweir_daemon::places;
use memweir_daemon::protocol::{JobView, RefusalKind};

use crate::failure::{Failure, Outcome};

/// The exit codes of the commands that wait for jobs.
pub(crate) const WAIT_EXIT_CODES: &str = "\
Exit codes:
  that of the job, or 128 + N if signal N ended it; of several jobs that of the first that failed
  137  nobody saw the end of the job
  143  the job was canceled
  without the job's end:
    2  wrong usage or wrong input, such as a job that does not exist
    3  there is no daemon, or it cannot do it";

/// The daemon that a command talks to.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// Socket of the daemon [default: that of your own, else that of root's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Connection {
    /// Connects to the daemon.
    pub(crate) fn open(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&self.place())?)
    }

    /// Returns the daemon's socket.
    pub(crate) fn place(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(places::client_socket)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        use RefusalKind::{Busy, NotYours, Storage};
        match error {
            ClientError::Refused(refusal) if !matches!(refusal.kind, Busy | NotYours | Storage) => {
                Self::Input(InputError::new("queue", refusal.message))
            }
            other => Self::Machine(other.to_string()),
        }
    }
}

/// Returns the end of jobs that are over as the end of the command: that of the first that failed.
fn ending(jobs: &[JobView]) -> Outcome {
    let codes = jobs.iter().filter_map(|job| job.exit_code);
    let failed = codes.into_iter().find(|code| *code != 0);
    // A job's exit code is at most 255.
    failed.map_or(Outcome::Success, |code| Outcome::Program(u8::try_from(code).unwrap_or(1)))
}
