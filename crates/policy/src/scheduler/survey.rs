//! One pass over the batch before a decision: the waiting jobs, the demand of each job, the
//! requirements of the batch as a whole, and the assumptions for unknown figures.

use memweir_core::{BytesPerSec, Nanos};

use super::job::{Job, Placement};
use super::table::{JobTable, Slot};
use crate::iabw::{Estimator, Requirement};
use crate::policy::Candidate;

/// Length of a job in a batch in which no length is known. Only the ratio of two jobs' lengths
/// matters to the ideal average bandwidth, and here all are equal.
const UNKNOWN_TIME: Nanos = Nanos::from_millis(1000);

/// Circumstances of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Time since the first quantum.
    pub(super) now: Nanos,
    /// Cores of the machine.
    pub(super) cores: u32,
}

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
    /// iabw eq. (10); `None` if no job's bandwidth is known.
    pub(super) ideal_average: Option<BytesPerSec>,
    requirements: Vec<Requirement>,
    estimator: Estimator,
    unknown: Unknown,
}

/// Places whose figure is unknown and is filled in after the pass.
#[derive(Default)]
struct Unknown {
    demands: Vec<usize>,
    times: Vec<usize>,
    bandwidths: Vec<usize>,
}

impl Survey {
    /// Surveys all jobs: those awake, and those asleep, which are no candidates but will require
    /// memory again.
    pub(super) fn take(&mut self, jobs: &JobTable, awake: &[Slot], asleep: &[Slot], at: Moment) {
        self.clear();
        let (mut demands, mut times, mut bandwidths) = <(Mean, Mean, Mean)>::default();
        for slot in awake.iter().chain(asleep) {
            let job = &jobs[*slot];
            let demand = job.demand();
            demands.add(demand.map(|rate| rate.0));
            if job.placement == Placement::Waiting {
                note_unknown(&mut self.unknown.demands, demand, self.candidates.len());
                self.waiting.push(*slot);
                self.candidates.push(job.candidate(at.now));
            }
            let (time, bandwidth) = (job.remaining_time(), job.mean_bandwidth());
            times.add(time.map(Nanos::as_f64));
            bandwidths.add(bandwidth.map(|rate| rate.0));
            note_unknown(&mut self.unknown.times, time, self.requirements.len());
            note_unknown(&mut self.unknown.bandwidths, bandwidth, self.requirements.len());
            self.requirements.push(Requirement {
                time: time.unwrap_or_default(),
                bandwidth: bandwidth.unwrap_or_default(),
                cores: job.spec.cores,
            });
        }
        self.unknown_demand = demands.value().map_or(BytesPerSec::ZERO, BytesPerSec);
        for place in &self.unknown.demands {
            self.candidates[*place].assume(self.unknown_demand);
        }
        let time = times.value().map_or(UNKNOWN_TIME, |nanos| Nanos(nanos as u64));
        self.ideal_average = bandwidths
            .value()
            .map(|bandwidth| self.ideal_average(time, BytesPerSec(bandwidth), at.cores));
    }

    /// Adds a job to the running ones.
    pub(super) fn run(&mut self, job: &Job, now: Nanos) {
        self.running.push(job.candidate_with(now, self.unknown_demand));
    }

    fn clear(&mut self) {
        self.running.clear();
        self.waiting.clear();
        self.candidates.clear();
        self.requirements.clear();
        self.unknown.demands.clear();
        self.unknown.times.clear();
        self.unknown.bandwidths.clear();
    }

    /// Computes iabw eq. (10), with these figures for the jobs whose own are unknown.
    fn ideal_average(&mut self, time: Nanos, bandwidth: BytesPerSec, cores: u32) -> BytesPerSec {
        for place in &self.unknown.times {
            self.requirements[*place].time = time;
        }
        for place in &self.unknown.bandwidths {
            self.requirements[*place].bandwidth = bandwidth;
        }
        self.estimator.ideal_average_bandwidth(&self.requirements, cores)
    }
}

fn note_unknown<T>(places: &mut Vec<usize>, figure: Option<T>, place: usize) {
    if figure.is_none() {
        places.push(place);
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
}
