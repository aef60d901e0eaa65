//! Reports of wrong input: file, line, key, reason, and the nearest valid choice.

mod document;
mod replace;

pub use document::{Document, Section, Value, short};
pub use replace::{KeyPath, Replaced, Replacement, key_and_value, read_replacing, values};

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::names::choose;

/// Input that was refused before any work started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InputError {
    /// The file, or a substitute (`command line`).
    pub source_name: String,
    /// The line, counted from one.
    pub line: Option<usize>,
    /// The key or field, as it is written in the file (`jobs[2].command`).
    pub key: Option<String>,
    /// Reason for the refusal.
    pub reason: String,
    /// Suggestion of a valid input.
    pub help: Option<String>,
}

impl InputError {
    /// Creates a refusal of something in `source_name`.
    pub fn new(source_name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            source_name: source_name.into(),
            line: None,
            key: None,
            reason: reason.into(),
            help: None,
        }
    }

    /// Creates the refusal of a file that cannot be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::new(path.display().to_string(), format!("cannot be read: {error}"))
    }

    /// Sets the line, counted from one.
    #[must_use]
    pub fn line(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    /// Sets the line to that in which the byte range `span` of `text` starts.
    #[must_use]
    pub fn at(self, text: &str, span: Range<usize>) -> Self {
        let start = span.start.min(text.len());
        let line = text.as_bytes()[..start].iter().filter(|b| **b == b'\n').count() + 1;
        self.line(line)
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the suggestion of a valid input.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Suggests the command that reads the file, if the refused key is one that only files of
    /// another command have.
    #[must_use]
    pub fn of_another_command(self) -> Self {
        let refused = self.key.as_deref().unwrap_or_default();
        match KINDS.iter().find(|(keys, _)| keys.contains(&refused)) {
            Some((_, command)) => self.help(format!("this file is for `{command}`")),
            None => self,
        }
    }
}

/// Keys that only the files of one command have at their top, and that command.
const KINDS: [(&[&str], &str); 3] = [
    (&["jobs", "pinning", "on_exit", "mechanism", "meter"], "memweir run"),
    (&["machine", "policies", "fidelity", "tasks", "mix", "programs"], "memweir sim"),
    (&["apps", "group", "swaps", "dram_mib", "swap_mib"], "memweir page sim"),
];

impl fmt::Display for InputError {
    /// `jobs.toml:12: jobs[1].policy: unknown policy `x`` and, on a line of its own, the help.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source_name)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": ")?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        write!(f, "{}", self.reason)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Refusal of a value whose place in the input is not yet known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Reason for the refusal.
    pub reason: String,
    /// Suggestion of a valid input.
    pub help: Option<String>,
}

impl Refusal {
    /// Creates a refusal for `reason`, with `help`.
    pub fn new(reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self { reason: reason.into(), help: Some(help.into()) }
    }

    /// Creates a refusal for `reason`, without a suggestion.
    pub fn plain(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), help: None }
    }

    /// Sets the suggestion of a valid input.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Returns reason and help as one sentence: `unknown policy `x`: valid: os, random`.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.help {
            Some(help) => format!("{}: {help}", self.reason),
            None => self.reason.clone(),
        }
    }

    /// Converts the refusal to that of something written in `source_name`.
    #[must_use]
    pub fn written_in(self, source_name: &str) -> InputError {
        self.placed(|reason| InputError::new(source_name, reason))
    }

    /// Converts the refusal to one with a place: `refuse` makes it from the reason.
    #[must_use]
    pub fn placed(self, refuse: impl FnOnce(String) -> InputError) -> InputError {
        InputError { help: self.help, ..refuse(self.reason) }
    }
}

/// Returns the text of the data file that comes with memweir under `name`; `what` is its kind in
/// messages: `medium`.
///
/// # Errors
/// If there is none; the error suggests the nearest name.
pub fn shipped(
    what: &str,
    name: &str,
    files: &[(&'static str, &'static str)],
) -> Result<&'static str, Refusal> {
    choose(what, name, files.iter().copied()).map_err(|refusal| {
        let names = refusal.help.unwrap_or_default();
        Refusal::new(refusal.reason, format!("{names}; or a file that ends in `.toml`"))
    })
}

/// A data file that the user chose: a shipped one by its name, or another by its path.
#[derive(Clone, Debug)]
pub struct DataFile<'a> {
    /// Its name in messages.
    pub name: Cow<'a, str>,
    /// Its content.
    pub text: Cow<'static, str>,
    /// The directory that paths in it start at.
    pub directory: PathBuf,
}

