//! The profile store: profiles of programs, kept for later batches.
//!
//! One SQLite file with one row per invocation. The same command line in the same directory on the
//! same input files is taken for the same behavior. A row has the size and time of the program file
//! and of the input files that the command line names (`store/inputs.rs`): a profile is of no use
//! once an input has changed, and a reader learns of a change of the program. The profile itself is
//! kept as a [`Recording`], coarsened if it is very long. `store/key.rs` defines the identity of an
//! invocation.

mod inputs;
mod key;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use memweir_core::input::InputError;
use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, Counts, Media, Medium, MediumId, Nanos};
use memweir_linux::private;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

pub(crate) use inputs::named_paths;
pub use inputs::{InputFile, inputs, not_written};
use key::fingerprint;
pub use key::{Invocation, ProgramKey};

use crate::files;
use crate::recording::{Recording, RecordingError};

/// Intervals that a stored profile may have: an hour at 1 ms. Longer ones are coarsened; a
/// scheduler asks for quanta, which are a hundred times as long.
const MAX_INTERVALS: usize = 3_600_000;

/// Time that a writer waits for another.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Schema changes, oldest first; the number of those applied is the file's `user_version`.
const MIGRATIONS: [&str; 3] = [
    "CREATE TABLE profiles (
    key            TEXT PRIMARY KEY NOT NULL,
    command        TEXT NOT NULL,
    program        BLOB NOT NULL,
    program_size   INTEGER NOT NULL,
    program_mtime  INTEGER NOT NULL,
    meter          TEXT NOT NULL,
    machine        TEXT NOT NULL,
    date           TEXT NOT NULL,
    cpu_time_ns    INTEGER NOT NULL,
    wall_time_ns   INTEGER NOT NULL,
    bandwidth      REAL NOT NULL,
    recording      BLOB NOT NULL
) STRICT",
    // Lines by medium, a `MediumLines` each; nothing where media were not told apart.
    "ALTER TABLE profiles ADD COLUMN media TEXT NOT NULL DEFAULT '[]'",
    // The exit code of the runs and an `InputFile` each; absent in rows of earlier versions.
    "ALTER TABLE profiles ADD COLUMN exit_code INTEGER;
     ALTER TABLE profiles ADD COLUMN inputs TEXT",
];

/// The newest schema.
const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// Origin of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Exit code of every run that the profile was made of.
    pub exit_code: i32,
    /// The files that the program was given and did not write to.
    pub inputs: Vec<InputFile>,
}

/// A profile from the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredProfile {
    /// The entry's key in hexadecimal.
    pub key: String,
    /// The profile with its command, meter, machine and date.
    pub recording: Recording,
    /// State of the program file.
    pub program: ProgramState,
    /// State of its input files.
    pub inputs: InputState,
    /// Exit code of the profiled runs; absent in entries of earlier versions.
    pub exit_code: Option<i32>,
}

/// State of the input files of a stored profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputState {
    /// Same sizes and times.
    Unchanged,
    /// These differ or are gone: the profile describes other data.
    Changed(Vec<String>),
    /// An earlier version of memweir made the entry and did not record them.
    Unrecorded,
}

/// State of the program file of a stored profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramState {
    /// Same size and time.
    Unchanged,
    /// The file differs or is gone: the profile may no longer describe it.
    Changed,
}

/// One line of a store's list.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreEntry {
    /// The key in hexadecimal; any unambiguous beginning names the entry.
    pub key: String,
    /// The command, one string per argument.
    pub command: Vec<String>,
    /// Name of the meter that counted.
    pub meter: String,
    /// Time of the recording.
    pub date: Timestamp,
    /// CPU time alone.
    pub cpu_time: Nanos,
    /// Wall-clock time alone.
    pub wall_time: Nanos,
    /// Mean bandwidth over the CPU time.
    pub bandwidth: BytesPerSec,
    /// Lines by medium, the local DRAM first; empty where media were not told apart.
    pub media: Vec<MediumLines>,
    /// State of the program file.
    pub program: ProgramState,
    /// State of its input files.
    pub inputs: InputState,
    /// Exit code of the profiled runs; absent in entries of earlier versions.
    pub exit_code: Option<i32>,
}

/// Lines that a program moved from and to one medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediumLines {
    /// The medium.
    pub name: String,
    /// 64-byte lines read.
    pub reads: u64,
    /// 64-byte lines written; absent where the meter sees reads alone.
    pub writes: Option<u64>,
}

