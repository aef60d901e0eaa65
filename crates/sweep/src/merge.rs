//! One table of all files of a partition.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memweir_core::input::InputError;
use memweir_run::table::{Cell, Column};
use memweir_study::sweep::Grid;

use crate::SweepError;
use crate::manifest::Manifest;
use crate::partition::{Found, Partition, ShardFile, by_point};
use crate::plan::{NUMBER, POINT, REPORT, TRUNCATED};

/// Beginning of the names of merged files.
const MERGED: &str = "merged";

/// The results of a partition.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Its description.
    pub manifest: Manifest,
    /// The grid of the sweep.
    pub grid: Grid,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// Identity of each file when it was read.
    identities: Vec<Identity>,
    /// The points that have run, in the order of the grid.
    pub points: Vec<MergedPoint>,
    /// The points of the grid that have not run.
    pub missing: Vec<usize>,
    /// The points that several files have, with equal rows.
    pub repeated: Vec<usize>,
}

/// A point that has run.
#[derive(Clone, Debug)]
pub struct MergedPoint {
    /// Its place in the grid.
    pub point: usize,
    /// Its key.
    pub key: String,
    /// Its rows, with the cells of all columns.
    pub rows: Vec<Vec<Cell>>,
}

/// Reads all files of the partition in a directory. Shards may write and other merges may replace
/// files meanwhile.
///
/// # Errors
/// If a file cannot be read, is of another sweep, or has other rows of a point than another file.
pub fn read(directory: &Path) -> Result<Merged, InputError> {
    let partition = Partition::at(directory);
    read_listed(directory, || partition.files())
}

/// Reads the files that `list` returns, all of them again if another merge replaces some meanwhile.
fn read_listed(
    directory: &Path,
    mut list: impl FnMut() -> Result<Vec<PathBuf>, InputError>,
) -> Result<Merged, InputError> {
    let manifest = Manifest::read(directory)?.ok_or_else(|| {
        InputError::new(directory.display().to_string(), "there is no manifest of a sweep")
            .help("the directory of `--out`, or a `scenario=...` in it")
    })?;
    let grid = manifest.grid()?;
    loop {
        let files = list()?;
        let merged = read_files(&manifest, &grid, &files);
        if !are_replaced(&files, &list()?) {
            return merged;
        }
    }
}

/// Returns true if another merge has replaced files between two lists of them: points may have
/// moved from a file that was gone when it was read to one that is in neither the list nor the
/// result.
fn are_replaced(before: &[PathBuf], after: &[PathBuf]) -> bool {
    let names = |files: &[PathBuf]| files.iter().cloned().collect::<BTreeSet<PathBuf>>();
    let (before, after) = (names(before), names(after));
    let is_merged = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MERGED))
    };
    !before.is_subset(&after) || after.difference(&before).any(|path| is_merged(path))
}

fn read_files(manifest: &Manifest, grid: &Grid, files: &[PathBuf]) -> Result<Merged, InputError> {
    let mut place = vec![0; grid.len()];
    for point in 0..grid.len() {
        place[grid.number(point)] = point;
    }
    let report = manifest.columns.iter().position(|column| column.name == REPORT);
    let identities = files.iter().map(|path| Identity::of(path)).collect();
    let mut first: Vec<Option<(usize, MergedPoint)>> = vec![None; grid.len()];
    let mut repeated: BTreeSet<usize> = BTreeSet::new();
    for (file, path) in files.iter().enumerate() {
        for (number, Found { key, rows }) in by_point(path, &manifest.columns)? {
            let Some(point) = place.get(number).copied() else {
                let reason = format!("the point {key} is not of this sweep");
                return Err(InputError::new(path.display().to_string(), reason)
                    .help("move the file elsewhere"));
            };
            match &first[point] {
                Some((_, known)) if known.key == key && are_equal(&known.rows, &rows, report) => {
                    repeated.insert(point);
                }
                Some((other, _)) => {
                    return Err(conflict(&key, &grid.place(point), &files[*other], path));
                }
                None => first[point] = Some((file, MergedPoint { point, key, rows })),
            }
        }
    }
    let missing = (0..grid.len()).filter(|point| first[*point].is_none()).collect();
    let points = first.into_iter().flatten().map(|(_, point)| point).collect();
    let repeated = repeated.into_iter().collect();
    let (manifest, grid, files) = (manifest.clone(), grid.clone(), files.to_owned());
    Ok(Merged { manifest, grid, files, identities, points, missing, repeated })
}

