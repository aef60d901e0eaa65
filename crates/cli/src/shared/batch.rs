//! The end of a command that ran a batch: its outcome, its notes, its figure.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use memweir_linux::tell;
use memweir_run::batch::RunError;
use memweir_run::compare::{CompareOptions, Comparison};
use memweir_run::report::{self, BatchReport, LostOutput};
use memweir_run::timeline::Row;

use crate::failure::{self, Failure};
use crate::output;
use crate::render::plot;
use crate::render::text::counted;

/// Fails for reports with files that could not be written to their end. A file of several runs is
/// named once.
pub(crate) fn whole<'a>(reports: impl IntoIterator<Item = &'a BatchReport>) -> Result<(), Failure> {
    let mut named = HashSet::new();
    let lost = reports.into_iter().flat_map(|report| &report.lost);
    output::each(lost.filter(|lost| named.insert(&lost.path)).map(lost_output))
}

/// The failure that is behind a lost file.
pub(crate) fn lost_output(lost: &LostOutput) -> Result<(), Failure> {
    Err(Failure::write(Path::new(&lost.path), io::Error::other(&*lost.reason)))
}

/// Outcome of a command whose results were `written`. An interruption and a failed policy outrank a
/// missing file.
pub(crate) fn ended(
    outcome: Result<failure::Outcome, Failure>,
    written: Result<(), Failure>,
) -> Result<failure::Outcome, Failure> {
    match (outcome, written) {
        (outcome @ (Ok(failure::Outcome::Interrupted) | Err(_)), Err(failure)) => {
            tell!("{failure}");
            outcome
        }
        (outcome, written) => written.and(outcome),
    }
}

/// Draws one run.
pub(crate) fn plot_run(report: &BatchReport, rows: Vec<Row>, path: &Path) -> Result<(), Failure> {
    output::figure(path, &plot::batch::timeline(&drawn(report, rows), subtitle(report)))
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
    output::figure(path, &plot::batch::comparison(&runs, subtitle(&run.report)))
}

fn drawn(report: &BatchReport, rows: Vec<Row>) -> plot::batch::Run {
    plot::batch::Run {
        policy: report.policy.clone(),
        rows,
        turnaround_s: report.turnaround_s,
        peak: report.peak_bandwidth,
        speeds: report
            .jobs
            .iter()
            .filter_map(|j| j.predicted_speed.zip(j.measured_speed))
            .collect(),
    }
}

fn subtitle(report: &BatchReport) -> String {
    format!(
        "{} on {}, quantum {} ms, meter {}, predictor {}",
        counted(report.jobs.len() as u64, "job"),
        counted(u64::from(report.cores), "core"),
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

/// Outcome of a command with this report; an error if the policy failed.
pub(crate) fn outcome(report: &BatchReport) -> Result<failure::Outcome, Failure> {
    if let Some(failed) = &report.policy_failure {
        return Err(failed.clone().into());
    }
    Ok(match report.outcome {
        report::Outcome::Interrupted => failure::Outcome::Interrupted,
        _ if report.succeeded() => failure::Outcome::Success,
        _ => failure::Outcome::JobFailed,
    })
}

/// Outcome of a command with this comparison, which a failure may have ended early.
pub(crate) fn worst(
    comparison: &Comparison,
    failure: Option<RunError>,
) -> Result<failure::Outcome, Failure> {
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    let outcomes: Vec<failure::Outcome> =
        comparison.runs.iter().map(|run| outcome(&run.report)).collect::<Result<_, _>>()?;
    let bad = [failure::Outcome::Interrupted, failure::Outcome::JobFailed];
    let bad = bad.into_iter().find(|bad| outcomes.contains(bad));
    Ok(bad.unwrap_or(failure::Outcome::Success))
}
