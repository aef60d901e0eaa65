//! Signals that ask a command to end (SIGINT, SIGTERM and SIGHUP), and SIGXFSZ.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

pub use nix::sys::signal::Signal;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, sigaction};

/// Returns the signals by which a user, a supervisor or a closing terminal ends this command: those
/// that it does not ignore. `nohup` starts a program that ignores SIGHUP, and a script's `&` one
/// that ignores SIGINT. Such a signal must not be blocked, because the kernel keeps it then.
#[must_use]
pub fn end_signals() -> SigSet {
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    signals.into_iter().filter(|signal| !is_ignored(*signal)).collect()
}

/// Returns true if this process ignores a signal.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only writes the present one, and there is room for it.
    let failed = unsafe { libc::sigaction(signal as i32, ptr::null(), action.as_mut_ptr()) } != 0;
    // SAFETY: the call has written the action, because it did not fail.
    !failed && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Signals that are blocked in the thread that makes this, until it is dropped.
#[derive(Debug)]
pub(crate) struct BlockedSignals {
    before: SigSet,
}

impl BlockedSignals {
    /// Blocks these signals besides those that are blocked already.
    ///
    /// # Errors
    /// If the kernel refuses the mask.
    pub(crate) fn new(signals: &SigSet) -> io::Result<Self> {
        Ok(Self { before: signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)? })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

/// Blocks [`end_signals`] in the calling thread. Threads that it starts inherit the mask, so call
/// this before there are any.
///
/// # Errors
/// If the kernel refuses the mask.
pub fn block_end_signals() -> io::Result<()> {
    Ok(end_signals().thread_block()?)
}

/// Blocks [`end_signals`], as [`block_end_signals`] does, and from now on calls `handle` on a
/// thread of its own for each that arrives.
///
/// # Errors
/// If the kernel refuses the mask.
pub fn handle_end_signals(mut handle: impl FnMut() + Send + 'static) -> io::Result<()> {
    block_end_signals()?;
    std::thread::spawn(move || {
        let signals = end_signals();
        while signals.wait().is_ok() {
            handle();
        }
    });
    Ok(())
}

/// From now on a write beyond the limit of a file's size (`ulimit -f`) fails with EFBIG in this
/// process, which SIGXFSZ would end otherwise. Programs that it starts have the default action,
/// because exec removes handlers.
pub fn let_large_writes_fail() {
    extern "C" fn nothing(_: libc::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing, which is safe at any point of any thread.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &action) };
}

/// Returns the name of a signal (`SIGKILL`), or `signal 64` where it has none.
#[must_use]
pub fn name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |s| s.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(name(9), "SIGKILL");
        assert_eq!(name(64), "signal 64");
    }
}
