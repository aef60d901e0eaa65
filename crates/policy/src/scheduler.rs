//! The quantum loop of iabw section 4.1 without its mechanisms: steps 2 and 3.
//!
//! This module holds the run queue, detects sleeping jobs, and makes assumptions about jobs without
//! observations; step 3 is in `scheduler/selection.rs`. A [`Policy`] chooses the jobs that run
//! beside the head of the queue.

mod job;
mod kinds;
mod occupancy;
mod selection;
mod slowdown_model;
mod survey;
mod table;
mod types;

use memweir_core::{BytesPerSec, JobId, Nanos};

use crate::policies;
use crate::policy::{Batch, Policy};
use crate::speed::{Load, SpeedModel};
use job::{Conditions, Job, Placement};
use kinds::Kinds;
use memweir_core::input::Refusal;
use occupancy::Occupancy;
use survey::{Survey, WholeBatch};
use table::{JobTable, Slot};

pub use types::{
    Bus, CoreUse, Decision, Ending, JobSpec, Kind, LineCosts, Observation, QuantumSummary, Running,
    SchedulerConfig,
};

/// A job that had cores of its own and used less than one part in this many of the elapsed time as
/// CPU time was asleep.
const ASLEEP_BELOW_ONE_IN: u64 = 100;

/// Only whole quanta show which jobs sleep and how much the bus can carry; a quantum cut to less
/// than one part in this many does not count as whole.
const WHOLE_ABOVE_ONE_IN: u64 = 2;

/// A span shorter than one part of a quantum in this many is too noisy to learn a bandwidth from.
const SAMPLE_ABOVE_ONE_IN: u64 = 20;

/// Run queue, predictors and policy of one batch.
///
/// In each quantum the caller blocks the jobs, reads their counters, and calls
/// [`observe`](Self::observe) and [`select`](Self::select); when a job ends in between,
/// [`retire`](Self::retire) and [`backfill`](Self::backfill). Jobs may come and go at any time.
///
/// * **No job starves.** The head of the run queue always runs, and the jobs that ran go to the
///   tail, so that each of N waiting jobs runs within N quanta under any policy. With
///   [`CoreUse::Auto`], at most one in eight quanta begins with another job than the head.
/// * **Cores are not over-committed**, except by a head that is wider than the machine: it runs
///   alone.
/// * **Sleeping jobs** stay unblocked and occupy no core: a job that had cores of its own for a
///   whole quantum and used less than 1 % of it is asleep, until an observation shows at least as
///   much CPU time again. Then it joins the tail of the run queue. Jobs that wake together
///   therefore compete with the chosen ones for the rest of one quantum at most.
/// * **Unknown demands**: a job without observations is assumed to require its expected bandwidth;
///   without one, the mean of the jobs whose demand is known, or zero.
/// * **Kinds**: the first job of a [`Kind`] that does its work [shows](Self::learn) what the others
///   need, those under way and those to come.
pub struct QuantumScheduler {
    config: SchedulerConfig,
    policy: Box<dyn Policy>,
    jobs: JobTable,
    kinds: Kinds,
    /// Every job that is awake, the head first.
    queue: Vec<Slot>,
    /// The jobs of the queue that have cores of their own, in the order of choice.
    chosen: Vec<Slot>,
    /// Sleeping jobs, which stay unblocked, in the order in which they fell asleep.
    asleep: Vec<Slot>,
    quantum: u64,
    highest_observed: BytesPerSec,
    occupancy: Occupancy,
    speeds: SpeedModel,
    /// Time of all observations, from the first quantum.
    clock: Nanos,
    scratch: Scratch,
}

/// Buffers that decisions reuse.
#[derive(Default)]
struct Scratch {
    moved: Vec<Slot>,
    survey: Survey,
    picks: Vec<usize>,
    loads: Vec<Load>,
}

