//! The supervisor of one job: its parent, which outlives the daemon and keeps its exit code.
//!
//! The daemon starts it in the job's group and session. It claims the attempt, so that no job runs
//! twice, runs the job, and writes the job's end to disk. It says nothing to the daemon directly.
//! While the job has processes in the background it stays, so that a later daemon finds them.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use memweir_linux::foreign::ProcessName;
use memweir_linux::oom::OomWatch;
use memweir_linux::supervise::{self, Supervised};
use memweir_linux::tell;

use crate::attempt::{Attempt, Claim, Exit, Order};
use crate::profiles::Begin;

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
    supervise::adopt_orphans()?;
    let attempt = Attempt::at(base);
    let order = attempt.read_order()?;
    let claim = Claim::Begun(ProcessName::of_this_process()?);
    if attempt.claim(&claim)? != claim {
        // A successor of the daemon was first, and starts the job anew.
        return Ok(());
    }
    if order.is_first_run {
        // Here, since a file server that does not answer must hold up this job alone. A job whose
        // files cannot be noted is not profiled.
        let _ = Begin::of(&order.work).and_then(|begin| attempt.begin(&begin));
    }
    let kills = OomWatch::start();
    let ran = execute(&order);
    // EAGAIN and ENOMEM.
    let is_refusal = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::OutOfMemory);
    let refused = ran.as_ref().is_err_and(|error| is_refusal(error.kind()));
    let code = ran.unwrap_or_else(|error| match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    });
    attempt.end(Exit { code, short_of_memory: kills.has_seen_any(), refused })?;
    supervise::reap_all();
    Ok(())
}

/// Runs the job and returns its exit code. A job that cannot be started says why in its log.
fn execute(order: &Order) -> io::Result<i32> {
    let work = &order.work;
    let pairs = work.environment.iter().map(|(name, value)| (name.into(), value.into()));
    let supervised = Supervised {
        program: work.program.to_path(),
        argv: work.argv.iter().map(Into::into).collect(),
        env: pairs.collect(),
        directory: work.directory.to_path(),
        user: order.user,
    };
    let started = supervise::start(&supervised).inspect_err(|error| {
        let (program, directory) = (supervised.program.display(), supervised.directory.display());
        tell!("cannot start {program} in {directory}: {error}");
    });
    supervise::reap_until(&started?)
}
