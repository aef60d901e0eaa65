//! The speed of a job beside the other jobs of a quantum.
//!
//! A job at full speed draws its demand from each medium and waits for memory during a part of its
//! time, its *memory-bound share* of that medium. Jobs that run together stretch the accesses to a
//! medium by one factor for all of them, and only the memory-bound part of a job's time stretches:
//!
//! ```text
//! speed of job j     r_j = 1 / (1 + sum over media m of  share_jm x_m)
//! excess latency     x_m = s_m + h_m / (1 + s_m / (2 h_m)),  h_m = loss u_m^4
//! queueing           s_m >= 0, zero below the peak; above it such that the jobs draw the peak:
//!                          sum over jobs j of  d_jm / (1 + sum over m of  share_jm s_m) = peak_m
//! utilization        u_m = min(1, sum over jobs j of  d_jm / peak_m)
//! ```
//!
//! The demand `d_jm` on a medium whose lines occupy it for longer than at its peak, writes of NVM
//! above all, counts each line by its cost.
//!
//! The term with the loss is the cost `h_m` of bursts that collide before the medium is full. It
//! fades as jobs queue: a medium for which jobs wait all of the time carries its peak, however they
//! burst. The loss, and what a core can draw at most, are those of a calibrated bus; where nothing
//! is calibrated, constants that were chosen once, on training mixes that `docs/policies.md` names.

mod queueing;

use memweir_core::{BytesPerSec, MAX_MEDIA, MediumId};
use serde::{Deserialize, Serialize};

use queueing::queueing;

use crate::policy::Candidate;
use crate::scheduler::{LineCosts, SchedulerConfig};

/// Latency that a medium that is just full adds to an access by bursts that collide, over the idle
/// latency, on a bus that is not calibrated.
const LOSS: f64 = 0.25;

/// Least loss of a calibrated bus. Without any, the loss could not fade.
const LEAST_LOSS: f64 = 0.01;

/// Demand of a core, over the peak divided by the cores, at which it waits for memory all of the
/// time, on a bus that is not calibrated. A single core of the machines at hand draws about twice
/// its equal part of the peak.
const FULL_DRAW: f64 = 2.2;

/// Least peak per core that is assumed where none is calibrated. A server of 64 cores with a single
/// channel of DDR4 has more. Without it, jobs that hardly move memory would seem to contend as soon
/// as they move as much as ever before.
const LEAST_PEAK_PER_CORE: BytesPerSec = BytesPerSec(250e6);

/// Requirements of one job at full speed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Demand on each medium over its peak.
    pub utilization: [f64; MAX_MEDIA],
    /// Part of the job's time that it waits for each medium; together at most 1.
    pub share: [f64; MAX_MEDIA],
}

impl Load {
    /// Returns the job's speed at this contention, over its speed alone: in (0, 1].
    #[must_use]
    pub fn speed(&self, contention: &Contention) -> f64 {
        self.speed_on::<MAX_MEDIA>(contention)
    }

    /// Returns the same on a machine of `M` media, in less time where these are few.
    pub(crate) fn speed_on<const M: usize>(&self, contention: &Contention) -> f64 {
        speed_at::<M>(self, &contention.excess)
    }
}

/// Contention among the jobs of a quantum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contention {
    /// Excess latency `x_m` of each medium, over its idle latency.
    pub excess: [f64; MAX_MEDIA],
    /// Queueing `s_m`, the part of it that keeps the traffic at the peak.
    pub queueing: [f64; MAX_MEDIA],
    /// Total demand on each medium over its peak; above 1 on a saturated medium.
    pub utilization: [f64; MAX_MEDIA],
}

/// Speeds of jobs that share the memory of one machine. In JSON, it is its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Parameters", try_from = "Parameters")]
pub struct SpeedModel {
    /// Peak of each medium in bytes per second; infinite where none is known.
    peaks: [f64; MAX_MEDIA],
    /// Costs of lines of each medium.
    costs: [LineCosts; MAX_MEDIA],
    /// Media that are told apart: with one, all of a job's demand is on it.
    media: usize,
    /// Read latency of each medium over that of the local DRAM.
    latencies: [f64; MAX_MEDIA],
    /// Cores that share the peaks. The highest bandwidth seen is that of the batch's own.
    cores: f64,
    /// Demand of a core that waits for memory all of the time, over its equal part of the peak.
    full_draw: f64,
    /// Latency that a medium that is just full adds to an access by bursts, over its idle latency.
    loss: f64,
    /// True if the only peak is the highest bandwidth seen so far.
    observed: bool,
}

