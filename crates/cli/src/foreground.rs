//! The end of a program in the foreground, as `color run` and `page run` show it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use memweir_linux::preload::UnreachedProgram;
use memweir_linux::tell;

use crate::failure::Outcome;

/// Interval for a program that needs no checks while it runs.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

/// Reports the end of the program, unless it ended well.
pub(crate) fn tell(command: &[OsString], status: ExitStatus) {
    let name = command[0].to_string_lossy();
    match (status.code(), status.signal()) {
        (Some(0), _) => {}
        (Some(code), _) => tell!("{name} ended with status {code}"),
        (None, signal) => tell!("{name} was ended by signal {}", signal.unwrap_or(0)),
    }
}

/// Ends this command as the program ended: with its status, or with 128 and the number of the
/// signal that ended it, as shells and other wrappers do.
pub(crate) fn outcome(status: ExitStatus) -> Outcome {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Outcome::Program(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Programs that the preload library did not reach and their memory, in parentheses; empty if there
/// are none.
pub(crate) fn memory_of<'a>(programs: impl Iterator<Item = &'a UnreachedProgram>) -> String {
    let told: Vec<String> =
        programs.map(|p| format!("{}: {} in DRAM at most", p.program, p.dram_peak_bytes)).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

/// The words of a command as text, for reports.
pub(crate) fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
