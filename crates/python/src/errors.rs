//! Refusals as exceptions of the Python package, which `memweir._errors` defines.

use memweir_core::input::InputError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the exception for input that was refused.
pub(crate) fn refused(py: Python<'_>, error: &InputError) -> PyErr {
    let build = || {
        let values = PyDict::new(py);
        values.set_item("source", &error.source_name)?;
        values.set_item("line", error.line)?;
        values.set_item("key", &error.key)?;
        values.set_item("reason", &error.reason)?;
        values.set_item("help", &error.help)?;
        exception(py, "InputError", &values)
    };
    build().unwrap_or_else(|failure| failure)
}

/// Returns the exception for a policy that failed, with the exception that it raised as its cause.
pub(crate) fn policy_failed(
    py: Python<'_>,
    policy: &str,
    quantum: Option<u64>,
    cause: PyErr,
) -> PyErr {
    let build = || {
        let values = PyDict::new(py);
        values.set_item("policy", policy)?;
        values.set_item("quantum", quantum)?;
        values.set_item("reason", cause.to_string())?;
        exception(py, "PolicyError", &values)
    };
    match build() {
        Ok(error) => {
            error.set_cause(py, Some(cause));
            error
        }
        Err(failure) => failure,
    }
}

fn exception(py: Python<'_>, class: &str, values: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let class = py.import("memweir._errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((), Some(values))?))
}
