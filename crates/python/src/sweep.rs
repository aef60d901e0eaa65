//! Sweeps point by point: their keys, their directory, and chunks of points that workers run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_study::sweep::Grid;
use memweir_sweep::partition::{Partition, ShardFile};
use memweir_sweep::plan::{Origin, Plan};
use memweir_sweep::run::simulate;
use memweir_sweep::simulation;
use memweir_sweep::{SweepError, merge};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::refused;
use crate::scenario::Scenario;
use crate::simulate;
use crate::supervise::{StopRequest, Supervision};

/// Beginning of the names of files with points of another partition.
const ADOPTED: &str = "adopted";

/// Policies in Python with their names.
type Policies = Vec<(String, Py<PyAny>)>;

/// Points that are read at a time: a large sweep has more than memory holds.
const AT_A_TIME: usize = 1000;

/// Checks a scenario at every point of its sweep, and returns the number of points.
///
/// # Errors
/// `memweir.InputError` if the scenario is refused at a point.
#[pyfunction]
pub(crate) fn points(py: Python<'_>, scenario: Scenario, policies: Policies) -> PyResult<usize> {
    let check = || -> Result<usize, Failure> {
        let grid = scenario.grid()?;
        in_parts(py, &scenario, &policies, &grid, |_, _| Ok(()))?;
        Ok(grid.len())
    };
    check().map_err(|failure| failure.raised(py))
}

/// Checks a scenario at every point of its sweep, and begins the directory of the sweep or goes on
/// in it. Returns the directory of the partition, the number of points, and the points that are
/// missing in it.
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
) -> PyResult<(PathBuf, usize, Vec<usize>)> {
    let begun = || -> Result<_, Failure> {
        let (set, grid) = (scenario.replacements()?, scenario.grid()?);
        let supervision = Supervision::default();
        let star = simulate::Simulation::read_grid(
            &scenario,
            grid.star(),
            cloned(py, &policies),
            &supervision,
        )?;
        let star = Plan::new(star.points(), &versions);
        let origin = Origin::of(&scenario.text(), &set);
        let partition = Partition::begin(&out, &star.name_of_sweep(), &star, &origin)?;
        let done = if resume { partition.done()? } else { HashSet::new() };
        let mut adopted = ShardFile::new(&partition, ADOPTED, star.columns())?;
        let mut missing = Vec::new();
        in_parts(py, &scenario, &policies, &grid, |part, simulation| {
            let plan = Plan::new(simulation, &versions);
            let there = |at: &usize| done.contains(&plan.simulation().grid().number(*at));
            let wanted: Vec<usize> = (0..part.len()).filter(|at| !there(at)).collect();
            let found = match resume {
                true => partition.adopted(&plan, &wanted)?,
                false => BTreeMap::new(),
            };
            missing.extend(wanted.iter().filter(|at| !found.contains_key(*at)).map(|at| part[*at]));
            found.into_values().for_each(|rows| adopted.add(rows));
            Ok(())
        })?;
        adopted.finish()?;
        Ok((partition.directory().to_owned(), grid.len(), missing))
    };
    begun().map_err(|failure| failure.raised(py))
}

/// Reads a scenario at all points, some at a time, and handles signals in between.
fn in_parts(
    py: Python<'_>,
    scenario: &Scenario,
    policies: &Policies,
    grid: &Grid,
    mut each: impl FnMut(&[usize], &dyn simulation::Simulation) -> Result<(), SweepError>,
) -> Result<(), Failure> {
    let all: Vec<usize> = (0..grid.len()).collect();
    for part in all.chunks(AT_A_TIME) {
        py.check_signals()?;
        let supervision = Supervision::default();
        let policies = cloned(py, policies);
        let read =
            simulate::Simulation::read_grid(scenario, grid.only(part), policies, &supervision)?;
        each(part, read.points())?;
    }
    Ok(())
}

fn cloned(py: Python<'_>, policies: &Policies) -> Policies {
    policies.iter().map(|(name, object)| (name.clone(), object.clone_ref(py))).collect()
}

