//! A program's recorded behavior as a Parquet file, which the profile store keeps too.
//!
//! One row per interval: `time_ns` (CPU time at its start), `instructions`, `reads`, `writes`
//! (64-byte lines), and where media were told apart `reads_1`, `writes_1` and so on: those of the
//! reads and writes that went to the medium of that number, the local DRAM being number 0. What is
//! no table stands in the file's key-value metadata under `memweir.`: the command, the interval,
//! CPU and wall time, meter, machine, date and media. Any Parquet reader opens the file; this one
//! trusts nothing in it.
//!
//! Format 1 has no media. Recordings of local DRAM alone are still written in it, so that older
//! versions read them.

mod cache;

pub use cache::ProfileCache;

use std::fs;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes as Buffer;
use jiff::Timestamp;
use memweir_core::profile::Profile;
use memweir_core::{Counts, Lines, MAX_MEDIA, Media, MediumId, Nanos, Traffic};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::files;
use crate::parquet_file::{self, Strict};

/// Versions of the recording format that this code writes and reads: without and with media.
const DRAM_ONLY: u64 = 1;
const BY_MEDIUM: u64 = 2;

/// The columns of every recording, in the order of the file.
const COLUMNS: [&str; 4] = ["time_ns", "instructions", "reads", "writes"];

/// Returns the columns of a recording that tells `media` media apart.
fn columns(media: usize) -> Vec<String> {
    let of_media = (1..media).flat_map(|n| [format!("reads_{n}"), format!("writes_{n}")]);
    COLUMNS.iter().map(|name| (*name).to_owned()).chain(of_media).collect()
}

/// Lines by which the media of an interval may exceed its lines: where an interval is a part of a
/// counted slice, each figure is rounded by itself.
const ROUNDING: u64 = MAX_MEDIA as u64;

/// Rows per row group: a reader of a part of an hour-long recording skips the rest.
const ROWS_PER_GROUP: usize = 1 << 18;

/// A profile and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The command, one string per argument.
    pub command: Vec<String>,
    /// Name of the meter that counted.
    pub meter: String,
    /// The machine, as a person would name it.
    pub machine: String,
    /// Time of the recording.
    pub date: Timestamp,
    /// The media that its counts tell apart.
    pub media: Media,
    /// Behavior of the program.
    pub profile: Profile,
}

