//! `memweir replay`: re-runs the recorded decisions of a scheduler.

use std::path::{Path, PathBuf};
use std::time::Duration;

use memweir_core::input::InputError;
use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_linux::tell;
use memweir_policy::record::{Answer, Difference, Record, Replay, replay, replay_by};
use memweir_policy::{QuantumScheduler, SchedulerConfig};
use memweir_run::policy_program::{DECISION_TIMEOUT, PolicyFailure, PolicyProgram};
use memweir_run::{decisions, options};
use serde::Serialize;

use crate::choice::check_programs;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::replay as render;
use crate::value::{duration, parsed, refused};

/// Options of `memweir replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A record that `memweir run --record` wrote
    #[arg(value_name = "FILE")]
    record: PathBuf,
    /// Tell what another policy would have decided
    #[arg(long, value_name = "NAME")]
    #[arg(value_parser = |name: &str| options::policy(name).map_err(refused))]
    policy: Option<String>,
    /// Ask a program for each decision, in lines of JSON. If the record is of a program with this
    /// name, it must decide the same
    #[arg(long, value_name = "[NAME=]CMD", conflicts_with = "policy")]
    #[arg(value_parser = parsed::<PolicyProgram>)]
    policy_program: Option<PolicyProgram>,
    /// Time limit of each of its answers [default: 10s]
    #[arg(long, value_name = "TIME", requires = "policy_program", conflicts_with = "policy")]
    #[arg(value_parser = duration)]
    policy_timeout: Option<Nanos>,
    /// Differences that are shown
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Write every difference as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Replays the record and shows the decisions that differ.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json], [&*args.record])?;
    let record = decisions::read(&args.record)?;
    if record.decisions() == 0 {
        let error = InputError::new(args.record.display().to_string(), "has no decision");
        let help = "`memweir run --record FILE` writes a record";
        return Err(error.help(record.truncated.as_deref().unwrap_or(help)).into());
    }
    let recorded = &record.header.config.policy;
    let program = args.policy_program.as_ref();
    let other = program.map(|program| program.name.as_str()).or(args.policy.as_deref());
    let policy = other.unwrap_or(recorded);
    let same = policy == recorded;
    let mut outcome = match program {
        Some(program) => args.asking(program, &record)?,
        None => replay(&record, Some(policy))
            .map_err(|refusal| refusal.written_in(&args.record.display().to_string()))?,
    };
    if !same {
        // Two policies predict and target other bandwidths even where they select the same jobs.
        outcome.differences.retain(Difference::concerns_jobs);
    }
    output::report(
        args.json.as_deref(),
        &Replayed::new(&args.record, &record, policy, &outcome),
        || render::report(&record, policy, &outcome, args.limit),
    )?;
    if let Some(truncated) = &record.truncated {
        tell!("{truncated}");
    }
    Ok(match &record.truncated {
        _ if same && !outcome.differences.is_empty() => Outcome::Different,
        Some(_) => Outcome::Truncated,
        None => Outcome::Success,
    })
}

impl Args {
    /// Replays the record by a scheduler that asks a program.
    fn asking(&self, program: &PolicyProgram, record: &Record) -> Result<Replay, Failure> {
        check_programs(std::slice::from_ref(program))?;
        let config = record.header.config.clone();
        let limit = self.policy_timeout.map_or(DECISION_TIMEOUT, Duration::from);
        let failure = PolicyFailure::default();
        let policy = program.start(&config, limit, failure.clone());
        let replayed = replay_by(record, QuantumScheduler::with_policy(config, policy));
        failure.get().map_or(Ok(replayed), |failed| Err(failed.into()))
    }
}

/// A replay in JSON.
#[derive(Debug, Serialize)]
struct Replayed<'a> {
    version: &'static str,
    record: String,
    config: &'a SchedulerConfig,
    recorded_policy: &'a str,
    policy: &'a str,
    jobs: &'a [String],
    decisions: usize,
    time_s: f64,
    truncated: Option<&'a str>,
    differences: Vec<Differing>,
}

/// One call with different answers.
#[derive(Debug, Serialize)]
struct Differing {
    line: usize,
    quantum: u64,
    t_s: f64,
    recorded: Answered,
    replayed: Answered,
}

/// An answer in JSON.
#[derive(Debug, Serialize)]
struct Answered {
    chosen: Vec<String>,
    predicted: Option<f64>,
    target: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<Reason>,
}

#[derive(Debug, Serialize)]
struct Reason {
    job: String,
    reason: &'static str,
}

impl<'a> Replayed<'a> {
    fn new(path: &Path, record: &'a Record, policy: &'a str, replay: &Replay) -> Self {
        let name = |job: &JobId| record.header.name(*job);
        let answered = |answer: &Answer, reasons: &[(JobId, &'static str)]| {
            let decision = match answer {
                Answer::Decision(decision) => decision.as_ref(),
                Answer::Summary(_) => None,
            };
            let rate = |rate: BytesPerSec| rate.0;
            Answered {
                chosen: answer.chosen().iter().map(name).collect(),
                predicted: decision.map(|decision| rate(decision.predicted)),
                target: decision.and_then(|decision| decision.target.map(rate)),
                reasons: reasons
                    .iter()
                    .map(|(job, reason)| Reason { job: name(job), reason })
                    .collect(),
            }
        };
        let differing = |difference: &Difference| Differing {
            line: difference.line,
            quantum: difference.quantum,
            t_s: difference.time.as_secs_f64(),
            recorded: answered(&difference.recorded, &[]),
            replayed: answered(&difference.replayed, &difference.reasons),
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            record: path.display().to_string(),
            config: &record.header.config,
            recorded_policy: &record.header.config.policy,
            policy,
            jobs: &record.header.jobs,
            decisions: replay.decisions,
            time_s: replay.time.as_secs_f64(),
            truncated: record.truncated.as_deref(),
            differences: replay.differences.iter().map(differing).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use memweir_policy::record::Header;

    use super::*;

    #[test]
    fn a_record_of_any_name_has_json() {
        let header = Header::new(SchedulerConfig::default(), Vec::new());
        let record = Record { header, calls: Vec::new(), truncated: None };
        let replay = Replay { decisions: 0, time: Nanos::ZERO, differences: Vec::new() };
        let path = Path::new(OsStr::from_bytes(b"\xff.jsonl"));
        let json = serde_json::to_value(Replayed::new(path, &record, "os", &replay));
        assert_eq!(json.expect("a value")["record"], "\u{fffd}.jsonl");
    }
}
