//! `memweir run`: a batch of jobs, or the same batch under several policies.

mod args;
mod colored;
mod first;
pub(crate) mod groups;
pub(crate) mod help;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod watcher;

use std::io;
use std::path::Path;

use memweir_run::batch::run_batch;
use memweir_run::compare::{CompareOptions, Comparison, compare};
use memweir_run::report::{BatchReport, Outcome as BatchOutcome};
use memweir_watch::Metrics;

use args::Plan;
pub(crate) use args::{Args, confidence};

use crate::failure::{Failure, Outcome};
use crate::render::{batch as render, comparison as render_comparison, plot};
use crate::{interrupt, output};
use memweir_run::timeline::Row;
use metrics::BatchMetrics;
use watcher::Watcher;

/// Runs the batch and shows the result.
pub(crate) fn execute(args: Args) -> Result<Outcome, Failure> {
    let mut plan = args.plan()?;
    for path in [&args.json, &args.plot, &args.results, &args.record] {
        output::writable(path.as_deref())?;
    }
    let notes = match args.profile_first {
        true => first::profile(&plan.batch, &plan.options, args.sample)?,
        false => Vec::new(),
    };
    let colored = colored::prepare(&mut plan.batch, args.map.as_deref(), &plan.options)?;
    interrupt::block()?;
    let metrics = Metrics::default();
    let export = args.export.start(&metrics)?;
    let metrics = args.export.is_wanted().then(|| batch_metrics(metrics, &plan));
    let watcher = Watcher::new(args.plot.is_some()).with_metrics(metrics);
    let outcome = match &plan.compare {
        None => once(&args, &plan, watcher, notes),
        Some(compare) => several(&args, &plan, compare, watcher, notes),
    };
    let exported = match &outcome {
        Err(Failure::Input(_) | Failure::Machine(_)) => {
            export.withdraw();
            Ok(())
        }
        _ => export.finish(),
    };
    for notice in colored::notices(&colored) {
        eprintln!("memweir: {notice}");
    }
    outcome.and_then(|outcome| ended(outcome, exported))
}

fn batch_metrics(metrics: Metrics, plan: &Plan) -> BatchMetrics {
    let jobs = plan.batch.jobs.iter().map(|job| job.name.as_str());
    BatchMetrics::new(metrics, jobs, &plan.options.media)
}

fn once(
    args: &Args,
    plan: &Plan,
    mut watcher: Watcher,
    mut notes: Vec<String>,
) -> Result<Outcome, Failure> {
    let report = run_batch(&plan.batch, &plan.options, &mut watcher);
    let (told, mut timelines) = watcher.finish();
    let report = report?;
    notes.extend(told);
    let printed = match output::is_stdout(args.json.as_deref()) {
        true => Ok(()),
        false => output::print(&with_notes(&notes, &render::report(&report))),
    };
    let json = args.json.as_ref().map(|path| output::json(path, &report));
    let plot = args.plot.as_ref().zip(timelines.pop());
    let plot = plot.map(|(path, rows)| plot_run(&report, rows, path));
    let written = output::each([Some(printed), json, plot].into_iter().flatten());
    ended(outcome(&report), written.and(whole(&report)))
}

fn several(
    args: &Args,
    plan: &Plan,
    options: &CompareOptions,
    mut watcher: Watcher,
    mut notes: Vec<String>,
) -> Result<Outcome, Failure> {
    let comparison = compare(&plan.batch, &plan.options, options, &mut watcher);
    let (told, timelines) = watcher.finish();
    let comparison = comparison?;
    notes.extend(told);
    let printed = match output::is_stdout(args.json.as_deref()) {
        true => Ok(()),
        false => output::print(&with_notes(&notes, &render_comparison::report(&comparison))),
    };
    let json = args.json.as_ref().map(|path| output::json(path, &comparison));
    let plot = args.plot.as_ref();
    let plot = plot.map(|path| plot_comparison(&comparison, timelines, options, path));
    let written = output::each([Some(printed), json, plot].into_iter().flatten());
    let whole = output::each(comparison.runs.iter().map(|run| whole(&run.report)));
    ended(worst(&comparison), written.and(whole))
}

/// Fails for a report with files that could not be written to their end.
pub(crate) fn whole(report: &BatchReport) -> Result<(), Failure> {
    let lost = report.lost.first();
    lost.map_or(Ok(()), |lost| Err(Failure::write(&lost.path, io::Error::other(&*lost.reason))))
}

/// Outcome of a command whose results were `written`. An interruption outranks a missing file.
pub(crate) fn ended(outcome: Outcome, written: Result<(), Failure>) -> Result<Outcome, Failure> {
    match (outcome, written) {
        (Outcome::Interrupted, Err(failure)) => {
            eprintln!("memweir: {failure}");
            Ok(Outcome::Interrupted)
        }
        (outcome, written) => written.map(|()| outcome),
    }
}

/// Draws one run.
pub(crate) fn plot_run(report: &BatchReport, rows: Vec<Row>, path: &Path) -> Result<(), Failure> {
    plot::batch::timeline(&drawn(report, rows), subtitle(report)).write(path)?;
    Ok(())
}

/// Draws the first round of a comparison, which has every policy: one round is enough.
pub(crate) fn plot_comparison(
    comparison: &Comparison,
    timelines: Vec<Vec<Row>>,
    options: &CompareOptions,
    path: &Path,
) -> Result<(), Failure> {
    let Some(run) = comparison.runs.first() else { return Ok(()) };
    let first_round = comparison.runs.iter().zip(timelines).take(options.variants.len());
    let runs: Vec<_> = first_round
        .map(|(run, rows)| plot::batch::Run {
            policy: run.variant.clone(),
            ..drawn(&run.report, rows)
        })
        .collect();
    plot::batch::comparison(&runs, subtitle(&run.report)).write(path)?;
    Ok(())
}

fn drawn(report: &BatchReport, rows: Vec<Row>) -> plot::batch::Run {
    plot::batch::Run {
        policy: report.policy.clone(),
        rows,
        turnaround_s: report.turnaround_s,
        peak: report.peak_bandwidth,
    }
}

fn subtitle(report: &BatchReport) -> String {
    format!(
        "{} jobs on {} cores, quantum {} ms, meter {}, predictor {}",
        report.jobs.len(),
        report.cores,
        report.quantum_ms,
        report.meter,
        report.predictor
    )
}

/// A text below the notes.
pub(crate) fn with_notes(notes: &[String], text: &str) -> String {
    let mut whole: String = notes.iter().map(|note| format!("{note}\n")).collect();
    if !whole.is_empty() {
        whole.push('\n');
    }
    whole + text
}

/// Outcome of a command with this report.
pub(crate) fn outcome(report: &BatchReport) -> Outcome {
    match report.outcome {
        BatchOutcome::Interrupted => Outcome::Interrupted,
        _ if report.succeeded() => Outcome::Success,
        _ => Outcome::JobFailed,
    }
}

/// Outcome of a command with this comparison.
pub(crate) fn worst(comparison: &Comparison) -> Outcome {
    let outcomes: Vec<Outcome> = comparison.runs.iter().map(|run| outcome(&run.report)).collect();
    for bad in [Outcome::Interrupted, Outcome::JobFailed] {
        if outcomes.contains(&bad) {
            return bad;
        }
    }
    Outcome::Success
}
