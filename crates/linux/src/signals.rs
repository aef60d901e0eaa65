//! Signals that ask a command to end: SIGINT, SIGTERM and SIGHUP.

use std::io;

use nix::sys::signal::SigSet;
pub use nix::sys::signal::Signal;

/// Signals by which a user, a supervisor or a closing terminal ends a command.
pub const END_SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Blocks [`END_SIGNALS`] in the calling thread. Threads that it starts inherit the mask, so call
/// this before there are any.
///
/// # Errors
/// If the kernel refuses the mask.
pub fn block_end_signals() -> io::Result<()> {
    Ok(SigSet::from_iter(END_SIGNALS).thread_block()?)
}

/// Blocks [`END_SIGNALS`], as [`block_end_signals`] does, and from now on calls `handle` on a
/// thread of its own for each that arrives.
///
/// # Errors
/// If the kernel refuses the mask.
pub fn handle_end_signals(mut handle: impl FnMut() + Send + 'static) -> io::Result<()> {
    block_end_signals()?;
    std::thread::spawn(move || {
        let signals = SigSet::from_iter(END_SIGNALS);
        while signals.wait().is_ok() {
            handle();
        }
    });
    Ok(())
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
