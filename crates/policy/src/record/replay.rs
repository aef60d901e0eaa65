//! Replay of a record by a new scheduler.

use memweir_core::{JobId, Nanos};

use super::{Call, Record};
use crate::scheduler::{Decision, QuantumScheduler, QuantumSummary};
use memweir_core::input::Refusal;

/// A scheduler's answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Answer to an observation.
    Summary(QuantumSummary),
    /// Answer to `select` or `backfill`; none if `backfill` adds no job.
    Decision(Option<Decision>),
}

impl Answer {
    /// Returns the jobs that occupy cores by this answer; empty if it is not a decision.
    #[must_use]
    pub fn chosen(&self) -> &[JobId] {
        match self {
            Self::Decision(Some(decision)) => &decision.chosen,
            Self::Decision(None) | Self::Summary(_) => &[],
        }
    }
}

/// A call whose answer differs from the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Line of the record, counted from one.
    pub line: usize,
    /// Number of the quantum, from zero.
    pub quantum: u64,
    /// Observed time before the call.
    pub time: Nanos,
    /// The answer in the record.
    pub recorded: Answer,
    /// The answer now.
    pub replayed: Answer,
    /// Reason for each job that is chosen now, if the policy gives one.
    pub reasons: Vec<(JobId, &'static str)>,
}

impl Difference {
    /// Returns true if different jobs run, ignoring the order of choice.
    #[must_use]
    pub fn concerns_jobs(&self) -> bool {
        let sorted = |answer: &Answer| {
            let mut jobs = answer.chosen().to_vec();
            jobs.sort_unstable();
            jobs
        };
        sorted(&self.recorded) != sorted(&self.replayed)
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Decisions in the record.
    pub decisions: usize,
    /// Observed time of the whole record.
    pub time: Nanos,
    /// Calls whose answers differ, in order.
    pub differences: Vec<Difference>,
}

/// Feeds the recorded calls to a new scheduler and compares the answers, under the policy of the
/// record or another one of the table.
///
/// Another policy diverges from its first different decision on: each observation still describes
/// the jobs that were chosen in the record, not those that the policy chose itself.
///
/// # Errors
/// If there is no such policy, or it has no such option.
pub fn replay(record: &Record, policy: Option<&str>) -> Result<Replay, Refusal> {
    let mut config = record.header.config.clone();
    if let Some(policy) = policy {
        policy.clone_into(&mut config.policy);
    }
    Ok(replay_by(record, QuantumScheduler::new(config)?))
}

/// Feeds the recorded calls to `scheduler`, which is new, and compares the answers. Its policy may
/// be one from outside the table.
#[must_use]
pub fn replay_by(record: &Record, mut scheduler: QuantumScheduler) -> Replay {
    let mut replay = Replay { decisions: record.decisions(), ..Replay::default() };
    let mut quantum = 0;
    for (line, call) in &record.calls {
        let Some((recorded, replayed)) = answers(&mut scheduler, call) else { continue };
        if recorded != replayed {
            let reason = |job: &JobId| Some((*job, scheduler.reason(*job)?));
            replay.differences.push(Difference {
                line: *line,
                quantum,
                time: replay.time,
                reasons: replayed.chosen().iter().filter_map(reason).collect(),
                recorded,
                replayed,
            });
        }
        if let Call::Observe { elapsed, .. } = call {
            quantum += 1;
            replay.time = Nanos(replay.time.0.saturating_add(elapsed.0));
        }
    }
    replay
}

/// Makes a call, and returns the recorded and the new answer if the call has one.
fn answers(scheduler: &mut QuantumScheduler, call: &Call) -> Option<(Answer, Answer)> {
    match call {
        Call::Admit(spec) => {
            scheduler.admit(*spec);
            None
        }
        Call::Learn { elapsed, last } => {
            scheduler.learn(*elapsed, last);
            None
        }
        Call::Retire(job) => {
            scheduler.retire(*job);
            None
        }
        Call::Observe { elapsed, observations, summary } => {
            let replayed = scheduler.observe(*elapsed, observations);
            Some((Answer::Summary(*summary), Answer::Summary(replayed)))
        }
        Call::Select(decision) => {
            let recorded = Answer::Decision(Some(decision.clone()));
            Some((recorded, Answer::Decision(Some(scheduler.select()))))
        }
        Call::Backfill(decision) => {
            Some((Answer::Decision(decision.clone()), Answer::Decision(scheduler.backfill())))
        }
    }
}
