//! Rows of CSV that are in a file as soon as they are known, so that work that is killed loses
//! nothing.
//!
//! A result in another format is written at the end of the work. Until then its rows wait beside
//! it, in `FILE.partial.csv`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::private;

/// A file of rows that is being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    writer: csv::Writer<File>,
    /// True if the file is the result itself.
    is_result: bool,
}

impl Journal {
    /// Starts the file at `path`, replacing what is there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn at(path: &Path) -> io::Result<Self> {
        let writer = csv::Writer::from_writer(File::create(path)?);
        Ok(Self { path: path.to_owned(), writer, is_result: true })
    }

    /// Starts the file beside the result at `path`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn beside(path: &Path) -> io::Result<Self> {
        let path = with_ending(path, ".partial.csv");
        // The caller knows the result's name alone.
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let writer = csv::Writer::from_writer(private::create(&path).map_err(named)?);
        Ok(Self { path, writer, is_result: false })
    }

    /// Appends rows; they are in the file when this returns. If the first one is a struct, a head
    /// with the names of its fields precedes it.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn append<T: Serialize>(&mut self, rows: &[T]) -> io::Result<()> {
        for row in rows {
            self.writer.serialize(row).map_err(io::Error::other)?;
        }
        self.writer.flush()
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, unless it is the result itself, once the result is written.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        if self.is_result { Ok(()) } else { fs::remove_file(&self.path) }
    }

    /// Gives the file up after a failure. Removes it if it has no whole row behind its head;
    /// otherwise cuts half a row off and, unless it is the result itself, returns a clause that
    /// names it. Devices and pipes stay as they are.
    #[must_use]
    pub fn abandon(self) -> String {
        let Self { path, writer, is_result } = self;
        // The writer tries the rest once more, which may leave half of a row.
        drop(writer);
        if !path.is_file() {
            return String::new();
        }
        let rows = fs::read(&path).unwrap_or_default();
        let end_of_line = |index: usize| index + 1;
        let head = rows.iter().position(|byte| *byte == b'\n').map_or(0, end_of_line);
        let whole = rows.iter().rposition(|byte| *byte == b'\n').map_or(0, end_of_line);
        if whole <= head {
            let _ = fs::remove_file(&path);
            return String::new();
        }
        let cut = File::options().write(true).open(&path);
        let _ = cut.and_then(|file| file.set_len(whole as u64));
        match is_result {
            true => String::new(),
            false => format!("; the rows so far are in {}", path.display()),
        }
    }
}

/// Returns `path` with more at its end: `t.csv` becomes `t.csv.partial`.
#[must_use]
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_journal_that_is_given_up_keeps_whole_rows_and_no_empty_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv");
        let mut empty = Journal::at(&path).unwrap();
        empty.append(&[["quantum", "name"]]).unwrap();
        assert!(empty.abandon().is_empty() && !path.exists());

        let mut journal = Journal::beside(&path).unwrap();
        let kept = directory.path().join("t.csv.partial.csv");
        assert_eq!(journal.path(), kept);
        journal.append(&[["quantum", "name"], ["0", "a,b"]]).unwrap();
        let mut half = File::options().append(true).open(&kept).unwrap();
        half.write_all(b"1,half of a n").unwrap();
        let named = format!("; the rows so far are in {}", kept.display());
        assert_eq!(journal.abandon(), named);
        assert_eq!(fs::read_to_string(&kept).unwrap(), "quantum,name\n0,\"a,b\"\n");
    }

    #[test]
    fn what_is_in_the_way_beside_a_result_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.svg");
        std::os::unix::fs::symlink("/dev/null", with_ending(&path, ".partial.csv")).unwrap();
        let refused = Journal::beside(&path).unwrap_err().to_string();
        assert!(refused.ends_with("t.svg.partial.csv: it is a symbolic link"), "{refused}");
    }

    #[test]
    fn a_full_disk_is_an_error_and_no_panic() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return memweir_test_support::skip!(Kernel, "no /dev/full here");
        }
        let mut journal = Journal::at(full).unwrap();
        assert!(journal.append(&[["0", "a"]]).is_err());
        assert_eq!(journal.abandon(), "");
    }
}
