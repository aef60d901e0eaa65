//! Destinations of results: files, standard output, and JSON.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_linux::tell;
use memweir_run::files;
use serde::Serialize;

use crate::failure::Failure;
use crate::render::plot::Figure;

/// The file name that stands for standard output.
const STDOUT: &str = "-";

/// Returns true if `path` stands for standard output.
pub(crate) fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == STDOUT)
}

/// The reader of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// It may read on.
    There,
    /// It has gone away (`memweir ... | head`), which is no failure.
    Gone,
}

/// Prints to standard output, and returns its reader's state, for commands that print on and on.
pub(crate) fn show(text: impl AsRef<[u8]>) -> Result<Reader, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::stdout(error)),
    }
}

/// Prints to standard output, whether it is read or not.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    show(text).map(drop)
}

/// A result with the command that gave it.
#[derive(Serialize)]
struct Described<'a, T> {
    memweir: Provenance,
    #[serde(flatten)]
    result: &'a T,
}

/// The program and the arguments behind a result.
#[derive(Serialize)]
pub(crate) struct Provenance {
    version: &'static str,
    arguments: Vec<String>,
}

impl Provenance {
    pub(crate) fn of_this_run() -> Self {
        let arguments = std::env::args_os().skip(1);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            arguments: arguments.map(|argument| argument.to_string_lossy().into_owned()).collect(),
        }
    }
}

/// Writes a text to a file of the user's choice, or to standard output for `-`.
pub(crate) fn file(path: &Path, text: &str) -> Result<(), Failure> {
    match is_stdout(Some(path)) {
        true => print(text),
        false => fs::write(path, text).map_err(|error| Failure::write(path, error)),
    }
}

/// Writes `value`, a structure or a map, as JSON to the file, or to standard output for `-`.
/// Version and arguments of this run stand before its fields. A file appears whole or not at all.
pub(crate) fn json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    shown_json(path, value).map(drop)
}

fn shown_json(path: &Path, value: &impl Serialize) -> Result<Reader, Failure> {
    let described = Described { memweir: Provenance::of_this_run(), result: value };
    let fail = |error: io::Error| Failure::write(path, error);
    let mut text = serde_json::to_string_pretty(&described).map_err(|error| fail(error.into()))?;
    text.push('\n');
    if is_stdout(Some(path)) {
        return show(&text);
    }
    files::write_atomically(path, text.as_bytes()).map_err(fail)?;
    Ok(Reader::There)
}

/// Draws a figure into a file, which appears whole or not at all.
pub(crate) fn figure(path: &Path, figure: &Figure) -> Result<(), Failure> {
    let svg = figure.to_svg()?;
    files::write_atomically(path, svg.as_bytes()).map_err(|error| Failure::write(path, error))
}

/// Writes a result as JSON to the file of `--json`, if there is one, and shows it as text unless
/// standard output has the JSON. One that fails does not cost the other.
pub(crate) fn report(
    json: Option<&Path>,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    shown_report(json, value, text).map(drop)
}

/// Does as [`report`], and returns the state of standard output's reader.
pub(crate) fn shown_report(
    json: Option<&Path>,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<Reader, Failure> {
    let written = json.map_or(Ok(Reader::There), |path| shown_json(path, value));
    match is_stdout(json) {
        true => written,
        false => both(written.map(drop), show(text())),
    }
}

/// Returns the failure of one of two results; reports the first failure if there are two.
pub(crate) fn both<T>(
    first: Result<(), Failure>,
    second: Result<T, Failure>,
) -> Result<T, Failure> {
    match (first, second) {
        (Ok(()), second) => second,
        (Err(failure), Ok(_)) => Err(failure),
        (Err(first), Err(second)) => {
            tell!("{first}");
            Err(second)
        }
    }
}

/// Writes every result: one that cannot be written does not cost the others. Reports every failure,
/// except for the last, which it returns.
pub(crate) fn each(results: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    results.into_iter().fold(Ok(()), both)
}

/// Refuses results that cannot be written, two of them in one file, and one in the place of an
/// input, before the work that fills them.
pub(crate) fn check<'a>(
    results: impl IntoIterator<Item = &'a Option<PathBuf>>,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let mut taken: HashMap<PathBuf, &str> =
        inputs.into_iter().filter_map(whole_path).map(|path| (path, "an input")).collect();
    for path in results.into_iter().flatten().filter(|path| !is_stdout(Some(path))) {
        if let Some(use_of_it) = whole_path(path).and_then(|it| taken.insert(it, "another result"))
        {
            let reason = format!("`{}` is {use_of_it}, which would be lost", path.display());
            let error = InputError::new("command line", reason);
            return Err(error.help("give each result a file of its own").into());
        }
        writable(Some(path))?;
    }
    Ok(())
}

/// The one path of a regular file, there or not, through whatever links it is named. Devices and
/// pipes have none, since they take any number of results.
fn whole_path(path: &Path) -> Option<PathBuf> {
    match fs::canonicalize(path) {
        Ok(path) => path.is_file().then_some(path),
        Err(_) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
            Some(directory.join(path.file_name()?))
        }
    }
}

/// Refuses a result file that cannot be written, before the work that fills it. Leaves no empty
/// file behind.
pub(crate) fn writable(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path.filter(|path| !is_stdout(Some(path))) else { return Ok(()) };
    // The reader of a named pipe would take a writer that goes away for the end of the result.
    if files::fifo(path).is_some() {
        return Ok(());
    }
    let existed = path.exists();
    let opened = File::options().append(true).create(true).open(path);
    opened.map_err(|error| Failure::write(path, error))?;
    if !existed {
        let _ = fs::remove_file(path);
    }
    Ok(())
}
