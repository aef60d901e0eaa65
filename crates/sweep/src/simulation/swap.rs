//! Scenarios of swapping: the columns of `memweir page sim --out`, and the row of a run.

use std::num::NonZeroUsize;

use memweir_core::Stop;
use memweir_core::input::InputError;
use memweir_run::table::{Cell, Column, Field, Kind, cells, columns};
use memweir_study::swap::report::{PagePoint, PageRun, SwapResult};
use memweir_study::swap::study::PageStudy;
use memweir_study::sweep::Grid;

use super::{Simulated, Simulation, unless_stopped};

/// One row: a run on a swap area.
struct Row<'a> {
    swap: &'a str,
    repetition: u32,
    run: &'a PageRun,
}

/// Returns the fields of a row, behind the swept keys.
fn fields<'a>() -> [Field<Row<'a>>; 17] {
    // Counts of one run are whole; only the means of several are not.
    fn whole(count: f64) -> Cell {
        Cell::from(count as u64)
    }
    [
        ("swap", Kind::String, |row| row.swap.into()),
        ("repetition", Kind::Integer, |row| u64::from(row.repetition).into()),
        ("seed", Kind::Integer, |row| row.run.seed.into()),
        ("swap_outs", Kind::Integer, |row| whole(row.run.session.swap_outs)),
        ("copies_in", Kind::Integer, |row| whole(row.run.session.copies_in)),
        ("direct_reads", Kind::Integer, |row| whole(row.run.session.direct_reads)),
        ("upgrades", Kind::Integer, |row| whole(row.run.session.upgrades)),
        ("copies_avoided", Kind::Integer, |row| whole(row.run.session.copies_avoided)),
        ("killed", Kind::Integer, |row| whole(row.run.session.killed)),
        ("references", Kind::Integer, |row| whole(row.run.session.references)),
        ("switch_ms", Kind::Float, |row| row.run.session.switch_ms.into()),
        ("switch_paging_ms", Kind::Float, |row| row.run.session.switch_paging_ms.into()),
        ("stalled_ms", Kind::Float, |row| row.run.session.stalled_ms.into()),
        ("block_io", Kind::Integer, |row| whole(row.run.session.block_io)),
        ("most_in_swap", Kind::Integer, |row| whole(row.run.session.most_in_swap)),
        ("energy_j", Kind::Float, |row| row.run.session.energy_j.into()),
        ("energy_background_j", Kind::Float, |row| row.run.session.energy_background_j.into()),
    ]
}

/// Returns the rows of a point.
#[must_use]
pub fn rows(point: &PagePoint) -> Vec<Vec<Cell>> {
    let of_swap = |swap: &SwapResult| -> Vec<Vec<Cell>> {
        (0..).zip(&swap.runs).map(|(repetition, run)| row(&swap.swap, repetition, run)).collect()
    };
    point.swaps.iter().flat_map(of_swap).collect()
}

/// Returns the row of a run.
#[must_use]
pub fn row(swap: &str, repetition: u32, run: &PageRun) -> Vec<Cell> {
    cells(&fields(), &Row { swap, repetition, run })
}

impl Simulation for PageStudy {
    fn command(&self) -> &'static str {
        "page sim"
    }

    fn grid(&self) -> &Grid {
        self.grid()
    }

    fn keys(&self) -> Vec<String> {
        self.keys()
    }

    fn columns(&self) -> Vec<Column> {
        columns(&fields())
    }

    fn simulate(
        &self,
        point: usize,
        threads: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let simulated = |point: &PagePoint| Simulated::new(rows(point), point);
        let report = unless_stopped(stop, self.only(point).run(stop, threads, |_| ()))?;
        Ok(report.and_then(|report| report.points.first().map(simulated)))
    }
}
