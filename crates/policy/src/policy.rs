//! Input and output of a policy.

use std::collections::HashSet;

use memweir_core::words::counted;
use memweir_core::{BytesPerSec, JobId, Nanos, Priority};
use serde::{Deserialize, Serialize};

use crate::ebw::TrafficRates;
use crate::scheduler::Bus;
use crate::speed::SpeedModel;

/// A job that may run in the next quantum. In JSON, times are in nanoseconds and say so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The job.
    pub job: JobId,
    /// Cores that it occupies while it runs; at least one.
    pub cores: u32,
    /// Predicted bandwidth of the job in the next quantum, over all of its cores; finite and not
    /// negative.
    pub demand: BytesPerSec,
    /// Its estimated execution time (`T_j` of iabw section 3.3), if known.
    #[serde(rename = "expected_time_ns")]
    pub expected_time: Option<Nanos>,
    /// The same demand by medium and direction, divided in the proportion of the job's latest
    /// traffic; reads from the local DRAM until traffic has been observed.
    pub traffic: TrafficRates,
    /// CPU time that it has used so far, on all of its cores.
    #[serde(rename = "executed_ns")]
    pub executed: Nanos,
    /// Completed work, as the time that it would have taken alone. Of a job that waits much for
    /// memory and whose mean bandwidth is known, its traffic so far over that bandwidth; of others
    /// the time in which they had cores, each quantum times their speed by the [`SpeedModel`], and
    /// the time for which they slept.
    #[serde(rename = "progress_ns")]
    pub progress: Nanos,
    /// Time since it was submitted.
    #[serde(rename = "age_ns")]
    pub age: Nanos,
    /// Its priority.
    pub priority: Priority,
}

impl Candidate {
    /// Creates a job on one core of which nothing is known but its demand, which is taken for reads
    /// from the local DRAM.
    #[must_use]
    pub fn new(job: JobId, demand: BytesPerSec) -> Self {
        Self {
            job,
            cores: 1,
            demand,
            expected_time: None,
            traffic: TrafficRates::local_reads(demand),
            executed: Nanos::ZERO,
            progress: Nanos::ZERO,
            age: Nanos::ZERO,
            priority: Priority::default(),
        }
    }

    /// Returns the job's demand for each of its cores, the `BW_required` of iabw eq. (2).
    #[must_use]
    pub fn demand_per_core(&self) -> BytesPerSec {
        self.demand / f64::from(self.cores)
    }

    /// Sets the assumed demand of a job without observations.
    pub(crate) fn assume(&mut self, demand: BytesPerSec) {
        self.demand = demand;
        self.traffic = self.traffic.scaled_to(demand);
    }
}

/// The state of the machine when a quantum is about to start.
///
/// The head of the run queue has already been chosen (iabw section 4.1, step 3): its cores and its
/// demand are committed and it is not in `queue`, so no policy can starve a job.
#[derive(Clone, Copy)]
pub struct QuantumView<'a> {
    /// Number of quanta that have begun; a call in mid-quantum counts that one, too.
    pub quantum: u64,
    /// Free cores: those of the machine less those of the head, or of the jobs that keep running in
    /// mid-quantum (see [`crate::QuantumScheduler::backfill`]). May be zero.
    pub cores: u32,
    /// Predicted bandwidth of the head, or of the jobs that keep running.
    pub committed: BytesPerSec,
    /// Jobs that account for the committed bandwidth, in the order of choice: the head, or the jobs
    /// that keep running. Empty if no job could be chosen.
    pub running: &'a [Candidate],
    /// The waiting jobs in the order of the run queue. May be empty.
    pub queue: &'a [Candidate],
    /// The memory bus, as calibrated.
    pub bus: Bus,
    /// The highest bandwidth of the system in any quantum so far; zero before the first.
    pub highest_observed: BytesPerSec,
    /// The batch as a whole.
    pub batch: &'a dyn Batch,
    /// Speeds of jobs beside each other on this machine.
    pub speeds: &'a SpeedModel,
}

