//! Reading timelines.

use std::fs::File;
use std::path::Path;

use memweir_core::input::InputError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Record};
use serde_json::{Map, Value};

use super::Row;
use crate::table::Format;

/// Reads a timeline, by the ending of its name. Of a CSV file whose last row is cut, because the
/// batch was killed, the rows before are returned.
///
/// # Errors
/// If the file cannot be read, or is no timeline.
pub fn read(path: &Path) -> Result<Vec<Row>, InputError> {
    let refuse = |reason: String| InputError::new(path.display().to_string(), reason);
    let format =
        Format::of(path).map_err(|refusal| refusal.written_in(&path.display().to_string()))?;
    let file = File::open(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    match format {
        Format::Csv => from_csv(file),
        Format::Parquet => from_parquet(file),
    }
    .map_err(|reason| refuse(format!("it is no timeline: {reason}")))
}

fn from_csv(file: File) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut records = csv::Reader::from_reader(file).into_deserialize::<Row>();
    while let Some(record) = records.next() {
        match record {
            Ok(row) => rows.push(row),
            Err(_) if !rows.is_empty() && records.next().is_none() => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(rows)
}

fn from_parquet(file: File) -> Result<Vec<Row>, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let records = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    records.map(|record| row(&record.map_err(|error| error.to_string())?)).collect()
}

fn row(record: &Record) -> Result<Row, String> {
    let columns = record.get_column_iter().filter_map(|(name, field)| {
        let value = match field {
            Field::Null => return None,
            Field::Bool(value) => Value::from(*value),
            Field::Long(value) => Value::from(*value),
            Field::Double(value) => Value::from(*value),
            Field::Str(value) => Value::from(value.as_str()),
            other => Value::from(other.to_string()),
        };
        Some((name.clone(), value))
    });
    serde_json::from_value(Value::Object(columns.collect::<Map<_, _>>()))
        .map_err(|error| error.to_string())
}
