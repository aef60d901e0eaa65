//! A Python object that answers for a policy of the command, which asks in lines of JSON.

use memweir_policy::protocol::{PolicyAnswer, PolicyQuestion, PolicySetup};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::policy_failed;
use crate::policy::{decide, start};

/// The policy of one run of the command: a copy of the object, as in simulation.
#[pyclass(frozen, module = "memweir")]
pub(crate) struct ServedPolicy {
    name: String,
    object: Py<PyAny>,
}

#[pymethods]
impl ServedPolicy {
    /// Begins a run with its first line.
    ///
    /// # Errors
    /// `memweir.PolicyError` if the object cannot start; `ValueError` for another line.
    #[new]
    fn new(name: String, object: &Bound<'_, PyAny>, setup: &str) -> PyResult<Self> {
        let setup = PolicySetup::parse(setup).map_err(PyValueError::new_err)?;
        let object = start(object, &setup.config)
            .map_err(|cause| policy_failed(object.py(), &name, None, cause))?;
        Ok(Self { name, object })
    }

    /// Answers a line with a line.
    ///
    /// # Errors
    /// `memweir.PolicyError` if the object fails; `ValueError` for another line.
    fn answer(&self, py: Python<'_>, question: &str) -> PyResult<String> {
        let question = PolicyQuestion::parse(question).map_err(PyValueError::new_err)?;
        let view = question.view();
        let (places, target) = decide(self.object.bind(py), &view)
            .map_err(|cause| policy_failed(py, &self.name, Some(view.quantum), cause))?;
        let jobs = places.into_iter().map(|place| view.queue[place].job).collect();
        Ok(PolicyAnswer::Choice { jobs, target }.line())
    }

    /// Returns the answer of a policy that has failed.
    #[staticmethod]
    fn failure(error: String) -> String {
        PolicyAnswer::Failure { error }.line()
    }
}