impl QuantumView<'_> {
    /// Returns the places in `queue` of jobs that a policy outside of this program has chosen.
    ///
    /// # Errors
    /// If a job is not waiting, is chosen twice, or if they do not fit the free cores. Policies of
    /// the table may be lax, see [`Policy::select`]; a policy of a user learns of its mistake.
    pub fn places(&self, chosen: &[JobId]) -> Result<Vec<usize>, ImpossibleChoice> {
        let (mut places, mut taken, mut cores) = (Vec::new(), HashSet::new(), 0u32);
        for job in chosen.iter().copied() {
            let place = self.queue.iter().position(|waiting| waiting.job == job);
            let waiting = || self.queue.iter().map(|waiting| waiting.job).collect();
            let place =
                place.ok_or_else(|| ImpossibleChoice::NotWaiting { job, waiting: waiting() })?;
            if !taken.insert(place) {
                return Err(ImpossibleChoice::Twice(job));
            }
            cores = cores.saturating_add(self.queue[place].cores);
            places.push(place);
        }
        if cores > self.cores {
            return Err(ImpossibleChoice::TooWide { cores, free: self.cores });
        }
        Ok(places)
    }
}

/// A choice that no policy can make. The texts follow the name of the one who chose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleChoice {
    /// A job that does not wait.
    #[error("chose job {job}, which is not waiting; waiting: {}", listed(waiting))]
    NotWaiting {
        /// The job.
        job: JobId,
        /// The jobs that wait.
        waiting: Vec<JobId>,
    },
    /// A job that is chosen already.
    #[error("chose job {0} twice")]
    Twice(JobId),
    /// Jobs for more cores than are free.
    #[error(
        "chose jobs for {}; {free} {} free",
        counted((*cores).into(), "core"),
        if *free == 1 { "is" } else { "are" }
    )]
    TooWide {
        /// Cores of the chosen jobs.
        cores: u32,
        /// Free cores.
        free: u32,
    },
}

fn listed(jobs: &[JobId]) -> String {
    match jobs {
        [] => "none".to_owned(),
        jobs => jobs.iter().map(JobId::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Figures of a batch as a whole. They take a pass over all jobs, so they are computed only for the
/// policies that ask.
pub trait Batch {
    /// Returns the ideal average bandwidth of the rest of the batch, iabw eq. (10); `None` as long
    /// as no job's bandwidth is known.
    fn ideal_average(&self) -> Option<BytesPerSec>;
}

/// A batch of which nothing else is known.
impl Batch for Option<BytesPerSec> {
    fn ideal_average(&self) -> Option<BytesPerSec> {
        *self
    }
}

/// Treatment of the jobs that a policy does not choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// They stay blocked until they are chosen.
    Unchosen,
    /// No job is ever blocked, and [`Policy::select`] is not called: the operating system
    /// schedules.
    Nobody,
}

/// Use of what a job draws while the bus is saturated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSaturation {
    /// It is discarded, since it does not show the job's demand (iabw section 4.2).
    Discard,
    /// It corrects a prediction that is lower: the job demands at least what it draws. Without
    /// that, a job that was seen at rest and fills the bus ever since counts as at rest.
    RaiseDemand,
}

/// A scheduling policy. It owns all memory that it needs.
///
/// The crate's front page shows how to write and run one.
pub trait Policy: Send {
    /// Chooses jobs to run next to those committed, as indices into `view.queue`, in the order of
    /// choice. `chosen` is empty at the call.
    ///
    /// The cores of the chosen jobs must fit into `view.cores`; an index that does not fit, is out
    /// of range, or is repeated is skipped. Called once per quantum even when no job is waiting,
    /// and again whenever a core falls idle in mid-quantum.
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>);

    /// Returns the scheduling bandwidth target of the last selection, for reports.
    fn target(&self) -> Option<BytesPerSec> {
        None
    }

    /// Returns the reason for the `nth` job of the last selection, as a clause for people.
    fn reason(&self, nth: usize) -> Option<&'static str> {
        let _ = nth;
        None
    }

    /// Returns the treatment of jobs that are not chosen.
    fn blocking(&self) -> Blocking {
        Blocking::Unchosen
    }

    /// Returns the use of what jobs draw while the bus is saturated.
    fn on_saturation(&self) -> OnSaturation {
        OnSaturation::Discard
    }
}