/// A recording that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The bytes are not a recording.
    #[error("{name} is not a memweir recording: {reason}")]
    Invalid {
        /// The file, or a name in its place.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Recording {
    /// Writes `path`; a reader sees the whole file or none.
    pub fn save(&self, path: &Path) -> Result<(), RecordingError> {
        files::write_atomically(path, &self.to_bytes())
            .map_err(|source| RecordingError::Io { path: path.to_owned(), source })
    }

    /// Reads `path`.
    pub fn load(path: &Path) -> Result<Self, RecordingError> {
        let bytes = fs::read(path)
            .map_err(|source| RecordingError::Io { path: path.to_owned(), source })?;
        Self::from_bytes(bytes, &path.display().to_string())
    }

    /// The file's content.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut buffer = Vec::new();
        self.write_to(&mut buffer).expect("a fixed schema fits its columns and memory takes them");
        buffer
    }

    /// Reads a file's content; `name` stands in messages.
    ///
    /// # Errors
    /// [`RecordingError::Invalid`] for anything that [`Recording::to_bytes`] did not write.
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Self, RecordingError> {
        let buffer = Buffer::from(bytes);
        // The Parquet reader is robust against most damage but not proof against all of it.
        let outcome = panic::catch_unwind(|| read(buffer))
            .unwrap_or_else(|_| Err("the Parquet data is damaged".to_owned()));
        outcome.map_err(|reason| RecordingError::Invalid { name: name.to_owned(), reason })
    }

    fn write_to(&self, buffer: &mut Vec<u8>) -> Result<(), ParquetError> {
        let columns = columns(self.media.len());
        let fields: String = columns
            .iter()
            .map(|name| format!("required int64 {name} (INTEGER(64,false)); "))
            .collect();
        let schema = Arc::new(parse_message_type(&format!("message recording {{ {fields} }}"))?);
        let mut writer = SerializedFileWriter::new(buffer, schema, self.properties())?;
        for (number, rows) in self.profile.intervals.chunks(ROWS_PER_GROUP).enumerate() {
            let first = (number * ROWS_PER_GROUP) as u64;
            let mut group = writer.next_row_group()?;
            for column in 0..columns.len() {
                let values: Vec<i64> = (first..)
                    .zip(rows)
                    .map(|(index, counts)| self.cell(column, index, counts).cast_signed())
                    .collect();
                let mut target = group.next_column()?.expect("the schema has this column");
                target.typed::<Int64Type>().write_batch(&values, None, None)?;
                target.close()?;
            }
            group.close()?;
        }
        writer.close()?;
        Ok(())
    }

    fn cell(&self, column: usize, index: u64, counts: &Counts) -> u64 {
        match column {
            0 => index * self.profile.interval.0,
            1 => counts.instructions,
            2 => counts.reads.0,
            3 => counts.writes.0,
            // From 4 on, both directions of the media from number 1 on in turn.
            other => {
                let traffic = MediumId::new(other / 2 - 1).map(|id| counts.traffic(id));
                let Traffic { reads, writes } = traffic.unwrap_or_default();
                if other % 2 == 0 { reads.0 } else { writes.0 }
            }
        }
    }

    fn properties(&self) -> WriterPropertiesPtr {
        let command = serde_json::to_string(&self.command).expect("strings have a form in JSON");
        let media = serde_json::to_string(&self.media).expect("media have a form in JSON");
        let (format, media) = match self.media.len() {
            1 => (DRAM_ONLY, None),
            _ => (BY_MEDIUM, Some(("media", media))),
        };
        let metadata = [
            ("format", format.to_string()),
            ("command", command),
            ("meter", self.meter.clone()),
            ("machine", self.machine.clone()),
            ("date", self.date.to_string()),
            ("interval_ns", self.profile.interval.0.to_string()),
            ("cpu_time_ns", self.profile.cpu_time.0.to_string()),
            ("wall_time_ns", self.profile.wall_time.0.to_string()),
        ]
        .into_iter()
        .chain(media)
        .map(|(key, value)| KeyValue::new(format!("memweir.{key}"), value));
        Arc::new(
            WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_dictionary_enabled(false)
                .set_encoding(Encoding::DELTA_BINARY_PACKED)
                .set_key_value_metadata(Some(metadata.collect()))
                .build(),
        )
    }
}

fn read(buffer: Buffer) -> Result<Recording, String> {
    let reader = parquet_file::open(buffer).map_err(|error| error.to_string())?;
    let metadata = Metadata(reader.metadata().file_metadata());
    let media = metadata.media()?;
    let names = columns(media.len());
    metadata.expect_columns(&names)?;
    let columns = read_columns(&reader, &names)?;
    let times = &columns[0];
    if columns.iter().any(|column| column.len() != times.len()) {
        return Err("the columns differ in length".to_owned());
    }
    let profile = Profile {
        interval: Nanos(metadata.number("interval_ns")?),
        intervals: (0..times.len())
            .map(|row| row_counts(&columns, row))
            .collect::<Result<_, _>>()?,
        cpu_time: Nanos(metadata.number("cpu_time_ns")?),
        wall_time: Nanos(metadata.number("wall_time_ns")?),
    };
    check(&profile, times)?;
    Ok(Recording {
        command: serde_json::from_str(metadata.text("command")?)
            .map_err(|error| format!("memweir.command: {error}"))?,
        meter: metadata.text("meter")?.to_owned(),
        machine: metadata.text("machine")?.to_owned(),
        date: metadata.text("date")?.parse().map_err(|error| format!("memweir.date: {error}"))?,
        media,
        profile,
    })
}

/// The counts of one row. The columns are as long as each other.
fn row_counts(columns: &[Vec<u64>], row: usize) -> Result<Counts, String> {
    let traffic =
        |at: usize| Traffic { reads: Lines(columns[at][row]), writes: Lines(columns[at + 1][row]) };
    let all = traffic(2);
    let mut by_medium = [Traffic::default(); MAX_MEDIA];
    for (place, at) in by_medium.iter_mut().skip(1).zip((4..columns.len()).step_by(2)) {
        *place = traffic(at);
    }
    let exceeds = |all: Lines, of: fn(&Traffic) -> Lines| {
        let parts = by_medium.iter().try_fold(0_u64, |sum, part| sum.checked_add(of(part).0));
        parts.is_none_or(|parts| parts > all.0.saturating_add(ROUNDING))
    };
    if exceeds(all.reads, |part| part.reads) || exceeds(all.writes, |part| part.writes) {
        return Err(format!("row {row}: more lines of the media than lines"));
    }
    by_medium[0] = all.since(&by_medium.iter().fold(Traffic::default(), |sum, part| sum + *part));
    let counts = Counts::by_medium(columns[1][row], by_medium);
    Ok(Counts { reads: all.reads, writes: all.writes, ..counts })
}

