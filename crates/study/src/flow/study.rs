//! A scenario at every point of a sweep: checked before anything runs, then run on all cores.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use memweir_core::Stop;
use memweir_core::input::{InputError, Refusal, Replacement};
use memweir_flow::experiment::SimError;
use memweir_flow::record::Recorder;
use memweir_flow::workload::catalog::Catalog;

use super::mix::MixSpec;
use super::report::{MemoryFigures, Point, Report, Run, baseline, overall, summaries};
use super::workload::Prepared;
use super::{Recordings, Scenario};
use crate::ScenarioText;
use crate::key::key;
use crate::parallel::{FirstError, for_each};
use crate::sweep::Grid;

/// Repetitions per thread from which on a piece of work is a whole repetition, whose workload is
/// made once for all policies. With fewer, a piece is a single run, so that no thread is idle.
const ENOUGH_PER_THREAD: usize = 8;

/// A scenario and the points at which it runs.
#[derive(Clone, Debug)]
pub struct Study {
    name: String,
    grid: Grid,
    points: Vec<Scenario>,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Number of its point.
    pub point: usize,
    /// Results of the run.
    pub run: Run,
}

/// The first repetition of a scenario, with a workload made once for all policies.
pub struct First<'a> {
    scenario: &'a Scenario,
    prepared: Prepared,
}

/// One repetition at one point under some of the point's policies.
#[derive(Clone, Copy, Debug)]
struct Piece {
    point: usize,
    repetition: u32,
    /// Range of indices into the policies of the scenario.
    policies: (usize, usize),
}

impl Study {
    /// Reads the scenario at every point of `grid`, with the values `set` in place of its own.
    ///
    /// # Errors
    /// The first problem at any point.
    pub fn read(
        text: &ScenarioText,
        set: &[Replacement],
        grid: Grid,
        recordings: &dyn Recordings,
    ) -> Result<Self, InputError> {
        let points = (0..grid.len())
            .map(|point| text.scenario(&[set, &grid.replacements(point)[..]].concat(), recordings))
            .collect::<Result<_, _>>()?;
        let study = Self { name: text.name().to_owned(), grid, points };
        study.check()?;
        Ok(study)
    }

    /// Checks what the readers cannot: the first experiment by the rules of the engine, and for
    /// each point whose mix may fail, that the first repetition finds a mix.
    fn check(&self) -> Result<(), InputError> {
        let first = &self.points[0];
        let prepared = first.prepare(0).map_err(|refusal| self.refused(0, refusal))?;
        first
            .experiment(0, 0, &prepared)
            .check()
            .map_err(|error| InputError::new(&self.name, error.to_string()))?;
        for (point, scenario) in self.points.iter().enumerate().skip(1) {
            if scenario.workload.mix.as_ref().is_some_and(MixSpec::may_fail) {
                scenario.prepare(0).map_err(|refusal| self.refused(point, refusal))?;
            }
        }
        Ok(())
    }

    /// Converts the refusal of a workload at a point.
    fn refused(&self, point: usize, refusal: Refusal) -> InputError {
        let at: Vec<String> = self
            .grid
            .sweeps()
            .iter()
            .zip(self.grid.values(point))
            .map(|(sweep, value)| format!("--sweep {}={value}", sweep.path))
            .collect();
        let key = match self.points[point].workload.mix {
            _ if !at.is_empty() => at.join(" "),
            Some(_) => "mix".to_owned(),
            None => "tasks".to_owned(),
        };
        refusal.written_in(&self.name).key(key)
    }

    /// Returns the grid of the sweep.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the scenario at each point.
    #[must_use]
    pub fn points(&self) -> &[Scenario] {
        &self.points
    }