impl MediumLines {
    /// Lines of `counts` by each of `media`; empty if there is only one.
    #[must_use]
    pub fn of(counts: &Counts, media: &Media) -> Vec<Self> {
        if media.len() == 1 {
            return Vec::new();
        }
        let of_medium = |(id, medium): (MediumId, &Medium)| {
            let traffic = counts.traffic(id);
            let (reads, writes) = (traffic.reads.0, Some(traffic.writes.0));
            Self { name: medium.name.clone(), reads, writes }
        };
        media.iter().map(of_medium).collect()
    }

    /// Returns the lines without the writes, as of a meter that does not count them.
    pub(crate) fn of_reads(self) -> Self {
        Self { writes: None, ..self }
    }
}

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The named file is not there, or is no profile store that this memweir can use.
    #[error(transparent)]
    Invalid(#[from] InputError),
    /// The database refused.
    #[error("profile store {path}: {source}", path = path.display())]
    Database {
        /// The store's file.
        path: PathBuf,
        /// The database's error.
        source: rusqlite::Error,
    },
    /// The file cannot be reached.
    #[error("profile store {path}: {source}", path = path.display())]
    Io {
        /// The store's file, or the program that identifies a row.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The content of a row is not valid.
    #[error("{0}")]
    Damaged(String),
    /// No entry, or more than one, has a key that begins so.
    #[error("{} a key that begins with `{prefix}`", match matches {
        0 => "no entry has".to_owned(),
        _ => format!("{matches} entries have"),
    })]
    NoSuchEntry {
        /// The requested beginning of a key.
        prefix: String,
        /// Number of entries that match.
        matches: usize,
    },
}

impl From<RecordingError> for StoreError {
    fn from(error: RecordingError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// The profile store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// `profiles.sqlite` in memweir's data directory.
    pub fn default_path() -> io::Result<PathBuf> {
        Ok(files::data_dir()?.join("profiles.sqlite"))
    }

    /// Opens the store at `path`, by default [`Store::default_path`], making it if it is absent
    /// and bringing an older schema up to date. Any number of processes may do so at once.
    pub fn open(path: Option<&Path>) -> Result<Self, StoreError> {
        let path = path.map_or_else(own_default, |path| Ok(path.to_owned()))?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .map_err(|source| StoreError::Io { path: path.clone(), source })?;
        }
        let connection = Connection::open(&path);
        Self::of(connection, path)
    }

    /// Opens the store at `path` for reading, by default [`Store::default_path`]. It makes no file:
    /// where the default one is missing, the store is empty and nothing that is put into it stays.
    /// An empty file stays empty.
    ///
    /// # Errors
    /// If the file at `path` is not there, or is no store.
    pub fn read(path: Option<&Path>) -> Result<Self, StoreError> {
        let file = path.map_or_else(own_default, |path| Ok(path.to_owned()))?;
        match fs::metadata(&file) {
            Ok(found) if found.is_dir() => Err(not_a_store(&file, "is a directory")),
            Ok(found) if found.len() > 0 => Self::of(Connection::open(&file), file),
            Err(error) if path.is_some() || error.kind() != io::ErrorKind::NotFound => {
                Err(InputError::unreadable(&file, &error).into())
            }
            _ => Self::of(Connection::open_in_memory(), file),
        }
    }

    /// Opens the store at `path` as [`read`](Self::read) does, or the user's if it can be used.
    /// Adds a notice if the user's cannot.
    ///
    /// # Errors
    /// If the store at `path` cannot be used.
    pub fn find(
        path: Option<&Path>,
        notices: &mut Vec<String>,
    ) -> Result<Option<Self>, StoreError> {
        match Self::read(path) {
            Err(error) if path.is_none() => {
                notices.push(format!("no profile is taken from the store: {error}"));
                Ok(None)
            }
            store => store.map(Some),
        }
    }

    fn of(opened: rusqlite::Result<Connection>, path: PathBuf) -> Result<Self, StoreError> {
        let connection = opened.map_err(|source| failed(&path, source))?;
        let mut store = Self { connection, path };
        store.connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| store.database(error))?;
        store.migrate()?;
        Ok(store)
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The profile of an invocation, if it was profiled.
    pub fn get(&self, key: &ProgramKey) -> Result<Option<StoredProfile>, StoreError> {
        self.row(key.as_str())
    }

