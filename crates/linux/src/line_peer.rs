//! A process that answers lines with lines.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::signals::end_signals;

#[cfg(test)]
mod tests;

/// Longest line that is read.
const LONGEST: usize = 1 << 20;

/// Time that a program gets to end once its input has ended.
const GRACE: Duration = Duration::from_secs(1);

/// Interval at which a program's end is looked for.
const POLL: Duration = Duration::from_millis(5);

/// A question that got no answer. The texts follow the name of the one who was asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It took too long.
    #[error("did not answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// An end signal is pending, for which the caller has the others end.
    #[error("did not answer before a signal came")]
    Interrupted,
    /// It is over.
    #[error("ended before it answered{}", in_parentheses(*.0))]
    Ended(Option<ExitStatus>),
    /// Its answer is no line.
    #[error("answered more than {} bytes without a newline", LONGEST)]
    TooLong,
    /// The operating system's error.
    #[error("cannot be asked: {0}")]
    Io(#[from] io::Error),
}

/// A program that was started for its answers, or a process that listens on a Unix socket.
///
/// While the end signals are blocked in the calling thread, one that is pending ends a wait for the
/// process. It stays pending, for whoever takes it.
///
/// When it is dropped, the input of the process ends. A program that does not end within a second
/// is killed, with the processes that it has started.
#[derive(Debug)]
pub struct LinePeer {
    /// Does not block.
    stream: BufReader<UnixStream>,
    /// Readable while an end signal is pending; never read.
    signals: SignalFd,
    program: Option<Child>,
}

impl LinePeer {
    /// Starts a command of the shell, with a socket as its standard input and output. It is in a
    /// process group of its own: Ctrl-C is for memweir, which ends it.
    ///
    /// # Errors
    /// If there is no shell.
    pub fn start(command: &str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let program = Command::new("sh")
            .args(["-c", command])
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .process_group(0)
            .spawn()?;
        Self::new(ours, Some(program))
    }

    /// Connects to a process that listens at `path`.
    ///
    /// # Errors
    /// If none does.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::new(UnixStream::connect(path)?, None)
    }

    fn new(stream: UnixStream, program: Option<Child>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let signals = SignalFd::with_flags(&end_signals(), SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { stream: BufReader::new(stream), signals, program })
    }

    /// Sends a line, with its newline, that has no answer.
    ///
    /// # Errors
    /// If the process does not take it in time.
    pub fn tell(&mut self, line: &str, limit: Duration) -> Result<(), AskError> {
        let mut stream = self.stream.get_ref();
        let began = Instant::now();
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                // A process that is over may have said why.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::POLLOUT, began, limit)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns true if the process has said more than it was asked.
    pub fn has_spoken(&mut self) -> bool {
        self.stream.fill_buf().is_ok_and(|said| !said.is_empty())
    }

    /// Sends a line, with its newline, and returns the answer without it.
    ///
    /// # Errors
    /// If there is no answer within `limit`.
    pub fn ask(&mut self, line: &str, limit: Duration) -> Result<String, AskError> {
        let began = Instant::now();
        self.tell(line, limit)?;
        let mut answer = Vec::new();
        loop {
            let read = match self.stream.fill_buf() {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => &[],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::POLLIN, began, limit)?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if read.is_empty() {
                return Err(AskError::Ended(self.status()));
            }
            let newline = read.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(read.len(), |place| place + 1);
            answer.extend_from_slice(&read[..newline.unwrap_or(taken)]);
            self.stream.consume(taken);
            if newline.is_some() {
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
            if answer.len() > LONGEST {
                return Err(AskError::TooLong);
            }
        }
    }

    /// Waits until the stream can be read or written without blocking.
    fn wait(&self, what: PollFlags, began: Instant, limit: Duration) -> Result<(), AskError> {
        loop {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(AskError::TimedOut(limit));
            }
            let mut fds = [
                PollFd::new(self.stream.get_ref().as_fd(), what),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            // Rounded up, so that the last millisecond is not polled for.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1));
            match poll(&mut fds, timeout.unwrap_or(PollTimeout::MAX)) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) if fds[0].any() == Some(true) => return Ok(()),
                Ok(_) => return Err(AskError::Interrupted),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    /// Waits for the end of the program, at most for [`GRACE`].
    fn status(&mut self) -> Option<ExitStatus> {
        let program = self.program.as_mut()?;
        let began = Instant::now();
        loop {
            match program.try_wait() {
                Ok(None) if began.elapsed() < GRACE => std::thread::sleep(POLL),
                ended => return ended.ok().flatten(),
            }
        }
    }
}

fn in_parentheses(status: Option<ExitStatus>) -> String {
    status.map_or(String::new(), |status| format!(" ({status})"))
}

impl Drop for LinePeer {
    fn drop(&mut self) {
        // A process that is over is not connected any more.
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
        if self.status().is_some() {
            return;
        }
        if let Some(program) = &mut self.program {
            let _ = killpg(Pid::from_raw(program.id() as i32), Signal::SIGKILL);
            let _ = program.wait();
        }
    }
}
