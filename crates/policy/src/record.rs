//! Records of decisions: the configuration of a scheduler and every call to it with its answer, as
//! lines of JSON, and their replay.
//!
//! The first line is a [`Header`], each further one a [`Call`], and the last is the [`end_line`].
//! Lines are written as the calls happen, so that a scheduler that was killed leaves a record that
//! is complete up to its last line, which is no end. A record holds everything that a decision
//! depends on, so that a new scheduler built from the header and fed the same calls decides the
//! same, bit for bit, whether it was recorded live or on an emulated machine.
//!
//! File input and output is left to the caller.

mod replay;
mod scheduler;

use memweir_core::input::InputError;
use memweir_core::{JobId, Nanos};
use serde::{Deserialize, Serialize};

use crate::scheduler::{Decision, JobSpec, Observation, QuantumSummary, SchedulerConfig};

pub use replay::{Answer, Difference, Replay, replay, replay_by};
pub use scheduler::RecordingScheduler;

#[cfg(test)]
mod tests;

/// Name of the format in the first line of a record.
const FORMAT: &str = "memweir-decisions";

/// Version of the format that is written; all versions from 1 on are read. Version 1 does not
/// number the calls; version 2 has no kinds of jobs; version 3 has no end line.
const VERSION: u32 = 4;

/// The first line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    format: String,
    version: u32,
    /// Configuration of the scheduler.
    pub config: SchedulerConfig,
    /// Names of the jobs by [`JobId`], for people; unknown names may be missing.
    pub jobs: Vec<String>,
}

impl Header {
    /// Creates the header of a record of a scheduler with this configuration.
    #[must_use]
    pub fn new(config: SchedulerConfig, jobs: Vec<String>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, config, jobs }
    }

    /// Returns the header as a line, with its newline.
    #[must_use]
    pub fn line(&self) -> String {
        line(self)
    }

    /// Returns the name of a job.
    #[must_use]
    pub fn name(&self, job: JobId) -> String {
        self.jobs.get(job.index()).cloned().unwrap_or_else(|| format!("job {job}"))
    }
}

/// A call to a [`crate::QuantumScheduler`], and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// A job was submitted.
    Admit(JobSpec),
    /// The jobs' behavior was observed.
    Observe {
        /// Time since the last observation.
        elapsed: Nanos,
        /// Observation of each job that could run.
        observations: Vec<Observation>,
        /// The answer.
        summary: QuantumSummary,
    },
    /// The jobs of a whole quantum were selected.
    Select(Decision),
    /// Free cores were offered in mid-quantum; no decision if no job was added.
    Backfill(Option<Decision>),
    /// A job that has a kind has done its work. It is retired next.
    Learn {
        /// Time since it was last observed or got cores.
        elapsed: Nanos,
        /// Its behavior in that time.
        last: Observation,
    },
    /// A job has ended.
    Retire(JobId),
}

impl Call {
    /// Returns the call as a line with this number, with its newline. Numbers count from 1 in a
    /// record.
    #[must_use]
    pub fn line(&self, number: u64) -> String {
        line(&Numbered { number: Some(number), call: self })
    }
}

/// A line of a record: a call and its number.
#[derive(Serialize, Deserialize)]
struct Numbered<C> {
    #[serde(rename = "call")]
    number: Option<u64>,
    #[serde(flatten)]
    call: C,
}

/// The last line of a complete record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    /// Calls in the record.
    end: u64,
}

/// Returns the last line of a complete record of this many calls, with its newline.
#[must_use]
pub fn end_line(calls: u64) -> String {
    line(&End { end: calls })
}

/// Returns plain data as a line of JSON, with its newline.
pub(crate) fn line(entry: &impl Serialize) -> String {
    let mut line = serde_json::to_string(entry).expect("plain data has a form in JSON");
    line.push('\n');
    line
}

/// A parsed record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The first line.
    pub header: Header,
    /// The calls, each with the number of its line, counted from one.
    pub calls: Vec<(usize, Call)>,
    /// Message that says where the record breaks off, if its end is or may be missing; the calls
    /// before are complete.
    pub truncated: Option<String>,
}

/// The fields of a first line that identify its format.
#[derive(Deserialize)]
pub(crate) struct Format {
    pub(crate) format: String,
    pub(crate) version: u32,
}

impl Record {
    /// Parses the text of a record; `name` is its name in messages.
    ///
    /// # Errors
    /// If the first line is no header of a known version, a line except the last is no call, or the
    /// numbers of the calls have a gap, or a line follows the end line. A last line that is no call
    /// marks the place where the writer was killed: the calls before it are returned.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let first = lines.next().map_or("", |(_, line)| line);
        let header = header(name, first)?;
        let mut calls = Vec::new();
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty()).peekable();
        while let Some((number, line)) = lines.next() {
            if let Ok(End { end }) = serde_json::from_str(line) {
                if end != calls.len() as u64 {
                    let reason = format!("the record ends after call {end}, not {}", calls.len());
                    return Err(InputError::new(name, reason).line(number).help(NOT_WHOLE));
                }
                return match lines.next() {
                    Some((number, _)) => {
                        Err(InputError::new(name, "a line after the end of the record")
                            .line(number))
                    }
                    None => Ok(Self { header, calls, truncated: None }),
                };
            }
            match serde_json::from_str::<Numbered<Call>>(line) {
                Ok(call) => {
                    let expected = calls.len() as u64 + 1;
                    if header.version > 1 && call.number != Some(expected) {
                        return Err(gap(name, expected, call.number).line(number));
                    }
                    calls.push((number, call.call));
                }
                Err(_) if lines.peek().is_none() => {
                    let truncated = Some(format!(
                        "{name}:{number}: the record breaks off here; it is read up to this line"
                    ));
                    return Ok(Self { header, calls, truncated });
                }
                Err(error) => {
                    return Err(InputError::new(name, format!("no call to a scheduler: {error}"))
                        .line(number));
                }
            }
        }
        let truncated = Some(format!(
            "{name}: the record has no end line; calls after number {} may be missing",
            calls.len()
        ));
        Ok(Self { header, calls, truncated })
    }

    /// Returns the number of decisions.
    #[must_use]
    pub fn decisions(&self) -> usize {
        let is_decision = |call: &Call| matches!(call, Call::Select(_) | Call::Backfill(Some(_)));
        self.calls.iter().filter(|(_, call)| is_decision(call)).count()
    }
}

const NOT_WHOLE: &str = "a record without all of its calls cannot be replayed";

/// Returns the error for a record in which the call numbered `expected` is not in its place.
fn gap(name: &str, expected: u64, found: Option<u64>) -> InputError {
    let found = found.map_or("a call without a number".to_owned(), |found| format!("call {found}"));
    InputError::new(name, format!("call {expected} is missing: {found} follows")).help(NOT_WHOLE)
}

fn header(name: &str, line: &str) -> Result<Header, InputError> {
    let refuse = |reason: String| InputError::new(name, reason).line(1);
    let help = "`memweir run --record FILE` writes one";
    let Format { format, version } = serde_json::from_str(line)
        .map_err(|_| refuse("no record of decisions".to_owned()).help(help))?;
    if format != FORMAT {
        return Err(refuse(format!("a record of `{format}`, not of decisions")).help(help));
    }
    if !(1..=VERSION).contains(&version) {
        return Err(refuse(format!(
            "version {version} of the format is unknown to this memweir, which reads 1 to {VERSION}"
        )));
    }
    serde_json::from_str(line).map_err(|error| refuse(format!("a damaged header: {error}")))
}
