//! Starting a job: its command and the initial state of its process.
//!
//! A start has two steps. [`launch`] makes the process in its [`SpawnTarget`] and leaves it waiting
//! at a gate, with its files, directory, session and CPUs set up, so that meters can be attached
//! before the program's first instruction. [`Newborn::exec`] opens the gate. If memweir dies in
//! between, no half-made process stays: a newborn whose gate is closed exits.
//!
//! The data that a child needs is laid out in `launch/prepare.rs`, its steps before exec are in
//! `launch/child.rs`, directories that are private to it in `launch/private.rs`, a running process
//! in `launch/process.rs`, the search for programs in `launch/program.rs`. Blocking is not here.

mod child;
pub(crate) mod limits;
mod prepare;
mod private;
mod process;
mod program;
mod signals;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub use private::{PrivateDirectories, PrivateView, UserNamespace, is_writable_directory};
pub use process::{Ending, Exit, Process};
pub use program::resolve_program;
pub use signals::{Signals, Waited};

use crate::blocker::SpawnTarget;
use child::{Report, Step};
use prepare::Prepared;

/// A command, ready to be started.
#[derive(Debug)]
pub struct Launch {
    /// The program, resolved against `PATH` already.
    pub program: PathBuf,
    /// Arguments, `argv[0]` included.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Working directory; that of memweir if absent.
    pub directory: Option<PathBuf>,
    /// Standard input.
    pub stdin: File,
    /// Standard output.
    pub stdout: File,
    /// Standard error.
    pub stderr: File,
    /// CPUs that the job is bound to, all if empty.
    pub cpus: Vec<usize>,
    /// An absolute path of a named pipe that takes the place of the standard input. The process
    /// waits for its writer when [`Newborn::exec`] has returned, before it becomes the program.
    pub fifo: Option<PathBuf>,
    /// Directories whose changes the process keeps to itself; the working directory is then an
    /// absolute path.
    pub private: Option<PrivateDirectories>,
}

impl Launch {
    /// Makes a command with empty input, discarded output, no environment and no other requests.
    pub fn silent(program: PathBuf, argv: Vec<OsString>) -> io::Result<Self> {
        let null = || File::options().read(true).write(true).open("/dev/null");
        Ok(Self {
            program,
            argv,
            env: BTreeMap::new(),
            directory: None,
            stdin: null()?,
            stdout: null()?,
            stderr: null()?,
            cpus: Vec::new(),
            fifo: None,
            private: None,
        })
    }
}

/// A job that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct LaunchError {
    /// The operation that failed, with the object's name.
    pub what: String,
    /// Why it failed.
    pub source: io::Error,
    /// Help for the user, where there is any.
    pub help: Option<String>,
}

impl LaunchError {
    pub(crate) fn new(what: impl Into<String>, source: io::Error) -> Self {
        let out_of_files = matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        let help = "it is not the program's limit: raise `ulimit -Hn`, or run fewer jobs at once";
        Self { what: what.into(), source, help: out_of_files.then(|| help.to_owned()) }
    }
}

/// Timeout for a child that has not reported its arrival at the gate, or the result of its exec.
/// Slow disks delay the exec; a stopped child would otherwise block memweir forever.
const EXEC_GATE_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the process of `launch` in `target` and leaves it waiting before exec.
///
/// The process leads a session of its own, has default signal handling and no files but its three
/// standard ones. Returns when it is at the gate; this takes until it has been given a CPU, so
/// the target must not be blocked.
///
/// A job born in a [`SpawnTarget::Session`] gets SIGCONT when the *thread* that calls this ends, so
/// that must be the scheduling thread.
///
/// # Errors
///
/// Refusals of the kernel to make the process, to move it to its target, or to give it its
/// directory or CPUs. Nothing is left behind then.
pub fn launch(launch: &Launch, target: &SpawnTarget) -> Result<Newborn, LaunchError> {
    let prepared = Prepared::new(launch, target)?;
    let (process, gate, reports) = prepared.spawn()?;
    let (process, program) = (Some(process), launch.program.clone());
    let mut newborn = Newborn { process, gate, reports, program, timeout: EXEC_GATE_TIMEOUT };
    match newborn.next_report()? {
        Some(Report { step: Step::AtTheGate, .. }) => Ok(newborn),
        Some(report) => Err(newborn.failure(launch, report)),
        None => Err(LaunchError::new(
            format!("starting {}", launch.program.display()),
            io::Error::other("the new process was killed before it could run the program"),
        )),
    }
}

