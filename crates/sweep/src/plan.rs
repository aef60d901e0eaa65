//! Points of a sweep with their keys, and the columns of its files.
//!
//! A process reads the scenario at the points that it runs, and at those of
//! [`Grid::star`](memweir_study::sweep::Grid::star): their keys, with all values, name the sweep.
//! So a shard of a thousand does not cost the whole sweep.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use memweir_core::input::Replacement;
use memweir_run::table::{Cell, Column, Kind};
use memweir_study::ScenarioText;
use memweir_study::key::{SOURCES, shortened};
use memweir_study::sweep::Sweep;
use sha2::{Digest, Sha256};

use crate::manifest::{FORMAT, Manifest};
use crate::simulation::{Simulated, Simulation};

/// The column with the key of the point.
pub const POINT: &str = "point";
/// The column with the number of the point in the sweep: its
/// [`number`](memweir_study::sweep::Grid::number) in the grid.
pub const NUMBER: &str = "number";
/// The column with the point as `--json` has it, in the first row of each point.
pub const REPORT: &str = "report";
/// The column, of simulations that read traces, that is true if accesses may be missing.
pub const TRUNCATED: &str = "truncated";

/// Text and settings of a scenario, for the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Name of the scenario's file.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Keys and the values in place of the text's own.
    pub set: BTreeMap<String, String>,
}

impl Origin {
    /// Creates the origin of a scenario that is read with these values in place of its own.
    #[must_use]
    pub fn of(text: &ScenarioText, set: &[Replacement]) -> Self {
        let set = set.iter().map(|r| (r.path.to_string(), r.value().to_owned())).collect();
        Self { name: text.name().to_owned(), text: text.text().to_owned(), set }
    }
}

/// Points that are ready to run, with their keys: a whole sweep or some of it.
pub struct Plan<'a> {
    simulation: &'a dyn Simulation,
    keys: Vec<String>,
    swept: Vec<Swept>,
    columns: Vec<Column>,
}

/// A swept key as a column.
struct Swept {
    /// Place among the sweeps of the grid.
    place: usize,
    kind: Kind,
}

impl<'a> Plan<'a> {
    /// Creates the plan of a simulation. `versions` are texts that change with whatever else its
    /// results depend on, such as policies from outside memweir.
    #[must_use]
    pub fn new(simulation: &'a dyn Simulation, versions: &[String]) -> Self {
        let grid = simulation.grid();
        let keys = simulation.keys().into_iter().map(|key| versioned(key, versions)).collect();
        let sweeps = grid.sweeps();
        let mut swept: Vec<Swept> =
            (0..sweeps.len()).map(|place| Swept { place, kind: kind(&sweeps[place]) }).collect();
        // Equal points have equal columns, in whatever order the keys were swept.
        swept.sort_by_key(|swept| sweeps[swept.place].path.to_string());
        let columns = columns(simulation, &swept);
        Self { simulation, keys, swept, columns }
    }