/// Simulates points of a sweep on the thread of a worker. They are written to `file`, a partition
/// and a name in it, if there is one, or returned as JSON otherwise. Points that the file has are
/// not simulated again, and none after a request to `stop`.
///
/// # Errors
/// `memweir.InputError` if a point is refused, `memweir.PolicyError` if a policy failed, and
/// `OSError` if the file cannot be written. Points that ended before are kept.
#[pyfunction]
#[pyo3(signature = (scenario, policies, versions, points, file, stop))]
pub(crate) fn run_points(
    py: Python<'_>,
    scenario: Scenario,
    policies: Policies,
    versions: Vec<String>,
    points: Vec<usize>,
    file: Option<(PathBuf, String)>,
    stop: &StopRequest,
) -> PyResult<Vec<String>> {
    let supervision = Supervision::stopped_by(stop);
    let read = simulate::Simulation::read_at(&scenario, &points, policies, &supervision);
    let simulation = read.map_err(|error| refused(py, &error))?;
    let plan = Plan::new(simulation.points(), &versions);
    let resume = |(partition, name): (PathBuf, String)| {
        ShardFile::resume(&Partition::at(&partition), &name, plan.columns())
    };
    let resumed = file.map(resume).transpose().map_err(|error| failed(py, error))?;
    let (mut file, there) = resumed.unzip();
    let there = there.unwrap_or_default();
    let grid = simulation.points().grid();
    let missing: Vec<usize> =
        (0..points.len()).filter(|point| !there.contains(&grid.number(*point))).collect();
    let mut reports = vec![String::new(); points.len()];
    let ran = supervision.run(py, None, missing.len(), |stop, done| {
        simulate(&plan, &missing, NonZeroUsize::MIN, stop, |point, results| {
            match &mut file {
                Some(file) => file.add(plan.rows(point, &results)),
                None => reports[point] = results.report,
            }
            done();
        })
    });
    let is_in_file = file.is_some();
    let written = file.map_or(Ok(None), ShardFile::finish);
    ran?.map_err(|error| refused(py, &error))?;
    written.map_err(|error| failed(py, error))?;
    Ok(if is_in_file { Vec::new() } else { reports })
}

/// Returns the swept keys of a scenario and the points of its sweep as JSON, both in their order,
/// from the files of a partition.
///
/// # Errors
/// `memweir.InputError` if a file cannot be read, a point is missing, or two files differ in one.
#[pyfunction]
pub(crate) fn reports(
    py: Python<'_>,
    scenario: Scenario,
    partition: PathBuf,
) -> PyResult<(Vec<String>, Vec<String>)> {
    let read = || {
        let grid = scenario.grid()?;
        let keys = grid.sweeps().iter().map(|sweep| sweep.path.to_string()).collect();
        Ok((keys, found(&partition, &grid)?))
    };
    py.detach(read).map_err(|error| refused(py, &error))
}

fn found(partition: &Path, grid: &Grid) -> Result<Vec<String>, InputError> {
    let merged = merge::read(partition)?;
    // Whoever began the partition may have given keys and values in another order.
    let numbers = merged.points.iter().map(|point| merged.grid.number(point.point));
    let reports: HashMap<usize, &str> = numbers.zip(merged.reports()).collect();
    let report = |point| {
        reports.get(&grid.number(point)).map(|report| (*report).to_owned()).ok_or_else(|| {
            let reason = format!("the point {} is missing", grid.place(point));
            InputError::new(partition.display().to_string(), reason)
                .help("call `sweep` again: it runs the points that are missing")
        })
    };
    (0..grid.len()).map(report).collect()
}

/// Failure of a sweep, or the exception of a signal's handler.
enum Failure {
    Sweep(SweepError),
    Handler(PyErr),
}

impl Failure {
    fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Sweep(error) => failed(py, error),
            Self::Handler(error) => error,
        }
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        Self::Sweep(error)
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::Sweep(error.into())
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Handler(error)
    }
}

fn failed(py: Python<'_>, error: SweepError) -> PyErr {
    match error {
        SweepError::Input(error) => refused(py, &error),
        SweepError::Write { path, source } => {
            let (number, reason) = (source.raw_os_error(), source.to_string());
            let path = path.display().to_string();
            match number {
                Some(number) => {
                    // Python says the number itself.
                    let end = format!(" (os error {number})");
                    let reason = reason.strip_suffix(end.as_str()).unwrap_or(&reason).to_owned();
                    PyOSError::new_err((number, reason, path))
                }
                None => PyOSError::new_err(format!("cannot write {path}: {reason}")),
            }
        }
    }
}
