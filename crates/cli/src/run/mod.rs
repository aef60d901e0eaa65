//! `memweir run`: a batch of jobs, or the same batch under several policies.

mod args;
mod colored;
mod first;
mod help;

use memweir_linux::tell;
use memweir_run::batch::{RunError, run_batch};
use memweir_run::compare::{CompareOptions, Compared, compare};
use memweir_run::options::RunOptions;
use memweir_watch::Metrics;

pub(crate) use args::Args;
use colored::{Coloring, Watch, WithColoring};

use crate::failure::{Failure, Outcome};
use crate::render::{batch as render, comparison as render_comparison};
use crate::shared::batch::{ended, outcome, plot_comparison, plot_run, whole, with_notes, worst};
use crate::shared::batch_args::Plan;
use crate::shared::metrics::BatchMetrics;
use crate::shared::watcher::Watcher;
use crate::{interrupt, output};

/// Runs the batch and shows the result.
pub(crate) fn execute(args: Args) -> Result<Outcome, Failure> {
    let mut plan = args.plan()?;
    let (source, map) = (args.jobs.name(), args.map.as_deref());
    let map = colored::check(&plan.batch, &source, map, &plan.options)?;
    args.results.check(&args.comparing, &args.jobs)?;
    let mut notes = match args.profile_first {
        true => first::profile(&plan, args.sample)?,
        false => Vec::new(),
    };
    if output::is_stdout(args.results.json.as_deref()) {
        // They stand above the tables otherwise, and not in the JSON.
        notes.drain(..).for_each(|note| tell!("{note}"));
    }
    let colored = colored::prepare(&mut plan.batch, map.as_ref(), &plan.options)?;
    interrupt::block()?;
    let colors = Watch::start(colored)?;
    let metrics = Metrics::default();
    let export = args.export.start(&metrics)?;
    let metrics = args.export.is_wanted().then(|| batch_metrics(metrics, &plan));
    let watcher = Watcher::new(args.results.plot.as_deref()).with_metrics(metrics);
    let outcome = match &plan.compare {
        None => once(&args, &plan, watcher, notes, colors),
        Some(compare) => several(&args, &plan, compare, watcher, notes, colors),
    };
    match outcome {
        Ok(outcome) => ended(outcome, export.finish()),
        Err(refused) => {
            export.withdraw();
            Err(refused.into())
        }
    }
}

fn batch_metrics(metrics: Metrics, plan: &Plan<RunOptions>) -> BatchMetrics {
    let jobs = plan.batch.jobs.iter().map(|job| job.name.as_str());
    BatchMetrics::new(metrics, jobs, &plan.options.media)
}

/// Runs one batch and shows the result. The outer error is one for which there is no result.
fn once(
    args: &Args,
    plan: &Plan<RunOptions>,
    mut watcher: Watcher,
    mut notes: Vec<String>,
    colors: Option<Watch>,
) -> Result<Result<Outcome, Failure>, RunError> {
    let report = run_batch(&plan.batch, &plan.options, &mut watcher);
    let coloring = colors.map(Watch::finish);
    let (told, mut timelines) = watcher.finish();
    let report = report?;
    notes.extend(told);
    let colored = WithColoring { report: &report, coloring: coloring.as_ref() };
    let shown = output::report(args.results.json.as_deref(), &colored, || {
        with_notes(&notes, &render::report(&report))
    });
    tell_colors(coloring.as_ref());
    let plot = args.results.plot.as_ref().zip(timelines.pop());
    let plot = plot.map_or(Ok(()), |(path, rows)| plot_run(&report, rows, path));
    Ok(ended(outcome(&report), output::each([shown, plot, whole([&report])])))
}

/// Runs a comparison and shows the result, as [`once`] does.
fn several(
    args: &Args,
    plan: &Plan<RunOptions>,
    options: &CompareOptions,
    mut watcher: Watcher,
    mut notes: Vec<String>,
    colors: Option<Watch>,
) -> Result<Result<Outcome, Failure>, RunError> {
    let compared = compare(&plan.batch, &plan.options, options, &mut watcher);
    let coloring = colors.map(Watch::finish);
    let (told, timelines) = watcher.finish();
    let Compared { comparison, failure } = compared?;
    notes.extend(told);
    let colored = WithColoring { report: &comparison, coloring: coloring.as_ref() };
    let shown = output::report(args.results.json.as_deref(), &colored, || {
        with_notes(&notes, &render_comparison::report(&comparison))
    });
    tell_colors(coloring.as_ref());
    let plot = args.results.plot.as_ref();
    let plot = plot.map_or(Ok(()), |path| plot_comparison(&comparison, timelines, options, path));
    let whole = whole(comparison.runs.iter().map(|run| &run.report));
    Ok(ended(worst(&comparison, failure), output::each([shown, plot, whole])))
}

fn tell_colors(coloring: Option<&Coloring>) {
    for notice in coloring.iter().flat_map(|coloring| coloring.notices()) {
        tell!("{notice}");
    }
}
