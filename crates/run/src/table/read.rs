//! Reading tables that are Parquet files.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use memweir_core::input::InputError;
use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};

use super::{Cell, Column, Kind};
use crate::parquet_file;

/// Columns, and rows with a cell for each of them.
pub type Contents = (Vec<Column>, Vec<Vec<Cell>>);

/// Reads a table, or those of its columns that `wanted` accepts by name.
///
/// # Errors
/// If the file cannot be read, is not Parquet, or has a column of a kind that tables do not have.
pub fn read_parquet(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<Contents, InputError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| InputError::unreadable(path, &error))?;
    checked(&name, || contents(file, wanted))
}

/// Reads a table from the content of its file; `name` stands in refusals.
///
/// # Errors
/// As [`read_parquet`].
pub fn parquet_from(
    bytes: Vec<u8>,
    name: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<Contents, InputError> {
    checked(name, || contents(Bytes::from(bytes), wanted))
}

/// Converts the failure of a reader.
fn checked(
    name: &str,
    read: impl FnOnce() -> Result<Contents, ParquetError>,
) -> Result<Contents, InputError> {
    // The Parquet reader is robust against most damage but not proof against all of it.
    let damaged = || ParquetError::General("the Parquet data is damaged".to_owned());
    let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged()));
    outcome.map_err(|error| InputError::new(name, format!("it is no table of results: {error}")))
}

/// Reads the columns that `wanted` accepts by name.
pub(crate) fn contents<R: ChunkReader + 'static>(
    file: R,
    wanted: impl Fn(&str) -> bool,
) -> Result<Contents, ParquetError> {
    let reader = parquet_file::open(file)?;
    let schema = reader.metadata().file_metadata().schema();
    let fields: Vec<TypePtr> =
        schema.get_fields().iter().filter(|field| wanted(field.name())).cloned().collect();
    let columns = fields.iter().map(column).collect::<Result<_, _>>()?;
    let projection = Type::group_type_builder(schema.name()).with_fields(fields).build()?;
    let rows = reader.get_row_iter(Some(projection))?;
    let cells =
        rows.map(|row| row?.into_columns().into_iter().map(|(_, value)| cell(value)).collect());
    Ok((columns, cells.collect::<Result<_, _>>()?))
}

fn column(field: &TypePtr) -> Result<Column, ParquetError> {
    let name = field.name().to_owned();
    let physical = field.is_primitive().then(|| field.get_physical_type());
    let kind = match physical {
        Some(Physical::BYTE_ARRAY) => Kind::String,
        Some(Physical::INT64) => Kind::Integer,
        Some(Physical::DOUBLE) => Kind::Float,
        Some(Physical::BOOLEAN) => Kind::Boolean,
        _ => return Err(ParquetError::General(format!("the column `{name}` is of another kind"))),
    };
    Ok(Column { name, kind })
}

fn cell(value: Field) -> Result<Cell, ParquetError> {
    Ok(match value {
        Field::Null => Cell::Empty,
        Field::Long(value) => Cell::Integer(value),
        Field::Double(value) => Cell::Float(value),
        Field::Str(value) => Cell::String(value),
        Field::Bool(value) => Cell::Boolean(value),
        other => return Err(ParquetError::General(format!("`{other}` is of another kind"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parquet;
    use crate::table::tests::{columns, rows};

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.parquet");
        let bytes = parquet(&columns(), &rows()).expect("memory");
        std::fs::write(&path, &bytes).expect("space");
        assert_eq!(read_parquet(&path, |_| true).expect("a table"), (columns(), rows()));
        let (one, seeds) = read_parquet(&path, |name| name == "seed").expect("a table");
        assert_eq!(one, columns()[1..2]);
        assert_eq!(seeds, [[Cell::Integer(7)], [Cell::Empty]]);

        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("space");
        let refused = read_parquet(&path, |_| true).expect_err("half of a file").to_string();
        assert!(refused.contains("t.parquet: it is no table of results"), "{refused}");
    }

    #[test]
    fn what_would_take_billions_of_steps_or_bytes_is_refused_before() {
        for (found, reason) in [
            ("dictionary-of-millions", "the pages are damaged"),
            ("children-beyond-numbers", "the metadata is damaged"),
            ("truths-in-a-row-group", "the metadata is damaged"),
            ("truths-in-statistics", "the metadata is damaged"),
        ] {
            let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/found/sweep-rows/");
            let bytes = std::fs::read(place.to_owned() + found).expect("a file");
            let refused = parquet_from(bytes, "rows.parquet", |_| true).expect_err("damage");
            let refused = refused.to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