    /// Keeps a profile, in place of an earlier one of the same invocation. The key must be from
    /// before the run: the program's file may have been replaced since.
    pub fn put(
        &self,
        key: &ProgramKey,
        recording: &Recording,
        provenance: &Provenance,
    ) -> Result<(), StoreError> {
        let (size, mtime) = key.file();
        let profile = &recording.profile;
        let damaged = |error: serde_json::Error| StoreError::Damaged(error.to_string());
        let command = serde_json::to_string(&recording.command).map_err(damaged)?;
        let media = MediumLines::of(&profile.total(), &recording.media);
        let media = serde_json::to_string(&media).map_err(damaged)?;
        let inputs = serde_json::to_string(&provenance.inputs).map_err(damaged)?;
        self.connection
            .execute(
                "INSERT OR REPLACE INTO profiles
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    key.as_str(),
                    command,
                    key.program().as_os_str().as_bytes(),
                    size,
                    mtime,
                    recording.meter,
                    recording.machine,
                    recording.date.to_string(),
                    profile.cpu_time.0.cast_signed(),
                    profile.wall_time.0.cast_signed(),
                    profile.mean_bandwidth().0,
                    compact(recording, MAX_INTERVALS).to_bytes(),
                    media,
                    provenance.exit_code,
                    inputs,
                ],
            )
            .map_err(|error| self.database(error))?;
        Ok(())
    }

    /// Every entry, the latest first.
    pub fn list(&self) -> Result<Vec<StoreEntry>, StoreError> {
        let mut statement = self
            .connection
            .prepare("SELECT * FROM profiles ORDER BY date DESC, key")
            .map_err(|error| self.database(error))?;
        let mut rows = statement.query([]).map_err(|error| self.database(error))?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next().map_err(|error| self.database(error))? {
            entries.push(entry(row).map_err(|error| self.database(error))??);
        }
        Ok(entries)
    }

    /// The entry whose key begins with `prefix`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchEntry`] where none or several do.
    pub fn show(&self, prefix: &str) -> Result<StoredProfile, StoreError> {
        let key = self.key_of(prefix)?;
        self.row(&key)?
            .ok_or_else(|| StoreError::NoSuchEntry { prefix: prefix.to_owned(), matches: 0 })
    }

    /// Removes the entry whose key begins with `prefix` and returns its whole key.
    ///
    /// # Errors
    /// [`StoreError::NoSuchEntry`] where none or several do; nothing is removed then.
    pub fn forget(&self, prefix: &str) -> Result<String, StoreError> {
        let key = self.key_of(prefix)?;
        self.connection
            .execute("DELETE FROM profiles WHERE key = ?", [&key])
            .map_err(|error| self.database(error))?;
        Ok(key)
    }

    /// Removes every entry and returns their number.
    pub fn forget_all(&self) -> Result<usize, StoreError> {
        self.connection.execute("DELETE FROM profiles", []).map_err(|error| self.database(error))
    }

    fn key_of(&self, prefix: &str) -> Result<String, StoreError> {
        let keys = || -> rusqlite::Result<Vec<String>> {
            self.connection
                // Every key begins with the empty one, which names no entry.
                .prepare(
                    "SELECT key FROM profiles WHERE substr(key, 1, length(?1)) = ?1 AND ?1 <> ''",
                )?
                .query_map([prefix], |row| row.get(0))?
                .collect()
        };
        let mut keys = keys().map_err(|error| self.database(error))?;
        match (keys.len(), keys.pop()) {
            (1, Some(key)) => Ok(key),
            (matches, _) => Err(StoreError::NoSuchEntry { prefix: prefix.to_owned(), matches }),
        }
    }

    fn row(&self, key: &str) -> Result<Option<StoredProfile>, StoreError> {
        let found = self
            .connection
            .query_row("SELECT * FROM profiles WHERE key = ?", [key], |row| {
                let (program, exit_code) = (program_state(row)?, row.get("exit_code")?);
                Ok((row.get::<_, Vec<u8>>("recording")?, program, exit_code, input_state(row)?))
            })
            .optional()
            .map_err(|error| self.database(error))?;
        let Some((bytes, program, exit_code, inputs)) = found else { return Ok(None) };
        let recording = Recording::from_bytes(bytes, &format!("entry {key}"))?;
        let (key, inputs) = (key.to_owned(), inputs?);
        Ok(Some(StoredProfile { key, recording, program, inputs, exit_code }))
    }

    fn migrate(&mut self) -> Result<(), StoreError> {
        let path = &self.path;
        let database = |source| failed(path, source);
        // A reader may lack the right to write, and must not wait for another's writing.
        let reading = self.connection.transaction().map_err(database)?;
        if missing(&reading, path)?.is_empty() {
            return Ok(());
        }
        drop(reading);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(database)?;
        // Another process may have made the changes meanwhile.
        for migration in missing(&transaction, path)? {
            transaction.execute_batch(migration).map_err(database)?;
        }
        transaction.pragma_update(None, "user_version", SCHEMA).map_err(database)?;
        transaction.commit().map_err(database)
    }

    fn database(&self, source: rusqlite::Error) -> StoreError {
        failed(&self.path, source)
    }
}

