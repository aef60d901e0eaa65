//! Turning a finished journal into a Parquet file.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use memweir_linux::private;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{Row, with_ending};

const SCHEMA: &str = "message timeline {
    required int64 quantum;
    required double t_start_s;
    required double span_s;
    required int64 job;
    required binary name (UTF8);
    required boolean chosen;
    required double cpu_s;
    optional int64 instructions;
    optional int64 reads;
    optional int64 writes;
    optional double bandwidth;
    optional double predicted;
    optional double system_bandwidth;
    optional double target;
    optional int64 reads_1;
    optional int64 writes_1;
    optional int64 reads_2;
    optional int64 writes_2;
    optional int64 reads_3;
    optional int64 writes_3;
    optional binary reason (UTF8);
}";

/// Rows per row group; a group is held in memory at once.
const ROWS_PER_GROUP: usize = 1 << 16;

type GroupWriter<'a> = SerializedRowGroupWriter<'a, File>;

/// Writes the rows of the CSV file `journal` to `path`, which appears whole or not at all.
pub(super) fn from_journal(journal: &Path, path: &Path) -> Result<(), Box<dyn Error>> {
    let partial = with_ending(path, ".partial");
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut writer =
        SerializedFileWriter::new(private::create(&partial)?, schema, Arc::new(properties))?;
    let mut rows = csv::Reader::from_path(journal)?.into_deserialize::<Row>();
    loop {
        let group = rows.by_ref().take(ROWS_PER_GROUP).collect::<Result<Vec<_>, _>>()?;
        if group.is_empty() {
            break;
        }
        let mut group_writer = writer.next_row_group()?;
        write_group(&mut group_writer, &group)?;
        group_writer.close()?;
    }
    writer.close()?;
    fs::rename(&partial, path)?;
    Ok(())
}

/// Writes the columns in the order of the schema.
fn write_group(group: &mut GroupWriter<'_>, rows: &[Row]) -> Result<(), ParquetError> {
    let whole = |value: u64| value as i64;
    required::<Int64Type>(group, rows, |r| whole(r.quantum))?;
    required::<DoubleType>(group, rows, |r| r.t_start_s)?;
    required::<DoubleType>(group, rows, |r| r.span_s)?;
    required::<Int64Type>(group, rows, |r| i64::from(r.job))?;
    required::<ByteArrayType>(group, rows, |r| ByteArray::from(r.name.as_str()))?;
    required::<BoolType>(group, rows, |r| r.chosen)?;
    required::<DoubleType>(group, rows, |r| r.cpu_s)?;
    optional::<Int64Type>(group, rows, |r| r.instructions.map(whole))?;
    optional::<Int64Type>(group, rows, |r| r.reads.map(whole))?;
    optional::<Int64Type>(group, rows, |r| r.writes.map(whole))?;
    optional::<DoubleType>(group, rows, |r| r.bandwidth)?;
    optional::<DoubleType>(group, rows, |r| r.predicted)?;
    optional::<DoubleType>(group, rows, |r| r.system_bandwidth)?;
    optional::<DoubleType>(group, rows, |r| r.target)?;
    optional::<Int64Type>(group, rows, |r| r.reads_1.map(whole))?;
    optional::<Int64Type>(group, rows, |r| r.writes_1.map(whole))?;
    optional::<Int64Type>(group, rows, |r| r.reads_2.map(whole))?;
    optional::<Int64Type>(group, rows, |r| r.writes_2.map(whole))?;
    optional::<Int64Type>(group, rows, |r| r.reads_3.map(whole))?;
    optional::<Int64Type>(group, rows, |r| r.writes_3.map(whole))?;
    optional::<ByteArrayType>(group, rows, |r| r.reason.as_deref().map(ByteArray::from))
}

fn required<T: DataType>(
    group: &mut GroupWriter<'_>,
    rows: &[Row],
    value: impl Fn(&Row) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    column::<T, _>(group, &values, None)
}

fn optional<T: DataType>(
    group: &mut GroupWriter<'_>,
    rows: &[Row],
    value: impl Fn(&Row) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = rows.iter().map(|row| i16::from(value(row).is_some())).collect();
    let values: Vec<T::T> = rows.iter().filter_map(value).collect();
    column::<T, _>(group, &values, Some(&levels))
}

/// Writes one column; without levels, every row has a value.
pub(crate) fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has fewer columns than a row".to_owned()));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
