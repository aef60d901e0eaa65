//! The guardian: a process that outlives memweir and lets its jobs run on.
//!
//! However memweir ends, its [`Guardian`]'s pipe closes. The other end is a process of its own
//! session, outside of every job's group; unless it was told goodbye, it thaws the groups that it
//! knows (or continues the sessions), waits until they are empty and removes them.
//!
//! A blocker tells the guardian of a group or session *before* it can block anything in it, so
//! there is no moment at which a job is blocked without the guardian's knowledge. If the guardian
//! dies, the next call that would block starts another and tells it everything again; if that
//! fails, the blocker blocks no more.
//!
//! Where jobs have groups, the guardian lives in a group of its own. Below memweir's own group, a
//! kill of that whole group ends memweir, guardian and jobs together: a frozen v2 process dies of
//! SIGKILL. Where jobs lie elsewhere, or are frozen by v1 and cannot die, the guardian's group
//! lies outside of memweir's and survives the kill.
//!
//! This file is memweir's side; `guardian/watch.rs` is the process itself, `guardian/home.rs` its
//! group, `guardian/message.rs` the messages between them.

mod home;
mod message;
#[cfg(test)]
pub(crate) mod testing;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use home::Homes;
pub(crate) use message::Message;
pub use watch::main;

use crate::blocker::SpawnTarget;
use crate::launch::{Launch, LaunchError, Process, launch};

/// Line that the guardian writes to its standard output once it watches.
const READY: &[u8] = b"watching\n";
/// Longest time that a guardian may take to start on a busy machine.
const GUARDIAN_START_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time that it may take to end after a goodbye.
const GUARDIAN_END_TIMEOUT: Duration = Duration::from_secs(1);

/// Command that starts a guardian: a program and arguments with which it calls [`main`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, without `argv[0]`.
    pub args: Vec<OsString>,
}

impl Command {
    /// Returns a command of this very program, even if its file has been replaced since, with these
    /// arguments.
    pub fn this_program(args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            args: args.into_iter().map(Into::into).collect(),
        }
    }
}

/// Requests of a blocker to its guardian.
pub(crate) trait Guard: Send {
    /// Puts something into its care. On success the guardian acts on it whatever happens next.
    fn watch(&mut self, message: Message) -> io::Result<()>;

    /// Checks that the guardian lives, and replaces it if not. Returns a message for the user if it
    /// did.
    fn check(&mut self) -> io::Result<Option<String>>;

    /// Ends the guardian: nothing is left to care for.
    fn goodbye(&mut self);
}

/// A running guardian. Dropped without a goodbye, it acts on everything that it was told.
#[derive(Debug)]
pub struct Guardian {
    command: Command,
    watcher: Watcher,
    homes: Homes,
    told: Vec<Message>,
}

#[derive(Debug)]
struct Watcher {
    process: Process,
    pipe: File,
}

/// Starts a guardian in new groups at `homes`, in memweir's own where there are none, and waits
/// until it watches.
///
/// # Errors
///
/// The groups cannot be made, or the program cannot be started, or is none that calls [`main`].
pub fn start(command: &Command, homes: Vec<PathBuf>) -> Result<Guardian, LaunchError> {
    // The guardian knows of the groups before they exist: it removes them whenever memweir dies.
    let told: Vec<Message> = homes.iter().cloned().map(Message::Home).collect();
    let mut watcher = Watcher::start(command, &told)?;
    let made = Homes::create(homes).and_then(|homes| {
        homes.admit(watcher.process.pid()).map_err(|source| failure(command, source))?;
        Ok(homes)
    });
    match made {
        Ok(homes) => Ok(Guardian { command: command.clone(), watcher, homes, told }),
        Err(error) => {
            watcher.kill();
            Err(error)
        }
    }
}

fn failure(command: &Command, source: io::Error) -> LaunchError {
    LaunchError::new(format!("starting the guardian {}", command.program.display()), source)
}

