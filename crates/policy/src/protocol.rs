//! The lines of JSON by which a policy in another process is asked.
//!
//! ```text
//! memweir                                        the policy
//! {"format":"memweir-policy","version":1,...} ->                       PolicySetup, once per run
//! {"quantum":0,"cores":3,"queue":[...],...}   ->                       PolicyQuestion, each time
//!                                             <-  {"jobs":[4,1]}       PolicyAnswer
//! {"quantum":1,"cores":3,"queue":[...],...}   ->
//!                                             <-  {"error":"no idea"}  ends the batch
//! ```
//!
//! Each is one line. A policy gets a connection of its own for each run, and a run ends where the
//! input of the policy ends. Numbers have all of their digits, so that a policy decides on both
//! sides by the same view, to the bit. Fields may be added; another version means that some have
//! another meaning.
//!
//! File input and output is left to the caller.

use memweir_core::segment::is_rate;
use memweir_core::{BytesPerSec, JobId};
use serde::{Deserialize, Serialize};

use crate::policy::{Candidate, QuantumView};
use crate::record::{Format, line};
use crate::scheduler::{Bus, SchedulerConfig};
use crate::speed::SpeedModel;

#[cfg(test)]
mod tests;

/// Name of the format in the first line.
const FORMAT: &str = "memweir-policy";

/// Version of the format.
const VERSION: u32 = 1;

/// Most characters of a wrong line that a message shows.
const SHOWN: usize = 80;

/// The first line: the machine and the batch that the policy is about to schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicySetup {
    format: String,
    version: u32,
    /// Configuration of the scheduler; its `policy` is the name of the policy that is asked.
    pub config: SchedulerConfig,
}

impl PolicySetup {
    /// Creates the first line of a run.
    #[must_use]
    pub fn new(config: SchedulerConfig) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, config }
    }

    /// Returns it as a line, with its newline.
    #[must_use]
    pub fn line(&self) -> String {
        line(self)
    }

    /// Reads the first line.
    ///
    /// # Errors
    /// If the line is something else, or of another version.
    pub fn parse(line: &str) -> Result<Self, String> {
        let Format { format, version } = parsed(line, "the setup of a policy")?;
        if (format.as_str(), version) != (FORMAT, VERSION) {
            return Err(format!(
                "version {version} of `{format}`, and not {VERSION} of `{FORMAT}`"
            ));
        }
        parsed(line, "the setup of a policy")
    }
}

/// The view that a policy decides by: a [`QuantumView`] that owns its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyQuestion {
    quantum: u64,
    cores: u32,
    committed: BytesPerSec,
    running: Vec<Candidate>,
    queue: Vec<Candidate>,
    bus: Bus,
    highest_observed: BytesPerSec,
    ideal_average: Option<BytesPerSec>,
    speeds: SpeedModel,
}

impl PolicyQuestion {
    /// Copies a view.
    #[must_use]
    pub fn new(view: &QuantumView<'_>) -> Self {
        Self {
            quantum: view.quantum,
            cores: view.cores,
            committed: view.committed,
            running: view.running.to_vec(),
            queue: view.queue.to_vec(),
            bus: view.bus,
            highest_observed: view.highest_observed,
            ideal_average: view.batch.ideal_average(),
            speeds: view.speeds.clone(),
        }
    }

    /// Returns the view.
    #[must_use]
    pub fn view(&self) -> QuantumView<'_> {
        QuantumView {
            quantum: self.quantum,
            cores: self.cores,
            committed: self.committed,
            running: &self.running,
            queue: &self.queue,
            bus: self.bus,
            highest_observed: self.highest_observed,
            batch: &self.ideal_average,
            speeds: &self.speeds,
        }
    }

    /// Returns it as a line, with its newline.
    #[must_use]
    pub fn line(&self) -> String {
        line(self)
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If the line is something else.
    pub fn parse(line: &str) -> Result<Self, String> {
        parsed(line, "a question to a policy")
    }
}

/// The answer to a [`PolicyQuestion`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum PolicyAnswer {
    /// Jobs to run next to those that run in any case.
    Choice {
        /// Their numbers, in the order of choice.
        jobs: Vec<JobId>,
        /// Bandwidth that the choice aims at, for reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<BytesPerSec>,
    },
    /// The policy gives up.
    Failure {
        /// The reason.
        error: String,
    },
}

impl PolicyAnswer {
    /// Returns it as a line, with its newline.
    #[must_use]
    pub fn line(&self) -> String {
        line(self)
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If the line is something else; the text follows the name of the one who answered.
    pub fn parse(line: &str) -> Result<Self, String> {
        let answer = serde_json::from_str(line).map_err(|_| {
            let shown: String = line.trim_end().chars().take(SHOWN).collect();
            format!("answered `{shown}`; write a line such as {{\"jobs\": [3, 1]}}")
        })?;
        match answer {
            Self::Choice { target: Some(target), .. } if !is_rate(target) => {
                Err(format!("answered with the target {}; it is zero or more", target.0))
            }
            answer => Ok(answer),
        }
    }
}

fn parsed<'a, T: Deserialize<'a>>(line: &'a str, what: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("not {what}: {error}"))
}
