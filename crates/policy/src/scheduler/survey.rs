//! One pass over the batch before a decision: the waiting jobs, the demand of each job, and the
//! assumptions for unknown figures.

use memweir_core::{BytesPerSec, Nanos};

use super::job::{Job, Placement};
use super::table::{JobTable, Slot};
use crate::iabw::{Requirement, ideal_average_bandwidth};
use crate::policy::{Batch, Candidate};

/// Length of a job in a batch in which no length is known. Only the ratio of two jobs' lengths
/// matters to the ideal average bandwidth, and here all are equal.
const UNKNOWN_TIME: Nanos = Nanos::from_millis(1000);

/// Result of one pass over the jobs. Kept between decisions for its buffers.
#[derive(Default)]
pub(super) struct Survey {
    /// Waiting jobs, in the order of the queue.
    pub(super) waiting: Vec<Slot>,
    /// The same jobs as a policy sees them.
    pub(super) candidates: Vec<Candidate>,
    /// Running jobs, as a policy sees them, in the order of choice.
    pub(super) running: Vec<Candidate>,
    /// Assumed demand of a job of unknown demand: the mean of the others.
    pub(super) unknown_demand: BytesPerSec,
    /// Places of the candidates whose demand is unknown, which is filled in after the pass.
    unknown: Vec<usize>,
}

impl Survey {
    /// Surveys all jobs: those awake, and those asleep, which are no candidates.
    pub(super) fn take(&mut self, batch: &WholeBatch<'_>, now: Nanos) {
        self.running.clear();
        self.waiting.clear();
        self.candidates.clear();
        self.unknown.clear();
        let mut demands = Mean::default();
        for slot in batch.slots() {
            let job = &batch.jobs[*slot];
            let demand = job.demand();
            demands.add(demand.map(|rate| rate.0));
            if job.placement == Placement::Waiting {
                if demand.is_none() {
                    self.unknown.push(self.candidates.len());
                }
                self.waiting.push(*slot);
                self.candidates.push(job.candidate(now));
            }
        }
        self.unknown_demand = demands.rate();
        for place in &self.unknown {
            self.candidates[*place].assume(self.unknown_demand);
        }
    }

    /// Adds a job to the running ones.
    pub(super) fn run(&mut self, job: &Job, now: Nanos) {
        self.running.push(job.candidate_with(now, self.unknown_demand));
    }
}

/// All jobs of a batch: those awake, and those asleep, which will require memory again.
#[derive(Clone, Copy)]
pub(super) struct WholeBatch<'a> {
    jobs: &'a JobTable,
    awake: &'a [Slot],
    asleep: &'a [Slot],
    cores: u32,
}

impl<'a> WholeBatch<'a> {
    /// Creates the batch for a machine with this many cores.
    pub(super) fn new(
        jobs: &'a JobTable,
        awake: &'a [Slot],
        asleep: &'a [Slot],
        cores: u32,
    ) -> Self {
        Self { jobs, awake, asleep, cores }
    }

    fn slots(&self) -> impl Iterator<Item = &'a Slot> + Clone {
        self.awake.iter().chain(self.asleep)
    }

    /// Returns the assumed demand of a job of unknown demand: the mean of the others.
    pub(super) fn mean_demand(&self) -> BytesPerSec {
        let mut demands = Mean::default();
        self.slots().for_each(|slot| demands.add(self.jobs[*slot].demand().map(|rate| rate.0)));
        demands.rate()
    }
}

impl Batch for WholeBatch<'_> {
    fn ideal_average(&self) -> Option<BytesPerSec> {
        let jobs = self.slots().map(|slot| &self.jobs[*slot]);
        let (mut times, mut bandwidths) = <(Mean, Mean)>::default();
        for job in jobs.clone() {
            times.add(job.remaining_time().map(Nanos::as_f64));
            bandwidths.add(job.mean_bandwidth().map(|rate| rate.0));
        }
        let bandwidth = BytesPerSec(bandwidths.value()?);
        let time = times.value().map_or(UNKNOWN_TIME, |nanos| Nanos(nanos as u64));
        let requirement = |job: &Job| Requirement {
            time: job.remaining_time().unwrap_or(time),
            bandwidth: job.mean_bandwidth().unwrap_or(bandwidth),
            cores: job.spec.cores,
        };
        let requirements: Vec<_> = jobs.map(requirement).collect();
        Some(ideal_average_bandwidth(&requirements, self.cores))
    }
}

/// Accumulator of a mean.
#[derive(Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }

    fn rate(&self) -> BytesPerSec {
        self.value().map_or(BytesPerSec::ZERO, BytesPerSec)
    }
}
