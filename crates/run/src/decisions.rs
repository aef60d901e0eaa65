//! Files of decisions: a [`memweir_policy::record`] that grows while a batch runs.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_policy::record::{Call, Header, Record, end_line};

use crate::files;

/// A record that is being written. Each line is handed to the kernel whole, so that the file can be
/// read up to its last line however memweir ends.
#[derive(Debug)]
pub struct DecisionLog {
    path: PathBuf,
    file: File,
    /// Calls in the file.
    calls: u64,
}

impl DecisionLog {
    /// Starts the file at `path` with its header, replacing what is there.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let written = file.write_all(header.line().as_bytes());
        written.inspect_err(|_| files::remove_unfinished(path))?;
        Ok(Self { path: path.to_owned(), file, calls: 0 })
    }

    /// Appends calls; they are in the file when this returns.
    pub fn append(&mut self, calls: &[Call]) -> io::Result<()> {
        let first = self.calls + 1;
        let lines: String =
            calls.iter().zip(first..).map(|(call, number)| call.line(number)).collect();
        self.file.write_all(lines.as_bytes())?;
        self.calls += calls.len() as u64;
        Ok(())
    }

    /// Writes the end line: the record is complete.
    pub fn finish(&mut self) -> io::Result<()> {
        self.file.write_all(end_line(self.calls).as_bytes())
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads a record.
///
/// # Errors
/// If the file cannot be read or is not a record.
pub fn read(path: &Path) -> Result<Record, InputError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| InputError::unreadable(path, &error))?;
    // The last line may be cut within a character.
    Record::parse(&name, &String::from_utf8_lossy(&bytes))
}
