//! Scenarios of swapping: the columns of `memweir page sim --out`, and the row of a run.

use std::num::NonZeroUsize;

use memweir_core::input::InputError;
use memweir_flow::Stop;
use memweir_run::table::{Cell, Kind};
use memweir_study::swap::report::{PageReport, PageRun};
use memweir_study::swap::study::PageStudy;
use memweir_study::sweep::Grid;

use super::{Simulated, Simulation};

/// The columns, behind the swept keys.
pub const COLUMNS: [(&str, Kind); 17] = [
    ("swap", Kind::Text),
    ("repetition", Kind::Whole),
    ("seed", Kind::Whole),
    ("swap_outs", Kind::Whole),
    ("copies_in", Kind::Whole),
    ("direct_reads", Kind::Whole),
    ("upgrades", Kind::Whole),
    ("copies_avoided", Kind::Whole),
    ("killed", Kind::Whole),
    ("references", Kind::Whole),
    ("switch_ms", Kind::Number),
    ("switch_paging_ms", Kind::Number),
    ("stalled_ms", Kind::Number),
    ("block_io", Kind::Whole),
    ("most_in_swap", Kind::Whole),
    ("energy_j", Kind::Number),
    ("energy_background_j", Kind::Number),
];

/// Returns the rows of all runs, each with the number of its point.
pub fn rows(report: &PageReport) -> impl Iterator<Item = (usize, Vec<Cell>)> {
    let points = report.points.iter().enumerate();
    let swaps = points.flat_map(|(at, point)| point.swaps.iter().map(move |swap| (at, swap)));
    swaps.flat_map(|(at, swap)| {
        (0..).zip(&swap.runs).map(move |(repetition, run)| (at, row(&swap.swap, repetition, run)))
    })
}

/// Returns the row of a run.
#[must_use]
pub fn row(swap: &str, repetition: u32, run: &PageRun) -> Vec<Cell> {
    let session = &run.session;
    // Counts of one run are whole; only the means of several are not.
    let whole = |count: f64| Cell::from(count as u64);
    vec![
        swap.into(),
        u64::from(repetition).into(),
        run.seed.into(),
        whole(session.swap_outs),
        whole(session.copies_in),
        whole(session.direct_reads),
        whole(session.upgrades),
        whole(session.copies_avoided),
        whole(session.killed),
        whole(session.references),
        session.switch_ms.into(),
        session.switch_paging_ms.into(),
        session.stalled_ms.into(),
        whole(session.block_io),
        whole(session.most_in_swap),
        session.energy_j.into(),
        session.energy_background_j.into(),
    ]
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

    fn columns(&self) -> &[(&'static str, Kind)] {
        &COLUMNS
    }

    fn simulate(
        &self,
        point: usize,
        threads: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let report = self.only(point).run_until(stop, threads, |_| ());
        Ok(report.map(|report| {
            let rows = rows(&report).map(|(_, row)| row).collect();
            Simulated::new(rows, &report.points[0])
        }))
    }
}
