//! The directory of a sweep: its files, and the points in them.

mod file;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_run::table::{Cell, Column, read_parquet};

pub use file::ShardFile;

use crate::SweepError;
use crate::manifest::Manifest;
use crate::plan::{NUMBER, Origin, POINT, Plan};

/// Beginning of the names of partitions.
const PREFIX: &str = "scenario=";

/// The directory of one sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    directory: PathBuf,
}

impl Partition {
    /// Begins the partition of the sweep of this name below `out`, or goes on in it. Several
    /// processes may do so at a time, each with a plan of some of its points.
    ///
    /// # Errors
    /// If the directory or the manifest cannot be written.
    pub fn begin(
        out: &Path,
        name: &str,
        plan: &Plan<'_>,
        origin: &Origin,
    ) -> Result<Self, SweepError> {
        let partition = Self::of(out, name);
        let directory = &partition.directory;
        fs::create_dir_all(directory).map_err(|error| SweepError::write(directory, error))?;
        if Manifest::read(directory)?.is_none() {
            plan.manifest(name, origin).write(directory)?;
        }
        Ok(partition)
    }

    /// Returns the partition of the sweep of this name below `out`, which may not exist.
    #[must_use]
    pub fn of(out: &Path, name: &str) -> Self {
        Self { directory: out.join(format!("{PREFIX}{name}")) }
    }

    /// Returns the partition in this directory.
    #[must_use]
    pub fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Returns its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns its files with results, by name; none if the directory does not exist.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, InputError> {
        let paths = listed(&self.directory)?;
        Ok(paths
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "parquet"))
            .collect())
    }

    /// Returns the numbers of the points in its files.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn done(&self) -> Result<HashSet<usize>, InputError> {
        let mut done = HashSet::new();
        for path in self.files()? {
            let (_, rows) = match read_parquet(&path, |name| name == NUMBER) {
                // Another process has merged it meanwhile.
                Err(_) if !path.exists() => continue,
                read => read?,
            };
            for cell in rows.into_iter().flatten() {
                if let Cell::Integer(number) = cell {
                    done.insert(number as usize);
                }
            }
        }
        Ok(done)
    }

    /// Returns the rows of those `points` that other partitions beside this one have, such as that
    /// of the same sweep with fewer values.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn adopted(
        &self,
        plan: &Plan<'_>,
        points: &[usize],
    ) -> Result<BTreeMap<usize, Vec<Vec<Cell>>>, InputError> {
        let mut wanted: BTreeMap<&str, usize> =
            points.iter().map(|point| (plan.keys()[*point].as_str(), *point)).collect();
        let mut adopted = BTreeMap::new();
        let Some(own) = Manifest::read(&self.directory)? else { return Ok(adopted) };
        for other in self.siblings()? {
            // Manifests of other versions may have another layout, and their points other keys.
            let Ok(Some(manifest)) = Manifest::read(&other.directory) else { continue };
            // One command has other results at flow level than at bank level.
            let has_results = plan.result_columns().iter().all(|c| manifest.columns.contains(c));
            if !own.may_share(&manifest) || !has_results {
                continue;
            }
            for path in other.files()? {
                let points = match by_point(&path, plan.result_columns()) {
                    // Another process has merged it meanwhile.
                    Err(_) if !path.exists() => continue,
                    points => points?,
                };
                for found in points.into_values() {
                    if let Some(point) = wanted.remove(found.key.as_str()) {
                        adopted.insert(point, plan.headed(point, found.rows));
                    }
                }
            }
        }
        Ok(adopted)
    }

    /// Returns the other partitions of the same directory.
    fn siblings(&self) -> Result<Vec<Self>, InputError> {
        let Some(out) = self.directory.parent() else { return Ok(Vec::new()) };
        Ok(all(out)?.into_iter().filter(|other| other != self).collect())
    }
}

/// Returns the partitions below `out`, by name.
///
/// # Errors
/// If the directory cannot be read.
pub fn all(out: &Path) -> Result<Vec<Partition>, InputError> {
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    };
    let paths = listed(out)?.into_iter().filter(|path| named(path) && path.is_dir());
    Ok(paths.map(|directory| Partition { directory }).collect())
}

/// Returns the entries of a directory by name; none if it does not exist.
fn listed(directory: &Path) -> Result<BTreeSet<PathBuf>, InputError> {
    let refuse = |error| InputError::unreadable(directory, &error);
    match fs::read_dir(directory) {
        Ok(entries) => entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()
            .map_err(refuse),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(refuse(error)),
    }
}

/// A point in a file.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) key: String,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// Returns the points of a file by their numbers, with the cells of these columns.
pub(crate) fn by_point(
    path: &Path,
    columns: &[Column],
) -> Result<BTreeMap<usize, Found>, InputError> {
    let own = |name: &str| name == POINT || name == NUMBER;
    let wanted = |name: &str| own(name) || columns.iter().any(|column| column.name == name);
    let (found, rows) = read_parquet(path, wanted)?;
    let refuse = |name: &str| {
        InputError::new(path.display().to_string(), format!("it has no column `{name}`"))
            .help("move files that are not of this sweep elsewhere")
    };
    let place = |name: &str| {
        found.iter().position(|column| column.name == name).ok_or_else(|| refuse(name))
    };
    let (point, number) = (place(POINT)?, place(NUMBER)?);
    let places = columns.iter().map(|column| place(&column.name)).collect::<Result<Vec<_>, _>>()?;
    let mut points: BTreeMap<usize, Found> = BTreeMap::new();
    for row in rows {
        if let (Cell::String(key), Cell::Integer(number)) = (&row[point], &row[number]) {
            let cells = places.iter().map(|place| row[*place].clone()).collect();
            let found = points.entry(*number as usize).or_default();
            found.key.clone_from(key);
            found.rows.push(cells);
        }
    }
    Ok(points)
}