/// Returns the schema changes that a store lacks. Its two questions need one transaction.
///
/// # Errors
/// If the database is no store, or a later memweir's.
fn missing(store: &Connection, path: &Path) -> Result<&'static [&'static str], StoreError> {
    let database = |source| failed(path, source);
    let found: u32 =
        store.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(database)?;
    let Some(missing) = MIGRATIONS.get(found as usize..) else {
        let later =
            format!("schema {found} is from a later memweir, this one knows up to {SCHEMA}");
        return Err(InputError::new(path.display().to_string(), later).into());
    };
    let (tables, profiles): (u32, u32) = store
        .query_row(
            "SELECT count(*), count(*) FILTER (WHERE name = 'profiles') FROM sqlite_master",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(database)?;
    let is_foreign = if found == 0 { tables > 0 } else { profiles == 0 };
    match is_foreign {
        true => Err(not_a_store(path, "is a database of another program")),
        false => Ok(missing),
    }
}

/// Returns the failure behind an error of the database.
fn failed(path: &Path, source: rusqlite::Error) -> StoreError {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            not_a_store(path, &source.to_string())
        }
        _ => StoreError::Database { path: path.to_owned(), source },
    }
}

fn not_a_store(path: &Path, reason: &str) -> StoreError {
    InputError::new(path.display().to_string(), format!("no profile store: {reason}"))
        .help("`memweir profile --store FILE -- CMD` makes one")
        .into()
}

/// Returns the default path. The file and its directory have to be this user's if they are there,
/// because no user named them.
fn own_default() -> Result<PathBuf, StoreError> {
    let path = Store::default_path()
        .map_err(|source| StoreError::Io { path: "profiles.sqlite".into(), source })?;
    let file = || match private::open(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    match files::own_data_dir().and_then(|_| file()) {
        Ok(()) => Ok(path),
        Err(error) => {
            let reason = format!("{error}; name it with --store");
            Err(StoreError::Io { path, source: io::Error::new(error.kind(), reason) })
        }
    }
}

/// Returns the recording, coarsened to at most `limit` intervals.
fn compact(recording: &Recording, limit: usize) -> Recording {
    let mut recording = recording.clone();
    let factor = recording.profile.intervals.len().div_ceil(limit);
    if factor > 1 {
        recording.profile = Profile::coarser(&recording.profile, factor);
    }
    recording
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Result<StoreEntry, StoreError>> {
    let key: String = row.get("key")?;
    let damaged = |what: &str| StoreError::Damaged(format!("entry {key}: {what} is unreadable"));
    let Ok(command) = serde_json::from_str(&row.get::<_, String>("command")?) else {
        return Ok(Err(damaged("its command")));
    };
    let Ok(date) = row.get::<_, String>("date")?.parse() else {
        return Ok(Err(damaged("its date")));
    };
    let Ok(media) = serde_json::from_str(&row.get::<_, String>("media")?) else {
        return Ok(Err(damaged("its traffic by medium")));
    };
    Ok(Ok(StoreEntry {
        command,
        date,
        meter: row.get("meter")?,
        cpu_time: Nanos(row.get::<_, i64>("cpu_time_ns")?.cast_unsigned()),
        wall_time: Nanos(row.get::<_, i64>("wall_time_ns")?.cast_unsigned()),
        bandwidth: BytesPerSec(row.get("bandwidth")?),
        media,
        program: program_state(row)?,
        inputs: match input_state(row)? {
            Ok(inputs) => inputs,
            Err(error) => return Ok(Err(error)),
        },
        exit_code: row.get("exit_code")?,
        key,
    }))
}

fn program_state(row: &Row<'_>) -> rusqlite::Result<ProgramState> {
    let program: Vec<u8> = row.get("program")?;
    let then: (i64, i64) = (row.get("program_size")?, row.get("program_mtime")?);
    let now = fingerprint(Path::new(OsStr::from_bytes(&program)));
    Ok(if now.is_ok_and(|now| now == then) {
        ProgramState::Unchanged
    } else {
        ProgramState::Changed
    })
}

fn input_state(row: &Row<'_>) -> rusqlite::Result<Result<InputState, StoreError>> {
    let Some(recorded) = row.get::<_, Option<String>>("inputs")? else {
        return Ok(Ok(InputState::Unrecorded));
    };
    let Ok(inputs) = serde_json::from_str::<Vec<InputFile>>(&recorded) else {
        let key: String = row.get("key")?;
        return Ok(Err(StoreError::Damaged(format!("entry {key}: its inputs are unreadable"))));
    };
    let changed: Vec<String> = inputs
        .iter()
        .filter(|input| input.has_changed())
        .map(|input| input.path.display().to_string())
        .collect();
    Ok(Ok(if changed.is_empty() { InputState::Unchanged } else { InputState::Changed(changed) }))
}

#[cfg(test)]
mod tests;
