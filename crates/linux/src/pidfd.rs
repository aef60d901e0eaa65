//! Descriptors of processes, whose meaning does not change when a process id is used again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::signal::Signal;

/// A descriptor of a process. Becomes readable when the process ends.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process that has this id now; `None` if there is none. The caller then checks that
    /// it is the one that was meant: the descriptor pins it, so the answer stays true.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor, or has no pidfds (before Linux 5.3).
    pub fn open(pid: i32) -> io::Result<Option<Self>> {
        // SAFETY: pidfd_open takes no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return unless_ended(io::Error::last_os_error()).map(|()| None);
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) })))
    }

    /// Sends a signal to the process. A process that has ended is no error.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the kernel makes the signal's information itself where none is given.
        let sent = unsafe {
            let (fd, signal) = (self.0.as_raw_fd(), signal as i32);
            libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, 0)
        };
        if sent < 0 { unless_ended(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn unless_ended(error: io::Error) -> io::Result<()> {
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_signal_reaches_the_process_that_was_opened() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = PidFd::open(child.id() as i32).unwrap().expect("it runs");
        process.send(Signal::SIGKILL).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        process.send(Signal::SIGKILL).expect("a process that has ended is no error");
    }

    #[test]
    fn an_id_of_no_process_opens_nothing() {
        assert!(PidFd::open(i32::MAX).unwrap().is_none());
    }
}
