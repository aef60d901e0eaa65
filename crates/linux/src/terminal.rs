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
    use std::io::Write;

    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use nix::pty::openpty;

    use super::*;

    #[test]
    fn input_is_there_or_not_or_never_again() {
        let pair = openpty(None, None).unwrap();
        // The programs that other tests start must not keep it.
        fcntl(&pair.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let wait = || wait_for(&pair.slave, Duration::from_millis(1)).unwrap();
        assert_eq!(wait(), Input::None);
        let mut master = std::fs::File::from(pair.master);
        master.write_all(b"line\n").unwrap();
        assert_eq!(wait(), Input::Ready);
        drop(master);
        // A process that another test has forked has it until its exec.
        assert_eq!(wait_for(&pair.slave, Duration::from_secs(10)).unwrap(), Input::Gone);
    }
}
