//! A Python object that takes part in one run of a simulation.

use pyo3::prelude::*;

use crate::errors::policy_failed;
use crate::supervise::Supervision;

/// The object of one run.
pub(crate) struct RunObject {
    name: String,
    /// Absent if it could not be started.
    object: Option<Py<PyAny>>,
    supervision: Supervision,
}

impl RunObject {
    /// Begins a run with the object that `start` returns. If that raises, the simulation is about
    /// to stop, and the object is never asked.
    pub(crate) fn started(
        name: &str,
        supervision: &Supervision,
        start: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>,
    ) -> Self {
        let object = supervision.in_policy(|py| {
            let failed = |cause| supervision.fail(policy_failed(py, name, None, cause));
            start(py).map_err(failed).ok()
        });
        Self { name: name.to_owned(), object, supervision: supervision.clone() }
    }

    /// Hands the object to `ask`, in a quantum if there are any. If that raises, the simulation is
    /// about to stop, and nothing is asked from then on.
    pub(crate) fn ask<T>(
        &self,
        quantum: Option<u64>,
        ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.object.as_ref().filter(|_| !self.supervision.has_stopped())?;
        self.supervision.in_policy(|py| {
            let failed =
                |cause| self.supervision.fail(policy_failed(py, &self.name, quantum, cause));
            ask(object.bind(py)).map_err(failed).ok()
        })
    }
}

/// Returns a copy of an object that shares nothing with it.
pub(crate) fn copy<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object.py().import("copy")?.call_method1("deepcopy", (object,))
}