/// Returns true for equal rows. The order of a report's fields does not count: it follows that of
/// the swept keys.
fn are_equal(first: &[Vec<Cell>], second: &[Vec<Cell>], report: Option<usize>) -> bool {
    let same = |(column, (a, b)): (usize, (&Cell, &Cell))| {
        a == b || Some(column) == report && parsed(a).is_some_and(|a| Some(a) == parsed(b))
    };
    first.len() == second.len()
        && first.iter().zip(second).all(|(a, b)| a.iter().zip(b).enumerate().all(same))
}

fn parsed(report: &Cell) -> Option<serde_json::Value> {
    match report {
        Cell::String(report) => serde_json::from_str(report).ok(),
        _ => None,
    }
}

/// Returns the refusal of a point with different rows in two files.
fn conflict(key: &str, place: &str, first: &Path, second: &Path) -> InputError {
    let reason = format!("the point {key} ({place}) has other results than in {}", first.display());
    InputError::new(second.display().to_string(), reason)
        .help("equal scenarios give equal results: remove the file that is wrong")
}

impl Merged {
    /// Returns the columns and rows as `--out FILE` of the whole sweep has them: without key and
    /// report, the swept keys in the order of the grid.
    #[must_use]
    pub fn table(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let columns = &self.manifest.columns;
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        let swept: Vec<usize> = self
            .manifest
            .sweep
            .iter()
            .filter_map(|(key, _)| place(&format!("at.{key}")).or_else(|| place(key)))
            .collect();
        let hidden = |at: &usize| [POINT, NUMBER, REPORT].contains(&columns[*at].name.as_str());
        let results = (0..columns.len()).filter(|at| !swept.contains(at) && !hidden(at));
        let order: Vec<usize> = swept.iter().copied().chain(results).collect();
        let pick = |row: &Vec<Cell>| order.iter().map(|at| row[*at].clone()).collect();
        let rows = self.points.iter().flat_map(|point| &point.rows).map(pick).collect();
        (order.iter().map(|at| columns[*at].clone()).collect(), rows)
    }

    /// Returns the points that have run as `--json` has them, in the order of the grid.
    pub fn reports(&self) -> impl Iterator<Item = &str> {
        let report = self.manifest.columns.iter().position(|column| column.name == REPORT);
        self.points.iter().filter_map(move |point| match point.rows.first()?.get(report?)? {
            Cell::String(report) => Some(report.as_str()),
            _ => None,
        })
    }

    /// Returns the points whose trace may lack accesses, in the order of the grid.
    #[must_use]
    pub fn truncated(&self) -> Vec<usize> {
        let column = self.manifest.columns.iter().position(|column| column.name == TRUNCATED);
        let is_truncated = |row: &Vec<Cell>| {
            column.and_then(|at| row.get(at)).is_some_and(|cell| *cell == Cell::Boolean(true))
        };
        let points = self.points.iter().filter(|point| point.rows.iter().any(is_truncated));
        points.map(|point| point.point).collect()
    }

    /// Replaces the files by a single one with each point once. Returns its path; `None` where
    /// there is a single file already.
    ///
    /// # Errors
    /// If it cannot be written, or a file not be removed; no point is lost.
    pub fn replace_files(&self, directory: &Path) -> Result<Option<PathBuf>, SweepError> {
        if self.files.len() < 2 {
            return Ok(None);
        }
        let columns = &self.manifest.columns;
        let mut file = ShardFile::new(&Partition::at(directory), MERGED, columns)?;
        file.add(self.points.iter().flat_map(|point| &point.rows).cloned().collect());
        let Some(merged) = file.finish()? else { return Ok(None) };
        for (path, identity) in self.files.iter().zip(&self.identities) {
            remove(path, identity, &merged).map_err(|error| SweepError::write(path, error))?;
        }
        Ok(Some(merged))
    }
}

/// Identity of a file's content: a file that is replaced as a whole gets another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity(Option<(u64, SystemTime)>);

impl Identity {
    fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self(metadata.and_then(|found| Some((found.ino(), found.modified().ok()?))))
    }
}