impl Guardian {
    /// Returns the guardian's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.watcher.process.pid()
    }

    fn restart(&mut self) -> io::Result<()> {
        let watcher = Watcher::start(&self.command, &self.told).map_err(io::Error::other)?;
        // The message that found it dead did not wait for it.
        std::mem::replace(&mut self.watcher, watcher).reap(GUARDIAN_END_TIMEOUT);
        self.homes.admit(self.watcher.process.pid())
    }
}

impl Guard for Guardian {
    fn watch(&mut self, message: Message) -> io::Result<()> {
        self.told.push(message);
        let message = &self.told[self.told.len() - 1];
        // A restart tells everything, this message included.
        self.watcher.tell(message).or_else(|_| self.restart())
    }

    fn check(&mut self) -> io::Result<Option<String>> {
        let how = match self.watcher.process.try_wait() {
            Ok(None) => return Ok(None),
            Ok(Some(exit)) => format!("exit code {}", exit.code()),
            // Another part of this program waits for every child.
            Err(error) => error.to_string(),
        };
        self.restart()?;
        Ok(Some(format!(
            "the guardian process ended unexpectedly ({how}); another one was started"
        )))
    }

    fn goodbye(&mut self) {
        if self.watcher.tell(&Message::Goodbye).is_ok() {
            self.watcher.reap(GUARDIAN_END_TIMEOUT);
        }
    }
}

impl Watcher {
    /// Starts the process and tells it `messages`.
    fn start(command: &Command, messages: &[Message]) -> Result<Self, LaunchError> {
        let failed = |error| failure(command, error);
        let (orders, pipe) = crate::launch::pipe().map_err(failed)?;
        let (ready, its_output) = crate::launch::pipe().map_err(failed)?;
        let program = command.program.clone();
        let mut argv = vec![program.clone().into_os_string()];
        argv.extend(command.args.iter().cloned());
        let description = Launch {
            env: std::env::vars_os().collect(),
            // It may outlive memweir by hours and must not keep a mount busy.
            directory: Some("/".into()),
            stdin: orders.into(),
            stdout: its_output.into(),
            ..Launch::silent(program, argv).map_err(failed)?
        };
        let process = launch(&description, &SpawnTarget::Session)?.exec()?;
        // Closes our copies of its ends: with these open its death would go unnoticed.
        drop(description);
        let mut watcher = Self { process, pipe: pipe.into() };
        let owner = Message::Owner(std::process::id() as i32);
        let told = read_ready(File::from(ready))
            .and_then(|()| [&owner].into_iter().chain(messages).try_for_each(|m| watcher.tell(m)));
        if let Err(error) = told {
            watcher.kill();
            return Err(failed(error));
        }
        Ok(watcher)
    }

    /// Waits for its end, so that no zombie is left between batches. One that is stopped would
    /// never end; with nothing in its care it can be killed.
    fn reap(&mut self, timeout: Duration) {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let ended = poll(&mut [PollFd::new(self.process.as_fd(), PollFlags::POLLIN)], timeout);
        match ended {
            Ok(1) => drop(self.process.wait()),
            _ => self.kill(),
        }
    }

    fn kill(&mut self) {
        let _ = self.process.signal(libc::SIGKILL);
        let _ = self.process.wait();
    }

    fn tell(&mut self, message: &Message) -> io::Result<()> {
        self.pipe.write_all(&message.encode())
    }
}

/// Waits for the guardian's message that it watches.
fn read_ready(mut output: File) -> io::Result<()> {
    let deadline = Instant::now() + GUARDIAN_START_TIMEOUT;
    let mut got = Vec::new();
    while got.len() < READY.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer")),
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let mut chunk = [0; READY.len()];
        match output.read(&mut chunk)? {
            0 => break,
            count => got.extend_from_slice(&chunk[..count]),
        }
    }
    if got == READY { Ok(()) } else { Err(io::Error::other("it does not act as a guardian")) }
}
