//! Running one program in the foreground, in the place of the command that was called.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::launch::LaunchError;
use crate::memory_group::MemoryGroup;

/// A program and its surroundings.
pub struct Foreground<'a> {
    /// The program and its arguments; at least one word.
    pub command: &'a [OsString],
    /// Variables to add to the environment.
    pub environment: &'a [(OsString, OsString)],
    /// The group in which it starts.
    pub group: Option<&'a MemoryGroup>,
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

impl Foreground<'_> {
    /// Runs the program to its end, and calls `look` each `interval`. Signals that this process
    /// receives go on to the program, so this process always lives to report and to restore
    /// settings.
    ///
    /// # Errors
    /// If the program, its group or the signals cannot be set up, or its end is not reported.
    pub fn run(
        &self,
        interval: Duration,
        mut look: impl FnMut(),
    ) -> Result<ExitStatus, LaunchError> {
        let signals = SigSet::from_iter(FORWARDED);
        let of_signals = |error: nix::Error| LaunchError::new("signals", error.into());
        let before = SigSet::thread_get_mask().map_err(of_signals)?;
        signals.thread_block().map_err(of_signals)?;
        let name = self.command[0].to_string_lossy();
        let of_program = |error| LaunchError::new(name.as_ref(), error);
        let mut child = start(self.prepared()?, before).map_err(of_program)?;
        let process = Pid::from_raw(child.id() as i32);
        let source = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).map_err(of_signals)?;
        std::thread::spawn(move || forward(&source, process));
        let (ended, end) = channel();
        std::thread::spawn(move || ended.send(child.wait()));
        loop {
            match end.recv_timeout(interval) {
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(of_program(io::Error::other("the thread that awaits it died")));
                }
                Ok(status) => return status.map_err(of_program),
            }
        }
    }

    fn prepared(&self) -> Result<Command, LaunchError> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(group) = self.group {
            let of_group = |error| LaunchError::new("its control group", error);
            group.spawn(&mut command).map_err(of_group)?;
        }
        Ok(command)
    }
}

/// Passes signals on to the program for as long as this process runs. The terminal sends its own
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

/// Starts the program with the signal mask that this process was started with: a child inherits
/// that of the thread which starts it.
fn start(mut program: Command, mask: SigSet) -> io::Result<Child> {
    let starter = std::thread::spawn(move || {
        mask.thread_set_mask()?;
        program.spawn()
    });
    starter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
