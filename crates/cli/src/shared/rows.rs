//! `--out` of simulations: one row per run, on disk as soon as it is over. Each simulation defines
//! its own columns.

use std::io;
use std::path::Path;

use memweir_run::table::{Cell, Column, Format, Kind, Table};
use memweir_study::sweep::Sweep;
use memweir_sweep::plan::{cell, kind, swept_column};
use memweir_sweep::simulation::Simulation;

use crate::failure::Failure;

/// The file of `--out`, if there is one.
pub(crate) struct Rows {
    table: Option<Table>,
    /// The swept values of each point.
    values: Vec<Vec<Cell>>,
    /// True if a row could not be appended, and no further one is.
    failed: bool,
}

impl Rows {
    /// Starts the file: the swept keys, and the columns of the simulation behind them.
    ///
    /// # Errors
    /// The ending names no format, or the file cannot be written.
    pub(crate) fn create(path: Option<&Path>, study: &impl Simulation) -> Result<Self, Failure> {
        let grid = study.grid();
        let kinds: Vec<Kind> = grid.sweeps().iter().map(kind).collect();
        let cells = |point| {
            grid.values(point).iter().zip(&kinds).map(|(value, kind)| cell(value, *kind)).collect()
        };
        let table = path.map(|path| table(path, grid.sweeps(), &kinds, study.columns()));
        let values = (0..grid.len()).map(cells).collect();
        Ok(Self { table: table.transpose()?, values, failed: false })
    }

    /// Appends the row of a run at a point of the sweep. A full disk is reported at the end, so
    /// that the work is not lost, if the file cannot be written then either.
    pub(crate) fn append(&mut self, point: usize, row: Vec<Cell>) {
        let Some(table) = self.table.as_mut().filter(|_| !self.failed) else { return };
        self.failed = table.append(&[whole(&self.values[point], row)]).is_err();
    }

    /// Ends the file with the rows of all points, in their order.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(
        self,
        points: impl Iterator<Item = Vec<Vec<Cell>>>,
    ) -> Result<(), Failure> {
        let Some(table) = self.table else { return Ok(()) };
        let path = table.path().to_owned();
        let points = points.zip(&self.values);
        let rows: Vec<Vec<Cell>> = points
            .flat_map(|(rows, values)| rows.into_iter().map(move |row| whole(values, row)))
            .collect();
        table.finish(&rows).map_err(|error| Failure::write(&path, error))
    }
}

/// A row behind the swept values of its point.
fn whole(values: &[Cell], row: Vec<Cell>) -> Vec<Cell> {
    values.iter().cloned().chain(row).collect()
}

fn table(
    path: &Path,
    sweeps: &[Sweep],
    kinds: &[Kind],
    columns: Vec<Column>,
) -> Result<Table, Failure> {
    let format = Format::of(path).map_err(|r| r.written_in("command line").key("--out"))?;
    let others: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let swept = sweeps.iter().zip(kinds);
    let swept = swept.map(|(s, kind)| swept_column(s.path.to_string(), *kind, &others));
    let columns = swept.chain(columns.iter().cloned()).collect();
    Table::create(path, format, columns).map_err(|error| Failure::write(path, error))
}

/// Ends a table whose rows were all `kept` as they came, and gives up one that has lost some.
pub(crate) fn end(table: Table, kept: io::Result<()>) -> Result<(), Failure> {
    let path = table.path().to_owned();
    let ended = match kept {
        Ok(()) => table.finish_as_appended(),
        Err(error) => Err(io::Error::new(error.kind(), format!("{error}{}", table.abandon()))),
    };
    ended.map_err(|error| Failure::write(&path, error))
}
