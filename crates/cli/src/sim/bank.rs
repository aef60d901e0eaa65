//! `memweir sim` of a scenario with `fidelity = "bank"`.

use std::path::{Path, PathBuf};

use memweir_core::{Nanos, Picos, Stop};
use memweir_study::ScenarioText;
use memweir_study::bank::report::{BankPoint, BankReport};
use memweir_study::bank::study::BankStudy;
use memweir_study::sweep::Grid;
use memweir_sweep::plan::Origin;
use memweir_sweep::simulation::bank as results;

use super::{Args, bank_timeline as timeline};
use crate::failure::{Failure, Outcome, refusal_of};
use crate::output;
use crate::render::bank as render;
use crate::render::plot::{self, Figure, sweep::Line};
use crate::render::progress::Counter;
use crate::shared::over_time;
use crate::shared::rows::Rows;
use crate::value::available_cores;

/// Length of the intervals of a timeline, unless one is named.
const INTERVAL: Nanos = Nanos(10_000);

/// Simulates it and shows the results.
pub(super) fn simulate(
    args: &Args,
    path: &Path,
    text: &ScenarioText,
    grid: Grid,
) -> Result<Outcome, Failure> {
    if args.shards.is_wanted() {
        if args.interval.is_some() {
            return Err(no_intervals("a sweep in shards has no timeline"));
        }
        let read = |grid| Ok(BankStudy::read(text, &args.set, grid)?);
        return args.shards.execute(&grid, read, &Origin::of(text, &args.set), &args.output());
    }
    args.timeline.as_deref().map(over_time::format).transpose()?;
    let study = study(args, text, grid)?;
    let timelines = args.timeline.iter().flat_map(|path| timeline::files(path, &study));
    let timelines: Vec<Option<PathBuf>> = timelines.map(Some).collect();
    output::check([&args.json, &args.svg, &args.out].into_iter().chain(&timelines), [path])?;
    let mut rows = Rows::create(args.out.as_deref(), &study)?;
    let counter = Counter::new("runs", study.runs() as u64);
    let threads = args.threads.unwrap_or_else(available_cores);
    let report = study.run(&Stop::default(), threads, |over| {
        let of_point = over.results.map(results::rows).unwrap_or_default();
        of_point.into_iter().for_each(|row| rows.append(over.point, row));
        counter.one_more();
    });
    counter.finish();
    let report = report?;
    let table = rows.finish(report.points.iter().map(results::rows));
    let shown = output::report(args.json.as_deref(), &report, || render::report(&report));
    let written = args.timeline.iter().map(|path| timeline::write(path, &study, &report));
    let drawn = args.svg.iter().map(|path| output::figure(path, &draw(&study, &report)));
    output::each([table, shown].into_iter().chain(written).chain(drawn))?;
    Ok(Outcome::Success)
}

/// Reads the study, which records the requests over time if they are wanted.
fn study(args: &Args, text: &ScenarioText, grid: Grid) -> Result<BankStudy, Failure> {
    let is_swept = !grid.sweeps().is_empty();
    let is_recorded = args.timeline.is_some() || (args.svg.is_some() && !is_swept);
    let study = BankStudy::read(text, &args.set, grid)?;
    if args.interval.is_some() && study.points()[0].batch.is_some() {
        return Err(no_intervals("the rows of a batch are one per job and quantum"));
    }
    if args.interval.is_some() && !is_recorded {
        return Err(no_intervals("without `--timeline`, or `--svg` of one point, there are none"));
    }
    let interval = args.interval.unwrap_or(INTERVAL);
    Ok(if is_recorded { study.recorded(Picos::from_nanos(interval.0)) } else { study })
}

/// Refuses intervals where there are none, for this reason.
pub(super) fn no_intervals(reason: &str) -> Failure {
    let help = "leave it out; it is for programs that run together at bank level";
    refusal_of("--interval", reason).help(help).into()
}

/// Draws a line per partition or policy of a sweep; otherwise what happened over time.
fn draw(study: &BankStudy, report: &BankReport) -> Figure {
    if study.grid().sweeps().is_empty() {
        return timeline::figure(study, report);
    }
    let is_batch = study.points()[0].batch.is_some();
    let (things, quantities) = match is_batch {
        true => ("policy", ["turnaround (us)", "gain (%)"]),
        false => ("partition", ["weighted speedup", "maximum slowdown"]),
    };
    let points: Vec<Vec<Line>> = report.points.iter().map(lines).collect();
    let title = format!("{} under each {things}", report.scenario);
    plot::sweep::figure(title, study.grid(), &quantities, &points)
}

/// Returns the lines of a point: of a batch its policies, of other programs their partitions.
fn lines(point: &BankPoint) -> Vec<Line> {
    let policies = point.policies.iter().map(|run| Line {
        name: run.policy.clone(),
        values: vec![1e6 * run.turnaround_s, 100.0 * run.gain.unwrap_or(0.0)],
    });
    let partitions = point.partitions.iter().map(|run| Line {
        name: run.partition.clone(),
        values: vec![run.outcome.weighted_speedup, run.outcome.maximum_slowdown],
    });
    policies.chain(partitions).collect()
}