/// Removes a file whose points are in `merged`, unless its process has replaced it by one with more
/// points. It is looked at under another name, at which nobody replaces it, but which readers take
/// for that of a shard: if the merge dies meanwhile, no point is lost. A file that another merge
/// has removed is left to it.
fn remove(path: &Path, identity: &Identity, merged: &Path) -> io::Result<()> {
    // The name of the merged file is of this merge alone.
    let unique = merged.file_stem().unwrap_or_default().to_string_lossy();
    let aside = path.with_extension(format!("{unique}.aside.parquet"));
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        renamed => renamed?,
    }
    match Identity::of(&aside) == *identity {
        true => fs::remove_file(&aside),
        false => put_back(&aside, path),
    }
}

/// Gives a file its name again. If its process has saved once more under that name, the newer file
/// stays, which has all points of the other. On file systems without links the file keeps the name
/// that it has.
fn put_back(aside: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(aside, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Ok(()),
        _ => fs::remove_file(aside),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use memweir_run::table::Kind;

    use super::*;
    use crate::manifest::FORMAT;

    /// Returns the partition of a sweep of two points, each in a file of its own.
    fn two_files(directory: &Path) -> Partition {
        let column = |(name, kind): (&str, _)| Column { name: name.to_owned(), kind };
        let columns =
            [(POINT, Kind::String), (NUMBER, Kind::Integer), (REPORT, Kind::String)].map(column);
        let manifest = Manifest {
            format: FORMAT,
            version: String::new(),
            sources: String::new(),
            command: "sim".to_owned(),
            scenario: String::new(),
            name: String::new(),
            text: String::new(),
            set: BTreeMap::new(),
            sweep: vec![("n".to_owned(), vec!["1".to_owned(), "2".to_owned()])],
            columns: columns.to_vec(),
            points: 2,
        };
        manifest.write(directory).expect("space");
        let partition = Partition::at(directory);
        for number in 0..2u64 {
            let mut file = ShardFile::new(&partition, "shard", &columns).expect("a name");
            let cells = [format!("key {number}").as_str().into(), number.into(), "{}".into()];
            file.add(vec![cells.to_vec()]);
            file.finish().expect("space");
        }
        partition
    }

    #[test]
    fn files_that_another_merge_replaces_are_read_in_their_new_place() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let partition = two_files(directory);
        let mut lists = 0;
        let merged = read_listed(directory, || {
            lists += 1;
            let files = partition.files()?;
            if lists == 1 {
                let other = read(directory)?;
                other.replace_files(directory).expect("space").expect("two files");
            }
            Ok(files)
        });
        let merged = merged.expect("files");
        assert_eq!((merged.points.len(), merged.files.len(), lists), (2, 1, 4));
    }

    #[test]
    fn a_list_that_a_merge_overtakes_is_read_again() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (before, after, replaced) in [
            (&["shard-1", "shard-2"][..], &["shard-1", "shard-2"][..], false),
            (&["shard-1"], &["shard-1", "shard-2"], false),
            (&["shard-1", "shard-2"], &["shard-2"], true),
            // The merge removed `shard-1` before it could be listed, and has yet to remove the
            // other.
            (&["shard-2"], &["merged-1", "shard-2"], true),
        ] {
            let found = are_replaced(&paths(before), &paths(after));
            assert_eq!(found, replaced, "{before:?}, then {after:?}");
        }
    }

    #[test]
    fn two_merges_at_a_time_lose_no_point() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        two_files(directory);
        let [one, other] = [0, 1].map(|_| read(directory).expect("files"));
        for merged in [one, other] {
            merged.replace_files(directory).expect("space").expect("two files");
        }
        let both = read(directory).expect("files");
        assert_eq!((both.points.len(), both.missing.len(), both.files.len()), (2, 0, 2));
    }

    #[test]
    fn a_file_that_grows_again_while_it_is_put_back_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let (aside, path) =
            (directory.path().join("s.aside.parquet"), directory.path().join("s.parquet"));
        fs::write(&aside, "two points").expect("space");
        fs::write(&path, "three points").expect("space");
        put_back(&aside, &path).expect("a directory");
        assert_eq!(fs::read_to_string(&path).expect("the file"), "three points");
        assert!(!aside.exists());

        fs::rename(&path, &aside).expect("one file system");
        put_back(&aside, &path).expect("a directory");
        assert_eq!(fs::read_to_string(&path).expect("the file"), "three points");
        assert!(!aside.exists());
    }
}
