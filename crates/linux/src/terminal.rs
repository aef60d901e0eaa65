//! The terminal behind standard input.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Outcome of a wait for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// There is some, or a signal came.
    Ready,
    /// There is none.
    None,
    /// There will never be any: the terminal is closed.
    Gone,
}

/// Waits for input, at most for this time.
///
/// # Errors
/// If standard input cannot be waited for.
pub fn wait_for_input(limit: Duration) -> io::Result<Input> {
    wait_for(std::io::stdin().as_fd(), limit)
}

fn wait_for(file: impl AsFd, limit: Duration) -> io::Result<Input> {
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    let mut files = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    match poll(&mut files, limit) {
        Ok(0) => Ok(Input::None),
        Err(Errno::EINTR) => Ok(Input::Ready),
        Err(errno) => Err(errno.into()),
        Ok(_) => {
            let found = files[0].revents().unwrap_or(PollFlags::empty());
            let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
            Ok(if found.intersects(gone) { Input::Gone } else { Input::Ready })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::{Read, Write};
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::OFlag;
    use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

    use super::*;

    #[test]
    fn input_is_there_or_not_or_never_again() {
        // Programs that other tests start must not keep the terminal open.
        let mut master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname_r(&master).unwrap();
        let mut terminal =
            OpenOptions::new().read(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name).unwrap();
        let wait = |terminal: &std::fs::File, limit| wait_for(terminal, limit).unwrap();
        assert_eq!(wait(&terminal, Duration::from_millis(1)), Input::None);
        master.write_all(b"line\n").unwrap();
        // A thread of the kernel hands the line on.
        assert_eq!(wait(&terminal, Duration::from_secs(300)), Input::Ready);
        terminal.read_exact(&mut [0; 5]).unwrap();
        drop(master);
        // The line is read before, since a process that another test has forked keeps the other
        // end until its exec, and an unread line ends the wait for that.
        assert_eq!(wait(&terminal, Duration::from_secs(300)), Input::Gone);
    }
}
