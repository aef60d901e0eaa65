//! Signals that end a measurement early; the measurements so far are shown.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal};

use crate::failure::Failure;

/// The exit code of a command that a signal ended.
const INTERRUPTED: i32 = 130;

/// Set by the first signal.
static STOP: AtomicBool = AtomicBool::new(false);

/// Catches SIGINT, SIGTERM and SIGHUP from now on. The first one sets the returned flag; the second
/// one ends the command at once. Call this before other threads start, which inherit the mask.
pub(crate) fn catch() -> Result<&'static AtomicBool, Failure> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    signals
        .thread_block()
        .map_err(|error| Failure::Machine(format!("cannot block signals: {error}")))?;
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        }
    });
    Ok(&STOP)
}
