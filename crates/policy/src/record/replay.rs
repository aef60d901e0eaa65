//! Feeding a record to a scheduler made anew.

use memweir_core::{JobId, Nanos};

use super::{Call, Record};
use crate::policies::UnknownPolicy;
use crate::scheduler::{Decision, QuantumScheduler, QuantumSummary, SchedulerConfig};

/// What a scheduler answers to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To an observation.
    Summary(QuantumSummary),
    /// To the question who shall run; none if a free core stays free.
    Decision(Option<Decision>),
}

impl Answer {
    /// Who occupies cores by this answer; nobody where it is no decision.
    #[must_use]
    pub fn chosen(&self) -> &[JobId] {
        match self {
            Self::Decision(Some(decision)) => &decision.chosen,
            Self::Decision(None) | Self::Summary(_) => &[],
        }
    }
}

/// A call that was answered otherwise than in the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Line of the record, counted from one.
    pub line: usize,
    /// Number of the quantum, from zero.
    pub quantum: u64,
    /// Observed time until then.
    pub time: Nanos,
    /// The answer in the record.
    pub recorded: Answer,
    /// The answer now.
    pub replayed: Answer,
    /// Why each job that is chosen now was chosen, as far as the policy says.
    pub reasons: Vec<(JobId, &'static str)>,
}

impl Difference {
    /// Whether other jobs run, in whatever order they were chosen.
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

/// What came of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replay {
    /// Decisions in the record.
    pub decisions: usize,
    /// Time that was observed in it.
    pub time: Nanos,
    /// Calls that were answered otherwise, in order.
    pub differences: Vec<Difference>,
}

/// Tells a new scheduler what the recorded one was told, and compares the answers: under the policy of
/// the record, or another.
///
/// Another policy goes its own way from its first decision on, and is told at each quantum what
/// the jobs did that were chosen in the record, not what those would have done that it chose
/// itself.
///
/// # Errors
/// If there is no such policy here.
pub fn replay(record: &Record, policy: Option<&str>) -> Result<Replay, UnknownPolicy> {
    let mut config: SchedulerConfig = record.header.config.clone();
    if let Some(policy) = policy {
        policy.clone_into(&mut config.policy);
    }
    let mut scheduler = QuantumScheduler::new(config)?;
    let (mut replay, mut quantum) = (Replay::default(), 0);
    for (line, call) in &record.calls {
        let Some((recorded, replayed)) = answers(&mut scheduler, call) else { continue };
        replay.decisions += usize::from(matches!(call, Call::Select(_) | Call::Backfill(Some(_))));
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
    Ok(replay)
}

/// Makes a call, and returns the recorded answer and the new one, where there is one.
fn answers(scheduler: &mut QuantumScheduler, call: &Call) -> Option<(Answer, Answer)> {
    match call {
        Call::Admit(spec) => {
            scheduler.admit(*spec);
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
