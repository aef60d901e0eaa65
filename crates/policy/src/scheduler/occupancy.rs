//! Whether a core had better stay idle: [`CoreUse::Auto`].
//!
//! # What a set of jobs gets done
//!
//! A job that makes progress works off what the batch cannot end without: its share of the bus
//! (its demand over the peak) and its share of the cores. The larger of the two is what a second of
//! its unhindered progress is *worth*, for neither resource alone can end the batch sooner. A set
//! of jobs gets done, per second, the sum of their worths, each times the job's speed.
//!
//! Where a full bus is divided in proportion to demand, that sum is the same for every set that
//! fills the bus: one more job neither gains nor costs, and the core is filled. The sum *falls* if
//! a further job slows the others down by more than that: because the bus carries less when it is
//! asked for more, or because the others wait for memory without moving much. Then the job waits.
//!
//! # What is known of speeds
//!
//! Below the peak everybody is taken to run at full speed, so that every core is filled. Above it,
//! at an overload of `r` times the peak, a job's slowdown is taken to be `1 + s (r - 1)`, with a
//! sensitivity `s` of the job that is learned in `hindrance`. Nobody is taken to suffer before it
//! has been seen.

use memweir_core::BytesPerSec;

use super::hindrance::{Hindrance, Lesson};
use super::types::{CoreUse, SchedulerConfig};

/// A job waits if with it less gets done than without it by more than this share. The estimates
/// are no better than that, and idle time cannot be had back.
const MARGIN: f64 = 0.05;

/// Quanta with idle cores after which one is filled, to learn whether it is still true that that
/// does not pay. So much of what is gained is spent on it at most.
const PROBE_AFTER: u32 = 16;

/// Quanta between two that are given to one job alone, to learn what it requires: less than two
/// percent of the time.
const SURVEY_EVERY: u32 = 64;

/// The same after a job has been found squeezed: there may be something to gain.
const SURVEY_SOON: u32 = 8;

/// What one job of a set brings and takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Bandwidth that it requires.
    pub(super) demand: BytesPerSec,
    /// Cores that it occupies.
    pub(super) cores: u32,
    /// What it suffers.
    pub(super) sensitivity: f64,
}

/// How the cores are filled in one quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// As far as it pays.
    Weigh,
    /// Entirely, to learn.
    Probe,
    /// With the head alone, to learn what it requires.
    HeadAlone,
}

/// Decides how far the cores are filled.
pub(super) struct Occupancy {
    /// Peak and cores; absent if every core is filled.
    machine: Option<(BytesPerSec, u32)>,
    mode: Mode,
    members: Vec<Member>,
    /// The most that any part of the set gets done, in the order in which jobs came.
    best: f64,
    /// Whether a job had to wait in this quantum.
    refused: bool,
    /// Quanta with idle cores since the last probe.
    idle_quanta: u32,
    /// Quanta until a job may be seen alone.
    survey_in: u32,
    /// What the jobs of this quantum require over the peak, as long as it is the same jobs.
    overload: Option<f64>,
}

impl Occupancy {
    pub(super) fn new(config: &SchedulerConfig) -> Self {
        // Without a peak nobody can say what is too much.
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

    /// Begins a quantum. If a job may be seen alone in it, `becomes_head` makes a job that wants to
    /// be seen the head of the run queue, and says whether there is one.
    pub(super) fn begin_quantum(&mut self, becomes_head: impl FnOnce() -> bool) {
        self.idle_quanta += u32::from(self.refused && self.mode == Mode::Weigh);
        self.refused = false;
        self.overload = None;
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

    /// Whether the quantum is for seeing one job without company.
    pub(super) fn head_is_alone(&self) -> bool {
        self.mode == Mode::HeadAlone
    }

    /// Begins a choice beside the jobs that run.
    pub(super) fn begin_choice(&mut self, running: impl Iterator<Item = Member>) {
        let Some((peak, cores)) = self.machine else { return };
        self.members.clear();
        self.members.extend(running);
        self.best = gets_done(&self.members, peak, cores);
    }

    /// Whether a job is to run beside those that were let in before; then it is one of them.
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

    /// The jobs let in are those of the quantum.
    pub(super) fn settle(&mut self) {
        self.overload = self.machine.map(|(peak, _)| overload(&self.members, peak));
    }

    /// What became of seeing a job alone, if that is what the quantum was for.
    pub(super) fn surveyed(&mut self, job: &Hindrance) {
        if self.mode == Mode::HeadAlone && job.was_squeezed() {
            self.survey_in = SURVEY_SOON;
        }
    }

    /// The jobs of the quantum are no longer those that began it: it teaches nothing.
    pub(super) fn disturb(&mut self) {
        self.overload = None;
        if self.mode == Mode::HeadAlone {
            self.mode = Mode::Weigh;
        }
    }

    /// What a whole quantum with the same jobs can teach, of which `bandwidth` was measured.
    pub(super) fn lesson(&self, bandwidth: BytesPerSec, saturated: bool) -> Option<Lesson> {
        let (peak, _) = self.machine?;
        Some(Lesson {
            overload: self.overload?,
            peak,
            bandwidth,
            saturated,
            alone: self.members.len() == 1,
        })
    }
}

/// What the jobs require together, over the peak.
fn overload(members: &[Member], peak: BytesPerSec) -> f64 {
    members.iter().map(|job| job.demand.0).sum::<f64>() / peak.0
}

/// What the jobs get done together per second, in seconds of the machine.
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