impl QuantumScheduler {
    /// Creates a scheduler with the policy that the configuration names.
    ///
    /// # Errors
    /// If there is no such policy, or it has no such option; the error names the nearest.
    pub fn new(config: SchedulerConfig) -> Result<Self, Refusal> {
        let choice = policies::find(&config.policy)?;
        let policy = choice.build(&config);
        let core_use = choice.core_use(&config);
        Ok(Self::with_policy(SchedulerConfig { core_use, ..config }, policy))
    }

    /// Creates a scheduler with a policy from outside the table; `config.policy` is ignored.
    #[must_use]
    pub fn with_policy(config: SchedulerConfig, policy: Box<dyn Policy>) -> Self {
        let config = SchedulerConfig { cores: config.cores.max(1), ..config };
        Self {
            occupancy: Occupancy::new(&config),
            speeds: SpeedModel::new(&config),
            clock: Nanos::ZERO,
            config,
            policy,
            jobs: JobTable::default(),
            kinds: Kinds::default(),
            queue: Vec::new(),
            chosen: Vec::new(),
            asleep: Vec::new(),
            quantum: 0,
            highest_observed: BytesPerSec::ZERO,
            scratch: Scratch::default(),
        }
    }

    /// Puts a job at the tail of the run queue, where it waits for the next decision. A job that is
    /// already in the batch is left unchanged. One that is wider than the machine counts as one
    /// that fills it, for it runs on no more cores.
    pub fn admit(&mut self, spec: JobSpec) {
        let spec = JobSpec { cores: spec.cores.min(self.config.cores), ..spec };
        let mut job = Job::new(spec, self.config.predictor, self.clock);
        if let Some(alone) = spec.kind.and_then(|kind| self.kinds.get(kind)) {
            job.expect(&alone);
        }
        if let Some(slot) = self.jobs.insert(job) {
            self.queue.push(slot);
        }
    }

    /// Learns from a job that has done its work what others of its kind need. It must be
    /// [retired](Self::retire) then.
    ///
    /// `last` is its behavior since it was last observed or got cores, `elapsed` the time since
    /// then. Returns false for a job without a kind, which shows nothing; only the first of a kind
    /// shows anything new.
    pub fn learn(&mut self, elapsed: Nanos, last: &Observation) -> bool {
        let Some(slot) = self.jobs.slot_of(last.job) else { return false };
        let Some(kind) = self.jobs[slot].spec.kind else { return false };
        if self.kinds.get(kind).is_some() {
            return true;
        }
        self.observe_job(slot, last, &Conditions::brief(elapsed));
        let alone = self.jobs[slot].alone();
        self.kinds.add(kind, alone);
        for job in self.jobs.iter_mut().filter(|job| job.spec.kind == Some(kind)) {
            job.expect(&alone);
        }
        true
    }

    /// Removes a job that has ended from the batch. Its cores are free for
    /// [`backfill`](Self::backfill).
    pub fn retire(&mut self, job: JobId) {
        let Some(slot) = self.jobs.remove(job) else { return };
        if self.chosen.contains(&slot) {
            self.occupancy.disturb();
            self.occupancy.lose_job();
        }
        for list in [&mut self.queue, &mut self.chosen, &mut self.asleep] {
            list.retain(|other| *other != slot);
        }
    }