    /// Returns the key of each point, which changes with all that its results depend on.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        // A catalog is larger than all else, and mostly that of the point before.
        let none = Arc::new(Catalog::default());
        let mut last: Option<(&Arc<Catalog>, String)> = None;
        let mut keys = Vec::with_capacity(self.points.len());
        for (at, scenario) in self.points.iter().enumerate() {
            let known = last.take().filter(|(other, _)| Arc::ptr_eq(other, &scenario.catalog));
            let (_, catalog) = last
                .insert(known.unwrap_or_else(|| (&scenario.catalog, key(&[], &scenario.catalog))));
            let rest = Scenario { catalog: Arc::clone(&none), ..scenario.clone() };
            keys.push(key(&self.grid.at(at), &(rest, catalog)));
        }
        keys
    }

    /// Returns the study of one of its points alone.
    #[must_use]
    pub fn only(&self, point: usize) -> Self {
        let (grid, points) = (self.grid.only(&[point]), vec![self.points[point].clone()]);
        Self { name: self.name.clone(), grid, points }
    }

    /// Returns the total number of runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.points.iter().map(|s| s.repetitions as usize * s.policies.len()).sum()
    }

    /// Runs the study on `threads` threads. Calls `done` after each run; the order of the report
    /// does not depend on the threads.
    ///
    /// # Errors
    /// If a run is refused, or `stop` is requested. Of several refusals, that of the first run is
    /// returned, in the order of the report.
    pub fn run(
        &self,
        stop: &Stop,
        threads: NonZeroUsize,
        mut done: impl FnMut(&Finished),
    ) -> Result<Report, InputError> {
        let pieces = self.pieces(threads);
        let shared = Shared::default();
        let mut runs: Vec<Vec<(usize, Run)>> = vec![Vec::new(); self.points.len()];
        let mut refused = FirstError::default();
        for_each(
            pieces.len(),
            threads,
            |index| self.work(pieces[index], &shared, stop),
            |index, results| {
                let Piece { point, policies, .. } = pieces[index];
                for (run, policy) in results.into_iter().zip(policies.0..) {
                    match run {
                        Ok(run) => {
                            let finished = Finished { point, run };
                            done(&finished);
                            runs[point].push((policy, finished.run));
                        }
                        Err(error) => refused.note(index, error),
                    }
                }
            },
        );
        refused.result()?;
        let points: Vec<Point> =
            runs.into_iter().enumerate().map(|(at, runs)| self.point(at, runs)).collect();
        let overall = if points.len() > 1 { overall(&points) } else { Vec::new() };
        let version = env!("CARGO_PKG_VERSION");
        Ok(Report { version, scenario: self.name.clone(), points, overall })
    }

    /// Prepares the first repetition of the first point, for a look at it quantum by quantum.
    ///
    /// # Errors
    /// If its workload is refused, which [`read`](Self::read) has checked already.
    pub fn first(&self) -> Result<First<'_>, InputError> {
        let scenario = &self.points[0];
        let prepared = scenario.prepare(0).map_err(|refusal| self.refused(0, refusal))?;
        Ok(First { scenario, prepared })
    }

    fn pieces(&self, threads: NonZeroUsize) -> Vec<Piece> {
        let repetitions: usize = self.points.iter().map(|s| s.repetitions as usize).sum();
        let whole = repetitions >= ENOUGH_PER_THREAD * threads.get();
        let mut pieces = Vec::new();
        for (point, scenario) in self.points.iter().enumerate() {
            let all = scenario.policies.len();
            let step = if whole { all } else { 1 };
            for repetition in 0..scenario.repetitions {
                for first in (0..all).step_by(step) {
                    pieces.push(Piece { point, repetition, policies: (first, first + step) });
                }
            }
        }
        pieces
    }

    fn work(&self, piece: Piece, shared: &Shared, stop: &Stop) -> Vec<Result<Run, InputError>> {
        if let Err(stopped) = stop.check() {
            return vec![Err(stopped.written_in(&self.name))];
        }
        let scenario = &self.points[piece.point];
        let whole = piece.policies.1 - piece.policies.0 == scenario.policies.len();
        let prepared = if whole {
            scenario.prepare_to_run(piece.repetition).map(Arc::new)
        } else {
            shared.prepared(piece, || scenario.prepare_to_run(piece.repetition))
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return vec![Err(self.refused(piece.point, refusal))],
        };
        let run = |policy| {
            scenario
                .execute(policy, piece.repetition, &prepared, None, stop)
                .map_err(|error| InputError::new(&self.name, error.to_string()))
        };
        (piece.policies.0..piece.policies.1).map(run).collect()
    }

    /// Summarizes the runs of a point, given with the indices of their policies.
    fn point(&self, at: usize, mut runs: Vec<(usize, Run)>) -> Point {
        runs.sort_by_key(|(policy, run)| (run.repetition, *policy));
        let runs: Vec<Run> = runs.into_iter().map(|(_, run)| run).collect();
        let scenario = &self.points[at];
        Point {
            at: self.grid.at(at),
            machine: scenario.hardware.machine.name.clone(),
            memories: MemoryFigures::of(&scenario.hardware.machine),
            cores: scenario.cores,
            tasks: runs.first().map_or(0, |run| run.tasks.len()),
            log: scenario.workload.log.as_ref().map(|log| log.figures.clone()),
            predictor: scenario.predictor.to_string(),
            quantum_ms: scenario.quantum.as_millis_f64(),
            confidence: scenario.confidence,
            peak_bandwidth: scenario.hardware.machine.memories[0].service.capacity.0,
            baseline: baseline(&scenario.policies).to_owned(),
            policies: summaries(&scenario.policies, &runs, scenario.confidence),
            runs,
        }
    }
}

/// A workload made by the first thread that needs it.
type Cell = Arc<OnceLock<Result<Arc<Prepared>, Refusal>>>;

/// Workloads of repetitions whose policies are separate pieces of work, each made once. There are
/// few, because with many repetitions each piece is a whole one.
#[derive(Default)]
struct Shared {
    of_repetition: Mutex<HashMap<(usize, u32), Cell>>,
}

impl Shared {
    fn prepared(
        &self,
        piece: Piece,
        make: impl FnOnce() -> Result<Prepared, Refusal>,
    ) -> Result<Arc<Prepared>, Refusal> {
        let cell = {
            let mut cells = self.of_repetition.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry((piece.point, piece.repetition)).or_default())
        };
        cell.get_or_init(|| make().map(Arc::new)).clone()
    }
}

impl First<'_> {
    /// Returns the scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        self.scenario
    }

    /// Returns the names of the tasks, in the order of their numbers.
    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        self.prepared.tasks.iter().map(|task| task.name.as_str())
    }

    /// Runs the repetition under the policy with this index and reports each quantum to `recorder`.
    ///
    /// # Errors
    /// If the engine refuses it.
    pub fn record(&self, policy: usize, recorder: &mut dyn Recorder) -> Result<Run, SimError> {
        self.scenario.execute(policy, 0, &self.prepared, Some(recorder), &Stop::default())
    }
}
