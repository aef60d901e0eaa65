//! The simulations: of scenarios at flow and bank level, and of swapping.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use memweir_core::input::InputError;
use memweir_flow::Stop;
use memweir_run::recording::ProfileCache;
use memweir_study::Fidelity;
use memweir_study::bank::study::BankStudy;
use memweir_study::flow::study::Study;
use memweir_study::flow::{CustomPolicies, CustomPolicy};
use memweir_study::swap::study::PageStudy;
use memweir_study::sweep::Grid;
use memweir_sweep::simulation::Simulation as PointByPoint;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::refused;
use crate::policy::PythonPolicy;
use crate::scenario::Scenario;
use crate::supervise::Supervision;

/// Simulates a scenario at the fidelity that it names, and returns the report as JSON.
///
/// # Errors
/// `memweir.InputError` if the scenario is refused, `memweir.PolicyError` if a policy failed, and
/// whatever `progress` or the handler of a signal raised.
#[pyfunction]
#[pyo3(signature = (scenario, policies, threads, progress))]
pub(crate) fn sim(
    py: Python<'_>,
    scenario: Scenario,
    policies: Vec<(String, Py<PyAny>)>,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let supervision = Supervision::default();
    let simulation = Simulation::read(&scenario, policies, &supervision);
    let simulation = simulation.map_err(|error| refused(py, &error))?;
    let threads = threads.unwrap_or_else(cores);
    let (progress, total) = (progress.as_ref(), simulation.runs());
    supervision
        .run(py, progress, total, |stop, done| simulation.run(stop, threads, done))?
        .map_err(|error| refused(py, &error))
}

/// Simulates a scenario of swapping, and returns the report as JSON.
///
/// # Errors
/// `memweir.InputError` if the scenario is refused, and whatever `progress` or the handler of a
/// signal raised.
#[pyfunction]
#[pyo3(signature = (scenario, threads, progress))]
pub(crate) fn page_sim(
    py: Python<'_>,
    scenario: Scenario,
    threads: Option<NonZeroUsize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let read = || PageStudy::read(&scenario.text(), &scenario.replacements()?, scenario.grid()?);
    let study = read().map_err(|error| refused(py, &error))?;
    let threads = threads.unwrap_or_else(cores);
    let work = |stop: &Stop, done: &mut dyn FnMut()| {
        study.run_until(stop, threads, |_| done()).map(|report| json(&report))
    };
    let report = Supervision::default().run(py, progress.as_ref(), study.runs(), work)?;
    Ok(report.expect("only a failure stops a simulation"))
}

/// A scenario that has been read and is ready to run.
pub(crate) enum Simulation {
    Flow(Box<Study>),
    Bank(BankStudy),
}

impl Simulation {
    /// Reads a scenario at every point of its sweep.
    ///
    /// # Errors
    /// The first refusal at any point.
    pub(crate) fn read(
        scenario: &Scenario,
        policies: Vec<(String, Py<PyAny>)>,
        supervision: &Supervision,
    ) -> Result<Self, InputError> {
        Self::read_grid(scenario, scenario.grid()?, policies, supervision)
    }

    /// Reads a scenario at these points of its sweep, by number.
    ///
    /// # Errors
    /// The first refusal at any of them.
    pub(crate) fn read_at(
        scenario: &Scenario,
        points: &[usize],
        policies: Vec<(String, Py<PyAny>)>,
        supervision: &Supervision,
    ) -> Result<Self, InputError> {
        Self::read_grid(scenario, scenario.grid()?.only(points), policies, supervision)
    }

    fn read_grid(
        scenario: &Scenario,
        grid: Grid,
        policies: Vec<(String, Py<PyAny>)>,
        supervision: &Supervision,
    ) -> Result<Self, InputError> {
        let custom = policies.into_iter().map(|(name, object)| {
            let policy = PythonPolicy::new(name, object, supervision.clone());
            Arc::new(policy) as Arc<dyn CustomPolicy>
        });
        let custom = CustomPolicies::new(custom.collect())
            .map_err(|refusal| refusal.written_in("arguments").key("policies"))?;
        let text = scenario.text().with_policies(custom);
        let set = scenario.replacements()?;
        if text.fidelity(&set)? == Fidelity::Bank {
            return BankStudy::read(&text, &set, grid).map(Self::Bank);
        }
        let recordings = ProfileCache::default();
        let profile = |path: &Path| recordings.profile(path);
        Study::read(&text, &set, grid, &profile).map(Box::new).map(Self::Flow)
    }

    /// Returns the simulation point by point.
    pub(crate) fn points(&self) -> &dyn PointByPoint {
        match self {
            Self::Flow(study) => study.as_ref(),
            Self::Bank(study) => study,
        }
    }

    fn runs(&self) -> usize {
        match self {
            Self::Flow(study) => study.runs(),
            Self::Bank(study) => study.runs(),
        }
    }

    fn run(
        &self,
        stop: &Stop,
        threads: NonZeroUsize,
        done: &mut dyn FnMut(),
    ) -> Result<String, InputError> {
        match self {
            Self::Flow(study) => {
                study.run_until(stop, threads, |_| done()).map(|report| json(&report))
            }
            Self::Bank(study) => study.run_until(stop, threads, done).map(|report| json(&report)),
        }
    }
}

fn cores() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn json(report: &impl Serialize) -> String {
    serde_json::to_string(report).expect("reports have no maps with other keys than texts")
}