    /// Returns the simulation.
    #[must_use]
    pub fn simulation(&self) -> &'a dyn Simulation {
        self.simulation
    }

    /// Returns the key of each point.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns the columns of the sweep's files: the key, the number, the swept keys, the results,
    /// the report.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the hash that names the sweep, given the plan of its grid's
    /// [`star`](memweir_study::sweep::Grid::star). The order of keys and values does not
    /// change it.
    #[must_use]
    pub fn name_of_sweep(&self) -> String {
        let mut keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        keys.sort_unstable();
        let mut sweeps: Vec<(String, Vec<&str>)> = Vec::new();
        for Sweep { path, values } in self.simulation.grid().sweeps() {
            let mut values: Vec<&str> = values.iter().map(String::as_str).collect();
            values.sort_unstable();
            sweeps.push((path.to_string(), values));
        }
        sweeps.sort_unstable();
        hash(&format!("{} {} {sweeps:?}", self.simulation.command(), keys.join(" ")))
    }

    /// Returns the rows of a point as they are in files.
    #[must_use]
    pub fn rows(&self, point: usize, results: &Simulated) -> Vec<Vec<Cell>> {
        let mut rows = self.headed(point, results.rows.clone());
        for (number, row) in rows.iter_mut().enumerate() {
            let report = (number == 0).then_some(results.report.as_str());
            row.push(report.into());
        }
        rows
    }

    /// Puts the cells of a point in front of its results.
    pub(crate) fn headed(&self, point: usize, results: Vec<Vec<Cell>>) -> Vec<Vec<Cell>> {
        let grid = self.simulation.grid();
        let values = grid.values(point);
        let swept = self.swept.iter().map(|swept| cell(values[swept.place], swept.kind));
        let identity = [self.keys[point].as_str().into(), (grid.number(point) as u64).into()];
        let head: Vec<Cell> = identity.into_iter().chain(swept).collect();
        results.into_iter().map(|row| head.iter().cloned().chain(row).collect()).collect()
    }

    /// Returns the names of the columns of results.
    pub(crate) fn result_columns(&self) -> &[Column] {
        &self.columns[2 + self.swept.len()..]
    }

    /// Returns the description of the sweep of this name.
    #[must_use]
    pub fn manifest(&self, name: &str, origin: &Origin) -> Manifest {
        let grid = self.simulation.grid();
        let sweep = grid.sweeps().iter().map(|s| (s.path.to_string(), s.values.clone())).collect();
        Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sources: SOURCES.to_owned(),
            command: self.simulation.command().to_owned(),
            scenario: name.to_owned(),
            name: origin.name.clone(),
            text: origin.text.clone(),
            set: origin.set.clone(),
            sweep,
            columns: self.columns.clone(),
            points: grid.combinations(),
        }
    }
}

/// Returns the column of a swept key; `at.KEY` if another column has its name.
#[must_use]
pub fn swept_column(key: String, kind: Kind, others: &[&str]) -> Column {
    let name = if others.contains(&key.as_str()) { format!("at.{key}") } else { key };
    Column { name, kind }
}

/// Returns the columns of a sweep's files.
fn columns(simulation: &dyn Simulation, swept: &[Swept]) -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind };
    let sweeps = simulation.grid().sweeps();
    let results = simulation.columns();
    let of_results = results.iter().map(|column| column.name.as_str());
    let others: Vec<&str> = [POINT, NUMBER, REPORT].into_iter().chain(of_results).collect();
    let swept = swept
        .iter()
        .map(|swept| swept_column(sweeps[swept.place].path.to_string(), swept.kind, &others));
    let identity = [column(POINT, Kind::String), column(NUMBER, Kind::Integer)];
    let report = std::iter::once(column(REPORT, Kind::String));
    identity.into_iter().chain(swept).chain(results.clone()).chain(report).collect()
}

/// Returns the kind of a sweep's column: numbers if all values are numbers.
#[must_use]
pub fn kind(sweep: &Sweep) -> Kind {
    let numbers = sweep.values.iter().all(|value| value.parse::<f64>().is_ok());
    if numbers { Kind::Float } else { Kind::String }
}

/// Returns a swept value as a cell.
#[must_use]
pub fn cell(value: &str, kind: Kind) -> Cell {
    match kind {
        Kind::Float => value.parse().map_or(Cell::Empty, Cell::Float),
        _ => value.into(),
    }
}

/// Returns the key of a point whose results depend on these versions too.
fn versioned(key: String, versions: &[String]) -> String {
    match versions {
        [] => key,
        versions => hash(&format!("{key}\n{}", versions.join("\n"))),
    }
}

/// Returns the hash of a file's content, for keys of points that read it.
///
/// # Errors
/// If the file cannot be read.
pub fn digest(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(shortened(&hasher.finalize()))
}

fn hash(text: &str) -> String {
    shortened(&Sha256::digest(text))
}
