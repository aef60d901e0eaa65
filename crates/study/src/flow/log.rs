//! Job logs of real clusters as workloads: arrivals, lengths and cores of jobs that have run.
//!
//! [`JobLog`] is what a file says; [`LogSpec`] is the table `log` of a scenario, which adds what no
//! log has, the bandwidth of the jobs. A job of several cores is one task per core, and a policy
//! gives cores to all of them or to none.

mod bandwidth;
mod sacct;
mod swf;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use memweir_core::input::{InputError, Section, Value};
use memweir_core::{BytesPerSec, Nanos};
use memweir_flow::experiment::Admission;
use memweir_flow::hardware::Hardware;
use memweir_flow::program::{Demand, Flow, Program, Span};
use memweir_flow::task::{Placement, Task};
use memweir_flow::workload::catalog::Catalog;
use memweir_trace::decompressed;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::Recordings;
use bandwidth::Bandwidth;

/// Keys of the table `log`.
pub(super) const KEYS: [&str; 10] = [
    "file",
    "format",
    "skip",
    "first",
    "time_scale",
    "bandwidth",
    "write_share",
    "admit",
    "bound_s",
    "seed",
];
/// Longest line of a log, in bytes.
const LONGEST: u64 = 64 << 10;
/// Most tasks of a workload.
const MOST_TASKS: u64 = 1_000_000;
/// Limit on times of a log, in seconds: three hundred years.
const ABSURD_SECONDS: f64 = 1e10;
/// Tasks per core that are admitted, unless the scenario says otherwise: a policy needs a choice.
const ADMIT: f64 = 2.0;
/// Bound of the bounded slowdown, in seconds of the log (Feitelson et al. 1997).
const BOUND: f64 = 10.0;

/// A job that has run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedJob {
    /// Its number or name in the log.
    pub name: String,
    /// Its program, as far as the log says it.
    pub program: Option<String>,
    /// Time of its submission in seconds.
    pub submitted: f64,
    /// Time from its start to its end in seconds; more than zero.
    pub length: f64,
    /// Its cores, at least one.
    pub cores: u32,
}

/// Reason for which a job of a log is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// It was cancelled before it ran.
    Cancelled,
    /// It has not ended.
    Unfinished,
    /// The log has no length of it, or a length of zero.
    NoLength,
    /// The log has no cores of it.
    NoCores,
    /// The log has no time of its submission.
    NoSubmission,
    /// It is a part of a job that the log has as a whole.
    Part,
    /// It needs more cores than the machine has.
    TooLarge,
}

impl LeftOut {
    /// Returns the reason in words.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled before they ran",
            Self::Unfinished => "not ended",
            Self::NoLength => "without a length",
            Self::NoCores => "without a number of cores",
            Self::NoSubmission => "without a time of submission",
            Self::Part => "parts of other jobs",
            Self::TooLarge => "larger than the machine",
        }
    }
}

/// Format of a job log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Standard Workload Format: 18 numbers per job, and comments after `;`.
    Swf,
    /// Output of Slurm's `sacct --parsable2` with its line of names.
    Sacct,
}

memweir_core::named! { pub LogFormat, "format of job logs": Swf = "swf", Sacct = "sacct" }

/// The jobs of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobLog {
    /// The jobs that ran, in the order of their submission.
    pub jobs: Vec<LoggedJob>,
    /// Number of the jobs that are left out, by reason.
    pub left_out: BTreeMap<LeftOut, u64>,
}

/// A line of a log.
enum Line {
    Job(LoggedJob),
    LeftOut(LeftOut),
    /// A comment, or a step of a job.
    Nothing,
}

/// A field that cannot be used, and the reason.
type Wrong = (String, String);

impl JobLog {
    /// Reads the log at `path`, which may be compressed.
    ///
    /// # Errors
    /// Names the file, the line and the field that cannot be used.
    pub fn read(path: &Path, format: Option<LogFormat>) -> Result<Self, InputError> {
        let name = path.display().to_string();
        let fail = |error: std::io::Error| InputError::new(&name, error.to_string());
        let file = File::open(path).map_err(fail)?;
        Self::parse(&name, BufReader::new(decompressed(Box::new(file)).map_err(fail)?), format)
    }

