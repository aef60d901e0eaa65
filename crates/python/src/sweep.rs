//! Sweeps point by point: their keys, their directory, and chunks of points that workers run.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_sweep::partition::{Partition, ShardFile};
use memweir_sweep::plan::{Origin, Plan};
use memweir_sweep::run::simulate;
use memweir_sweep::{SweepError, merge};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::refused;
use crate::scenario::Scenario;
use crate::simulate::Simulation;
use crate::supervise::Supervision;

/// Beginning of the names of files that workers write.
const STEM: &str = "points";
/// Beginning of the names of files with points of another partition.
const ADOPTED: &str = "adopted";

/// Policies in Python with their names.
type Policies = Vec<(String, Py<PyAny>)>;

/// Checks a scenario at every point of its sweep, and returns the keys of the points.
///
/// # Errors
/// `memweir.InputError` if the scenario is refused at a point.
#[pyfunction]
pub(crate) fn points(
    py: Python<'_>,
    scenario: Scenario,
    policies: Policies,
    versions: Vec<String>,
) -> PyResult<Vec<String>> {
    let read = Simulation::read(&scenario, policies, &Supervision::default());
    let simulation = read.map_err(|error| refused(py, &error))?;
    Ok(Plan::new(simulation.points(), &versions).keys().to_vec())
}

/// Begins the directory of a sweep, or goes on in it. Returns the directory of the partition, the
/// keys of all points, and the numbers of the points that are missing in it.
///
/// # Errors
/// `memweir.InputError` if the scenario is refused at a point, or a file cannot be read; `OSError`
/// if the directory cannot be written.
#[pyfunction]
pub(crate) fn begin(
    py: Python<'_>,
    scenario: Scenario,
    policies: Policies,
    versions: Vec<String>,
    out: PathBuf,
    resume: bool,
) -> PyResult<(PathBuf, Vec<String>, Vec<usize>)> {
    let read = Simulation::read(&scenario, policies, &Supervision::default());
    let simulation = read.map_err(|error| refused(py, &error))?;
    let plan = Plan::new(simulation.points(), &versions);
    let set = scenario.replacements().map_err(|error| refused(py, &error))?;
    let origin = Origin::of(&scenario.text(), &set);
    let begun = || {
        let partition = Partition::begin(&out, &plan, &origin)?;
        let missing = match resume {
            true => missing(&plan, &partition)?,
            false => (0..plan.keys().len()).collect(),
        };
        Ok((partition.directory().to_owned(), plan.keys().to_vec(), missing))
    };
    begun().map_err(|error| failed(py, error))
}

/// Returns the points that are missing in a partition and in those beside it, whose points it
/// takes.
fn missing(plan: &Plan<'_>, partition: &Partition) -> Result<Vec<usize>, SweepError> {
    let done = partition.done()?;
    let keys = plan.keys().iter().enumerate();
    let mut missing: Vec<usize> =
        keys.filter(|(_, key)| !done.contains_key(*key)).map(|(point, _)| point).collect();
    let adopted = partition.adopted(plan, &missing)?;
    missing.retain(|point| !adopted.contains_key(point));
    let mut file = ShardFile::new(partition, ADOPTED, plan.columns())?;
    adopted.into_values().for_each(|rows| file.add(rows));
    file.finish()?;
    Ok(missing)
}

/// Simulates points of a sweep on the thread of a worker. They are written to a file of the
/// partition, if there is one, or returned as JSON otherwise.
///
/// # Errors
/// `memweir.InputError` if a point is refused, `memweir.PolicyError` if a policy failed, and
/// `OSError` if the file cannot be written. Points that ended before are kept.
#[pyfunction]
#[pyo3(signature = (scenario, policies, versions, points, partition))]
pub(crate) fn run_points(
    py: Python<'_>,
    scenario: Scenario,
    policies: Policies,
    versions: Vec<String>,
    points: Vec<usize>,
    partition: Option<PathBuf>,
) -> PyResult<Vec<String>> {
    let supervision = Supervision::default();
    let read = Simulation::read_at(&scenario, &points, policies, &supervision);
    let simulation = read.map_err(|error| refused(py, &error))?;
    let plan = Plan::new(simulation.points(), &versions);
    let partition = partition.as_deref().map(Partition::at);
    let new = |partition| ShardFile::new(partition, STEM, plan.columns());
    let mut file = partition.as_ref().map(new).transpose().map_err(|error| failed(py, error))?;
    let mut reports = vec![String::new(); points.len()];
    let all: Vec<usize> = (0..points.len()).collect();
    let ran = supervision.run(py, None, points.len(), |stop, done| {
        simulate(&plan, &all, NonZeroUsize::MIN, stop, |point, results| {
            match &mut file {
                Some(file) => file.add(plan.rows(point, &results)),
                None => reports[point] = results.report,
            }
            done();
        })
    });
    let written = file.map_or(Ok(None), ShardFile::finish);
    ran?.map_err(|error| refused(py, &error))?;
    written.map_err(|error| failed(py, error))?;
    Ok(if partition.is_some() { Vec::new() } else { reports })
}

/// Returns the points with these keys as JSON, from the files of a partition.
///
/// # Errors
/// `memweir.InputError` if a file cannot be read, a point is missing, or two files differ in one.
#[pyfunction]
pub(crate) fn reports(
    py: Python<'_>,
    partition: PathBuf,
    keys: Vec<String>,
) -> PyResult<Vec<String>> {
    found(&partition, &keys).map_err(|error| refused(py, &error))
}

fn found(partition: &Path, keys: &[String]) -> Result<Vec<String>, InputError> {
    let merged = merge::read(partition)?;
    let reports: HashMap<&str, &str> = merged.reports().collect();
    let report = |key: &String| {
        reports.get(key.as_str()).map(|report| (*report).to_owned()).ok_or_else(|| {
            InputError::new(partition.display().to_string(), format!("the point {key} is missing"))
                .help("call `sweep` again: it runs the points that are missing")
        })
    };
    keys.iter().map(report).collect()
}

fn failed(py: Python<'_>, error: SweepError) -> PyErr {
    match error {
        SweepError::Input(error) => refused(py, &error),
        SweepError::Write { path, source } => {
            let (number, reason) = (source.raw_os_error(), source.to_string());
            let path = path.display().to_string();
            match number {
                Some(number) => PyOSError::new_err((number, reason, path)),
                None => PyOSError::new_err(format!("cannot write {path}: {reason}")),
            }
        }
    }
}
