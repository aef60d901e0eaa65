//! `memweir sim --out`: one row per run, on disk as soon as it is over.

use std::path::{Path, PathBuf};

use memweir_run::table::{Cell, Column, Kind, Table};
use memweir_run::timeline::Format;
use memweir_sim::scenario::report::{Certainty, Report, Run};
use memweir_sim::scenario::study::{Finished, Study};
use memweir_sim::scenario::sweep::Sweep;

use crate::failure::Failure;

/// The columns of every table, behind the swept keys.
const COLUMNS: [(&str, Kind); 15] = [
    ("policy", Kind::Text),
    ("repetition", Kind::Whole),
    ("seed", Kind::Whole),
    ("turnaround_s", Kind::Number),
    ("weighted_speedup", Kind::Number),
    ("slowdown_mean", Kind::Number),
    ("slowdown_max", Kind::Number),
    ("bandwidth_mean", Kind::Number),
    ("bandwidth_std", Kind::Number),
    ("ideal_average_bandwidth", Kind::Number),
    ("target", Kind::Number),
    ("quanta", Kind::Whole),
    ("optimum_s", Kind::Number),
    ("optimum_is", Kind::Text),
    ("copied_bytes", Kind::Whole),
];

/// The file of `--out`, if there is one.
pub(super) struct Results {
    table: Option<(PathBuf, Table)>,
    /// The swept values of each point.
    values: Vec<Vec<Cell>>,
    /// Why a row could not be written; the first reason counts.
    failed: Option<std::io::Error>,
}

impl Results {
    /// Starts the file.
    pub(super) fn create(path: Option<&Path>, study: &Study) -> Result<Self, Failure> {
        let grid = study.grid();
        let kinds: Vec<Kind> = grid.sweeps().iter().map(kind).collect();
        let cells = |point| {
            grid.values(point).iter().zip(&kinds).map(|(value, kind)| cell(value, *kind)).collect()
        };
        let table = path.map(|path| table(path, grid.sweeps(), &kinds)).transpose()?;
        Ok(Self { table, values: (0..grid.len()).map(cells).collect(), failed: None })
    }

    /// Appends a run. A disk that is full is reported at the end: the work is not lost for it.
    pub(super) fn append(&mut self, finished: &Finished) {
        let Some((_, table)) = &mut self.table else { return };
        let row = row(&self.values[finished.point], &finished.run);
        if let Err(error) = table.append(&row) {
            self.failed.get_or_insert(error);
        }
    }

    /// Ends the file, with all rows in their order.
    pub(super) fn finish(self, report: &Report) -> Result<(), Failure> {
        let Some((path, table)) = self.table else { return Ok(()) };
        let rows: Vec<Vec<Cell>> = report
            .points
            .iter()
            .zip(&self.values)
            .flat_map(|(point, values)| point.runs.iter().map(|run| row(values, run)))
            .collect();
        match (self.failed, table.finish(&rows)) {
            (_, Err(error)) | (Some(error), Ok(())) => Err(Failure::write(&path, error)),
            (None, Ok(())) => Ok(()),
        }
    }
}

fn table(path: &Path, sweeps: &[Sweep], kinds: &[Kind]) -> Result<(PathBuf, Table), Failure> {
    let format = Format::of(path).map_err(|r| r.written_in("command line").key("--out"))?;
    let swept = sweeps.iter().zip(kinds).map(|(s, kind)| (s.path.to_string(), *kind));
    let fixed = COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    let columns = swept.chain(fixed).map(|(name, kind)| Column { name, kind }).collect();
    let table = Table::create(path, format, columns).map_err(|e| Failure::write(path, e))?;
    Ok((path.to_owned(), table))
}

/// Numbers where all values are numbers.
fn kind(sweep: &Sweep) -> Kind {
    let numbers = sweep.values.iter().all(|value| value.parse::<f64>().is_ok());
    if numbers { Kind::Number } else { Kind::Text }
}

fn cell(value: &str, kind: Kind) -> Cell {
    match kind {
        Kind::Number => value.parse().map_or(Cell::Empty, Cell::Number),
        _ => value.into(),
    }
}

fn row(values: &[Cell], run: &Run) -> Vec<Cell> {
    let slowdowns: Vec<f64> = run.tasks.iter().map(|task| task.slowdown).collect();
    let of_run = [
        run.policy.as_str().into(),
        u64::from(run.repetition).into(),
        run.seed.into(),
        run.turnaround_s.into(),
        run.weighted_speedup.into(),
        memweir_core::metrics::mean(&slowdowns).into(),
        slowdowns.into_iter().reduce(f64::max).into(),
        run.bandwidth_mean.into(),
        run.bandwidth_std.into(),
        run.ideal_average_bandwidth.into(),
        run.target.into(),
        run.quanta.into(),
        run.optimum_s.into(),
        run.optimum_is.map(certainty).into(),
        run.copied_bytes.into(),
    ];
    values.iter().cloned().chain(of_run).collect()
}

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Best => "best",
        Certainty::Bound => "bound",
    }
}
