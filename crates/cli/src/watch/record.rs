//! The file of `memweir watch --record`: one row per subject and interval.

use std::io;
use std::path::Path;

use memweir_run::table::{Field, Format, Kind, Table, cells, columns};
use memweir_watch::Row;

use crate::failure::Failure;

/// Returns the fields of a row of an interval that ended at a time.
fn fields<'a>() -> [Field<(f64, &'a Row)>; 13] {
    [
        ("unix_s", Kind::Float, |(unix_s, _)| (*unix_s).into()),
        ("t_s", Kind::Float, |(_, row)| row.t_s.into()),
        ("span_s", Kind::Float, |(_, row)| row.span_s.into()),
        ("jobid", Kind::String, |(_, row)| row.jobid.as_str().into()),
        ("name", Kind::String, |(_, row)| row.name.as_str().into()),
        ("kind", Kind::String, |(_, row)| row.kind.name().into()),
        ("slurm_jobid", Kind::String, |(_, row)| row.slurm_jobid.as_deref().into()),
        ("state", Kind::String, |(_, row)| row.state.name().into()),
        ("cpu_s", Kind::Float, |(_, row)| row.cpu_s.into()),
        ("instructions", Kind::Integer, |(_, row)| row.instructions.into()),
        ("read_bytes", Kind::Integer, |(_, row)| row.read_bytes.into()),
        ("write_bytes", Kind::Integer, |(_, row)| row.write_bytes.into()),
        ("bandwidth", Kind::Float, |(_, row)| row.bandwidth.into()),
    ]
}

/// Begins a record in the format that the file's ending names.
pub(super) fn begin(path: &Path) -> Result<Table, Failure> {
    let format = Format::of(path).map_err(|r| r.written_in("command line").key("--record"))?;
    Table::create(path, format, columns(&fields())).map_err(|error| Failure::write(path, error))
}

/// Appends the rows of an interval that ended at `unix_s`; they are on disk when this returns.
pub(super) fn append(record: &mut Table, unix_s: f64, rows: &[Row]) -> io::Result<()> {
    let cells: Vec<_> = rows.iter().map(|row| cells(&fields(), &(unix_s, row))).collect();
    record.append(&cells)
}
