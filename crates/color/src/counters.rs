//! The file of counters to which every process of a colored program adds, and in which an audit
//! finds pools and orders.
//!
//! It has a name, in the [run-time directory](RuntimeDirectory), because programs that start later
//! must find it, and it is locked as long as its memweir lives, so that the next start can remove
//! the files of killed ones.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memweir_abi::preload::{
    COUNTER_WORDS, COUNTERS, Counter, ENTRY, MAX_PRELOAD_COLORS, Order, POOLS, color_word,
};
use memweir_core::Bytes;
use memweir_linux::private::{self, RuntimeDirectory};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::processes::start_of;

/// Beginning of the files' names.
const PREFIX: &str = "color-";

/// Bytes of all counters; the order follows them.
const WORDS: usize = COUNTER_WORDS * 8;

/// Most bytes that a file may have: an order is far shorter than this.
const LARGEST: Bytes = Bytes(WORDS as u64 + (64 << 10));

/// Time for which a new file may be empty.
const YOUNG: Duration = Duration::from_secs(60);

/// The counters of one colored program.
#[derive(Debug)]
pub(crate) struct CountersFile {
    file: NamedTempFile,
    _lock: File,
}

impl CountersFile {
    /// Creates the file, and removes leftover ones.
    pub(crate) fn create() -> io::Result<Self> {
        Self::create_in(RuntimeDirectory::open()?.path())
    }

