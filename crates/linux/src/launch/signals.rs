//! Waiting for a process and for signals to memweir at once.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use memweir_core::Nanos;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::Process;
use crate::signals::end_signals;

/// The [`end_signals`], blocked while this lives so that they can be waited for. All threads
/// that wait with the same one learn of a signal.
#[derive(Debug)]
pub struct Signals {
    source: SignalFd,
    caught: OnceLock<Signal>,
    before: SigSet,
}

impl Signals {
    /// Blocks the signals in this thread. The others must have blocked them already.
    ///
    /// # Errors
    /// If the kernel has no descriptor left for them.
    pub fn caught() -> io::Result<Self> {
        let mask = end_signals();
        let source = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&mask), Some(&mut before))?;
        Ok(Self { source, caught: OnceLock::new(), before })
    }

    /// Waits for a signal, for the end of the process, or for `limit`. Returns the first signal, if
    /// one has come.
    ///
    /// # Errors
    /// If the kernel cannot wait for the descriptors.
    pub fn wait(&self, process: &Process, limit: Nanos) -> io::Result<Option<Signal>> {
        let mut files = [
            PollFd::new(process.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.source.as_fd(), PollFlags::POLLIN),
        ];
        let milliseconds = u16::try_from(limit.0.div_ceil(1_000_000)).unwrap_or(u16::MAX);
        match poll(&mut files, PollTimeout::from(milliseconds)) {
            Err(nix::Error::EINTR) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let info = self.source.read_signal()?;
        if let Some(signal) = info.and_then(|i| Signal::try_from(i.ssi_signo.cast_signed()).ok()) {
            let _ = self.caught.set(signal);
        }
        Ok(self.caught.get().copied())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}
