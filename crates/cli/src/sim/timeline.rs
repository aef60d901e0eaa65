//! `memweir sim --timeline` and `--svg`: the first repetition, quantum by quantum, in the rows of
//! live runs. Those of the bank level are in `bank_timeline.rs`.

use std::path::{Path, PathBuf};

use memweir_core::Media;
use memweir_flow::outcome::QuantumOutcome;
use memweir_flow::record::{Recorder, TaskQuantum};
use memweir_flow::{SimError, View};
use memweir_run::table::Table;
use memweir_run::timeline::Row;
use memweir_study::flow::study::{First, Study};

use crate::failure::Failure;
use crate::output;
use crate::render::plot;
use crate::shared::over_time;
use crate::shared::rows::end;

/// Returns the files of `--timeline`: one per policy, named after it where there are several.
pub(super) fn paths(path: Option<&Path>, study: &Study) -> Vec<PathBuf> {
    let policies = &study.points()[0].policies;
    let of_policies = |path| policies.iter().map(move |name| of_one(path, name, policies.len()));
    path.into_iter().flat_map(of_policies).collect()
}

/// Starts the file of a policy.
pub(super) fn begin(path: &Path) -> Result<Table, Failure> {
    memweir_run::timeline::create(path, over_time::format(path)?)
        .map_err(|error| Failure::write(path, error))
}

/// Returns the file of one of `all` choices that are compared: of several `t.csv` becomes
/// `t.hmmsched-alpha=0.3.csv`.
pub(super) fn of_one(path: &Path, choice: &str, all: usize) -> PathBuf {
    if all == 1 {
        return path.to_owned();
    }
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_extension(format!("{}.{ending}", choice.replace([':', '/'], "-")))
}

/// Fills the files of the policies in order. One that cannot be written does not cost the others.
pub(super) fn write(files: Vec<Table>, study: &Study) -> Result<(), Failure> {
    if files.is_empty() {
        return Ok(());
    }
    let first = study.first()?;
    output::each(files.into_iter().enumerate().map(|(policy, file)| fill(file, policy, &first)))
}

fn fill(mut timeline: Table, policy: usize, first: &First<'_>) -> Result<(), Failure> {
    let mut kept = Ok(());
    let mut rows = Rows::new(first, |rows| {
        if kept.is_ok() {
            kept = timeline.append(rows);
        }
    });
    first.record(policy, &mut rows)?;
    end(timeline, kept)
}

/// The first repetition under one policy, ready to be drawn.
pub(super) fn drawn(first: &First<'_>, policy: usize) -> Result<plot::batch::Run, SimError> {
    let mut rows = Vec::new();
    let mut keep = Rows::new(first, |of_quantum| rows.extend_from_slice(of_quantum));
    let run = first.record(policy, &mut keep)?;
    let peak = first.scenario().hardware.machine.bus_peak();
    Ok(plot::batch::Run {
        policy: run.policy,
        rows,
        turnaround_s: run.turnaround_s,
        peak: Some(peak.0),
        ..plot::batch::Run::default()
    })
}

/// Turns quanta into rows and passes them on.
struct Rows<F> {
    names: Vec<String>,
    media: Media,
    quantum: u64,
    rows: Vec<Row>,
    sink: F,
}

impl<F: FnMut(&[Row])> Rows<F> {
    fn new(first: &First<'_>, sink: F) -> Self {
        Self {
            names: first.task_names().map(str::to_owned).collect(),
            media: View::new(&first.scenario().hardware.machine).media().clone(),
            quantum: 0,
            rows: Vec::new(),
            sink,
        }
    }
}

impl<F: FnMut(&[Row])> Recorder for Rows<F> {
    fn quantum(&mut self, quantum: &QuantumOutcome, tasks: &[TaskQuantum]) {
        self.rows.clear();
        for task in tasks {
            let row = Row {
                quantum: self.quantum,
                job: task.task.0,
                name: self.names.get(task.task.index()).cloned().unwrap_or_default(),
                chosen: task.chosen,
                cpu_s: task.cpu_time.as_secs_f64(),
                instructions: Some(task.counts.instructions),
                reads: Some(task.counts.reads.0),
                writes: Some(task.counts.writes.0),
                bandwidth: Some(task.counts.bandwidth(quantum.elapsed).0),
                predicted: task.predicted.map(|rate| rate.0),
                ..Row::default()
            };
            self.rows.push(
                row.at(quantum.start, quantum.elapsed)
                    .in_system(Some(quantum.bandwidth), quantum.target)
                    .elsewhere(Some(&task.counts), &self.media),
            );
        }
        self.quantum += 1;
        (self.sink)(&self.rows);
    }
}
