//! The simulations: of scenarios at flow and bank level, and of swapping.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use memweir_core::Stop;
use memweir_core::input::{InputError, Refusal};
use memweir_policy::paging::VictimSource;
use memweir_run::recording::ProfileCache;
use memweir_study::Fidelity;
use memweir_study::bank::study::BankStudy;
use memweir_study::bank::{CustomAssignment, CustomAssignments};
use memweir_study::flow::study::Study;
use memweir_study::flow::{CustomPolicies, CustomPolicy};
use memweir_study::swap::CustomVictims;
use memweir_study::swap::study::PageStudy;
use memweir_study::sweep::Grid;
use memweir_sweep::simulation;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::refused;
use crate::policy::PythonPolicy;
use crate::scenario::Scenario;
use crate::supervise::Supervision;
use crate::victims::PythonVictims;

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
    threads: Option<i64>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let threads = threads.map_or_else(|| Ok(cores()), positive);
    let threads = threads.map_err(|error| refused(py, &error))?;
    let supervision = Supervision::default();
    let simulation = Simulation::read(&scenario, policies, &supervision);
    let simulation = simulation.map_err(|error| refused(py, &error))?;
    let (progress, total) = (progress.as_ref(), simulation.runs());
    supervision
        .run(py, progress, total, |stop, done| simulation.run(stop, threads, done))?
        .map_err(|error| refused(py, &error))
}

/// A scenario that has been read and is ready to run.
pub(crate) enum Simulation {
    Flow(Box<Study>),
    Bank(BankStudy),
    Page(PageStudy),
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

    /// Reads a scenario at the points of a grid.
    ///
    /// # Errors
    /// The first refusal at any of them.
    pub(crate) fn read_grid(
        scenario: &Scenario,
        grid: Grid,
        policies: Vec<(String, Py<PyAny>)>,
        supervision: &Supervision,
    ) -> Result<Self, InputError> {
        let (text, set) = (scenario.text(), scenario.replacements()?);
        let wrong = |refusal: Refusal| refusal.written_in("arguments").key("policies");
        let policies = policies.into_iter();
        if scenario.is_of_paging() {
            let victims = policies.map(|(name, object)| {
                Arc::new(PythonVictims::new(name, object, supervision.clone()))
                    as Arc<dyn VictimSource>
            });
            let custom = CustomVictims::new(victims.collect()).map_err(wrong)?;
            return PageStudy::read(&text.with_victims(custom), &set, grid).map(Self::Page);
        }
        let policies =
            policies.map(|(name, object)| PythonPolicy::new(name, object, supervision.clone()));
        let fidelity = text.fidelity(&set)?;
        if fidelity == Fidelity::Bank && !text.is_batch(&set)? {
            let assignments = policies.map(|policy| Arc::new(policy) as Arc<dyn CustomAssignment>);
            let custom = CustomAssignments::new(assignments.collect()).map_err(wrong)?;
            return BankStudy::read(&text.with_assignments(custom), &set, grid).map(Self::Bank);
        }
        let policies = policies.map(|policy| Arc::new(policy) as Arc<dyn CustomPolicy>);
        let custom = CustomPolicies::new(policies.collect()).map_err(wrong)?;
        let text = text.with_policies(custom);
        if fidelity == Fidelity::Bank {
            return BankStudy::read(&text, &set, grid).map(Self::Bank);
        }
        let recordings = ProfileCache::default();
        let profile = |path: &Path| recordings.profile(path);
        Study::read(&text, &set, grid, &profile).map(Box::new).map(Self::Flow)
    }

    /// Returns the simulation point by point.
    pub(crate) fn points(&self) -> &dyn simulation::Simulation {
        match self {
            Self::Flow(study) => study.as_ref(),
            Self::Bank(study) => study,
            Self::Page(study) => study,
        }
    }

    fn runs(&self) -> usize {
        match self {
            Self::Flow(study) => study.runs(),
            Self::Bank(study) => study.runs(),
            Self::Page(study) => study.runs(),
        }
    }

    fn run(
        &self,
        stop: &Stop,
        threads: NonZeroUsize,
        done: &mut dyn FnMut(),
    ) -> Result<String, InputError> {
        match self {
            Self::Flow(study) => study.run(stop, threads, |_| done()).map(|report| json(&report)),
            Self::Bank(study) => study.run(stop, threads, |_| done()).map(|report| json(&report)),
            Self::Page(study) => study.run(stop, threads, |_| done()).map(|report| json(&report)),
        }
    }
}

fn positive(threads: i64) -> Result<NonZeroUsize, InputError> {
    let number = usize::try_from(threads).ok().and_then(NonZeroUsize::new);
    number.ok_or_else(|| {
        let reason = format!("{threads} is no number of threads");
        InputError::new("arguments", reason).key("threads").help("at least 1")
    })
}

fn cores() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

fn json(report: &impl Serialize) -> String {
    serde_json::to_string(report).expect("reports have no maps with other keys than texts")
}
