//! Tables of results whose columns are known only when the work starts, as CSV or Parquet.
//!
//! Rows are on disk as soon as they are known, in `FILE.partial.csv`, so that work that is killed
//! keeps what it has. At the end the file itself appears whole, its rows in their final order.

mod read;

use std::error::Error;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::names::by_ending;
use memweir_linux::journal::Journal;
use parquet::basic::{Compression, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize, Serializer};

use crate::files::Replacement;
use crate::options::Refusal;

pub(crate) use read::contents;
pub use read::{Contents, parquet_from, read_parquet};

/// Rows per row group of a Parquet file.
const ROWS_PER_GROUP: usize = 1 << 16;

/// Rows of cells.
type Rows = Vec<Vec<Cell>>;

/// Outcome of writing rows, which may come from a journal.
type Written<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Format of a table, by the ending of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.csv`
    Csv,
    /// `.parquet`
    Parquet,
}

impl Format {
    /// The format that the ending of `path` names.
    pub fn of(path: &Path) -> Result<Self, Refusal> {
        by_ending(path, "a table", [("csv", Self::Csv), ("parquet", Self::Parquet)])
    }
}

/// Type of a column's values. Partitions keep it under the names of earlier versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// UTF-8 text.
    #[serde(rename = "text")]
    String,
    /// 64-bit signed integers.
    #[serde(rename = "whole")]
    Integer,
    /// 64-bit floating-point numbers.
    #[serde(rename = "number")]
    Float,
    /// True or false.
    #[serde(rename = "truth")]
    Boolean,
}

impl Kind {
    /// Reads a cell of a journal. An empty name reads as an empty cell.
    fn read(self, text: &str) -> Cell {
        if text.is_empty() {
            return Cell::Empty;
        }
        match self {
            Self::String => Cell::String(text.to_owned()),
            Self::Integer => text.parse().map_or(Cell::Empty, Cell::Integer),
            Self::Float => text.parse().map_or(Cell::Empty, Cell::Float),
            Self::Boolean => text.parse().map_or(Cell::Empty, Cell::Boolean),
        }
    }
}

/// One column. Any of its cells may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Kind of its values.
    pub kind: Kind,
}

/// A column of rows of type `T`: its name, its kind, and the cell of a row in it.
pub type Field<T> = (&'static str, Kind, fn(&T) -> Cell);

/// Returns the columns that these fields are.
#[must_use]
pub fn columns<T>(fields: &[Field<T>]) -> Vec<Column> {
    let column = |(name, kind, _): &Field<T>| Column { name: (*name).to_owned(), kind: *kind };
    fields.iter().map(column).collect()
}

/// Returns the cells of a row in the columns of these fields.
#[must_use]
pub fn cells<T>(fields: &[Field<T>], row: &T) -> Vec<Cell> {
    fields.iter().map(|(_, _, cell)| cell(row)).collect()
}

/// One cell; of the kind of its column, or empty.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text.
    String(String),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// No value is known.
    Empty,
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Empty, Self::Integer)
    }
}

impl Cell {
    /// Returns it as text, as in CSV.
    pub(crate) fn written(&self) -> String {
        match self {
            Self::String(text) => text.clone(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Boolean(value) => value.to_string(),
            Self::Empty => String::new(),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written())
    }
}

/// A table that is being written.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    format: Format,
    columns: Vec<Column>,
    journal: Journal,
}

impl Table {
    /// Starts the table that will be at `path`.
    pub fn create(path: &Path, format: Format, columns: Vec<Column>) -> io::Result<Self> {
        let mut journal = Journal::beside(path)?;
        if let Err(error) = journal.append(&[names(&columns)]) {
            let _ = journal.abandon();
            return Err(error);
        }
        Ok(Self { path: path.to_owned(), format, columns, journal })
    }

    /// Starts a table whose rows, in CSV, are in the file at `path` itself as they are appended.
    /// They are structs with a field for each column, which the first one names.
    pub fn live(path: &Path, format: Format, columns: Vec<Column>) -> io::Result<Self> {
        let journal = match format {
            Format::Csv => Journal::at(path)?,
            Format::Parquet => Journal::beside(path)?,
        };
        Ok(Self { path: path.to_owned(), format, columns, journal })
    }

    /// Appends rows; they are on disk when this returns.
    pub fn append<T: Serialize>(&mut self, rows: &[T]) -> io::Result<()> {
        self.journal.append(rows)
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the table with `rows` in this order in the place of those appended. On failure the
    /// rows that were appended stay in the journal, whose path the error names.
    pub fn finish(self, rows: &[Vec<Cell>]) -> io::Result<()> {
        let groups = rows.chunks(ROWS_PER_GROUP).map(|rows| Ok(rows.to_vec()));
        self.replace(|table, file| match table.format {
            Format::Csv => Ok(csv_to(file, &table.columns, rows)?),
            Format::Parquet => parquet_to(file, &table.columns, groups).map(drop),
        })
    }

    /// Writes the table with the rows as they were appended, however many. On failure they stay in
    /// the journal, whose path the error names.
    pub fn finish_as_appended(self) -> io::Result<()> {
        if self.format == Format::Csv {
            let renamed = fs::rename(self.journal.path(), &self.path);
            return renamed.map_err(|error| self.failed(&error));
        }
        self.replace(|table, file| {
            let rows = csv::Reader::from_path(table.journal.path())?;
            parquet_to(file, &table.columns, table.appended(rows)).map(drop)
        })
    }

    /// Gives the table up after a failure: see [`Journal::abandon`].
    #[must_use]
    pub fn abandon(self) -> String {
        self.journal.abandon()
    }

    /// Returns the rows of the journal in groups.
    fn appended(&self, rows: csv::Reader<File>) -> impl Iterator<Item = Result<Rows, csv::Error>> {
        let kinds: Vec<Kind> = self.columns.iter().map(|column| column.kind).collect();
        let mut rows = rows.into_records().map(move |row| {
            row.map(|row| row.iter().zip(&kinds).map(|(text, kind)| kind.read(text)).collect())
        });
        std::iter::from_fn(move || {
            let group: Result<Rows, _> = rows.by_ref().take(ROWS_PER_GROUP).collect();
            group.map(|group| (!group.is_empty()).then_some(group)).transpose()
        })
    }

    /// Writes the whole file by `write` and removes the journal.
    fn replace(self, write: impl FnOnce(&Self, &File) -> Written<()>) -> io::Result<()> {
        let written = || -> Written<()> {
            let new = Replacement::of(&self.path)?;
            write(&self, new.file())?;
            Ok(new.commit()?)
        };
        match written() {
            Ok(()) => self.journal.remove(),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Gives the table up, and returns the error with the place of the rows so far.
    fn failed(self, error: &dyn Display) -> io::Error {
        io::Error::other(format!("{error}{}", self.abandon()))
    }
}

fn names(columns: &[Column]) -> Vec<&str> {
    columns.iter().map(|column| column.name.as_str()).collect()
}

fn csv_to(file: &File, columns: &[Column], rows: &[Vec<Cell>]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(file);
    writer.serialize(names(columns)).map_err(io::Error::other)?;
    rows.iter().try_for_each(|row| writer.serialize(row)).map_err(io::Error::other)?;
    writer.flush()
}

/// Returns the rows as the content of a Parquet file.
///
/// # Errors
/// If a row lacks a cell.
pub fn parquet(columns: &[Column], rows: &[Vec<Cell>]) -> io::Result<Vec<u8>> {
    let groups = rows.chunks(ROWS_PER_GROUP).map(|rows| Ok(rows.to_vec()));
    parquet_to(Vec::new(), columns, groups).map_err(io::Error::other)
}

fn parquet_to<W: io::Write + Send>(
    to: W,
    columns: &[Column],
    groups: impl Iterator<Item = Result<Rows, csv::Error>>,
) -> Written<W> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let schema = Arc::new(schema(columns)?);
    let mut writer = SerializedFileWriter::new(to, schema, Arc::new(properties))?;
    for rows in groups {
        let rows = rows?;
        let mut group = writer.next_row_group()?;
        for (index, column) in columns.iter().enumerate() {
            write_column(&mut group, column.kind, rows.iter().map(|row| &row[index]))?;
        }
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

fn schema(columns: &[Column]) -> Result<Type, ParquetError> {
    let field = |column: &Column| {
        let physical = match column.kind {
            Kind::String => Physical::BYTE_ARRAY,
            Kind::Integer => Physical::INT64,
            Kind::Float => Physical::DOUBLE,
            Kind::Boolean => Physical::BOOLEAN,
        };
        let text = (column.kind == Kind::String).then_some(parquet::basic::LogicalType::String);
        Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(text)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("results").with_fields(fields).build()
}

fn write_column<'a, W: io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    kind: Kind,
    cells: impl Iterator<Item = &'a Cell> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.clone().map(|c| i16::from(*c != Cell::Empty)).collect();
    let cells = cells.filter(|cell| **cell != Cell::Empty);
    match kind {
        Kind::String => {
            let text = |cell: &Cell| Some(ByteArray::from(cell.written().as_str()));
            column::<ByteArrayType, _>(group, cells.filter_map(text), &levels)
        }
        Kind::Integer => {
            let whole = |cell: &Cell| match cell {
                Cell::Integer(value) => Some(*value),
                _ => None,
            };
            column::<Int64Type, _>(group, cells.filter_map(whole), &levels)
        }
        Kind::Float => {
            let number = |cell: &Cell| match cell {
                Cell::Float(value) => Some(*value),
                Cell::Integer(value) => Some(*value as f64),
                _ => None,
            };
            column::<DoubleType, _>(group, cells.filter_map(number), &levels)
        }
        Kind::Boolean => {
            let truth = |cell: &Cell| match cell {
                Cell::Boolean(value) => Some(*value),
                _ => None,
            };
            column::<BoolType, _>(group, cells.filter_map(truth), &levels)
        }
    }
}

/// Writes the column that is next in the schema; a level of zero stands for an empty cell.
fn column<T: DataType, W: io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = T::T>,
    levels: &[i16],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has fewer columns than a row".to_owned()));
    };
    let values: Vec<T::T> = values.collect();
    column.typed::<T>().write_batch(&values, Some(levels), None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    pub(super) fn columns() -> Vec<Column> {
        [("policy", Kind::String), ("seed", Kind::Integer), ("turnaround_s", Kind::Float)]
            .map(|(name, kind)| Column { name: name.to_owned(), kind })
            .into()
    }

    pub(super) fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec!["os".into(), 7u64.into(), 1.5.into()],
            vec!["a,b".into(), Cell::Empty, Cell::Empty],
        ]
    }

    #[test]
    fn rows_are_on_disk_as_they_come_and_in_order_at_the_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.csv");
        let mut table = Table::create(&path, Format::Csv, columns()).expect("a file");
        table.append(&rows()[1..]).expect("space");
        table.append(&rows()[..1]).expect("space");
        let journal = directory.path().join("t.csv.partial.csv");
        let so_far = fs::read_to_string(&journal).expect("the journal");
        assert_eq!(so_far, "policy,seed,turnaround_s\n\"a,b\",,\nos,7,1.5\n");
        assert!(!path.exists());
        table.finish(&rows()).expect("space");
        let whole = fs::read_to_string(&path).expect("the table");
        assert_eq!(whole, "policy,seed,turnaround_s\nos,7,1.5\n\"a,b\",,\n");
        assert!(!journal.exists());
    }

    #[test]
    fn parquet_keeps_the_types_and_what_is_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.parquet");
        let table = Table::create(&path, Format::Parquet, columns()).expect("a file");
        table.finish(&rows()).expect("space");
        assert_eq!(read_parquet(&path, |_| true).expect("a table"), (columns(), rows()));
    }

    fn finished_as_appended(name: &str, format: Format) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(name);
        let mut table = Table::create(&path, format, columns()).expect("a file");
        table.append(&rows()).expect("space");
        table.finish_as_appended().expect("space");
        let names = fs::read_dir(directory.path()).expect("a directory");
        assert_eq!(names.count(), 1, "the journal is gone");
        (directory, path)
    }

    #[test]
    fn appended_rows_become_the_table() {
        let (_directory, path) = finished_as_appended("t.csv", Format::Csv);
        let whole = fs::read_to_string(path).expect("the table");
        assert_eq!(whole, "policy,seed,turnaround_s\nos,7,1.5\n\"a,b\",,\n");
        let (_directory, path) = finished_as_appended("t.parquet", Format::Parquet);
        assert_eq!(read_parquet(&path, |_| true).expect("a table"), (columns(), rows()));
    }

    #[test]
    fn rows_in_their_final_order_stay_in_a_file_that_took_them_as_they_came() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.csv");
        let mut table = Table::live(&path, Format::Csv, columns()).expect("a file");
        table.append(&rows()[1..]).expect("space");
        table.finish(&rows()).expect("space");
        let whole = fs::read_to_string(&path).expect("the table");
        assert_eq!(whole, "policy,seed,turnaround_s\nos,7,1.5\n\"a,b\",,\n");
    }

    #[test]
    fn a_table_that_cannot_be_finished_keeps_its_journal() {
        let finishes: [fn(Table) -> io::Result<()>; 2] =
            [|table| table.finish(&rows()), Table::finish_as_appended];
        for finish in finishes {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("t.csv");
            let mut table = Table::create(&path, Format::Csv, columns()).expect("a file");
            table.append(&rows()[..1]).expect("space");
            fs::create_dir(&path).expect("something in the way");
            let journal = directory.path().join("t.csv.partial.csv");
            let mut half = File::options().append(true).open(&journal).expect("the journal");
            half.write_all(b"random,1,2.").expect("space");
            let error = finish(table).expect_err("in the way").to_string();
            let names = format!("; the rows so far are in {}", journal.display());
            assert!(error.ends_with(&names), "{error}");
            let kept = fs::read_to_string(&journal).expect("the journal");
            assert_eq!(kept, "policy,seed,turnaround_s\nos,7,1.5\n");
        }
    }

    #[test]
    fn a_table_that_cannot_be_finished_names_no_journal_without_a_row() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("t.csv");
        let table = Table::create(&path, Format::Csv, columns()).expect("a file");
        fs::create_dir(&path).expect("something in the way");
        let error = table.finish(&rows()).expect_err("in the way").to_string();
        assert!(!error.contains("partial"), "{error}");
        assert!(!directory.path().join("t.csv.partial.csv").exists());
    }
}
