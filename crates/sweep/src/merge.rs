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

/// Reads all files of the partition in a directory.
///
/// # Errors
/// If a file cannot be read, is of another sweep, or has other rows of a point than another file.
pub fn read(directory: &Path) -> Result<Merged, InputError> {
    let partition = Partition::at(directory);
    let manifest = Manifest::read(directory)?.ok_or_else(|| {
        InputError::new(directory.display().to_string(), "there is no manifest of a sweep")
            .help("the directory of `--out`, or a `scenario=...` in it")
    })?;
    let grid = manifest.grid()?;
    let mut place = vec![0; grid.len()];
    for point in 0..grid.len() {
        place[grid.number(point)] = point;
    }
    let report = manifest.columns.iter().position(|column| column.name == REPORT);
    let files = partition.files()?;
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
        let merged = file.finish()?;
        for (path, identity) in self.files.iter().zip(&self.identities) {
            remove(path, identity).map_err(|error| SweepError::write(path, error))?;
        }
        Ok(merged)
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

/// Removes a file unless its process has replaced it by one with more points. It is looked at under
/// another name, at which nobody replaces it, but which readers take for that of a shard: if the
/// merge dies meanwhile, no point is lost.
fn remove(path: &Path, identity: &Identity) -> io::Result<()> {
    let aside = path.with_extension("aside.parquet");
    fs::rename(path, &aside)?;
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
    use super::*;

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
