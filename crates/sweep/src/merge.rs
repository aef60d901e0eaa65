//! One table of all files of a partition.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memweir_core::input::InputError;
use memweir_run::table::{Cell, Column};

use crate::SweepError;
use crate::manifest::{Manifest, ManifestColumn, ManifestPoint};
use crate::partition::{Partition, ShardFile, by_point};
use crate::plan::{POINT, REPORT};

/// Beginning of the names of merged files.
const MERGED: &str = "merged";

/// The results of a partition.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Its description.
    pub manifest: Manifest,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// Identity of each file when it was read.
    identities: Vec<Identity>,
    /// Rows of each point that has run, in the order of the grid, with the cells of all columns.
    pub points: Vec<(ManifestPoint, Vec<Vec<Cell>>)>,
    /// Points that have not run.
    pub missing: Vec<ManifestPoint>,
    /// Points that several files have, with equal rows.
    pub repeated: Vec<ManifestPoint>,
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
    let columns: Vec<Column> = manifest.columns.iter().map(ManifestColumn::column).collect();
    let files = partition.files()?;
    let identities = files.iter().map(|path| Identity::of(path)).collect();
    let mut found: BTreeMap<String, (usize, Vec<Vec<Cell>>)> = BTreeMap::new();
    let mut repeated: HashSet<String> = HashSet::new();
    for (number, path) in files.iter().enumerate() {
        for (key, rows) in by_point(path, &columns)? {
            match found.get(&key) {
                Some((_, known)) if *known == rows => {
                    repeated.insert(key);
                }
                Some((first, _)) => return Err(conflict(&manifest, &key, &files[*first], path)),
                None => {
                    found.insert(key, (number, rows));
                }
            }
        }
    }
    let known: HashSet<&str> = manifest.points.iter().map(|point| point.key.as_str()).collect();
    if let Some((key, (file, _))) = found.iter().find(|(key, _)| !known.contains(key.as_str())) {
        let reason = format!("the point {key} is not of this sweep");
        return Err(InputError::new(files[*file].display().to_string(), reason)
            .help("move the file elsewhere"));
    }
    let repeated =
        manifest.points.iter().filter(|point| repeated.contains(&point.key)).cloned().collect();
    let (mut points, mut missing) = (Vec::new(), Vec::new());
    for point in &manifest.points {
        match found.remove(&point.key) {
            Some((_, rows)) => points.push((point.clone(), rows)),
            None => missing.push(point.clone()),
        }
    }
    Ok(Merged { manifest, files, identities, points, missing, repeated })
}

/// Returns the refusal of a point with different rows in two files.
fn conflict(manifest: &Manifest, key: &str, first: &Path, second: &Path) -> InputError {
    let place = manifest.points.iter().find(|point| point.key == key);
    let place = place.map_or_else(|| key.to_owned(), |point| format!("{key} ({})", point.place()));
    let reason = format!("the point {place} has other results than in {}", first.display());
    InputError::new(second.display().to_string(), reason)
        .help("equal scenarios give equal results: remove the file that is wrong")
}

impl Merged {
    /// Returns the columns and rows as `--out FILE` of the whole sweep has them: without key and
    /// report, the swept keys in the order of the grid.
    #[must_use]
    pub fn table(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let columns: Vec<Column> =
            self.manifest.columns.iter().map(ManifestColumn::column).collect();
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        let swept: Vec<usize> = self
            .manifest
            .sweep
            .iter()
            .filter_map(|(key, _)| place(&format!("at.{key}")).or_else(|| place(key)))
            .collect();
        let hidden = |at: &usize| [POINT, REPORT].contains(&columns[*at].name.as_str());
        let results = (0..columns.len()).filter(|at| !swept.contains(at) && !hidden(at));
        let order: Vec<usize> = swept.iter().copied().chain(results).collect();
        let pick = |row: &Vec<Cell>| order.iter().map(|at| row[*at].clone()).collect();
        let rows = self.points.iter().flat_map(|(_, rows)| rows).map(pick).collect();
        (order.iter().map(|at| columns[*at].clone()).collect(), rows)
    }

    /// Returns the points that have run as `--json` has them, in the order of the grid.
    pub fn reports(&self) -> impl Iterator<Item = (&str, &str)> {
        let report = self.manifest.columns.iter().position(|column| column.name == REPORT);
        self.points.iter().filter_map(move |(point, rows)| match rows.first()?.get(report?)? {
            Cell::Text(report) => Some((point.key.as_str(), report.as_str())),
            _ => None,
        })
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
        let columns: Vec<Column> =
            self.manifest.columns.iter().map(ManifestColumn::column).collect();
        let mut file = ShardFile::new(&Partition::at(directory), MERGED, &columns)?;
        file.add(self.points.iter().flat_map(|(_, rows)| rows).cloned().collect());
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
/// another name, at which nobody replaces it.
fn remove(path: &Path, identity: &Identity) -> io::Result<()> {
    let aside = path.with_extension("merged");
    fs::rename(path, &aside)?;
    match Identity::of(&aside) == *identity {
        true => fs::remove_file(&aside),
        false => fs::rename(&aside, path),
    }
}
