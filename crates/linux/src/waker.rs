//! Waking a thread that waits in epoll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A counter that becomes readable when any of its clones wakes it.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Makes a waker that nobody has woken.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes the thread that waits, or lets its next wait end at once.
    pub fn wake(&self) {
        // A counter that is full is readable already.
        let _ = self.0.write(1);
    }

    /// Makes it unreadable again; returns false if it was so already.
    ///
    /// # Errors
    /// If the descriptor cannot be read.
    pub fn reset(&self) -> io::Result<bool> {
        match self.0.read() {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
