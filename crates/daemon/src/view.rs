//! Jobs and quanta as clients see them.

use std::collections::BTreeSet;

use memweir_core::JobId;
use memweir_policy::quantum_loop::Quantum;
use memweir_run::batch::bandwidth;

use crate::attempt::Attempts;
use crate::protocol::{Expected, JobActivity, JobView, QuantumView, Text, ViewedState};
use crate::queue::{End, Job, Queue, Source, State};

/// Makes the views of one listing.
pub(crate) struct Viewer<'a> {
    queue: &'a Queue,
    front: Option<&'a Job>,
    attempts: &'a Attempts,
    /// Running jobs that have a core now.
    on_cores: BTreeSet<JobId>,
}

impl<'a> Viewer<'a> {
    pub(crate) fn new(queue: &'a Queue, attempts: &'a Attempts, on_cores: BTreeSet<JobId>) -> Self {
        Self { queue, front: queue.front(), attempts, on_cores }
    }

    /// Returns a job as clients see it, without the name of its user.
    pub(crate) fn view(&self, job: &Job) -> JobView {
        let reason = match job.end() {
            Some(End::Lost(loss)) => Some(loss.to_string()),
            Some(End::OutOfMemory) => Some("killed for want of memory".to_owned()),
            _ => self.queue.reason_behind(job, self.front).map(|reason| reason.to_string()),
        };
        let runs = matches!(job.state, State::Starting | State::Running);
        JobView {
            id: job.id,
            name: job.name.clone(),
            user: String::new(),
            state: state(job.state),
            reason,
            exit_code: job.end().map(End::exit_code),
            blocked: runs && !self.on_cores.contains(&job.id),
            cores: job.cores,
            priority: job.priority,
            array: job.array.map(|array| (array.array, array.index)),
            after: job.after.clone(),
            attempt: job.attempt,
            command: job.command.clone(),
            submitted_ms: job.submitted,
            started_ms: job.started,
            ended_ms: job.ended.map(|ended| ended.wall_ms),
            stdout: Text::from(self.attempts.stdout(job.id)),
            stderr: Text::from(self.attempts.stderr(job.id)),
            expected: expected(job),
            bandwidth_limit: job.bandwidth_limit.map(|rate| rate.0),
        }
    }
}

/// Returns a quantum as clients see it, with these of its jobs.
pub(crate) fn quantum_view(number: u64, quantum: &Quantum, jobs: &[JobId]) -> QuantumView {
    let span = quantum.summary.elapsed;
    let activity = |id: &JobId| {
        let entry = quantum.jobs.iter().find(|entry| entry.job == *id);
        JobActivity {
            id: *id,
            chosen: entry.is_some_and(|entry| entry.chosen),
            cpu_ns: entry.map_or(0, |entry| entry.cpu_time.0),
            bandwidth: entry.and_then(|e| e.counts).map(|counts| counts.bandwidth(span).0),
            reason: entry.and_then(|entry| entry.reason).map(str::to_owned),
        }
    };
    QuantumView {
        number,
        span_ns: span.0,
        bandwidth: bandwidth(quantum).map(|rate| rate.0),
        target: quantum.decision.target.map(|rate| rate.0),
        jobs: jobs.iter().map(activity).collect(),
    }
}

fn expected(job: &Job) -> Option<Expected> {
    let source = job.expected_from?;
    let profile = job.program.as_deref().filter(|_| source != Source::Submission);
    Some(Expected {
        time_ns: job.expected_time.map(|time| time.0),
        bandwidth: job.expected_bandwidth.map(|rate| rate.0),
        source,
        profile: profile.map(str::to_owned),
    })
}

fn state(state: State) -> ViewedState {
    match state {
        State::Pending => ViewedState::Pending,
        State::Starting | State::Running => ViewedState::Running,
        State::Ended(End::Exited(0)) => ViewedState::Succeeded,
        State::Ended(End::Exited(_) | End::OutOfMemory) => ViewedState::Failed,
        State::Ended(End::Canceled(_)) => ViewedState::Canceled,
        State::Ended(End::Lost(_)) => ViewedState::Lost,
    }
}
