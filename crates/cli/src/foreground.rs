//! Running one program in the foreground, as `color run` and `page run` do.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use memweir_linux::memory_group::MemoryGroup;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use crate::failure::{Failure, Outcome};

/// How long a program that nobody looks at runs between two looks.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

/// A program and where it runs.
pub(crate) struct Program<'a> {
    /// It and its arguments.
    pub(crate) command: &'a [OsString],
    /// Variables to add to the environment.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// The group in which it is born.
    pub(crate) group: Option<&'a MemoryGroup>,
}

/// Runs the program to its end, and looks at it each `interval`. A signal for this command goes on to
/// the program, so that counters and settings are always taken care of.
pub(crate) fn run(
    program: &Program<'_>,
    interval: Duration,
    mut look: impl FnMut(),
) -> Result<ExitStatus, Failure> {
    let signals: SigSet =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
    let machine =
        |what: &str, error: &dyn std::fmt::Display| Failure::Machine(format!("{what}: {error}"));
    let before = SigSet::thread_get_mask().map_err(|e| machine("signals", &e))?;
    signals.thread_block().map_err(|e| machine("signals", &e))?;
    let name = program.command[0].to_string_lossy();
    let mut command = Command::new(&program.command[0]);
    command.args(&program.command[1..]);
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(group) = program.group {
        group.bear(&mut command).map_err(|e| machine("its control group", &e))?;
    }
    let mut child = spawn(command, before).map_err(|e| machine(&name, &e))?;
    let process = Pid::from_raw(child.id() as i32);
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            // The terminal tells the program by itself.
            if !matches!(signal, Signal::SIGINT | Signal::SIGQUIT) {
                let _ = kill(process, signal);
            }
        }
    });
    let (ended, end) = channel();
    std::thread::spawn(move || ended.send(child.wait()));
    loop {
        match end.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) => look(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(machine(&name, &"nobody waits for it any more"));
            }
            Ok(status) => return status.map_err(|e| machine(&name, &e)),
        }
    }
}

/// Starts the program with the signal mask that this command was started with: a child inherits
/// that of the thread which starts it.
fn spawn(mut program: Command, mask: SigSet) -> io::Result<Child> {
    let starter = std::thread::spawn(move || {
        mask.thread_set_mask()?;
        program.spawn()
    });
    starter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Says how the program ended, unless it ended well.
pub(crate) fn tell(command: &[OsString], status: ExitStatus) {
    let name = command[0].to_string_lossy();
    match (status.code(), status.signal()) {
        (Some(0), _) => {}
        (Some(code), _) => eprintln!("memweir: {name} ended with status {code}"),
        (None, signal) => eprintln!("memweir: {name} was ended by signal {}", signal.unwrap_or(0)),
    }
}

/// What the end of the program means for this command.
pub(crate) fn outcome(status: ExitStatus) -> Outcome {
    if status.success() { Outcome::Success } else { Outcome::JobFailed }
}

/// The words of a command as text, for reports.
pub(crate) fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