    /// Step 2: learns the jobs' behavior in the `elapsed` time since the last observation.
    ///
    /// `observations` must cover every job that could run, chosen or sleeping. An observation of a
    /// job that has been retired meanwhile counts only towards the system's bandwidth.
    pub fn observe(&mut self, elapsed: Nanos, observations: &[Observation]) -> QuantumSummary {
        self.clock = Nanos(self.clock.0.saturating_add(elapsed.0));
        let bandwidth: BytesPerSec =
            observations.iter().flat_map(|seen| seen.counts).map(|c| c.bandwidth(elapsed)).sum();
        let threshold = self.config.bus.saturation_threshold();
        let saturated = threshold.is_some_and(|threshold| bandwidth.0 >= threshold.0);
        let whole = elapsed >= Nanos(self.config.quantum.0 / WHOLE_ABOVE_ONE_IN);
        if whole {
            self.highest_observed = self.highest_observed.max(bandwidth);
            self.speeds.observe(self.highest_observed);
        }
        let shortest = Nanos(self.config.quantum.0 / SAMPLE_ABOVE_ONE_IN);
        let sample = self.occupancy.sample(bandwidth, saturated).filter(|_| whole);
        let on_saturation = self.policy.on_saturation();
        let conditions = Conditions { elapsed, whole, shortest, saturated, on_saturation, sample };
        for observation in observations {
            if let Some(slot) = self.jobs.slot_of(observation.job) {
                self.observe_job(slot, observation, &conditions);
            }
        }
        if let [alone] = self.chosen[..] {
            self.occupancy.surveyed(&self.jobs[alone].slowdown_model);
        }
        for slot in &self.chosen {
            let placement = &mut self.jobs[*slot].placement;
            if *placement == Placement::Joined {
                *placement = Placement::Running;
            }
        }
        QuantumSummary { elapsed, bandwidth, saturated }
    }

    /// Learns one job's behavior, and decides whether it sleeps.
    fn observe_job(&mut self, slot: Slot, observation: &Observation, conditions: &Conditions) {
        let job = &mut self.jobs[slot];
        let used = job.cpu_time(observation);
        let is_idle =
            |used: Nanos| used.0.saturating_mul(ASLEEP_BELOW_ONE_IN) < conditions.elapsed.0;
        // A job of unknown CPU time neither falls asleep nor wakes up.
        let idle = used.is_some_and(is_idle);
        match job.placement {
            Placement::Running if idle && conditions.whole => {
                job.advance(conditions.elapsed);
                job.placement = Placement::Asleep;
                self.occupancy.lose_job();
                self.queue.retain(|other| *other != slot);
                self.chosen.retain(|other| *other != slot);
                self.asleep.push(slot);
            }
            Placement::Asleep if idle || used.unwrap_or_default() == Nanos::ZERO => {
                job.advance(conditions.elapsed)
            }
            Placement::Asleep => {
                job.learn(observation, used, conditions);
                job.placement = Placement::Waiting;
                self.asleep.retain(|other| *other != slot);
                self.queue.push(slot);
            }
            _ => job.learn(observation, used, conditions),
        }
    }

    /// Returns the ideal average bandwidth of the rest of the batch, iabw eq. (10); right after
    /// submission that of the whole batch.
    ///
    /// A job counts with its remaining expected time, at least a tenth of its expected time. A job
    /// without an expected time counts with the mean of the others, a job without an expected
    /// bandwidth with its observed bandwidth, else with the mean of the others. `None` as long as
    /// no job's bandwidth is known.
    #[must_use]
    pub fn ideal_average_bandwidth(&self) -> Option<BytesPerSec> {
        WholeBatch::new(&self.jobs, &self.queue, &self.asleep, self.config.cores).ideal_average()
    }

    /// Returns the predicted demand of a job in the next quantum in which it runs; `None` if
    /// nothing is known of it, or there is no such job.
    #[must_use]
    pub fn demand(&self, job: JobId) -> Option<BytesPerSec> {
        self.jobs.slot_of(job).and_then(|slot| self.jobs[slot].demand())
    }

    /// Returns the speed of a job beside the jobs that it has cores with, over its speed alone, by
    /// the [`SpeedModel`]; `None` if it has none of its own.
    #[must_use]
    pub fn speed(&self, job: JobId) -> Option<f64> {
        let job = &self.jobs[self.jobs.slot_of(job)?];
        job.has_cores().then(|| job.speed())
    }

    /// Returns the reason why a job has cores of its own now, as a clause for people; `None` if it
    /// has none, or the policy gives no reason.
    #[must_use]
    pub fn reason(&self, job: JobId) -> Option<&'static str> {
        let job = &self.jobs[self.jobs.slot_of(job)?];
        job.reason.filter(|_| job.has_cores())
    }
}
