//! Signals that end a command early: the measurements so far are shown, unfinished files vanish.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use memweir_core::Stop;
use memweir_linux::signals;

use crate::failure::Failure;

/// The exit code of a command that a signal ended.
const INTERRUPTED: i32 = 130;

/// Set by the first signal.
static STOP: AtomicBool = AtomicBool::new(false);

/// Catches SIGINT, SIGTERM and SIGHUP from now on. The first one sets the returned flag; the second
/// one ends the command at once. Call this before other threads start, which inherit the mask.
pub(crate) fn catch() -> Result<&'static AtomicBool, Failure> {
    signals::handle_end_signals(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    })
    .map_err(refused)?;
    Ok(&STOP)
}

/// Catches these signals likewise, for simulations: the first one makes the returned request.
pub(crate) fn request() -> Result<Stop, Failure> {
    let stop = Stop::default();
    let requested = stop.clone();
    signals::handle_end_signals(move || {
        if requested.is_requested() {
            std::process::exit(INTERRUPTED);
        }
        requested.request();
    })
    .map_err(refused)?;
    Ok(stop)
}

/// Ends the command at once when one of these signals arrives from now on, and removes its
/// `unfinished` files. Call this before other threads start, which inherit the mask.
pub(crate) fn remove(unfinished: Vec<PathBuf>) -> Result<(), Failure> {
    if unfinished.is_empty() {
        return Ok(());
    }
    signals::handle_end_signals(move || {
        for file in &unfinished {
            let _ = std::fs::remove_file(file);
        }
        std::process::exit(INTERRUPTED);
    })
    .map_err(refused)
}

/// Blocks these signals, which the loop of a batch takes; threads made from here on inherit the
/// mask.
pub(crate) fn block() -> Result<(), Failure> {
    signals::block_end_signals().map_err(refused)
}

fn refused(error: std::io::Error) -> Failure {
    Failure::Machine(format!("cannot block signals: {error}"))
}
