//! The timeline of a paged program: one row per look at its counters.
//!
//! Rows are in a CSV file as soon as they are known, so a run that is killed loses nothing. For a
//! figure that file is `FILE.partial.csv`, which stays until the figure is drawn.

use std::io;
use std::path::Path;

use memweir_core::input::Refusal;
use memweir_core::names::by_ending;
use memweir_core::{Bytes, Seconds};
use memweir_linux::journal::Journal;
use serde::{Deserialize, Serialize};

/// The counts at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Time since the start of the program.
    pub t_s: Seconds,
    /// Pages copied to the NVM so far.
    pub evictions: u64,
    /// Faults answered by mapping a page of the NVM, so far.
    pub direct_reads: u64,
    /// Pages copied back to DRAM so far.
    pub copies_in: u64,
    /// Pages read in place and not copied, so far.
    pub copies_avoided: u64,
    /// Managed pages in DRAM now.
    pub dram_resident_bytes: Bytes,
    /// Pages in NVM now.
    pub nvm_used_bytes: Bytes,
    /// Anonymous memory in DRAM now of programs that are not paged.
    pub dram_unpaged_bytes: Bytes,
}

/// The format of a timeline, by the ending of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rows.
    Csv,
    /// A figure, drawn at the end from rows that are kept until then.
    Svg,
}

impl Format {
    /// Returns the format that the ending of `path` names.
    ///
    /// # Errors
    /// Refuses other endings.
    pub fn of(path: &Path) -> Result<Self, Refusal> {
        by_ending(path, "a timeline of paging", [("csv", Self::Csv), ("svg", Self::Svg)])
    }
}

/// A timeline that is being written.
#[derive(Debug)]
pub struct Timeline {
    journal: Journal,
    /// The rows of a figure; absent in a file of rows.
    rows: Option<Vec<Row>>,
}

impl Timeline {
    /// Starts the file at `path`, replacing what is there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path, format: Format) -> io::Result<Self> {
        Ok(match format {
            Format::Csv => Self { journal: Journal::at(path)?, rows: None },
            Format::Svg => Self { journal: Journal::beside(path)?, rows: Some(Vec::new()) },
        })
    }

    /// Appends a row; it is in the file when this returns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, row: Row) -> io::Result<()> {
        if let Some(rows) = &mut self.rows {
            rows.push(row);
        }
        self.journal.append(&[row])
    }

    /// Gives the timeline up after a failure: see [`Journal::abandon`].
    #[must_use]
    pub fn abandon(self) -> String {
        self.journal.abandon()
    }

    /// Ends the timeline. For a figure `draw` draws the rows, and the file that kept them is
    /// removed when it has.
    ///
    /// # Errors
    /// The errors of `draw`.
    pub fn finish<E>(self, draw: impl FnOnce(&[Row]) -> Result<(), E>) -> Result<(), E> {
        if let Some(rows) = &self.rows {
            draw(rows)?;
            // The figure is there; a file too many is not worth failing for.
            let _ = self.journal.remove();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(t: f64, evictions: u64) -> Row {
        Row { t_s: Seconds(t), evictions, ..Row::default() }
    }

    fn rows_of(path: &Path) -> Vec<Row> {
        let mut reader = csv::Reader::from_path(path).unwrap();
        reader.deserialize().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn rows_are_in_the_file_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let mut timeline = Timeline::create(&path, Format::of(&path).unwrap()).unwrap();
        timeline.append(row(0.0, 0)).unwrap();
        timeline.append(row(0.1, 7)).unwrap();
        assert_eq!(rows_of(&path), [row(0.0, 0), row(0.1, 7)]);
        timeline.finish(|_| -> Result<(), io::Error> { panic!("nothing to draw") }).unwrap();
        assert_eq!(rows_of(&path).len(), 2);
    }

    #[test]
    fn a_figure_that_cannot_be_drawn_leaves_its_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.svg");
        let kept = folder.path().join("t.svg.partial.csv");
        let start = || {
            let mut timeline = Timeline::create(&path, Format::of(&path).unwrap()).unwrap();
            timeline.append(row(0.5, 3)).unwrap();
            timeline
        };
        assert_eq!(start().finish(|_| Err("no")), Err("no"));
        assert_eq!(rows_of(&kept), [row(0.5, 3)]);
        let draw = |rows: &[Row]| {
            assert_eq!(rows, [row(0.5, 3)]);
            Ok::<_, ()>(())
        };
        assert_eq!(start().finish(draw), Ok(()));
        assert!(!kept.exists());
    }

    #[test]
    fn a_timeline_that_is_given_up_leaves_rows_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let start = |name: &str| {
            let path = folder.path().join(name);
            Timeline::create(&path, Format::of(&path).unwrap()).unwrap()
        };
        for name in ["t.csv", "t.svg"] {
            assert_eq!(start(name).abandon(), "");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
        }
        let mut timeline = start("t.svg");
        timeline.append(row(0.5, 3)).unwrap();
        assert!(timeline.abandon().contains("t.svg.partial.csv"));
        assert_eq!(rows_of(&folder.path().join("t.svg.partial.csv")), [row(0.5, 3)]);
    }

    #[test]
    fn the_ending_says_what_is_written() {
        assert_eq!(Format::of(Path::new("x.SVG")), Ok(Format::Svg));
        assert!(Format::of(Path::new("x")).is_err());
        let wrong = Format::of(Path::new("x.csvx")).unwrap_err();
        assert!(wrong.help.unwrap().contains("did you mean `csv`"));
    }
}
