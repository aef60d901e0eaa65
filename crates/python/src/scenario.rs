//! Scenarios with the values that replace their own.

use std::path::PathBuf;

use memweir_core::input::{InputError, Refusal, Replacement};
use memweir_study::ScenarioText;
use memweir_study::sweep::{Grid, Sweep};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A scenario as Python passes it.
#[derive(FromPyObject)]
pub(crate) struct Scenario {
    /// Name in refusals: a file, or a word for a text.
    name: String,
    text: String,
    /// The command that simulates it: `sim` or `page sim`.
    command: String,
    /// Directory at which relative paths in the text start.
    directory: PathBuf,
    /// Keys and the values in place of the scenario's own, as TOML or words.
    set: Vec<(String, String)>,
    /// Keys, and the values that they take in turn.
    sweep: Vec<(String, Values)>,
}

/// Values of a swept key.
#[derive(FromPyObject)]
enum Values {
    /// As on the command line: `1..8`.
    Written(String),
    /// One by one.
    Each(Vec<String>),
}

impl Scenario {
    /// Returns the text of the scenario.
    pub(crate) fn text(&self) -> ScenarioText {
        ScenarioText::new(&self.name, &self.text, &self.directory)
    }

    /// Returns true if it is of paging.
    pub(crate) fn is_of_paging(&self) -> bool {
        self.command == "page sim"
    }

    /// Returns the values in place of the scenario's own.
    ///
    /// # Errors
    /// If a key is not one.
    pub(crate) fn replacements(&self) -> Result<Vec<Replacement>, InputError> {
        let replacement = |(key, value): &(String, String)| {
            let path = key.parse().map_err(|refusal| at("set", refusal))?;
            Ok(Replacement::new(path, value, format!("set {key}={value}")))
        };
        self.set.iter().map(replacement).collect()
    }

    /// Returns the points of the sweep.
    ///
    /// # Errors
    /// If a key is not one, or takes no values, too many, or one of them twice.
    pub(crate) fn grid(&self) -> Result<Grid, InputError> {
        let sweep = |(key, values): &(String, Values)| match values {
            Values::Written(values) => format!("{key}={values}").parse(),
            Values::Each(values) => Sweep::new(key.parse()?, values.clone()),
        };
        let sweeps = self.sweep.iter().map(sweep).collect::<Result<Vec<_>, _>>();
        sweeps.and_then(Grid::new).map_err(|refusal| at("sweep", refusal))
    }
}

fn at(argument: &str, refusal: Refusal) -> InputError {
    refusal.written_in("arguments").key(argument)
}

/// Converts a JSON object to a TOML document.
///
/// # Errors
/// `ValueError` if the text is not a JSON object, or has a `null`, which TOML has not.
#[pyfunction]
pub(crate) fn toml_document(json: &str) -> PyResult<String> {
    serde_json::from_str::<toml::Table>(json).map(|table| table.to_string()).map_err(no_toml)
}

/// Converts a JSON value to a TOML value on one line.
///
/// # Errors
/// `ValueError` if the text is not JSON, or has a `null`, which TOML has not.
#[pyfunction]
pub(crate) fn toml_value(json: &str) -> PyResult<String> {
    serde_json::from_str::<toml::Value>(json).map(|value| value.to_string()).map_err(no_toml)
}

fn no_toml(error: serde_json::Error) -> PyErr {
    PyValueError::new_err(format!("cannot be written as TOML: {error}"))
}