/// A process that is born and waits before exec. Dropping it ends it.
#[derive(Debug)]
pub struct Newborn {
    /// Present until the process is handed out by [`Newborn::exec`].
    process: Option<Process>,
    gate: File,
    reports: File,
    program: PathBuf,
    /// Longest wait for a report.
    timeout: Duration,
}

impl Newborn {
    /// Returns its process id, which is also its session's.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.as_ref().map_or(0, Process::pid)
    }

    /// Opens the gate and returns when the program has replaced the newborn. For this the newborn
    /// must be given a CPU: not to be called while it is blocked.
    ///
    /// # Errors
    ///
    /// The reason why the program cannot be executed, with help; the newborn is gone then.
    pub fn exec(mut self) -> Result<Process, LaunchError> {
        let opened = self.gate.write_all(&[child::GO]);
        match (opened, self.next_report()?) {
            (Ok(()), None) => {}
            (Err(error), None) => {
                return Err(LaunchError::new(
                    format!("starting {}", self.program.display()),
                    error,
                ));
            }
            (_, Some(report)) => {
                let source = io::Error::from_raw_os_error(report.errno);
                let help = program::explain_exec_failure(&self.program, report.errno);
                let what = format!("executing {}", self.program.display());
                return Err(LaunchError { what, source, help });
            }
        }
        Ok(self.process.take().expect("the process is handed out once"))
    }

    /// Reads the next report of the child; `None` when it has closed its end.
    fn next_report(&mut self) -> Result<Option<Report>, LaunchError> {
        let timeout = PollTimeout::try_from(self.timeout).unwrap_or(PollTimeout::MAX);
        let mut reports = [PollFd::new(self.reports.as_fd(), PollFlags::POLLIN)];
        if poll(&mut reports, timeout) == Ok(0) {
            return Err(LaunchError {
                what: format!("starting {}", self.program.display()),
                source: io::ErrorKind::TimedOut.into(),
                help: Some("somebody may have stopped the new process".to_owned()),
            });
        }
        let mut bytes = [0; Report::SIZE];
        match self.reports.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(Report::decode(bytes))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(LaunchError::new("hearing from the new process", error)),
        }
    }

    fn failure(&self, launch: &Launch, report: Report) -> LaunchError {
        let program = self.program.display();
        let what = match report.step {
            Step::Directory => {
                let directory = launch.directory.as_deref().unwrap_or_else(|| "/".as_ref());
                format!("entering the working directory {} of {program}", directory.display())
            }
            Step::Private => format!("making directories private to {program}"),
            Step::Affinity => format!("binding {program} to the CPUs {:?}", launch.cpus),
            Step::Cgroup => format!("moving the new process of {program} into its cgroup"),
            Step::Files => format!("setting up the files of {program}"),
            Step::Session => format!("giving {program} a session of its own"),
            Step::AtTheGate | Step::Exec => format!("starting {program}"),
        };
        let help = (report.step == Step::Affinity)
            .then(|| "none of these CPUs is online and allowed to memweir".to_owned());
        LaunchError { what, source: io::Error::from_raw_os_error(report.errno), help }
    }
}

impl AsFd for Newborn {
    /// Becomes readable when the process ends.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_ref().expect("a newborn that can be named has its process").as_fd()
    }
}

impl Drop for Newborn {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // A closed gate would end it too, but only when it is given a CPU; in a frozen group
            // it never is, while SIGKILL gets through.
            let _ = process.signal(libc::SIGKILL);
            let _ = process.wait();
        }
    }
}

/// Makes a pipe whose ends are closed by exec.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

#[cfg(test)]
mod tests;
