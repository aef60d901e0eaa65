//! The file of counters that every process of a colored program adds to, and that an audit finds
//! pools and orders in.
//!
//! It has a name because programs that are started later must find it, and it is locked as long as
//! its memweir lives, so that the next start can remove what a killed one left behind.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memweir_core::preload::{COUNTERS, Counter, Order, POOLS};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::processes::lives;

/// Where the counters of running programs are.
const DIRECTORY: &str = "/dev/shm";

/// How their files' names begin.
const PREFIX: &str = "memweir-color-";

/// Words of an entry of a process.
const ENTRY: usize = 5;

/// How long a new file may be empty.
const YOUNG: Duration = Duration::from_secs(60);

/// The counters of one colored program.
#[derive(Debug)]
pub(crate) struct CountersFile {
    file: NamedTempFile,
    _lock: Flock<File>,
}

impl CountersFile {
    /// Makes the file, and removes those of the dead.
    pub(crate) fn create() -> io::Result<Self> {
        Self::create_in(Path::new(DIRECTORY))
    }

    fn create_in(directory: &Path) -> io::Result<Self> {
        remove_leftovers(directory);
        let file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(directory)?;
        // Its own open file: the lock goes when this process ends, whatever inherits others.
        let lock = Flock::lock(file.reopen()?, FlockArg::LockExclusive).map_err(|(_, e)| e)?;
        Ok(Self { file, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Begins counting at zero; the order is there for who audits.
    pub(crate) fn begin(&mut self, order: &Order) -> io::Result<()> {
        let mut content = vec![0; (COUNTERS + POOLS * ENTRY) * 8];
        content.extend_from_slice(order.to_string().as_bytes());
        let file = self.file.as_file_mut();
        file.rewind()?;
        file.write_all(&content)
    }

    /// What has been counted so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut words = [0; COUNTERS * 8];
        let read = File::open(self.path()).and_then(|mut file| file.read_exact(&mut words));
        let count = |counter: Counter| match read {
            Ok(()) => word(&words, counter as usize).unwrap_or(0),
            Err(_) => 0,
        };
        Totals(Counter::ALL.iter().map(|(name, counter)| (*name, count(*counter))).collect())
    }
}

/// The counters of all processes of a colored program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals(Vec<(&'static str, u64)>);

impl Totals {
    /// One counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).map_or(0, |(_, value)| *value)
    }

    /// Every counter and its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().copied()
    }
}

impl Serialize for Totals {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// The order that process `pid` was started with, and the ranges of its pool: start and end of what
/// it holds, start and end of what it searches.
pub(crate) fn entry_of(pid: u32) -> Option<(Order, [u64; 4])> {
    let entry = COUNTERS + pid as usize % POOLS * ENTRY;
    files(Path::new(DIRECTORY)).find_map(|path| {
        let bytes = fs::read(path).ok()?;
        if word(&bytes, entry)? != u64::from(pid) {
            return None;
        }
        let text = bytes.get((COUNTERS + POOLS * ENTRY) * 8..)?;
        let order = std::str::from_utf8(text).ok()?.parse().ok()?;
        let range = |i: usize| word(&bytes, entry + 1 + i);
        Some((order, [range(0)?, range(1)?, range(2)?, range(3)?]))
    })
}

fn word(bytes: &[u8], place: usize) -> Option<u64> {
    let word = bytes.get(place * 8..place * 8 + 8)?;
    Some(u64::from_le_bytes(std::array::from_fn(|i| word[i])))
}

fn files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    entries.filter(ours).map(|entry| entry.path())
}

/// Removes the files whose memweir was killed, once their programs have ended, too.
fn remove_leftovers(directory: &Path) {
    for path in files(directory) {
        let abandoned = File::open(&path).and_then(|file| {
            let young = file.metadata()?.modified()?.elapsed().is_ok_and(|age| age < YOUNG);
            let mut lock =
                Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
            let mut content = Vec::new();
            lock.read_to_end(&mut content)?;
            Ok(if content.is_empty() { !young } else { !any_lives(&content) })
        });
        if matches!(abandoned, Ok(true)) {
            // Somebody else may have removed it just now.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether a process that has an entry still runs.
fn any_lives(content: &[u8]) -> bool {
    let processes = (0..POOLS).filter_map(|n| word(content, COUNTERS + n * ENTRY));
    processes.filter_map(|pid| u32::try_from(pid).ok()).any(|pid| pid != 0 && lives(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        "offset=0;bank=2000;colors=0;shortage=spill;delivery=move;pool=1;limit=0;counters="
            .parse()
            .unwrap()
    }

    /// What is left of a file whose memweir was killed, with an entry of `pid`.
    fn killed(directory: &Path, pid: u64) -> PathBuf {
        let mut counters = CountersFile::create_in(directory).unwrap();
        counters.begin(&order()).unwrap();
        let CountersFile { mut file, _lock } = counters;
        file.seek(io::SeekFrom::Start((COUNTERS * 8) as u64)).unwrap();
        file.write_all(&pid.to_le_bytes()).unwrap();
        file.into_temp_path().keep().unwrap()
    }

    #[test]
    fn files_of_the_dead_are_removed_and_others_kept() {
        let folder = tempfile::tempdir().unwrap();
        let of_dead = killed(folder.path(), u64::from(u32::MAX));
        let mut of_living = CountersFile::create_in(folder.path()).unwrap();
        assert!(!of_dead.exists(), "removed by the next start");
        assert!(of_living.path().exists());
        of_living.begin(&order()).unwrap();
        let runs_on = killed(folder.path(), u64::from(std::process::id()));
        let foreign = folder.path().join("other");
        fs::write(&foreign, "x").unwrap();
        drop(CountersFile::create_in(folder.path()).unwrap());
        assert!(of_living.path().exists(), "its memweir lives");
        assert!(runs_on.exists(), "its program lives");
        assert!(foreign.exists());
        assert_eq!(of_living.totals().get(Counter::Placed), 0);
    }
}