    fn create_in(directory: &Path) -> io::Result<Self> {
        remove_leftovers(directory);
        let file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(directory)?;
        // Its own open file: the lock goes when this process ends, whatever inherits others.
        let lock = file.reopen()?;
        lock.lock()?;
        Ok(Self { file, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Begins counting at zero, and stores the order for audits.
    pub(crate) fn begin(&mut self, order: &Order) -> io::Result<()> {
        let mut content = vec![0; WORDS];
        content.extend_from_slice(order.to_string().as_bytes());
        let file = self.file.as_file_mut();
        file.rewind()?;
        file.write_all(&content)
    }

    /// Returns the counts so far.
    pub(crate) fn totals(&self) -> Totals {
        let content = private::read(self.path(), LARGEST).unwrap_or_default();
        let count = |place: usize| word(&content, place).unwrap_or(0);
        let by_color = (0..MAX_PRELOAD_COLORS)
            .map(|color| (color, count(color_word(color as usize))))
            .filter(|(_, pages)| *pages > 0)
            .collect();
        let named = |(name, counter): &(&'static str, Counter)| (*name, count(*counter as usize));
        Totals { counters: Counter::ALL.iter().map(named).collect(), by_color }
    }
}

/// The counters of all processes of a colored program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    counters: Vec<(&'static str, u64)>,
    by_color: BTreeMap<u32, u64>,
}

impl Totals {
    /// One counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).map_or(0, |(_, value)| *value)
    }

    /// Every counter and its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters.iter().copied()
    }

    /// Pages that the program was given, by bank color.
    #[must_use]
    pub fn by_color(&self) -> &BTreeMap<u32, u64> {
        &self.by_color
    }
}

impl Serialize for Totals {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Returns the order that process `pid` was started with, and the ranges of its pool: start and end
/// of the pages that it holds, start and end of those that it searches.
pub(crate) fn entry_of(pid: u32) -> Option<(Order, [u64; 4])> {
    entry_in(RuntimeDirectory::open().ok()?.path(), pid)
}

fn entry_in(directory: &Path, pid: u32) -> Option<(Order, [u64; 4])> {
    let (number, start) = (pid as usize % POOLS, start_of(pid)?);
    files(directory).find_map(|path| {
        let content = private::read(&path, LARGEST).ok()?;
        let [process, started, ranges @ ..] = entry(&content, number)?;
        if (process, started) != (u64::from(pid), start) {
            return None;
        }
        let order = std::str::from_utf8(content.get(WORDS..)?).ok()?.parse().ok()?;
        Some((order, ranges))
    })
}

/// The entry with this number.
fn entry(content: &[u8], number: usize) -> Option<[u64; ENTRY]> {
    let first = COUNTERS + number * ENTRY;
    let mut words = [0; ENTRY];
    for (place, value) in words.iter_mut().enumerate() {
        *value = word(content, first + place)?;
    }
    Some(words)
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
        let abandoned = private::open(&path).and_then(|file| {
            let young = file.metadata()?.modified()?.elapsed().is_ok_and(|age| age < YOUNG);
            file.try_lock()?;
            let content = private::read(&path, LARGEST)?;
            Ok(if content.is_empty() { !young } else { !any_lives(&content) })
        });
        if matches!(abandoned, Ok(true)) {
            // Another start may have removed it just now.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns true if a process that has an entry still runs.
fn any_lives(content: &[u8]) -> bool {
    (0..POOLS).filter_map(|number| entry(content, number)).any(|[process, started, ..]| {
        let start = u32::try_from(process).ok().filter(|pid| *pid != 0).and_then(start_of);
        start == Some(started)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        "offset=0;bank=2000;colors=0;shortage=spill;delivery=move;pool=1;limit=0;counters="
            .parse()
            .unwrap()
    }

    /// Returns the leftover file of a memweir that was killed, with an entry of a process.
    fn killed(directory: &Path, pid: u32, started: u64) -> PathBuf {
        let mut counters = CountersFile::create_in(directory).unwrap();
        counters.begin(&order()).unwrap();
        let CountersFile { mut file, _lock } = counters;
        let place = (COUNTERS + pid as usize % POOLS * ENTRY) * 8;
        file.seek(io::SeekFrom::Start(place as u64)).unwrap();
        for word in [u64::from(pid), started, 1, 2, 3, 4] {
            file.write_all(&word.to_le_bytes()).unwrap();
        }
        file.into_temp_path().keep().unwrap()
    }

    /// The entry of this process.
    fn this() -> (u32, u64) {
        let pid = std::process::id();
        (pid, start_of(pid).unwrap())
    }

    #[test]
    fn files_of_the_dead_are_removed_and_others_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (pid, started) = this();
        let of_dead = killed(folder.path(), u32::MAX, 7);
        // Its process id belongs to another process by now.
        let of_earlier = killed(folder.path(), pid, started - 1);
        let mut of_living = CountersFile::create_in(folder.path()).unwrap();
        assert!(!of_dead.exists() && !of_earlier.exists(), "removed by the next start");
        assert!(of_living.path().exists());
        of_living.begin(&order()).unwrap();
        let runs_on = killed(folder.path(), pid, started);
        let foreign = folder.path().join("other");
        fs::write(&foreign, "x").unwrap();
        drop(CountersFile::create_in(folder.path()).unwrap());
        assert!(of_living.path().exists(), "its memweir lives");
        assert!(runs_on.exists(), "its program lives");
        assert!(foreign.exists());
        assert_eq!(of_living.totals().get(Counter::Placed), 0);
    }

    #[test]
    fn totals_are_the_sums_in_the_file_and_colors_without_pages_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut counters = CountersFile::create_in(folder.path()).unwrap();
        counters.begin(&order()).unwrap();
        for (place, value) in [(Counter::Placed as usize, 4), (color_word(3), 5_u64)] {
            let file = counters.file.as_file_mut();
            file.seek(io::SeekFrom::Start(place as u64 * 8)).unwrap();
            file.write_all(&value.to_le_bytes()).unwrap();
        }
        let totals = counters.totals();
        assert_eq!(
            (totals.get(Counter::Placed), totals.by_color()),
            (4, &BTreeMap::from([(3, 5)]))
        );
        assert_eq!(totals.iter().map(|(_, count)| count).sum::<u64>(), 4);
    }

    #[test]
    fn an_entry_belongs_to_the_process_that_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let (pid, started) = this();
        let of_earlier = killed(folder.path(), pid, started - 1);
        assert_eq!(entry_in(folder.path(), pid), None);
        fs::remove_file(of_earlier).unwrap();
        killed(folder.path(), pid, started);
        assert_eq!(entry_in(folder.path(), pid), Some((order(), [1, 2, 3, 4])));
    }

    #[test]
    fn what_is_no_file_of_counters_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(format!("{PREFIX}{name}"));
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("link")).unwrap();
        File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
        let (pid, started) = this();
        killed(folder.path(), pid, started);
        assert_eq!(entry_in(folder.path(), pid), Some((order(), [1, 2, 3, 4])));
        drop(CountersFile::create_in(folder.path()).unwrap());
        assert!(path("fifo").exists() && path("link").exists() && path("huge").exists());
    }
}
