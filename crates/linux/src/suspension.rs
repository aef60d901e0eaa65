//! Ctrl-Z: a request to suspend this process (SIGTSTP), which it grants itself once it is ready to.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use memweir_core::Nanos;
use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

use crate::clock;
use crate::signals::is_ignored;
use crate::waker::Waker;

/// The descriptor that the signal's handler wakes; -1 where nobody waits for the signal.
static REQUESTED: AtomicI32 = AtomicI32::new(-1);

/// While it lives, SIGTSTP makes it readable, and the process goes on. A handler does that rather
/// than a signalfd: that would need the signal to be blocked in every thread.
#[derive(Debug)]
pub(crate) struct Suspension {
    requested: Waker,
    /// The action before.
    before: SigAction,
}

impl Suspension {
    /// Waits for requests from now on; `None` if the process ignores them, or another part of it
    /// waits for them.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor or the action.
    pub(crate) fn awaited() -> io::Result<Option<Self>> {
        if is_ignored(Signal::SIGTSTP) {
            return Ok(None);
        }
        let requested = Waker::new()?;
        let descriptor = requested.as_fd().as_raw_fd();
        if REQUESTED.compare_exchange(-1, descriptor, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Ok(None);
        }
        let handler = SigHandler::Handler(request);
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler calls nothing but write, which may be called in any handler.
        match unsafe { sigaction(Signal::SIGTSTP, &action) } {
            Ok(before) => Ok(Some(Self { requested, before })),
            Err(error) => {
                REQUESTED.store(-1, Ordering::SeqCst);
                Err(error.into())
            }
        }
    }

    /// Takes the request for which it is readable; returns false if there is none.
    ///
    /// # Errors
    /// If the descriptor cannot be read.
    pub(crate) fn take(&self) -> io::Result<bool> {
        self.requested.reset()
    }
}

/// Stops this process until somebody continues it, and returns the time for which it stood.
pub(crate) fn stop() -> Nanos {
    let began = clock::monotonic();
    // A thread can always send itself a signal.
    let _ = raise(Signal::SIGSTOP);
    clock::monotonic() - began
}

/// The handler.
extern "C" fn request(_: i32) {
    let error = Errno::last_raw();
    let descriptor = REQUESTED.load(Ordering::SeqCst);
    if descriptor >= 0 {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the eight bytes are readable. A counter that is full is readable already, and the
        // descriptor is open, because the action is taken back before it is closed.
        unsafe { libc::write(descriptor, one.as_ptr().cast(), one.len()) };
    }
    Errno::set_raw(error);
}

impl AsFd for Suspension {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.requested.as_fd()
    }
}

impl Drop for Suspension {
    fn drop(&mut self) {
        // SAFETY: it is the action that the process had before.
        let _ = unsafe { sigaction(Signal::SIGTSTP, &self.before) };
        REQUESTED.store(-1, Ordering::SeqCst);
    }
}