    /// Reads a log called `name`, line by line. Without `format`, it is recognized.
    ///
    /// # Errors
    /// Names the line and the field that cannot be used.
    pub fn parse(
        name: &str,
        mut input: impl BufRead,
        mut format: Option<LogFormat>,
    ) -> Result<Self, InputError> {
        let mut log = Self::default();
        let mut columns = None;
        let (mut text, mut number) = (Vec::new(), 0);
        loop {
            text.clear();
            number += 1;
            let refuse = |reason: String| InputError::new(name, reason).line(number);
            let count = input.by_ref().take(LONGEST).read_until(b'\n', &mut text);
            match count.map_err(|error| refuse(error.to_string()))? as u64 {
                0 => break,
                LONGEST => return Err(refuse("is longer than 64 KiB: this is no job log".into())),
                _ => {}
            }
            // The comments of old logs are in other encodings.
            let line = String::from_utf8_lossy(&text);
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let format = *format.get_or_insert_with(|| recognize(line));
            let read = match format {
                LogFormat::Swf => swf::line(line),
                LogFormat::Sacct => match &columns {
                    Some(columns) => sacct::line(line, columns),
                    None => sacct::Columns::of(line).map(|found| {
                        columns = Some(found);
                        Line::Nothing
                    }),
                },
            };
            match read.map_err(|(field, reason)| refuse(reason).key(field))? {
                Line::Job(job) => log.jobs.push(job),
                Line::LeftOut(reason) => log.leave_out(reason),
                Line::Nothing => {}
            }
        }
        // Stable: jobs that were submitted together keep the order of the log.
        log.jobs.sort_by(|a, b| a.submitted.total_cmp(&b.submitted));
        Ok(log)
    }

    fn leave_out(&mut self, reason: LeftOut) {
        *self.left_out.entry(reason).or_default() += 1;
    }
}

fn recognize(line: &str) -> LogFormat {
    if line.contains('|') && !line.starts_with(';') { LogFormat::Sacct } else { LogFormat::Swf }
}

/// Parses a number of seconds or of cores; a negative one is unknown.
fn number(text: &str, field: &str) -> Result<Option<f64>, Wrong> {
    match text.parse::<f64>() {
        Ok(value) if value.abs() <= ABSURD_SECONDS => Ok((value >= 0.0).then_some(value)),
        Ok(_) => Err((field.to_owned(), format!("`{text}` is out of range"))),
        Err(_) => Err((field.to_owned(), format!("`{text}` is no number"))),
    }
}

/// The table `log`: a job log, and what it does not say.
#[derive(Clone, Debug)]
pub struct LogSpec {
    pub(super) figures: LogFigures,
    jobs: Arc<[LoggedJob]>,
    bandwidth: Bandwidth,
    write_share: f64,
    seed: Option<u64>,
}

/// A log as a report shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogFigures {
    /// The file.
    pub file: String,
    /// Number of jobs that are simulated.
    pub jobs: usize,
    /// Number of jobs that are left out, by reason.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// Simulated seconds per second of the log.
    pub time_scale: f64,
    /// Most tasks in the system.
    pub admitted: u32,
    /// Bound of the bounded slowdown in simulated seconds.
    pub bound_s: f64,
}

impl LogSpec {
    /// Reads the table `log` for a machine of which `cores` are used.
    pub(super) fn read(
        value: Value<'_>,
        directory: &Path,
        hardware: &Hardware,
        cores: u32,
        catalog: &Catalog,
        recordings: &dyn Recordings,
    ) -> Result<Self, InputError> {
        let mut section = value.section()?;
        section.only(&KEYS)?;
        let (file, log) = chosen(&mut section, directory, cores)?;
        let jobs: Arc<[LoggedJob]> = log.jobs.into();
        let time_scale = section.map("time_scale", |v| v.number_in(1e-6..=1e3, "scale"))?;
        let time_scale = time_scale.unwrap_or(1.0);
        let admit = section.map("admit", |v| v.number_in(0.01..=1e3, "tasks per core"))?;
        let bound = section.map("bound_s", |v| v.number_in(1e-3..=1e6, "time in seconds"))?;
        let bandwidth = section.require("bandwidth")?;
        let share = |v: Value<'_>| v.number_in(0.0..=1.0, "share");
        let figures = LogFigures {
            file,
            jobs: jobs.len(),
            left_out: log.left_out,
            time_scale,
            admitted: ((admit.unwrap_or(ADMIT) * f64::from(cores)).round() as u32).max(1),
            bound_s: bound.unwrap_or(BOUND) * time_scale,
        };
        Ok(Self {
            figures,
            bandwidth: Bandwidth::read(bandwidth, hardware, catalog, recordings, &jobs)?,
            jobs,
            write_share: section.map("write_share", share)?.unwrap_or(0.0),
            seed: section.map("seed", |v| v.seed())?,
        })
    }