impl SpeedModel {
    /// Creates the model of a machine from its calibrated peaks.
    #[must_use]
    pub fn new(config: &SchedulerConfig) -> Self {
        let known = |peak: Option<BytesPerSec>| {
            peak.map(|peak| peak.0).filter(|peak| *peak > 0.0).unwrap_or(f64::INFINITY)
        };
        let told_apart = config.media.len() > 1 && config.medium_peaks.iter().any(Option::is_some);
        let (peaks, media) = if told_apart {
            (config.medium_peaks.map(known), config.media.len())
        } else {
            let mut peaks = [f64::INFINITY; MAX_MEDIA];
            peaks[0] = known(config.bus.peak);
            (peaks, 1)
        };
        let observed = media == 1 && peaks[0].is_infinite();
        let sharing = config.machine_cores.filter(|_| !observed).unwrap_or_default();
        let cores = f64::from(sharing.max(config.cores).max(1));
        let latencies = MediumId::ALL.map(|medium| config.media.gamma(medium));
        let of_core = config.bus.core.zip(config.bus.peak).filter(|(_, peak)| peak.0 > 0.0);
        let full_draw = of_core.map_or(FULL_DRAW, |(core, peak)| core.0 * cores / peak.0);
        let loss = config.bus.loss.map_or(LOSS, |loss| loss.max(LEAST_LOSS));
        let costs = config.line_costs;
        Self { peaks, costs, media, latencies, cores, full_draw, loss, observed }
    }

    /// Returns the number of media that are told apart.
    pub(crate) fn media(&self) -> usize {
        self.media
    }

    /// Takes the highest bandwidth of the system so far for the peak, where none is calibrated and
    /// unless it is less than any machine can move.
    pub(crate) fn observe(&mut self, highest: BytesPerSec) {
        if self.observed && highest.0 > 0.0 {
            self.peaks[0] = highest.0.max(self.cores * LEAST_PEAK_PER_CORE.0);
        }
    }

    /// Returns the requirements of a job.
    #[must_use]
    pub fn load(&self, job: &Candidate) -> Load {
        let mut load = Load::default();
        let per_full_draw = self.cores / self.full_draw;
        for medium in 0..self.media {
            load.utilization[medium] = self.demand(job, medium) / self.peaks[medium];
            // Nearly all jobs have one core, and a division takes long.
            let per_core = match job.cores {
                1 => load.utilization[medium],
                cores => load.utilization[medium] / f64::from(cores),
            };
            load.share[medium] = (per_core * per_full_draw).min(1.0);
        }
        if self.media > 1 {
            let total: f64 = load.share.iter().sum();
            if total > 1.0 {
                load.share = load.share.map(|share| share / total);
            }
        }
        load
    }

    /// Returns a job's time alone over the time that it would take with all of its data in the
    /// local DRAM; 1 where no media are told apart.
    ///
    /// From a medium of twice the latency, a core that waits all of the time draws half as much.
    #[must_use]
    pub fn stretch(&self, job: &Candidate) -> f64 {
        if self.media == 1 || self.peaks[0].is_infinite() {
            return 1.0;
        }
        let full_draw = self.full_draw * self.peaks[0] / self.cores * f64::from(job.cores);
        let (mut waiting, mut by_latency) = (0.0, 0.0);
        for (medium, latency) in self.latencies[..self.media].iter().enumerate() {
            let lines = self.demand(job, medium) / full_draw;
            waiting += lines * latency;
            by_latency += lines * (latency - 1.0);
        }
        1.0 / (1.0 - by_latency / waiting.max(1.0))
    }

    /// Returns a job's demand on a medium, each line counted by its cost.
    fn demand(&self, job: &Candidate, medium: usize) -> f64 {
        let costs = self.costs[medium];
        let by_cost = |of: usize| {
            let rates = job.traffic.0[of];
            rates.reads.0 * costs.read + rates.writes.0 * costs.write
        };
        match self.media {
            1 if costs == LineCosts::default() => job.demand.0,
            1 => (0..MAX_MEDIA).map(by_cost).sum(),
            _ => by_cost(medium),
        }
    }

