//! The scheduling loop of iabw section 4.1 over real mechanisms or fakes of them.
//!
//! Per quantum: block (step 1), read the counters and predict (step 2), select (step 3), unblock
//! (step 4); work that no job waits for, such as the timeline, comes after that. `memweir-policy`
//! selects the jobs; nothing here does. `engine/start.rs` starts jobs, `engine/observe.rs` reads
//! them, `engine/record.rs` records what they did, `engine/end.rs` handles the ends of jobs and of
//! the batch.
//!
//! A job's process is created when the job is first selected. The run queue is the same as if all
//! processes had been created at submission, and five hundred jobs do not fill memory and the
//! process table with processes that wait for exec.

mod end;
mod observe;
mod record;
mod start;

use memweir_core::{BytesPerSec, Counts, JobId, Media, Nanos};
use memweir_linux::blocker::Demand;
use memweir_linux::{Blocker, Capabilities, Meter};
use memweir_policy::record::RecordingScheduler;
use memweir_policy::{Decision, JobSpec, Observation, Running};

use super::RunError;
use super::ledger::{JobQuantum, Ledger};
use super::pinning::CoreMap;
use super::world::{Occurrence, World};
use crate::decisions::DecisionLog;
use crate::jobs::Batch;
use crate::observer::{Event, Observer};
use crate::options::{OnExit, OnFailure};
use crate::report::{LostOutput, Outcome};
use crate::timeline::Timeline;
pub(super) use start::Starter;

/// Polling interval for a job whose first process has ended and whose children go on.
const CHILDREN_POLL: Nanos = Nanos::from_millis(5);

/// Settings that are fixed for one batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) quantum: Nanos,
    pub(super) on_exit: OnExit,
    pub(super) on_failure: OnFailure,
}

/// Inputs and mechanisms of one batch.
pub(super) struct Parts<'a> {
    pub(super) batch: &'a Batch,
    pub(super) rules: Rules,
    pub(super) specs: Vec<JobSpec>,
    pub(super) scheduler: RecordingScheduler,
    pub(super) blocker: Box<dyn Blocker>,
    pub(super) meter: Option<Box<dyn Meter>>,
    pub(super) world: &'a mut dyn World,
    pub(super) starter: Starter,
    /// Gives single-core jobs cores of their own; absent if that was not requested.
    pub(super) cores: Option<CoreMap>,
    pub(super) ledger: Ledger,
    pub(super) timeline: Option<Timeline>,
    /// Log of the decisions, if the scheduler records them.
    pub(super) decisions: Option<DecisionLog>,
    /// The media that the meter tells apart.
    pub(super) media: Media,
    pub(super) observer: &'a mut dyn Observer,
}

/// Results of a batch that is over.
pub(super) struct BatchResult {
    pub(super) outcome: Outcome,
    pub(super) ended: Nanos,
    pub(super) ledger: Ledger,
    pub(super) sees: Option<Capabilities>,
    pub(super) target: Option<BytesPerSec>,
    /// Of the whole batch, at its submission: iabw eq. (10).
    pub(super) ideal_average: Option<BytesPerSec>,
    pub(super) notices: Vec<String>,
    pub(super) lost: Vec<LostOutput>,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its process does not exist yet.
    Waiting,
    /// Its first process runs or is blocked.
    Started,
    /// Its first process has ended with this code, its children have not.
    ChildrenLeft(i32),
    /// It has ended, or the batch no longer follows it.
    Over,
}

/// One job while the batch runs.
#[derive(Clone, Debug)]
struct Slot {
    stage: Stage,
    /// Time at which it was resumed in this quantum.
    resumed: Option<Nanos>,
    /// True if it has occupied a core in this quantum.
    chosen: bool,
    /// True while its meter works.
    metered: bool,
    /// Bandwidth predicted for it when the quantum began; kept for the timeline alone.
    predicted: Option<BytesPerSec>,
    /// Reason for its last selection.
    reason: Option<&'static str>,
    /// Readings before this quantum.
    cpu_time: Nanos,
    counts: Counts,
}

