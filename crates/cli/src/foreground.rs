//! Running one program in the foreground, as `color run` and `page run` do.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use memweir_linux::memory_group::MemoryGroup;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::failure::{Failure, Outcome};

/// Interval for a program that needs no checks while it runs.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

/// A program and its surroundings.
pub(crate) struct Program<'a> {
    /// The program and its arguments.
    pub(crate) command: &'a [OsString],
    /// Variables to add to the environment.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// The group in which it starts.
    pub(crate) group: Option<&'a MemoryGroup>,
}

/// Signals that go on to the program: requests to end, and those whose meaning it defines itself.
const FORWARDED: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// `si_code` of signals that the kernel sends, among them those of a terminal's keys.
const SI_KERNEL: i32 = 0x80;

/// Runs the program to its end, and calls `look` each `interval`. Signals that this command
/// receives go on to the program, so this command always lives to report and to restore settings.
pub(crate) fn run(
    program: &Program<'_>,
    interval: Duration,
    mut look: impl FnMut(),
) -> Result<ExitStatus, Failure> {
    let signals: SigSet = FORWARDED.into_iter().collect();
    let machine =
        |what: &str, error: &dyn std::fmt::Display| Failure::Machine(format!("{what}: {error}"));
    let before = SigSet::thread_get_mask().map_err(|e| machine("signals", &e))?;
    signals.thread_block().map_err(|e| machine("signals", &e))?;
    let name = program.command[0].to_string_lossy();
    let mut command = Command::new(&program.command[0]);
    command.args(&program.command[1..]);
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(group) = program.group {
        group.spawn(&mut command).map_err(|e| machine("its control group", &e))?;
    }
    let mut child = spawn(command, before).map_err(|e| machine(&name, &e))?;
    let process = Pid::from_raw(child.id() as i32);
    let source = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)
        .map_err(|e| machine("signals", &e))?;
    std::thread::spawn(move || forward(&source, process));
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

/// Passes signals on to the program for as long as this command runs. The terminal sends its own
/// signals to the whole foreground group, so the program has received those already.
fn forward(source: &SignalFd, program: Pid) {
    while let Ok(Some(received)) = source.read_signal() {
        let signal = Signal::try_from(received.ssi_signo as i32);
        if let (Ok(signal), true) = (signal, received.ssi_code != SI_KERNEL) {
            // The program may have ended meanwhile.
            let _ = kill(program, signal);
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

/// Reports the end of the program, unless it ended well.
pub(crate) fn tell(command: &[OsString], status: ExitStatus) {
    let name = command[0].to_string_lossy();
    match (status.code(), status.signal()) {
        (Some(0), _) => {}
        (Some(code), _) => eprintln!("memweir: {name} ended with status {code}"),
        (None, signal) => eprintln!("memweir: {name} was ended by signal {}", signal.unwrap_or(0)),
    }
}

/// Ends this command as the program ended: with its status, or with 128 and the number of the
/// signal that ended it, as shells and other wrappers do.
pub(crate) fn outcome(status: ExitStatus) -> Outcome {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Outcome::Program(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// The words of a command as text, for reports.
pub(crate) fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