    /// Returns the tasks of a repetition with this seed, one per core of each job.
    pub(super) fn tasks(&self, hardware: &Hardware, placement: Placement, seed: u64) -> Vec<Task> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.unwrap_or(seed));
        let peak = hardware.machine.core_peak;
        let start = self.jobs.first().map_or(0.0, |job| job.submitted);
        let mut tasks = Vec::new();
        for (place, job) in self.jobs.iter().enumerate() {
            let rate = self.bandwidth.of_core(place, &mut random);
            let rate = BytesPerSec(rate.0.min(peak.0));
            let length = self.scaled(job.length).max(Nanos(1));
            let program = Arc::new(self.program(job, rate, length, peak));
            let arrival = self.scaled(job.submitted - start);
            for core in 1..=job.cores {
                let name = match job.cores {
                    1 => job.name.clone(),
                    _ => format!("{}.{core}", job.name),
                };
                let program = Arc::clone(&program);
                tasks.push(Task { arrival, placement, ..Task::once(name, program) });
            }
        }
        tasks
    }

    fn scaled(&self, seconds: f64) -> Nanos {
        Nanos::from_secs_f64(seconds * self.figures.time_scale)
    }

    /// Returns a program that draws `rate` for `length`.
    fn program(
        &self,
        job: &LoggedJob,
        rate: BytesPerSec,
        length: Nanos,
        peak: BytesPerSec,
    ) -> Program {
        let mut demand = Demand { stall: (rate.0 / peak.0).min(1.0), ..Demand::default() };
        demand.flows[0] =
            Flow { reads: rate * (1.0 - self.write_share), writes: rate * self.write_share };
        Program { name: job.name.clone(), spans: vec![Span { length, demand }] }
    }

    /// Returns the job of each task.
    pub(super) fn job_of_task(&self) -> Arc<[u32]> {
        let jobs = self.jobs.iter().zip(0..);
        jobs.flat_map(|(job, number)| (0..job.cores).map(move |_| number)).collect()
    }

    /// Returns the admission of the jobs.
    pub(super) fn admission(&self) -> Admission {
        Admission::Limited(self.figures.admitted)
    }
}

/// Reads the log that the table names, and takes the part that the table and `cores` allow.
fn chosen(
    section: &mut Section<'_>,
    directory: &Path,
    cores: u32,
) -> Result<(String, JobLog), InputError> {
    let format = section.map("format", |v| v.named())?;
    let value = section.require("file")?;
    let file = value.string()?.to_owned();
    let mut log = JobLog::read(&directory.join(&file), format)?;
    let ran = log.jobs.len();
    log.jobs.retain(|job| job.cores <= cores);
    if log.jobs.len() < ran {
        log.left_out.insert(LeftOut::TooLarge, (ran - log.jobs.len()) as u64);
    }
    let skip = section.map("skip", |v| v.whole_in(0..=usize::MAX))?.unwrap_or(0);
    let first = section.map("first", |v| v.whole_in(1..=usize::MAX))?.unwrap_or(usize::MAX);
    log.jobs = log.jobs.into_iter().skip(skip).take(first).collect();
    if log.jobs.is_empty() {
        let out: u64 = log.left_out.values().sum();
        let reason = format!("has no job to simulate; {out} are left out");
        return Err(value.refuse(reason).help("`skip` and `first`, `cores`, or another log"));
    }
    let tasks: u64 = log.jobs.iter().map(|job| u64::from(job.cores)).sum();
    if tasks > MOST_TASKS {
        let reason = format!("its jobs have {tasks} cores in all, more than {MOST_TASKS}");
        return Err(value.refuse(reason).help("`first = 1000` takes a part of them"));
    }
    Ok((file, log))
}
