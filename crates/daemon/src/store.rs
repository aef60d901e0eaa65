//! The queue in SQLite.
//!
//! One row per job; environments, which most jobs share, in a table of their own. Every change is
//! on disk when the call returns (WAL, `synchronous = FULL`). Only one daemon opens a store: the
//! lock is the daemon's. `store/rows.rs` turns jobs into rows and back.

mod rows;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use memweir_core::JobId;
use memweir_linux::journal::with_ending;
use memweir_linux::peer::Credentials;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use sha2::{Digest, Sha256};

use crate::protocol::Work;
use crate::queue::Job;
use crate::uptime::Reading;

/// Schema changes, oldest first; the number of those applied is the file's `user_version`.
const MIGRATIONS: [&str; 5] = [
    "
CREATE TABLE environments (
    id       INTEGER PRIMARY KEY NOT NULL,
    digest   BLOB UNIQUE NOT NULL,
    content  TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
    id                  INTEGER PRIMARY KEY NOT NULL,
    name                TEXT NOT NULL,
    user                INTEGER NOT NULL,
    user_group          INTEGER NOT NULL,
    cores               INTEGER NOT NULL,
    priority            INTEGER NOT NULL,
    after               TEXT NOT NULL,
    array               INTEGER,
    array_index         INTEGER,
    array_limit         INTEGER,
    held_by             TEXT,
    state               TEXT NOT NULL,
    exit_code           INTEGER,
    attempt             INTEGER NOT NULL,
    canceled            INTEGER NOT NULL,
    expected_time_ns    INTEGER,
    expected_bandwidth  REAL,
    command             TEXT NOT NULL,
    submitted_ms        INTEGER NOT NULL,
    started_ms          INTEGER,
    ended_ms            INTEGER,
    work                TEXT NOT NULL,
    environment         INTEGER NOT NULL REFERENCES environments (id)
) STRICT;
CREATE TABLE settings (
    draining  INTEGER NOT NULL
) STRICT;
INSERT INTO settings VALUES (0);
",
    // A `Source`, and the key of the command in the profile store.
    "
ALTER TABLE jobs ADD COLUMN expected_from TEXT;
ALTER TABLE jobs ADD COLUMN program TEXT;
UPDATE jobs SET expected_from = 'submission'
    WHERE expected_time_ns IS NOT NULL OR expected_bandwidth IS NOT NULL;
",
    // Ages, and the pruning of jobs and of environments that no job has.
    "
ALTER TABLE jobs ADD COLUMN ended_uptime_ms INTEGER;
UPDATE jobs SET ended_uptime_ms = 0 WHERE ended_ms IS NOT NULL;
CREATE INDEX jobs_by_environment ON jobs (environment);
ALTER TABLE settings ADD COLUMN uptime_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE settings ADD COLUMN uptime_boot TEXT NOT NULL DEFAULT '';
ALTER TABLE settings ADD COLUMN uptime_at_ms INTEGER NOT NULL DEFAULT 0;
",
    // Jobs can be in the state `out-of-memory`, which an earlier memweir cannot read.
    "",
    // Bytes per second.
    "ALTER TABLE jobs ADD COLUMN bandwidth_limit REAL;",
];

/// The newest schema.
const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("queue {path}: {source}", path = path.display())]
    Database {
        /// The store's file.
        path: PathBuf,
        /// The database's error.
        source: rusqlite::Error,
    },
    /// Its file cannot be made, or kept from other users.
    #[error("queue {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A later version of memweir has written it.
    #[error(
        "queue {path}: schema {found} is from a later memweir, this one knows up to {known}; \
         start the later one, or name another directory with --state",
        path = path.display()
    )]
    TooNew {
        /// The store's file.
        path: PathBuf,
        /// The schema that it has.
        found: u32,
        /// The newest schema that this code knows.
        known: u32,
    },
    /// The boot of the machine cannot be identified.
    #[error("reading the identifier of this boot: {0}")]
    Clock(io::Error),
    /// The content of a row is not valid.
    #[error("queue {path}: job {job}: {what} is unreadable", path = path.display())]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// The job.
        job: u32,
        /// The unreadable part.
        what: &'static str,
    },
}

/// A queue as it is kept.
#[derive(Debug)]
pub struct Kept {
    /// Every job.
    pub jobs: Vec<Job>,
    /// True if no job may start.
    pub draining: bool,
    /// Last reading of the queue's clock.
    pub uptime: Reading,
}

