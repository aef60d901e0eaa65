//! Runs copies of commands side by side and takes their times.

use std::fs::File;
use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use memweir_core::Nanos;

use super::{JobKind, Point, throughput};
use crate::jobs::Job;

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A command cannot be started.
    #[error("{name} cannot be started: {source}")]
    Start {
        /// Name of the job.
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// A copy failed, so that its time says nothing.
    #[error("a copy of {name} failed: {status}")]
    Failed {
        /// Name of the job.
        name: String,
        /// Its end.
        status: String,
    },
}

/// Runs one copy of a job alone, and returns its time. Another run before brings its files into
/// the page cache, where all later copies find them.
///
/// # Errors
/// If the command cannot be started or fails.
pub fn time_alone(job: &Job) -> Result<Nanos, MeasureError> {
    once(job)?;
    once(job).map(Nanos::from_secs_f64)
}

/// Measures the throughput at each point, in the order of the points, from the times alone that
/// `kinds` have; `done` is called after each point. One copy of the only job is not run again: its
/// throughput is the unit.
///
/// The copies run as they are, in the working directory of the job, without their output. Copies
/// that end early leave the others alone, so that the measured throughput is a little too high.
///
/// # Errors
/// If a command cannot be started or fails.
pub fn measure(
    jobs: &[Job],
    kinds: &[JobKind],
    points: &mut [Point],
    mut done: impl FnMut(),
) -> Result<(), MeasureError> {
    for point in points {
        if point.copies == [1] {
            point.measured = Some(1.0);
            done();
            continue;
        }
        let copies: Vec<(&Job, u32)> = jobs.iter().zip(point.copies.iter().copied()).collect();
        let times = together(&copies)?;
        let speeds = kinds.iter().zip(&times);
        let speeds: Vec<f64> =
            speeds.map(|(kind, times)| kind.time.as_secs_f64() / mean(times)).collect();
        point.measured = Some(throughput(kinds, &point.copies, &speeds));
        done();
    }
    Ok(())
}

/// Runs copies of jobs at the same time. Returns the seconds of each copy, job by job.
fn together(copies: &[(&Job, u32)]) -> Result<Vec<Vec<f64>>, MeasureError> {
    std::thread::scope(|scope| {
        let threads: Vec<Vec<_>> = copies
            .iter()
            .map(|(job, n)| (0..*n).map(|_| scope.spawn(|| once(job))).collect())
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(seconds) => seconds,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(|copies| copies.into_iter().map(join).collect()).collect()
    })
}

/// Runs one copy to its end; returns its seconds.
fn once(job: &Job) -> Result<f64, MeasureError> {
    let start_failed = |source| MeasureError::Start { name: job.name.clone(), source };
    let argv = job.command.argv();
    let (program, arguments) = argv.split_first().ok_or_else(|| {
        start_failed(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))
    })?;
    let stdin = match &job.stdin {
        Some(path) => Stdio::from(File::open(path).map_err(start_failed)?),
        None => Stdio::null(),
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(&job.env).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(directory) = &job.directory {
        command.current_dir(directory);
    }
    let start = Instant::now();
    let status = command.status().map_err(start_failed)?;
    let seconds = start.elapsed().as_secs_f64();
    match status.success() {
        true => Ok(seconds),
        false => Err(MeasureError::Failed { name: job.name.clone(), status: status.to_string() }),
    }
}

fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / seconds.len().max(1) as f64
}
