//! Decides whether to leave a core idle: [`CoreUse::Auto`].
//!
//! # Throughput of a set of jobs
//!
//! A job that makes progress works off two shares that the batch cannot end without: its share of
//! the bus (its demand over the peak) and its share of the cores. The larger of the two is the
//! *worth* of a second of its unhindered progress, because neither resource alone can end the batch
//! sooner. The throughput of a set of jobs is the sum of their worths, each times the job's speed.
//!
//! Where a full bus is divided in proportion to demand, that sum is the same for every set that
//! fills the bus: one more job neither gains nor costs, and the core is filled. The sum *falls* if
//! a further job slows the others down by more than that: because the bus carries less under
//! overload, or because the others wait for memory without moving much data. Then the job waits.
//!
//! # Speeds
//!
//! Below the peak every job is assumed to run at full speed, so that every core is filled. Above
//! it, at a demand of `r` times the peak, a job's slowdown is assumed to be `1 + s (r - 1)`, with a
//! sensitivity `s` of the job that is learned in `slowdown_model`. A job is assumed not to slow
//! down until a slowdown has been observed.

use memweir_core::BytesPerSec;

use super::slowdown_model::{SlowdownModel, SlowdownSample};
use super::types::{CoreUse, SchedulerConfig};

/// A job waits if it reduces throughput by more than this share. The estimates are no more precise
/// than that, and idle time is lost for good.
const MARGIN: f64 = 0.05;

/// Quanta with idle cores before one quantum is filled, to test whether leaving cores idle still
/// pays. The cost of testing is at most one part in this many of the gain.
const PROBE_AFTER: u32 = 16;

/// Quanta between two in which one job runs alone, to measure its demand: less than two percent of
/// the time.
const SURVEY_EVERY: u32 = 64;

/// The same after a quantum alone has shown a slowdown: there may be something to gain.
const SURVEY_SOON: u32 = 8;

/// Costs and benefits of one job of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Bandwidth that the job requires.
    pub(super) demand: BytesPerSec,
    /// Cores that the job occupies.
    pub(super) cores: u32,
    /// Sensitivity of the job to overload.
    pub(super) sensitivity: f64,
}

/// Rule that fills the cores in one quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Fill cores as long as that pays.
    Weigh,
    /// Fill all cores, to learn.
    Probe,
    /// Run the head alone, to measure its demand.
    HeadAlone,
}

/// Decides which cores stay idle.
pub(super) struct Occupancy {
    /// Peak and cores; absent if every core is filled.
    machine: Option<(BytesPerSec, u32)>,
    mode: Mode,
    members: Vec<Member>,
    /// Highest throughput of any prefix of the set, in the order in which jobs joined, since the
    /// quantum began or a job left its cores.
    best: f64,
    /// True if a job had to wait in this quantum.
    refused: bool,
    /// Quanta with idle cores since the last probe.
    idle_quanta: u32,
    /// Quanta until a job may run alone.
    survey_in: u32,
    /// Demand of this quantum's jobs over the peak, while the set of jobs is unchanged.
    overload: Option<f64>,
}

impl Occupancy {
    pub(super) fn new(config: &SchedulerConfig) -> Self {
        // Without a known peak, overload is undefined.
        let peak = config.bus.peak.filter(|peak| config.core_use == CoreUse::Auto && peak.0 > 0.0);
        Self {
            machine: peak.map(|peak| (peak, config.cores)),
            mode: Mode::Weigh,
            members: Vec::new(),
            best: 0.0,
            refused: false,
            idle_quanta: 0,
            survey_in: 0,
            overload: None,
        }
    }

    /// Begins a quantum. If a job may run alone in it, `becomes_head` moves a job that needs such a
    /// quantum to the head of the run queue, and returns true if there is one.
    pub(super) fn begin_quantum(&mut self, becomes_head: impl FnOnce() -> bool) {
        self.idle_quanta += u32::from(self.refused && self.mode == Mode::Weigh);
        self.refused = false;
        self.best = 0.0;
        self.survey_in = self.survey_in.saturating_sub(1);
        let survey = self.machine.is_some() && self.survey_in == 0;
        self.mode = if survey && becomes_head() {
            self.survey_in = SURVEY_EVERY;
            Mode::HeadAlone
        } else if self.idle_quanta >= PROBE_AFTER {
            self.idle_quanta = 0;
            Mode::Probe
        } else {
            Mode::Weigh
        };
    }

    /// Returns true if one job runs alone in this quantum.
    pub(super) fn head_is_alone(&self) -> bool {
        self.mode == Mode::HeadAlone
    }

    /// Begins a choice beside the running jobs. A job that had to wait before in this quantum still
    /// has to, unless another has left: losses below the margin do not add up.
    pub(super) fn begin_choice(&mut self, running: impl Iterator<Item = Member>) {
        let Some((peak, cores)) = self.machine else { return };
        self.members.clear();
        self.members.extend(running);
        self.best = self.best.max(gets_done(&self.members, peak, cores));
    }

    /// Returns true if a job is to run beside those admitted before, and adds it to them.
    pub(super) fn lets_in(&mut self, job: Member) -> bool {
        let Some((peak, cores)) = self.machine else { return true };
        self.members.push(job);
        let with_it = gets_done(&self.members, peak, cores);
        let pays = match self.mode {
            Mode::Weigh => with_it >= self.best * (1.0 - MARGIN),
            Mode::Probe => true,
            Mode::HeadAlone => false,
        };
        if pays {
            self.best = self.best.max(with_it);
        } else {
            self.members.pop();
            self.refused = true;
        }
        pays
    }

    /// Fixes the admitted jobs as those of the quantum.
    pub(super) fn settle(&mut self) {
        self.overload = self.machine.map(|(peak, _)| overload(&self.members, peak));
    }

    /// Schedules the next quantum alone sooner if this one showed that `job` had been slowed down.
    pub(super) fn surveyed(&mut self, job: &SlowdownModel) {
        if self.mode == Mode::HeadAlone && job.was_slowed() {
            self.survey_in = SURVEY_SOON;
        }
    }

    /// Records that a job has left its cores: those that had to wait are judged anew.
    pub(super) fn lose_job(&mut self) {
        self.best = 0.0;
    }

    /// Records that the set of jobs has changed in mid-quantum, so that the quantum teaches
    /// nothing.
    pub(super) fn disturb(&mut self) {
        self.overload = None;
        if self.mode == Mode::HeadAlone {
            self.mode = Mode::Weigh;
        }
    }

    /// Returns the evidence from a whole quantum with an unchanged set of jobs and this measured
    /// bandwidth.
    pub(super) fn sample(&self, bandwidth: BytesPerSec, saturated: bool) -> Option<SlowdownSample> {
        let (peak, _) = self.machine?;
        Some(SlowdownSample {
            overload: self.overload?,
            peak,
            bandwidth,
            saturated,
            alone: self.members.len() == 1,
        })
    }
}

/// Returns the jobs' total demand over the peak.
fn overload(members: &[Member], peak: BytesPerSec) -> f64 {
    members.iter().map(|job| job.demand.0).sum::<f64>() / peak.0
}

/// Returns the jobs' throughput, in seconds of the machine per second.
fn gets_done(members: &[Member], peak: BytesPerSec, cores: u32) -> f64 {
    let excess = (overload(members, peak) - 1.0).max(0.0);
    let done = |job: &Member| {
        let worth = (job.demand.0 / peak.0).max(f64::from(job.cores) / f64::from(cores));
        worth / (1.0 + job.sensitivity * excess)
    };
    members.iter().map(done).sum()
}

#[cfg(test)]
mod tests;
