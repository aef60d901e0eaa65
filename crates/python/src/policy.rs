//! A Python object as a policy or a color assignment.

use memweir_core::address_map::{Color, ColorSet};
use memweir_core::input::Refusal;
use memweir_core::segment::is_rate;
use memweir_core::{BytesPerSec, JobId};
use memweir_policy::colors::{ProgramTraits, Supply};
use memweir_policy::{Policy, QuantumView, SchedulerConfig};
use memweir_study::bank::CustomAssignment;
use memweir_study::flow::CustomPolicy;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::policy_failed;
use crate::object::{RunObject, copy};
use crate::supervise::Supervision;
use crate::view::{Candidate, ColorSupply, Program, Setup, View};

/// A policy that is written in Python: an object with `select(view)`, or for color assignments with
/// `assign(programs, supply)`. Each run has a deep copy of it, so that runs share no state and
/// their order does not matter.
pub(crate) struct PythonPolicy {
    name: String,
    object: Py<PyAny>,
    supervision: Supervision,
}

impl PythonPolicy {
    pub(crate) fn new(name: String, object: Py<PyAny>, supervision: Supervision) -> Self {
        Self { name, object, supervision }
    }
}

impl CustomPolicy for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn build(&self, config: &SchedulerConfig) -> Box<dyn Policy> {
        let object = RunObject::started(&self.name, &self.supervision, |py| {
            start(self.object.bind(py), config)
        });
        Box::new(RunPolicy { object, target: None })
    }
}

impl CustomAssignment for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn assign(
        &self,
        programs: &[ProgramTraits],
        supply: &Supply,
    ) -> Result<Vec<ColorSet>, Refusal> {
        let assigned = self.supervision.in_policy(|py| {
            let programs: Vec<Program> = programs.iter().copied().map(Program).collect();
            let supply = ColorSupply::new(supply);
            let ask = || -> PyResult<Vec<Vec<u32>>> {
                let object = copy(self.object.bind(py))?;
                let answer = object.call_method1("assign", (programs, supply))?;
                let colors = |set: PyResult<Bound<'_, PyAny>>| -> PyResult<Vec<u32>> {
                    set?.try_iter()?.map(|color| color?.extract()).collect()
                };
                answer.try_iter()?.map(colors).collect()
            };
            ask().map_err(|cause| {
                self.supervision.fail(policy_failed(py, &self.name, None, cause));
            })
        });
        let sets = assigned.map_err(|()| {
            Refusal::new(format!("the assignment `{}` failed", self.name), "see its exception")
        })?;
        Ok(sets.into_iter().map(|set| set.into_iter().map(Color).collect()).collect())
    }
}

/// Returns the object of one run, which has been told of the machine if it has `start(setup)`.
pub(crate) fn start(object: &Bound<'_, PyAny>, config: &SchedulerConfig) -> PyResult<Py<PyAny>> {
    let copy = copy(object)?;
    if copy.hasattr("start")? {
        copy.call_method1("start", (Setup::new(config),))?;
    }
    Ok(copy.unbind())
}

/// Asks the object of one run for its choice: places in the run queue, and the target.
pub(crate) fn decide(
    object: &Bound<'_, PyAny>,
    view: &QuantumView<'_>,
) -> PyResult<(Vec<usize>, Option<BytesPerSec>)> {
    Ok((ask(object, view)?, target(object)?))
}

/// The policy of one run.
struct RunPolicy {
    object: RunObject,
    target: Option<BytesPerSec>,
}

impl Policy for RunPolicy {
    /// Asks the object. After a failure the simulation is about to stop, and nothing is chosen.
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let selected = self.object.ask(Some(view.quantum), |object| decide(object, view));
        if let Some((places, target)) = selected {
            self.target = target;
            chosen.extend(places);
        }
    }

    fn target(&self) -> Option<BytesPerSec> {
        self.target
    }
}

/// Asks a policy for its choice, and returns the places of the chosen jobs in the run queue.
fn ask(object: &Bound<'_, PyAny>, view: &QuantumView<'_>) -> PyResult<Vec<usize>> {
    let answer = object.call_method1("select", (View::new(object.py(), view)?,))?;
    let selected = answer.try_iter().map_err(|_| {
        let kind = answer.get_type();
        PyTypeError::new_err(format!("select() returned {kind}, and not jobs of view.queue"))
    })?;
    let jobs = selected.map(|job| number_of(&job?)).collect::<PyResult<Vec<JobId>>>()?;
    view.places(&jobs).map_err(|impossible| PyValueError::new_err(format!("select() {impossible}")))
}

/// Returns the number of a chosen job: an element of `view.queue` or its number.
fn number_of(job: &Bound<'_, PyAny>) -> PyResult<JobId> {
    match job.cast::<Candidate>() {
        Ok(candidate) => Ok(candidate.get().0.job),
        Err(_) => Ok(JobId(job.extract().map_err(|_| {
            let kind = job.get_type();
            PyTypeError::new_err(format!("select() chose {kind}, and not a job of view.queue"))
        })?)),
    }
}

/// Returns the target of the last selection, if the policy has `target()`.
fn target(object: &Bound<'_, PyAny>) -> PyResult<Option<BytesPerSec>> {
    if !object.hasattr("target")? {
        return Ok(None);
    }
    let target = object.call_method0("target")?.extract::<Option<f64>>()?.map(BytesPerSec);
    match target.filter(|target| !is_rate(*target)) {
        Some(BytesPerSec(wrong)) => Err(PyValueError::new_err(format!(
            "target() returned {wrong}; it is a finite number of zero or more"
        ))),
        None => Ok(target),
    }
}
