//! The file of `memweir watch --record`: one row per subject and interval.

use std::path::{Path, PathBuf};

use memweir_run::table::{Cell, Column, Format, Kind, Table};
use memweir_watch::Row;

use crate::failure::Failure;

const COLUMNS: [(&str, Kind); 13] = [
    ("unix_s", Kind::Number),
    ("t_s", Kind::Number),
    ("span_s", Kind::Number),
    ("jobid", Kind::Text),
    ("name", Kind::Text),
    ("kind", Kind::Text),
    ("slurm_jobid", Kind::Text),
    ("state", Kind::Text),
    ("cpu_s", Kind::Number),
    ("instructions", Kind::Whole),
    ("read_bytes", Kind::Whole),
    ("write_bytes", Kind::Whole),
    ("bandwidth", Kind::Number),
];

/// A record that is being written.
pub(super) struct Record {
    path: PathBuf,
    table: Table,
}

impl Record {
    /// Begins a record in the format that the file's ending names.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let format = Format::of(path).map_err(|r| r.written_in("command line").key("--record"))?;
        let columns = COLUMNS.map(|(name, kind)| Column { name: name.to_owned(), kind });
        let table = Table::create(path, format, columns.into())
            .map_err(|error| Failure::write(path, error))?;
        Ok(Self { path: path.to_owned(), table })
    }

    /// Appends the rows of an interval that ended at `unix_s`; they are on disk when this returns.
    pub(super) fn append(&mut self, unix_s: f64, rows: &[Row]) -> Result<(), Failure> {
        let cells: Vec<_> = rows.iter().map(|row| cells(unix_s, row)).collect();
        self.table.append(&cells).map_err(|error| Failure::write(&self.path, error))
    }

    /// Ends the file.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.table.finish_as_appended().map_err(|error| Failure::write(&self.path, error))
    }
}

fn cells(unix_s: f64, row: &Row) -> [Cell; 13] {
    [
        unix_s.into(),
        row.t_s.into(),
        row.span_s.into(),
        row.jobid.as_str().into(),
        row.name.as_str().into(),
        row.kind.name().into(),
        row.slurm_jobid.as_deref().into(),
        row.state.name().into(),
        row.cpu_s.into(),
        row.instructions.into(),
        row.read_bytes.into(),
        row.write_bytes.into(),
        row.bandwidth.into(),
    ]
}
