//! A scenario at every point of a sweep: checked before anything runs, then run on all cores.

use std::num::NonZeroUsize;

use memweir_core::Stop;
use memweir_core::input::{InputError, Replacement};
use memweir_core::{Bytes, Nanos, PAGE};
use memweir_energy::{BusMemory, Medium};
use memweir_swap::area::SwapKind;
use memweir_swap::session::SessionOutcome;

use super::report::{AppResult, PagePoint, PageReport, PageRun, Session, SwapResult};
use super::{PageScenario, Traces};
use crate::ScenarioText;
use crate::key::key;
use crate::parallel::{FirstError, for_each};
use crate::sweep::Grid;

/// A scenario and the points at which it runs.
pub struct PageStudy {
    name: String,
    grid: Grid,
    points: Vec<PageScenario>,
    dram: BusMemory,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct FinishedPageRun<'a> {
    /// Number of its point.
    pub point: usize,
    /// The swap area.
    pub swap: &'a str,
    /// Number of the repetition, from zero.
    pub repetition: u32,
    /// Results of the run.
    pub run: &'a PageRun,
}

/// A run, by point, swap area and repetition.
#[derive(Clone, Copy)]
struct Piece {
    point: usize,
    swap: usize,
    repetition: u32,
}

impl PageStudy {
    /// Reads the scenario at every point of `grid`, with the values `set` in place of its own.
    ///
    /// # Errors
    /// The first problem at any point.
    pub fn read(text: &ScenarioText, set: &[Replacement], grid: Grid) -> Result<Self, InputError> {
        let traces = Traces::default();
        let points = (0..grid.len())
            .map(|point| {
                let replacements = [set, &grid.replacements(point)[..]].concat();
                PageScenario::read(text, &replacements, &traces)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { name: text.name().to_owned(), grid, points, dram: dram() })
    }

    /// Returns the grid of the sweep.
    #[must_use]
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the scenario at each point.
    #[must_use]
    pub fn points(&self) -> &[PageScenario] {
        &self.points
    }

    /// Returns the key of each point, which changes with all that its results depend on.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let points = self.points.iter().enumerate();
        points.map(|(at, point)| key(&self.grid.at(at), point)).collect()
    }

    /// Returns the study of one of its points alone.
    #[must_use]
    pub fn only(&self, point: usize) -> Self {
        let (grid, points) = (self.grid.only(&[point]), vec![self.points[point].clone()]);
        Self { name: self.name.clone(), grid, points, dram: dram() }
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.points.iter().map(|point| point.swaps.len() * point.repetitions as usize).sum()
    }

    /// Runs the study on `threads` threads. Calls `done` after each run; the order of the report
    /// does not depend on the threads.
    ///
    /// # Errors
    /// If `stop` is requested; no further run begins then.
    pub fn run(
        &self,
        stop: &Stop,
        threads: NonZeroUsize,
        mut done: impl FnMut(&FinishedPageRun),
    ) -> Result<PageReport, InputError> {
        let pieces = self.pieces();
        let mut runs = vec![None; pieces.len()];
        let mut stopped = FirstError::default();
        for_each(
            pieces.len(),
            threads,
            |index| stop.check().map(|()| self.one(pieces[index])),
            |index, run| match run {
                Ok(run) => {
                    let Piece { point, swap, repetition } = pieces[index];
                    let name = &self.points[point].swaps[swap].name;
                    done(&FinishedPageRun { point, swap: name, repetition, run: &run });
                    runs[index] = Some(run);
                }
                Err(refusal) => stopped.note(index, refusal),
            },
        );
        stopped.result().map_err(|refusal| refusal.written_in(&self.name))?;
        let mut runs = runs.into_iter().flatten();
        let points = (0..self.points.len()).map(|at| self.point(at, &mut runs)).collect();
        Ok(PageReport { version: env!("CARGO_PKG_VERSION"), scenario: self.name.clone(), points })
    }

    /// Returns the runs of all points in their order, by swap area and then by repetition.
    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.runs());
        for (point, scenario) in self.points.iter().enumerate() {
            for swap in 0..scenario.swaps.len() {
                let all = 0..scenario.repetitions;
                pieces.extend(all.map(|repetition| Piece { point, swap, repetition }));
            }
        }
        pieces
    }

    fn one(&self, piece: Piece) -> PageRun {
        let scenario = &self.points[piece.point];
        let kind = &scenario.swaps[piece.swap];
        let seed = scenario.seed.wrapping_add(u64::from(piece.repetition));
        let outcome = scenario.session.run(kind, seed);
        let session = summary(scenario, kind, &outcome, &self.dram);
        let by_app = scenario.session.apps.iter().zip(&outcome.by_app).enumerate();
        let by_app = by_app.map(|(number, (app, counts))| AppResult {
            app: app.name.clone(),
            counts: *counts,
            switch_ms: outcome
                .mean(|switch| switch.app == number && switch.round > 0)
                .map(Nanos::as_millis_f64),
        });
        PageRun { seed, session, by_app: by_app.collect() }
    }

    /// Summarizes a point, whose runs are the next of these.
    fn point(&self, at: usize, runs: &mut impl Iterator<Item = PageRun>) -> PagePoint {
        let scenario = &self.points[at];
        let session = &scenario.session;
        let swaps = scenario.swaps.iter().map(|kind| {
            let runs: Vec<PageRun> = runs.by_ref().take(scenario.repetitions as usize).collect();
            let mean = Session::mean(runs.iter().map(|run| &run.session));
            SwapResult { swap: kind.name.clone(), mean, runs }
        });
        let pages: u64 = session.apps.iter().map(|app| u64::from(app.behavior.pages())).sum();
        PagePoint {
            at: self.grid.at(at),
            apps: session.apps.iter().map(|app| app.name.clone()).collect(),
            footprint: Bytes(pages * PAGE.0),
            dram: session.dram,
            swap: session.swap,
            policy: session.victims.name().to_owned(),
            reading: scenario.reading.0,
            duration_s: session.duration().0,
            swaps: swaps.collect(),
        }
    }
}

/// Returns the DRAM whose reads direct read replaces.
fn dram() -> BusMemory {
    match Medium::shipped("lpddr2-dram") {
        Ok(Medium::Memory(memory)) => memory,
        _ => unreachable!("the DRAM is shipped, and memory on the bus"),
    }
}

fn summary(
    scenario: &PageScenario,
    kind: &SwapKind,
    outcome: &SessionOutcome,
    dram: &BusMemory,
) -> Session {
    let counts = &outcome.counts;
    let energy = kind.energy(
        counts,
        outcome.lines_in_place,
        scenario.session.swap,
        outcome.duration,
        &scenario.reading.1,
        dram,
    );
    let again = outcome.switches.iter().filter(|switch| switch.round > 0);
    let paging: Vec<f64> = again.map(|switch| switch.paging.as_millis_f64()).collect();
    Session {
        swap_outs: counts.swap_outs as f64,
        copies_in: counts.copies_in as f64,
        direct_reads: counts.direct_reads as f64,
        upgrades: counts.upgrades as f64,
        copies_avoided: counts.copies_avoided() as f64,
        killed: counts.killed as f64,
        references: counts.references as f64,
        switch_ms: outcome.mean_delay().map(Nanos::as_millis_f64),
        switch_paging_ms: memweir_core::metrics::mean(&paging),
        stalled_ms: outcome.stalled.as_millis_f64(),
        block_io: outcome.block_io.as_f64(),
        most_in_swap: outcome.most_in_swap.as_f64(),
        energy_j: energy.total().0,
        energy_background_j: energy.background.0,
    }
}
