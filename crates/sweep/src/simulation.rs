//! A simulation point by point, and the rows of each kind.
//!
//! | module | contents |
//! |---|---|
//! | [`flow`] | scenarios of tasks that share memories |
//! | [`bank`] | scenarios of requests to caches and banks |
//! | [`swap`] | scenarios of applications and their swap areas |

pub mod bank;
pub mod flow;
pub mod swap;

use std::num::NonZeroUsize;

use memweir_core::Stop;
use memweir_core::input::InputError;
use memweir_run::table::{Cell, Column};
use memweir_study::sweep::Grid;
use serde::Serialize;

/// A simulation at every point of a sweep.
pub trait Simulation: Sync {
    /// Returns the command that runs it, such as `page sim`.
    fn command(&self) -> &'static str;

    /// Returns the grid of its points, which may be some of a larger sweep.
    fn grid(&self) -> &Grid;

    /// Returns the key of each point, which changes with all that its results depend on.
    fn keys(&self) -> Vec<String>;

    /// Returns the columns of the results, behind those of the swept keys.
    fn columns(&self) -> Vec<Column>;

    /// Simulates one point on `threads` threads. Returns `None` after a request to `stop`.
    ///
    /// # Errors
    /// If the simulation is refused.
    fn simulate(
        &self,
        point: usize,
        threads: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Option<Simulated>, InputError>;
}

/// Results of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// One row per run, at least one, with the cells of the simulation's columns.
    pub rows: Vec<Vec<Cell>>,
    /// The point as `--json` has it.
    pub report: String,
}

impl Simulated {
    /// Creates the results of a point from its rows and its report.
    #[must_use]
    pub fn new(rows: Vec<Vec<Cell>>, report: &impl Serialize) -> Self {
        let report = serde_json::to_string(report);
        Self { rows, report: report.expect("reports have no maps with other keys than texts") }
    }
}

/// Returns the result of a simulation, or `None` if it was refused because of a request to `stop`.
fn unless_stopped<T>(stop: &Stop, result: Result<T, InputError>) -> Result<Option<T>, InputError> {
    match result {
        Err(_) if stop.is_requested() => Ok(None),
        result => result.map(Some),
    }
}
