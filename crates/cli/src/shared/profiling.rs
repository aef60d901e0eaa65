//! Recording of a profile: the emulator that it may need, the line that shows its progress, and its
//! way into the store.

use std::io;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use memweir_linux::launch::Signals;
use memweir_linux::qemu::QemuPaths;
use memweir_run::profile::{ProfileProgress, Profiled};
use memweir_run::store::{Invocation, ProgramKey, Store, StoreError};

use crate::failure::Failure;
use crate::guardian;
use crate::render::{progress, text};

/// The emulator of the software meter.
#[derive(Debug, clap::Args)]
pub(crate) struct QemuArgs {
    /// The qemu-x86_64 of the software meter [default: from PATH]
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// The plugin of the software meter [default: the installed one]
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
}

impl QemuArgs {
    pub(crate) fn paths(&self) -> QemuPaths {
        QemuPaths { emulator: self.qemu.clone(), plugin: self.plugin.clone() }
    }
}

/// Catches the signals that end or suspend a profile.
pub(crate) fn signals() -> Result<Signals, Failure> {
    let signals = Signals::caught().and_then(|caught| caught.suspendable(guardian::command()));
    signals.map_err(|error| Failure::Machine(format!("cannot catch signals: {error}")))
}

/// Returns the key under which the profile of an invocation that is about to run is stored.
pub(crate) fn key(invocation: &Invocation) -> Result<ProgramKey, Failure> {
    ProgramKey::of(invocation)
        .map_err(|error| Failure::Machine(format!("{}: {error}", invocation.program.display())))
}

/// Puts a profile into the store, if its runs make one.
pub(crate) fn keep(store: &Store, key: &ProgramKey, profiled: &Profiled) -> Result<(), Failure> {
    profiled.keep(store, key).map_err(not_kept)
}

/// Opens a store to put profiles into it.
pub(crate) fn open(store: Option<&Path>) -> Result<Store, Failure> {
    Store::open(store).map_err(not_kept)
}

/// The failure behind a store that takes no profile.
pub(crate) fn not_kept(error: StoreError) -> Failure {
    match error {
        StoreError::Invalid(input) => input.into(),
        error => Failure::Write { what: "the profile".to_owned(), source: io::Error::other(error) },
    }
}

/// A line at the foot of the terminal, hidden where standard error is not a terminal.
pub(crate) fn spinner(prefix: &str) -> ProgressBar {
    // Setting the prefix of a bar draws it, also above the lines that it is yet to be put among.
    progress::bar(None, "{spinner} {prefix}{wide_msg}").with_prefix(prefix.to_owned())
}

/// Shows the progress of a profile.
pub(crate) fn show(bar: &ProgressBar, progress: ProfileProgress) {
    bar.set_message(match progress {
        ProfileProgress::Native { elapsed } => {
            format!("native run, {}", text::seconds(elapsed.as_secs_f64()))
        }
        ProfileProgress::Emulated { instructions, expected } => {
            let left = time_left(bar, instructions, expected);
            format!("under the emulator, {}{left}", millions(instructions))
        }
        ProfileProgress::Checking { instructions } => {
            format!("checking in full, {}", millions(instructions))
        }
    });
    bar.tick();
}

/// The time that is left: nothing before a twentieth of it is over, nor once there are more
/// instructions than expected.
fn time_left(bar: &ProgressBar, instructions: u64, expected: u64) -> String {
    if bar.position() == 0 {
        bar.reset_eta();
    }
    bar.set_length(expected);
    bar.set_position(instructions.max(1));
    match (expected / 20..expected).contains(&instructions) {
        true => format!(", perhaps {} s left", bar.eta().as_secs()),
        false => String::new(),
    }
}

fn millions(instructions: u64) -> String {
    format!("{} million instructions", text::count(instructions / 1_000_000))
}