/// One batch while it runs.
pub(super) struct Engine<'a> {
    parts: Parts<'a>,
    slots: Vec<Slot>,
    /// Decision for this quantum, or for the rest of it.
    decision: Decision,
    /// True if blocking has failed, so that the operating system schedules from now on.
    unblockable: bool,
    /// Readings of jobs that ended in this quantum.
    ended: Vec<(JobQuantum, Observation)>,
    quantum: u64,
    quantum_start: Nanos,
    deadline: Nanos,
    failed: bool,
    ideal_average: Option<BytesPerSec>,
    notices: Vec<String>,
    lost: Vec<LostOutput>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(parts: Parts<'a>) -> Self {
        let slot = Slot {
            stage: Stage::Waiting,
            resumed: None,
            chosen: false,
            metered: parts.meter.is_some(),
            predicted: None,
            reason: None,
            cpu_time: Nanos::ZERO,
            counts: Counts::default(),
        };
        let nothing = Decision {
            running: Running::Only(Vec::new()),
            chosen: Vec::new(),
            predicted: BytesPerSec::ZERO,
            target: None,
        };
        let now = parts.world.now();
        Self {
            slots: vec![slot; parts.batch.jobs.len()],
            parts,
            decision: nothing,
            unblockable: false,
            ended: Vec::new(),
            quantum: 0,
            quantum_start: now,
            deadline: now,
            failed: false,
            ideal_average: None,
            notices: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Runs the batch to its end. No job stays blocked, whatever goes wrong.
    pub(super) fn run(mut self) -> Result<BatchResult, RunError> {
        let driven = self.drive();
        self.write_decisions();
        if let Err(error) = driven {
            let _ = self.parts.blocker.run_all();
            return Err(error);
        }
        self.finish_timeline();
        let outcome = driven?;
        Ok(BatchResult {
            outcome,
            ended: self.parts.world.now(),
            sees: self.parts.meter.as_ref().map(|meter| meter.capabilities()),
            target: self.decision.target,
            ideal_average: self.ideal_average,
            ledger: self.parts.ledger,
            notices: self.notices,
            lost: self.lost,
        })
    }

    fn drive(&mut self) -> Result<Outcome, RunError> {
        for spec in &self.parts.specs {
            self.parts.scheduler.admit(*spec);
        }
        self.ideal_average = self.parts.scheduler.ideal_average_bandwidth();
        self.select_and_resume();
        self.note_predictions();
        // The time to start the first jobs is not part of the first quantum.
        self.quantum_start = self.parts.ledger.first_exec().unwrap_or(self.quantum_start);
        self.deadline = self.quantum_start + self.parts.rules.quantum;
        loop {
            if self.everything_over() {
                self.close_quantum();
                return Ok(Outcome::Finished);
            }
            if self.failed && self.parts.rules.on_failure == OnFailure::FailFast {
                self.shut_down(OnExit::Kill)?;
                return Ok(Outcome::FailedFast);
            }
            let until = match self.children_left() {
                true => self.deadline.min(self.parts.world.now() + CHILDREN_POLL),
                false => self.deadline,
            };
            for occurrence in self.wait(until)? {
                match occurrence {
                    Occurrence::Exited(job, code) => self.first_process_ended(job, code),
                    Occurrence::Stop => {
                        self.shut_down(self.parts.rules.on_exit)?;
                        return Ok(Outcome::Interrupted);
                    }
                }
            }
            self.reap();
            if self.parts.world.now() >= self.deadline && !self.everything_over() {
                self.turn();
            }
        }
    }

    fn wait(&mut self, until: Nanos) -> Result<Vec<Occurrence>, RunError> {
        self.parts.world.wait(until).map_err(|source| RunError::Os {
            what: "waiting for the end of the quantum".to_owned(),
            source,
        })
    }

    /// Ends one quantum and begins the next.
    fn turn(&mut self) {
        self.block();
        let quantum = self.observe();
        self.select_and_resume();
        let now = self.parts.world.now();
        self.deadline = next_deadline(self.deadline, now, self.parts.rules.quantum);
        self.book(&quantum);
        self.note_predictions();
    }

    /// Ends the last quantum.
    fn close_quantum(&mut self) {
        let quantum = self.observe();
        if !quantum.jobs.is_empty() {
            self.book(&quantum);
        }
    }

    /// Step 1: blocks all jobs, unless the decision lets everything run or blocking has failed.
    fn block(&mut self) {
        if self.unblockable || self.decision.running == Running::Everything {
            return;
        }
        if let Err(error) = self.parts.blocker.block_all() {
            self.give_up_blocking(&error.to_string());
        }
    }

    /// Lets everything run from now on: a job that cannot be blocked must not stay blocked either.
    fn give_up_blocking(&mut self, reason: &str) {
        self.unblockable = true;
        self.notice(format!(
            "jobs can no longer be blocked ({reason}); the operating system schedules from here on"
        ));
        if let Err(error) = self.parts.blocker.run_all() {
            self.notice(format!("some jobs may be blocked until the batch ends: {error}"));
        }
    }

    /// Steps 3 and 4: selects jobs and resumes them.
    fn select_and_resume(&mut self) {
        let decision = self.parts.scheduler.select();
        self.quantum_start = self.parts.world.now();
        self.resume(decision);
        self.fill_free_cores();
    }

    /// Fills cores that fell free in mid-quantum, until no waiting job fits.
    fn fill_free_cores(&mut self) {
        while let Some(decision) = self.parts.scheduler.backfill() {
            self.resume(decision);
        }
    }

    /// Step 4: resumes the decision's jobs, and starts those that have not started yet.
    fn resume(&mut self, decision: Decision) {
        self.decision = decision;
        let now = self.parts.world.now();
        let everything = self.unblockable || self.decision.running == Running::Everything;
        let jobs: Vec<JobId> = match &self.decision.running {
            Running::Only(jobs) if !everything => jobs.clone(),
            _ => self.unfinished().collect(),
        };
        let (fresh, started): (Vec<JobId>, Vec<JobId>) =
            jobs.iter().partition(|job| self.slots[job.index()].stage == Stage::Waiting);
        let demand = Demand {
            total: self.cores_of(self.unfinished()),
            running: self.cores_of(jobs.iter().copied()),
        };
        self.parts.blocker.set_demand(demand);
        if !everything && let Err(error) = self.parts.blocker.run_only(&started) {
            self.give_up_blocking(&error.to_string());
        }
        for job in &jobs {
            self.slots[job.index()].resumed.get_or_insert(now);
        }
        for job in &self.decision.chosen {
            let slot = &mut self.slots[job.index()];
            (slot.chosen, slot.reason) = (true, self.parts.scheduler.reason(*job));
        }
        self.place();
        self.start(&fresh);
    }

    /// The jobs that are not over, started or not.
    fn unfinished(&self) -> impl Iterator<Item = JobId> {
        let jobs = (0..self.slots.len() as u32).map(JobId);
        jobs.filter(|job| self.slots[job.index()].stage != Stage::Over)
    }

    /// Sum of the cores that the jobs occupy.
    fn cores_of(&self, jobs: impl Iterator<Item = JobId>) -> u32 {
        jobs.map(|job| self.parts.batch.jobs[job.index()].cores).sum()
    }

    /// Binds the selected single-core jobs to cores of their own, if that was requested.
    fn place(&mut self) {
        let Some(cores) = &mut self.parts.cores else { return };
        let single: Vec<JobId> = self
            .decision
            .chosen
            .iter()
            .copied()
            .filter(|job| self.parts.batch.jobs[job.index()].cores == 1)
            .collect();
        for (job, cpu) in cores.place(&single) {
            self.parts.starter.bind(job, cpu);
            if let Err(error) = self.parts.world.bind(job, &[cpu]) {
                let name = &self.parts.batch.jobs[job.index()].name;
                let text = format!("{name} could not be bound to CPU {cpu}: {error}");
                self.notice(text);
            }
        }
    }

    /// Shows the user a notice, now and in the report; equal texts only once.
    fn notice(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.notices.contains(&text) {
            return;
        }
        self.parts.observer.event(Event::Notice(&text));
        self.notices.push(text);
    }

    fn everything_over(&self) -> bool {
        self.slots.iter().all(|slot| slot.stage == Stage::Over)
    }
}

/// Returns the end of the next quantum. Ends lie on a fixed grid, so that lateness does not add up;
/// a quantum that a late wake-up would cut to less than half is joined with the next.
fn next_deadline(deadline: Nanos, now: Nanos, quantum: Nanos) -> Nanos {
    let late = now.saturating_sub(deadline).0;
    let next = Nanos(deadline.0 + quantum.0 * (late / quantum.0 + 1));
    if next.saturating_sub(now).0 < quantum.0 / 2 { next + quantum } else { next }
}

#[cfg(test)]
mod tests;
