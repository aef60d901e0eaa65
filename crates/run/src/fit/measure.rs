//! Runs copies of commands side by side and takes their times.

use std::io;
use std::time::Instant;

use memweir_core::{Nanos, metrics};
use memweir_linux::blocker::SpawnTarget;
use memweir_linux::launch::{Ending, Launch, Signals, Waited, launch};
use memweir_linux::signals;

use super::{JobKind, Point, throughput};
use crate::batch::{invocation, program_of};
use crate::jobs::Job;
use crate::profile;

/// Interval at which waits for copies begin anew; signals end them at once.
const WAIT: Nanos = Nanos::from_millis(1000);

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
    /// This signal ended the measurement and all copies.
    #[error("{0} ended the measurement")]
    Interrupted(&'static str),
}

/// Runs one copy of a job alone, and returns its time. Another run before brings its files into
/// the page cache, where all later copies find them.
///
/// # Errors
/// If the command cannot be started or fails, or one of the `signals` arrives.
pub fn time_alone(job: &Job, signals: &Signals) -> Result<Nanos, MeasureError> {
    once(job, signals)?;
    once(job, signals).map(Nanos::from_secs_f64)
}

/// Measures the throughput at each point, in the order of the points, from the times alone that
/// `kinds` have; `done` is called after each point with all that are measured. One copy of the only
/// job is not run again: its throughput is the unit.
///
/// The copies run as they are, in the working directory of the job, without their output. Copies
/// that end early leave the others alone, so that the measured throughput is a little too high.
///
/// # Errors
/// If a command cannot be started or fails, or one of the `signals` arrives. The points before
/// stay measured.
pub fn measure(
    jobs: &[Job],
    kinds: &[JobKind],
    points: &mut [Point],
    signals: &Signals,
    mut done: impl FnMut(&[Point]),
) -> Result<(), MeasureError> {
    for at in 0..points.len() {
        let copies = &points[at].copies;
        let measured = match copies[..] {
            [1] => 1.0,
            _ => {
                let run: Vec<(&Job, u32)> = jobs.iter().zip(copies.iter().copied()).collect();
                let times = together(&run, signals)?;
                let speed = |(kind, times): (&JobKind, &Vec<f64>)| {
                    kind.time.as_secs_f64() / metrics::mean(times).unwrap_or_default()
                };
                let speeds: Vec<f64> = kinds.iter().zip(&times).map(speed).collect();
                throughput(kinds, copies, &speeds)
            }
        };
        points[at].measured = Some(measured);
        done(&points[..=at]);
    }
    Ok(())
}

/// Runs copies of jobs at the same time. Returns the seconds of each copy, job by job.
fn together(copies: &[(&Job, u32)], signals: &Signals) -> Result<Vec<Vec<f64>>, MeasureError> {
    std::thread::scope(|scope| {
        let threads: Vec<Vec<_>> = copies
            .iter()
            .map(|(job, n)| (0..*n).map(|_| scope.spawn(|| once(job, signals))).collect())
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(seconds) => seconds,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(|copies| copies.into_iter().map(join).collect()).collect()
    })
}

/// Runs one copy to its end; returns its seconds.
fn once(job: &Job, signals: &Signals) -> Result<f64, MeasureError> {
    let start_failed = |source| MeasureError::Start { name: job.name.clone(), source };
    let newborn = command(job)
        .and_then(|command| launch(&command, &SpawnTarget::Session).map_err(io::Error::other));
    let newborn = newborn.map_err(start_failed)?;
    let start = Instant::now();
    let mut process = newborn.exec().map_err(|error| start_failed(io::Error::other(error)))?;
    let exit = loop {
        match signals.wait(&mut process, WAIT).map_err(start_failed)? {
            Waited::Runs => {}
            Waited::Ended(exit) => break exit,
            // It was killed by the signal, too.
            Waited::Killed(signal) => return Err(MeasureError::Interrupted(signal.as_str())),
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let status = match exit.ending {
        Ending::Code(0) => return Ok(seconds),
        Ending::Code(code) => format!("exit code {code}"),
        Ending::Signal(signal) => signals::name(signal),
    };
    Err(MeasureError::Failed { name: job.name.clone(), status })
}

/// Returns the command of a copy, without output.
fn command(job: &Job) -> io::Result<Launch> {
    let program = program_of(job).map_err(|refusal| io::Error::other(refusal.sentence()))?;
    let command = profile::command(&invocation(job, &program));
    command.map_err(|error| io::Error::other(error.to_string()))
}