/// Refuses values that would break the arithmetic on profiles.
fn check(profile: &Profile, times: &[u64]) -> Result<(), String> {
    let interval = profile.interval.0;
    if interval == 0 {
        return Err("memweir.interval_ns: an interval of zero".to_owned());
    }
    let starts = (0..).map(|index: u64| index.checked_mul(interval));
    if times.iter().zip(starts).any(|(time, start)| Some(*time) != start) {
        return Err("time_ns: the intervals do not follow one another".to_owned());
    }
    if times.last().is_some_and(|last| *last > profile.cpu_time.0) {
        return Err("time_ns: intervals after the end of the program".to_owned());
    }
    if profile.cpu_time.0.checked_add(interval).is_none() {
        return Err("memweir.cpu_time_ns: longer than five hundred years".to_owned());
    }
    let sum = |count: fn(&Counts) -> u64| {
        profile.intervals.iter().try_fold(0_u64, |sum, counts| sum.checked_add(count(counts)))
    };
    // Lines become bytes, and both directions are added: 2^7 leaves room for that.
    let fits = |total: Option<u64>| total.is_some_and(|total| total < u64::MAX >> 7);
    let counts: [fn(&Counts) -> u64; 3] = [|c| c.instructions, |c| c.reads.0, |c| c.writes.0];
    if counts.into_iter().all(|count| fits(sum(count))) {
        return Ok(());
    }
    Err("counts beyond any program's".to_owned())
}

fn read_columns(
    reader: &SerializedFileReader<Strict<Buffer>>,
    names: &[String],
) -> Result<Vec<Vec<u64>>, String> {
    const BATCH: usize = 1 << 16;
    let mut columns: Vec<Vec<u64>> = vec![Vec::new(); names.len()];
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| error.to_string())?;
        for (index, column) in columns.iter_mut().enumerate() {
            let ColumnReader::Int64ColumnReader(mut source) =
                group.get_column_reader(index).map_err(|error| error.to_string())?
            else {
                return Err(format!("{} is no column of 64-bit integers", names[index]));
            };
            loop {
                let mut values = Vec::new();
                let (records, _, _) = source
                    .read_records(BATCH, None, None, &mut values)
                    .map_err(|error| format!("{}: {error}", names[index]))?;
                if records == 0 {
                    break;
                }
                column.extend(values.into_iter().map(i64::cast_unsigned));
            }
        }
    }
    Ok(columns)
}

struct Metadata<'a>(&'a FileMetaData);

impl Metadata<'_> {
    fn text(&self, key: &str) -> Result<&str, String> {
        self.0
            .key_value_metadata()
            .and_then(|entries| {
                entries.iter().find(|entry| entry.key.strip_prefix("memweir.") == Some(key))
            })
            .and_then(|entry| entry.value.as_deref())
            .ok_or_else(|| format!("its metadata lacks memweir.{key}"))
    }

    fn number(&self, key: &str) -> Result<u64, String> {
        let text = self.text(key)?;
        text.parse().map_err(|_| format!("memweir.{key}: {text:?} is no whole number"))
    }

    /// The media of either format.
    fn media(&self) -> Result<Media, String> {
        match self.number("format")? {
            DRAM_ONLY => Ok(Media::dram_only()),
            BY_MEDIUM => serde_json::from_str(self.text("media")?)
                .map_err(|error| format!("memweir.media: {error}")),
            format => Err(format!(
                "format {format} is unknown to this version, which reads {DRAM_ONLY} and {BY_MEDIUM}"
            )),
        }
    }

    fn expect_columns(&self, expected: &[String]) -> Result<(), String> {
        let names: Vec<_> =
            self.0.schema_descr().columns().iter().map(|column| column.path().string()).collect();
        if names == expected {
            return Ok(());
        }
        Err(format!("columns {}, expected {}", names.join(", "), expected.join(", ")))
    }
}

#[cfg(test)]
mod tests;
