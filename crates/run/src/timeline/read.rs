//! Reading timelines.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use memweir_core::input::InputError;

use super::Row;
use crate::table::{Cell, Format, contents};

/// Reads a timeline, by the ending of its name. Of a CSV file whose last row is cut, because the
/// batch was killed, the rows before are returned.
///
/// # Errors
/// If the file cannot be read, or is no timeline.
pub fn read(path: &Path) -> Result<Vec<Row>, InputError> {
    let refuse = |reason: String| InputError::new(path.display().to_string(), reason);
    let format =
        Format::of(path).map_err(|refusal| refusal.written_in(&path.display().to_string()))?;
    let file = File::open(path).map_err(|error| InputError::unreadable(path, &error))?;
    match format {
        Format::Csv => from_csv(file),
        Format::Parquet => from_parquet(file),
    }
    .map_err(|reason| refuse(format!("it is no timeline: {reason}")))
}

/// A timeline in CSV that is being written, read as it grows.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    file: File,
    /// Names of the columns; absent before their row is there.
    columns: Option<StringRecord>,
    /// Bytes behind the last whole row.
    rest: Vec<u8>,
}

impl Follower {
    /// Opens the timeline.
    ///
    /// # Errors
    /// If the file cannot be read, or is none that is CSV while it is written.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        let refuse = |reason: String| InputError::new(path.display().to_string(), reason);
        match Format::of(path) {
            Ok(Format::Csv) => {}
            Ok(Format::Parquet) => {
                let help = format!("its rows are in {}.partial.csv until then", path.display());
                return Err(refuse("it can be read only at its end".to_owned()).help(help));
            }
            Err(refusal) => return Err(refusal.written_in(&path.display().to_string())),
        }
        let file = File::open(path).map_err(|error| InputError::unreadable(path, &error))?;
        Ok(Self { path: path.to_owned(), file, columns: None, rest: Vec::new() })
    }

    /// Returns the rows that have come since the last call.
    ///
    /// # Errors
    /// If the file cannot be read, or is no timeline.
    pub fn rows(&mut self) -> Result<Vec<Row>, InputError> {
        self.new_rows().map_err(|reason| InputError::new(self.path.display().to_string(), reason))
    }

    fn new_rows(&mut self) -> Result<Vec<Row>, String> {
        let read = self.file.read_to_end(&mut self.rest);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        let lines = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut options = csv::ReaderBuilder::new();
        let mut reader = options.has_headers(false).flexible(true).from_reader(&self.rest[..lines]);
        let failed = |error: csv::Error| format!("it is no timeline: {error}");
        let (mut rows, mut record, mut used) = (Vec::new(), StringRecord::new(), 0);
        while reader.read_record(&mut record).map_err(failed)? {
            let end = reader.position().byte() as usize;
            match &self.columns {
                None => self.columns = Some(record.clone()),
                // The last line ends within a name, whose end is not there yet.
                Some(columns) if record.len() < columns.len() && end == lines => break,
                columns => rows.push(record.deserialize(columns.as_ref()).map_err(failed)?),
            }
            used = end;
        }
        self.rest.drain(..used);
        Ok(rows)
    }
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
    let (columns, rows) = contents(file, |_| true).map_err(|error| error.to_string())?;
    let names: StringRecord = columns.iter().map(|column| column.name.as_str()).collect();
    let row = |cells: &Vec<Cell>| {
        let record: StringRecord = cells.iter().map(Cell::written).collect();
        record.deserialize(Some(&names)).map_err(|error| error.to_string())
    };
    rows.iter().map(row).collect()
}
