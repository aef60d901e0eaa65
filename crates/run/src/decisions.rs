//! Files of decisions: a [`memweir_policy::record`] that grows while a batch runs.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_policy::record::{Call, Header, Record};

/// A record that is being written. Each line is handed to the kernel whole, so that whatever ends
/// memweir leaves a file that can be read up to its last line.
#[derive(Debug)]
pub struct DecisionLog {
    path: PathBuf,
    file: File,
}

impl DecisionLog {
    /// Starts the file at `path` with its header, replacing what is there.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(header.line().as_bytes())?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends calls; they are in the file when this returns.
    pub fn append(&mut self, calls: &[Call]) -> io::Result<()> {
        let lines: String = calls.iter().map(Call::line).collect();
        self.file.write_all(lines.as_bytes())
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
/// If the file cannot be read or is no record.
pub fn read(path: &Path) -> Result<Record, InputError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| InputError::new(&name, format!("cannot be read: {error}")))?;
    // What was cut may end within a character.
    Record::parse(&name, &String::from_utf8_lossy(&bytes))
}
