//! `memweir sim --timeline` and `--svg` at bank level: the requests of programs that run together,
//! interval by interval, and the quanta of a batch in the rows of live runs.

use std::path::{Path, PathBuf};

use memweir_core::Picos;
use memweir_linux::meter::Capabilities;
use memweir_policy::quantum_loop::{JobQuantum, Quantum};
use memweir_run::batch::bandwidth;
use memweir_run::timeline::Row;
use memweir_study::bank::Partition;
use memweir_study::bank::report::{BankReport, BatchRun, PartitionRun};
use memweir_study::bank::study::BankStudy;

use super::timeline::{begin, of_one};
use crate::failure::Failure;
use crate::output;
use crate::render::plot::{self, Figure};
use crate::render::text::counted;
use crate::shared::over_time::{self, Group, Line};
use crate::shared::rows::end;

/// Returns the file of each partition, or of each policy of a batch.
pub(super) fn files(path: &Path, study: &BankStudy) -> Vec<PathBuf> {
    let point = &study.points()[0];
    let policies = point.batch.iter().flat_map(|batch| &batch.policies).map(String::as_str);
    let names: Vec<&str> = point.partitions.iter().map(Partition::name).chain(policies).collect();
    names.iter().map(|name| of_one(path, name, names.len())).collect()
}

/// Writes the files of the first point. One that cannot be written does not cost the others.
pub(super) fn write(path: &Path, study: &BankStudy, report: &BankReport) -> Result<(), Failure> {
    let (point, files) = (&report.points[0], files(path, study));
    let partitions = point.partitions.iter().zip(&files);
    let policies = point.policies.iter().zip(&files);
    let requests = |(run, path): (_, &PathBuf)| over_time::write(path, "program", &lines(run));
    let quanta = |(run, path): (&BatchRun, &PathBuf)| {
        let mut timeline = begin(path)?;
        let kept = timeline.append(&rows(run, compression(study)));
        end(timeline, kept)
    };
    output::each(partitions.map(requests).chain(policies.map(quanta)))
}

/// Draws the programs under each partition, or the batch under each policy, of the first point.
pub(super) fn figure(study: &BankStudy, report: &BankReport) -> Figure {
    let point = &report.points[0];
    if !point.policies.is_empty() {
        let runs: Vec<_> = point
            .policies
            .iter()
            .map(|run| plot::batch::Run {
                policy: run.policy.clone(),
                rows: rows(run, compression(study)),
                turnaround_s: run.turnaround_s,
                peak: point.peak,
                ..plot::batch::Run::default()
            })
            .collect();
        let jobs = counted(point.alone.len() as u64, "job");
        let subtitle = format!("{jobs}, machine {}, at bank level", point.machine);
        return plot::batch::figure(&runs, subtitle);
    }
    let runs = point.partitions.iter();
    let groups: Vec<Group<'_>> =
        runs.map(|run| Group { name: &run.partition, lines: lines(run) }).collect();
    Figure {
        title: report.scenario.clone(),
        subtitle: format!("{} over time", counted(point.alone.len() as u64, "program")),
        panels: over_time::panels(&groups),
    }
}

/// Returns the requests of each program up to its end.
fn lines(run: &PartitionRun) -> Vec<Line<'_>> {
    let programs = run.outcome.programs.iter().zip(&run.over_time);
    programs
        .map(|(program, requests)| Line {
            name: &program.together.program,
            requests,
            end: Picos((1e12 * program.together.time_s).round() as u64),
        })
        .collect()
}

fn compression(study: &BankStudy) -> u64 {
    study.points()[0].batch.as_ref().map_or(1, |batch| batch.compression.into())
}

/// Returns the rows of a batch, in the machine's own time.
fn rows(run: &BatchRun, compression: u64) -> Vec<Row> {
    let of_quantum = |(number, quantum): (usize, &Quantum)| -> Vec<Row> {
        let jobs = quantum.jobs.iter();
        jobs.map(|entry| row(run, number as u64, quantum, entry, compression)).collect()
    };
    run.quanta.iter().enumerate().flat_map(of_quantum).collect()
}

/// Returns the row of a job. Its bandwidth is that of the machine: time and lines are compressed by
/// the same factor.
fn row(
    run: &BatchRun,
    number: u64,
    quantum: &Quantum,
    entry: &JobQuantum,
    compression: u64,
) -> Row {
    let sees = Capabilities { instructions: true, writes: true, ..Capabilities::default() };
    let (start, span) = (quantum.start, quantum.summary.elapsed);
    let row = Row::of(Some(entry), &sees, span)
        .at(start, span)
        .in_system(bandwidth(quantum), quantum.decision.target);
    let (time, count) = (|s: f64| s / compression as f64, |n: u64| n / compression);
    Row {
        quantum: number,
        job: entry.job.0,
        name: run.jobs[entry.job.index()].program.clone(),
        t_start_s: time(row.t_start_s),
        span_s: time(row.span_s),
        cpu_s: time(row.cpu_s),
        instructions: row.instructions.map(count),
        reads: row.reads.map(count),
        writes: row.writes.map(count),
        ..row
    }
}