impl<'a> DataFile<'a> {
    /// Finds the file that `choice` names: one of `files`, which come with memweir, or, if it ends
    /// in `.toml`, one relative to `directory`, whose text `read` returns. `what` is its kind in
    /// messages: `medium`.
    ///
    /// # Errors
    /// If there is none; the error suggests the nearest name. If it cannot be read.
    pub fn find(
        what: &str,
        choice: &'a str,
        files: &[(&'static str, &'static str)],
        directory: &Path,
        read: fn(PathBuf) -> io::Result<String>,
    ) -> Result<Self, Refusal> {
        if !choice.ends_with(".toml") {
            let text = shipped(what, choice, files)?.into();
            return Ok(Self { name: choice.into(), text, directory: directory.to_owned() });
        }
        let path = directory.join(choice);
        let name = path.display().to_string();
        let text = read(path.clone())
            .map_err(|error| Refusal::plain(format!("{name}: cannot be read: {error}")))?;
        let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Self { name: name.into(), text: text.into(), directory })
    }

    /// Returns its name and text.
    #[must_use]
    pub fn document(&self) -> Document<'_> {
        Document { name: &self.name, text: &self.text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_files_are_found_by_name_or_path() {
        let find = |choice| {
            let files = [("pram", "shipped")];
            DataFile::find("medium", choice, &files, Path::new("dir"), |path| match path.to_str() {
                Some("dir/sub/mine.toml") => Ok("mine".to_owned()),
                _ => Err(io::ErrorKind::NotFound.into()),
            })
        };
        let shipped = find("pram").unwrap();
        assert_eq!((&*shipped.name, &*shipped.text), ("pram", "shipped"));
        assert_eq!(shipped.directory, Path::new("dir"));
        let own = find("sub/mine.toml").unwrap();
        assert_eq!((&*own.name, &*own.text), ("dir/sub/mine.toml", "mine"));
        assert_eq!(own.directory, Path::new("dir/sub"));
        let unknown = find("prm").unwrap_err().sentence();
        assert!(unknown.contains("unknown medium `prm`: did you mean `pram`"), "{unknown}");
        let absent = find("pram.toml").unwrap_err().sentence();
        assert!(absent.starts_with("dir/pram.toml: cannot be read: "), "{absent}");
    }

    #[test]
    fn whole_numbers_have_a_range() {
        let read = |text: &str| {
            let mut root = Document { name: "f", text }.parse().unwrap();
            let value = root.require("n").unwrap();
            value.whole_in(2..=300u16).map_err(|error| error.to_string())
        };
        assert_eq!((read("n = 2"), read("n = 0x12c")), (Ok(2), Ok(300)));
        for (number, said) in [("1", "1"), ("301", "301"), ("-2", "-2"), ("65538", "65538")] {
            let refused = read(&format!("n = {number}")).unwrap_err();
            let help = "\n  help: a whole number, from 2 to 300";
            assert_eq!(refused, format!("f:1: n: {said} is out of range{help}"));
        }
        let fraction = read("n = 2.9").unwrap_err();
        assert!(fraction.contains("must be a whole number"), "{fraction}");
    }

    #[test]
    fn says_file_line_key_reason_and_help() {
        let text = "quantum_ms = 100\npolcy = \"os\"\n";
        let error = InputError::new("jobs.toml", "unknown key")
            .at(text, 17..22)
            .key("polcy")
            .help("did you mean `policy`?");
        assert_eq!(
            error.to_string(),
            "jobs.toml:2: polcy: unknown key\n  help: did you mean `policy`?"
        );
    }

    #[test]
    fn a_file_of_another_command_is_recognized_by_its_keys() {
        let refused = |key: &str| InputError::new("x.toml", "unknown key").key(key);
        let help = |key: &str| refused(key).of_another_command().help;
        assert_eq!(help("machine").as_deref(), Some("this file is for `memweir sim`"));
        assert_eq!(help("apps").as_deref(), Some("this file is for `memweir page sim`"));
        assert_eq!(help("jobs[0].machine"), None);
    }

    #[test]
    fn a_span_past_the_end_names_the_last_line() {
        let error = InputError::new("x", "cut short").at("a\nb", 99..100);
        assert_eq!(error.line, Some(2));
    }
}