/// The store of one queue.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the store at `path`, making it if it is absent and bringing an older schema up to
    /// date.
    ///
    /// # Errors
    /// If the file cannot be used, or a later memweir has written it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        make_private(path).map_err(|source| StoreError::File { path: path.to_owned(), source })?;
        let failed = |source| StoreError::Database { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(failed)?;
        let mut store = Self { connection, path: path.to_owned() };
        store.migrate()?;
        let durable = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;";
        store.connection.execute_batch(durable).map_err(failed)?;
        Ok(store)
    }

    fn migrate(&mut self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let failed = |source| StoreError::Database { path: path.clone(), source };
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let found: u32 =
            transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        let Some(missing) = MIGRATIONS.get(found as usize..) else {
            return Err(StoreError::TooNew { path, found, known: SCHEMA });
        };
        for migration in missing {
            transaction.execute_batch(migration).map_err(failed)?;
        }
        if !missing.is_empty() {
            transaction.pragma_update(None, "user_version", SCHEMA).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    /// Reads the whole queue.
    ///
    /// # Errors
    /// If the database refuses, or a row is damaged.
    pub fn load(&self) -> Result<Kept, StoreError> {
        let settings = "SELECT draining, uptime_ms, uptime_boot, uptime_at_ms FROM settings";
        let read = |row: &rusqlite::Row<'_>| {
            let (total, at): (i64, i64) = (row.get(1)?, row.get(3)?);
            let (total_ms, at_ms) = (total.cast_unsigned(), at.cast_unsigned());
            Ok((row.get(0)?, Reading { total_ms, boot: row.get(2)?, at_ms }))
        };
        let (draining, uptime) =
            self.connection.query_row(settings, [], read).map_err(|error| self.failed(error))?;
        let mut statement = self
            .connection
            .prepare("SELECT * FROM jobs ORDER BY id")
            .map_err(|error| self.failed(error))?;
        let mut found = statement.query([]).map_err(|error| self.failed(error))?;
        let mut jobs = Vec::new();
        while let Some(row) = found.next().map_err(|error| self.failed(error))? {
            let job = rows::job(row).map_err(|error| self.failed(error))?;
            jobs.push(job.map_err(|(job, what)| self.damaged(job, what))?);
        }
        Ok(Kept { jobs, draining, uptime })
    }

    /// Adds jobs that do the same work for the same submitter: all or none.
    ///
    /// # Errors
    /// If the database refuses; nothing is added then.
    pub fn add(&mut self, jobs: &[Job], group: u32, work: &Work) -> Result<(), StoreError> {
        self.write(|transaction| {
            let environment = environment(transaction, &work.environment)?;
            let work = work.without_environment();
            jobs.iter()
                .try_for_each(|job| rows::insert(transaction, job, group, &work, environment))
        })
    }

    /// Writes the changed state of jobs: all or none.
    ///
    /// # Errors
    /// If the database refuses; nothing is changed then.
    pub fn update(&mut self, jobs: &[Job]) -> Result<(), StoreError> {
        self.write(|transaction| jobs.iter().try_for_each(|job| rows::update(transaction, job)))
    }

    /// Removes jobs, and the environments that no other job has: all or none.
    ///
    /// # Errors
    /// If the database refuses; nothing is removed then.
    pub fn remove(&mut self, jobs: &[JobId]) -> Result<(), StoreError> {
        let unused = "DELETE FROM environments WHERE NOT EXISTS
                      (SELECT 1 FROM jobs WHERE jobs.environment = environments.id)";
        self.write(|transaction| {
            jobs.iter().try_for_each(|id| rows::remove(transaction, *id))?;
            transaction.execute(unused, []).map(drop)
        })
    }

    /// Keeps a reading of the queue's clock.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn set_uptime(&mut self, reading: &Reading) -> Result<(), StoreError> {
        let Reading { total_ms, boot, at_ms } = reading;
        let set = "UPDATE settings SET uptime_ms = ?, uptime_boot = ?, uptime_at_ms = ?";
        let values = params![total_ms.cast_signed(), boot, at_ms.cast_signed()];
        self.connection.execute(set, values).map(drop).map_err(|error| self.failed(error))
    }

    /// Keeps the queue from starting jobs across restarts, or no longer.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn set_draining(&mut self, draining: bool) -> Result<(), StoreError> {
        let set = self.connection.execute("UPDATE settings SET draining = ?", [draining]);
        set.map(drop).map_err(|error| self.failed(error))
    }

    /// Reads the work of a job, and the user that it runs as.
    ///
    /// # Errors
    /// If the database refuses, or the row is damaged.
    pub fn work(&self, job: JobId) -> Result<(Work, Credentials), StoreError> {
        let query = "SELECT work, content, user, user_group FROM jobs
                     JOIN environments ON environments.id = jobs.environment WHERE jobs.id = ?";
        let read = |row: &rusqlite::Row<'_>| {
            let texts: (String, String) = (row.get(0)?, row.get(1)?);
            Ok((texts, Credentials { user: row.get(2)?, group: row.get(3)? }))
        };
        let mut statement =
            self.connection.prepare_cached(query).map_err(|error| self.failed(error))?;
        let found = statement.query_row([job.0], read).optional();
        let found = found.map_err(|error| self.failed(error))?;
        let ((work, environment), user) =
            found.ok_or_else(|| self.damaged(job.0, "its command"))?;
        let work = Work::of_texts(&work, &environment);
        Ok((work.ok_or_else(|| self.damaged(job.0, "its command"))?, user))
    }

    /// Makes changes: all or none.
    fn write(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let immediate = TransactionBehavior::Immediate;
        let written = self.connection.transaction_with_behavior(immediate);
        let written = written.and_then(|transaction| {
            change(&transaction)?;
            transaction.commit()
        });
        written.map_err(|source| StoreError::Database { path: self.path.clone(), source })
    }

    fn failed(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Database { path: self.path.clone(), source }
    }

    fn damaged(&self, job: u32, what: &'static str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), job, what }
    }
}

/// Makes the database a file of its owner alone, if it is not one yet: the environments of jobs
/// have passwords. SQLite gives the files beside it the same mode.
fn make_private(path: &Path) -> io::Result<()> {
    File::options().append(true).create(true).mode(0o600).open(path)?;
    let files = ["", "-wal", "-shm"].map(|ending| with_ending(path, ending));
    for file in files.iter().filter(|file| file.exists()) {
        fs::set_permissions(file, Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Returns the number of an environment, which is added if it is new.
fn environment(
    connection: &Connection,
    environment: &impl serde::Serialize,
) -> rusqlite::Result<i64> {
    let content = rows::json(environment);
    let digest = Sha256::digest(content.as_bytes());
    let known = connection
        .prepare_cached("SELECT id FROM environments WHERE digest = ?")?
        .query_row([digest.as_slice()], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    connection
        .prepare_cached("INSERT INTO environments (digest, content) VALUES (?, ?)")?
        .insert(params![digest.as_slice(), content])
}

#[cfg(test)]
mod tests;
