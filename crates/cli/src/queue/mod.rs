//! `memweir daemon` and the commands that talk to it: `submit`, `queue`, `log`, `wait`, `hold`,
//! `release`, `cancel`, `requeue`, `drain` and `status`.

pub(crate) mod daemon;
mod ids;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod submit;
pub(crate) mod verbs;

use memweir_daemon::protocol::JobView;

use crate::failure::Outcome;

/// The exit codes of the commands that wait for jobs.
pub(crate) const WAIT_EXIT_CODES: &str = "\
Exit codes:
  that of the job, or 128 + N if signal N ended it; of several jobs that of the first that failed
  137  nobody saw the end of the job
  143  the job was canceled
  without the job's end:
    2  wrong usage or wrong input, such as a job that does not exist
    3  there is no daemon, or it cannot do it";

/// Returns the end of jobs that are over as the end of the command: that of the first that failed.
fn ending(jobs: &[JobView]) -> Outcome {
    let codes = jobs.iter().filter_map(|job| job.exit_code);
    let failed = codes.into_iter().find(|code| *code != 0);
    // A job's exit code is at most 255.
    failed.map_or(Outcome::Success, |code| Outcome::Program(u8::try_from(code).unwrap_or(1)))
}