    /// Returns the contention among jobs with these requirements.
    #[must_use]
    pub fn contention<'a>(&self, jobs: impl Iterator<Item = &'a Load> + Clone) -> Contention {
        match self.media {
            1 => self.contention_on::<1>(jobs),
            2 => self.contention_on::<2>(jobs),
            3 => self.contention_on::<3>(jobs),
            _ => self.contention_on::<MAX_MEDIA>(jobs),
        }
    }

    fn contention_on<'a, const M: usize>(
        &self,
        jobs: impl Iterator<Item = &'a Load> + Clone,
    ) -> Contention {
        let mut found = Contention::default();
        for load in jobs.clone() {
            for medium in 0..M {
                found.utilization[medium] += load.utilization[medium];
            }
        }
        // Below every peak, which is most often, nothing queues.
        if found.utilization.iter().any(|utilization| *utilization > 1.0) {
            found.queueing = queueing::<M>(jobs);
        }
        for medium in 0..M {
            let lost = self.loss * found.utilization[medium].min(1.0).powi(4);
            let queueing = found.queueing[medium];
            found.excess[medium] = queueing + lost / self.fading(queueing);
        }
        found
    }

    /// Returns, for each medium, the weighted speed that jobs lose per unit of further utilization:
    /// the derivative of `sum w_j r_j`, with its sign changed. The traffic of a medium that is at
    /// its peak can only take the place of other traffic.
    #[must_use]
    pub fn damage<'a>(
        &self,
        jobs: impl Iterator<Item = (&'a Load, f64)>,
        contention: &Contention,
    ) -> [f64; MAX_MEDIA] {
        // Weighted speed that is lost per unit of excess latency, and traffic per unit of queueing,
        // which alone keeps it at the peak.
        let (mut value, mut traffic) = ([0.0; MAX_MEDIA], [0.0; MAX_MEDIA]);
        for (load, weight) in jobs {
            let speed = load.speed(contention);
            let queued = speed_at::<MAX_MEDIA>(load, &contention.queueing);
            for medium in 0..self.media {
                let share = load.share[medium];
                value[medium] += weight * share * speed * speed;
                traffic[medium] += load.utilization[medium] * share * queued * queued;
            }
        }
        let mut damage = [0.0; MAX_MEDIA];
        for medium in 0..self.media {
            let utilization = contention.utilization[medium];
            damage[medium] = if utilization >= 1.0 && traffic[medium] > 0.0 {
                let fading = self.fading(contention.queueing[medium]);
                let excess = 1.0 - 0.5 / (fading * fading);
                excess * value[medium] / traffic[medium]
            } else {
                4.0 * self.loss * utilization.min(1.0).powi(3) * value[medium]
            };
        }
        damage
    }

    /// Returns the factor by which the cost of bursts is smaller at this queueing than without any.
    /// Only full media queue, at the full cost; at twice that queueing half of it has faded.
    fn fading(&self, queueing: f64) -> f64 {
        1.0 + queueing / (2.0 * self.loss)
    }
}

/// Parameters of a [`SpeedModel`] in JSON, which has no infinity.
#[derive(Serialize, Deserialize)]
struct Parameters {
    /// Peak of each medium that is told apart; absent where none is known.
    peaks: Vec<Option<f64>>,
    /// Costs of its lines; where they are left out, all lines cost alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    costs: Vec<LineCosts>,
    /// Read latencies over that of the local DRAM; where they are left out, all are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    latencies: Vec<f64>,
    cores: f64,
    /// Where these are left out, they are those of a bus that is not calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    full_draw: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    observed: bool,
}

impl From<SpeedModel> for Parameters {
    fn from(model: SpeedModel) -> Self {
        let SpeedModel { peaks, costs, media, latencies, cores, full_draw, loss, observed } = model;
        let known = |peak: &f64| peak.is_finite().then_some(*peak);
        Self {
            peaks: peaks[..media].iter().map(known).collect(),
            costs: unless_all(LineCosts::default(), &costs[..media]),
            latencies: unless_all(1.0, &latencies[..media]),
            cores,
            full_draw: Some(full_draw).filter(|draw| *draw != FULL_DRAW),
            loss: Some(loss).filter(|loss| *loss != LOSS),
            observed,
        }
    }
}

/// Returns the values, or none if all are the default.
fn unless_all<T: Copy + PartialEq>(default: T, values: &[T]) -> Vec<T> {
    match values.iter().all(|value| *value == default) {
        true => Vec::new(),
        false => values.to_vec(),
    }
}

impl TryFrom<Parameters> for SpeedModel {
    type Error = String;

    fn try_from(parameters: Parameters) -> Result<Self, String> {
        let Parameters { peaks: given, costs: dear, latencies: slow, cores, .. } = parameters;
        let (full_draw, loss) =
            (parameters.full_draw.unwrap_or(FULL_DRAW), parameters.loss.unwrap_or(LOSS));
        if !(full_draw > 0.0 && loss > 0.0) {
            return Err(format!("a full draw of {full_draw}, and a loss of {loss}"));
        }
        let media = given.len();
        if !(1..=MAX_MEDIA).contains(&media) {
            return Err(format!("{media} peaks, and not from 1 to {MAX_MEDIA}"));
        }
        for (figures, count) in [("costs", dear.len()), ("latencies", slow.len())] {
            if ![0, media].contains(&count) {
                return Err(format!("{figures} of {count} media, and peaks of {media}"));
            }
        }
        let mut peaks = [f64::INFINITY; MAX_MEDIA];
        for (peak, given) in peaks.iter_mut().zip(&given) {
            *peak = given.unwrap_or(f64::INFINITY);
        }
        let mut costs = [LineCosts::default(); MAX_MEDIA];
        costs[..dear.len()].copy_from_slice(&dear);
        let mut latencies = [1.0; MAX_MEDIA];
        latencies[..slow.len()].copy_from_slice(&slow);
        let observed = parameters.observed;
        Ok(Self { peaks, costs, media, latencies, cores, full_draw, loss, observed })
    }
}

/// Returns a job's speed at this latency of each of `M` media beyond its idle latency.
fn speed_at<const M: usize>(load: &Load, latency: &[f64; MAX_MEDIA]) -> f64 {
    let waiting: f64 = (0..M).map(|medium| load.share[medium] * latency[medium]).sum();
    1.0 / (1.0 + waiting)
}

#[cfg(test)]
mod tests;
