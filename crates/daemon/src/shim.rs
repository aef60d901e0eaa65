//! The supervisor of one job: its parent, which outlives the daemon and keeps its exit code.
//!
//! The daemon starts it in the job's group and session. It claims the attempt, so that no job runs
//! twice, runs the job, and writes the job's end to disk. It says nothing to the daemon directly.

use std::io;
use std::path::PathBuf;

use memweir_linux::foreign::ProcessName;
use memweir_linux::oom::OomWatch;
use memweir_linux::supervise::{self, Supervised};
use memweir_linux::tell;

use crate::attempt::{Attempt, Claim, Exit, Order};

/// Argument with which the command becomes a supervisor; the path of the attempt follows it.
pub const ARGUMENT: &str = "daemon-exec";

/// Exit codes that shells give to a program that is not there or cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Runs the attempt whose files begin with `base`.
///
/// # Errors
/// If the order cannot be read, or the claim or the end cannot be written. A job whose end cannot
/// be written counts as lost.
pub fn run(base: PathBuf) -> io::Result<()> {
    supervise::ignore_signals()?;
    let attempt = Attempt::at(base);
    let order = attempt.read_order()?;
    let claim = Claim::Begun(ProcessName::of_this_process()?);
    if attempt.claim(&claim)? != claim {
        // A successor of the daemon was first, and starts the job anew.
        return Ok(());
    }
    let kills = OomWatch::start();
    let (code, refused) = match execute(&order) {
        Ok(code) => (code, false),
        Err(Unstarted { code, refused }) => (code, refused),
    };
    attempt.end(Exit { code, short_of_memory: kills.has_seen_any(), refused })
}

/// A job that could not be started.
struct Unstarted {
    /// Exit code that a shell gives it.
    code: i32,
    /// True if the machine had no room for its process.
    refused: bool,
}

/// Runs the job and returns its exit code. A job that cannot be started says why in its log.
fn execute(order: &Order) -> Result<i32, Unstarted> {
    let work = &order.work;
    let pairs = work.environment.iter().map(|(name, value)| (name.into(), value.into()));
    let supervised = Supervised {
        program: work.program.to_path(),
        argv: work.argv.iter().map(Into::into).collect(),
        env: pairs.collect(),
        directory: work.directory.to_path(),
        user: order.user,
    };
    supervise::run(&supervised).map_err(|error| {
        let (program, directory) = (supervised.program.display(), supervised.directory.display());
        tell!("cannot start {program} in {directory}: {error}");
        // EAGAIN and ENOMEM.
        let refused =
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory);
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        Unstarted { code: if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }, refused }
    })
}
