//! `memweir sim`: the policies on a machine that one does not have.

mod args;
mod bank;
mod bank_timeline;
mod list;
mod timeline;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, Stop};
use memweir_run::recording::ProfileCache;
use memweir_run::store::{Store, StoreError};
use memweir_study::flow::Recordings;
use memweir_study::flow::report::{PolicySummary, Report};
use memweir_study::flow::study::Study;
use memweir_study::sweep::Grid;
use memweir_study::{Fidelity, ScenarioText, flow};
use memweir_sweep::plan::Origin;
use memweir_sweep::simulation::flow as results;

pub(crate) use args::Args;

use crate::failure::{Failure, Outcome, refusal_of};
use crate::output;
use crate::render::plot;
use crate::render::plot::sweep::Line;
use crate::render::progress::Counter;
use crate::render::sim as render;
use crate::render::text::counted;
use crate::shared::over_time;
use crate::shared::rows::Rows;
use crate::shared::scenario::grid;
use crate::value::available_cores;

/// Simulates the scenario and shows the results.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    match &args.scenario {
        Some(path) => return simulate(args, path),
        None if args.example => output::print(flow::EXAMPLE)?,
        None => {
            let names = list::names();
            output::report(args.json.as_deref(), &names, || names.text())?;
        }
    }
    Ok(Outcome::Success)
}

fn simulate(args: &Args, path: &Path) -> Result<Outcome, Failure> {
    args.shards.check(&args.output())?;
    let grid = grid(&args.sweep, &args.set)?;
    let text = ScenarioText::read(path)?;
    if text.fidelity(&args.set)? == Fidelity::Bank {
        if args.store.is_some() {
            return Err(unused_store());
        }
        return bank::simulate(args, path, &text, grid);
    }
    if args.interval.is_some() {
        return Err(bank::no_intervals("the rows of flows are one per task and quantum"));
    }
    let (recordings, store) = (ProfileCache::default(), args.store.as_deref());
    let profiles = Profiles { recordings, store, is_used: Cell::new(false) };
    let read = |grid| {
        let study = Study::read(&text, &args.set, grid, &profiles)?;
        let is_unused = store.is_some() && !profiles.is_used.get();
        if is_unused { Err(unused_store()) } else { Ok(study) }
    };
    if args.shards.is_wanted() {
        return args.shards.execute(&grid, read, &Origin::of(&text, &args.set), &args.output());
    }
    args.timeline.as_deref().map(over_time::format).transpose()?;
    let study = read(grid)?;
    let timelines = timeline::paths(args.timeline.as_deref(), &study);
    let timelines: Vec<Option<PathBuf>> = timelines.into_iter().map(Some).collect();
    output::check([&args.json, &args.svg, &args.out].into_iter().chain(&timelines), [path])?;
    let mut rows = Rows::create(args.out.as_deref(), &study)?;
    let timelines = timelines.iter().flatten().map(|path| timeline::begin(path));
    let timelines = timelines.collect::<Result<Vec<_>, _>>()?;

    let counter = Counter::new("runs", study.runs() as u64);
    let threads = args.threads.unwrap_or_else(available_cores);
    let report = study.run(&Stop::default(), threads, |finished| {
        rows.append(finished.point, results::row(&finished.run));
        counter.one_more();
    });
    counter.finish();
    let report = report?;
    let table = rows.finish(report.points.iter().map(results::rows));
    let over_time = timeline::write(timelines, &study);
    let shown = output::report(args.json.as_deref(), &report, || render::report(&report));
    let drawn = |path| output::figure(path, &draw(&study, &report)?);
    let figure = args.svg.as_deref().map_or(Ok(()), drawn);
    output::each([table, over_time, shown, figure])?;
    Ok(Outcome::Success)
}

/// Recordings in files, and the profile store.
struct Profiles<'a> {
    recordings: ProfileCache,
    /// The store, unless it is that of the user.
    store: Option<&'a Path>,
    /// True once a point of a scenario has asked for the store.
    is_used: Cell<bool>,
}

/// The refusal of a store from which nothing is taken.
fn unused_store() -> Failure {
    let help = "leave it out; it is for a `log` with `bandwidth = \"store\"`";
    refusal_of("--store", "the scenario takes nothing from a profile store").help(help).into()
}

impl Recordings for Profiles<'_> {
    fn profile(&self, path: &Path) -> Result<Arc<Profile>, Refusal> {
        self.recordings.profile(path)
    }

    fn stored(&self) -> Result<Vec<(String, BytesPerSec)>, Refusal> {
        self.is_used.set(true);
        let help = "record programs with `memweir profile`, or name a store with `--store`";
        let fail = |error: StoreError| Refusal::new(error.to_string(), help);
        let entries = Store::read(self.store).and_then(|store| store.list()).map_err(fail)?;
        let named = entries.into_iter().filter_map(|entry| {
            let program = Path::new(entry.command.first()?).file_name()?;
            Some((program.to_string_lossy().into_owned(), entry.bandwidth))
        });
        Ok(named.collect())
    }
}

/// Draws a line per policy of a sweep; otherwise the first repetition under each policy.
fn draw(study: &Study, report: &Report) -> Result<plot::Figure, Failure> {
    if !study.grid().sweeps().is_empty() {
        return Ok(by_policy(report, study.grid()));
    }
    let first = study.first()?;
    let policies = 0..first.scenario().policies.len();
    let runs: Vec<_> =
        policies.map(|policy| timeline::drawn(&first, policy)).collect::<Result<_, _>>()?;
    let point = &report.points[0];
    let subtitle = format!(
        "{} on {} of {}, quantum {} ms, predictor {}",
        counted(point.tasks as u64, "task"),
        counted(point.cores.into(), "core"),
        point.machine,
        point.quantum_ms,
        point.predictor
    );
    Ok(plot::batch::figure(&runs, subtitle))
}

/// Turnaround and gain against a swept key.
fn by_policy(report: &Report, grid: &Grid) -> plot::Figure {
    let points = report.points.iter().map(|point| {
        let line = |policy: &PolicySummary| Line {
            name: policy.policy.clone(),
            values: vec![policy.mean_s, 100.0 * policy.gain],
        };
        point.policies.iter().map(line).collect()
    });
    let title = format!("{} under each policy", report.scenario);
    plot::sweep::figure(title, grid, &["turnaround (s)", "gain (%)"], &points.collect::<Vec<_>>())
}
