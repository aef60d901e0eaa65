//! Where results go: files, standard output, and JSON.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// The file name that stands for standard output.
const STDOUT: &str = "-";

/// Whether `path` stands for standard output.
pub(crate) fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == STDOUT)
}

/// Prints to standard output. A reader that has gone away (`memweir ... | head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::stdout(error)),
        _ => Ok(()),
    }
}

/// Writes `value` as JSON to the file, or to standard output for `-`.
pub(crate) fn json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let fail = |error: io::Error| Failure::write(path, error);
    let mut text = serde_json::to_string_pretty(value).map_err(|error| fail(error.into()))?;
    text.push('\n');
    if is_stdout(Some(path)) {
        return print(&text);
    }
    let mut file = BufWriter::new(File::create(path).map_err(fail)?);
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(fail)
}

/// Refuses a result file that cannot be written, before the work that fills it.
pub(crate) fn writable(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path.filter(|path| !is_stdout(Some(path))) else { return Ok(()) };
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .map(|_| ())
        .map_err(|error| Failure::write(path, error))
}
