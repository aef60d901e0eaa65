//! The file of one process in a partition.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memweir_run::files::Replacement;
use memweir_run::table::{Cell, Column, parquet};

use super::{Partition, by_point};
use crate::SweepError;

/// Time after which new points are saved: at most this much work is lost with a process.
const SAVE_EVERY: Duration = Duration::from_secs(5);
/// Limit on the share of time that goes into saving, as one over it.
const SAVING_SHARE: u32 = 20;

/// A file of whole points that is replaced as a whole whenever there are more of them.
#[derive(Debug)]
pub struct ShardFile {
    path: PathBuf,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// Number of rows in the file.
    saved: usize,
    last: Instant,
    interval: Duration,
}

impl ShardFile {
    /// Begins a file of a partition, whose name starts with `stem`. It appears with its first
    /// points, under a name that no other process chooses.
    ///
    /// # Errors
    /// If the system gives no random number for the name.
    pub fn new(partition: &Partition, stem: &str, columns: &[Column]) -> Result<Self, SweepError> {
        let directory = partition.directory();
        let unique = random().map_err(|error| SweepError::write(directory, error))?;
        Ok(Self::empty(partition, &format!("{stem}-{unique:016x}"), columns))
    }

    /// Goes on with the file `name` of a partition, which appears with its first points if it is
    /// not there. Also returns the numbers of its points. Whoever runs a task again after its
    /// worker died thus writes none of its points twice.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn resume(
        partition: &Partition,
        name: &str,
        columns: &[Column],
    ) -> Result<(Self, HashSet<usize>), SweepError> {
        let mut file = Self::empty(partition, name, columns);
        let mut done = HashSet::new();
        let there = match by_point(&file.path, columns) {
            // There is none yet, or another process has merged it.
            Err(_) if !file.path.exists() => BTreeMap::new(),
            read => read?,
        };
        for (number, found) in there {
            done.insert(number);
            file.rows.extend(found.rows);
        }
        file.saved = file.rows.len();
        Ok((file, done))
    }

    fn empty(partition: &Partition, name: &str, columns: &[Column]) -> Self {
        Self {
            path: partition.directory().join(format!("{name}.parquet")),
            columns: columns.to_owned(),
            rows: Vec::new(),
            saved: 0,
            last: Instant::now(),
            interval: SAVE_EVERY,
        }
    }

    /// Adds the rows of one or several whole points, and saves them if it is time to. A failure is
    /// left to the next attempt, or to the end: a full disk may have room later.
    pub fn add(&mut self, rows: Vec<Vec<Cell>>) {
        self.rows.extend(rows);
        if self.last.elapsed() >= self.interval {
            let start = Instant::now();
            let _ = self.save();
            self.last = Instant::now();
            self.interval = SAVE_EVERY.max(SAVING_SHARE * start.elapsed());
        }
    }

    /// Saves what was added since. Returns the path of the file; `None` without any point.
    ///
    /// # Errors
    /// If it cannot be written. Points that were saved before stay.
    pub fn finish(mut self) -> Result<Option<PathBuf>, SweepError> {
        if self.saved < self.rows.len() {
            self.save().map_err(|error| SweepError::write(&self.path, error))?;
        }
        Ok((!self.rows.is_empty()).then_some(self.path))
    }

    fn save(&mut self) -> io::Result<()> {
        replace(&self.path, &parquet(&self.columns, &self.rows)?)?;
        self.saved = self.rows.len();
        Ok(())
    }
}

/// Returns a random number from the kernel. Generators within the process have the same state in
/// all workers that were forked from it.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Replaces a file by one that is on the disk as a whole.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let replacement = Replacement::of(path)?;
    let mut file = replacement.file();
    file.write_all(content)?;
    file.sync_all()?;
    replacement.commit()
}
