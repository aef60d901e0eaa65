//! What a policy sees and what it answers.

use memweir_core::{BytesPerSec, JobId, Nanos};

use crate::ebw::TrafficRates;
use crate::scheduler::Bus;

/// A job that may run in the next quantum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The job.
    pub job: JobId,
    /// Cores that it occupies while it runs; at least one.
    pub cores: u32,
    /// Bandwidth that it is predicted to require in the next quantum, over all of its cores;
    /// finite and not negative.
    pub demand: BytesPerSec,
    /// Its estimated execution time (`T_j` of iabw section 3.3), if known.
    pub expected_time: Option<Nanos>,
    /// The same demand by medium and direction, divided as its latest traffic was; reads from the
    /// local DRAM as long as nothing was seen of it.
    pub traffic: TrafficRates,
    /// CPU time that it has used so far, on all of its cores.
    pub executed: Nanos,
}

impl Candidate {
    /// Its demand for each of its cores, the `BW_required` of iabw eq. (2).
    #[must_use]
    pub fn demand_per_core(&self) -> BytesPerSec {
        self.demand / f64::from(self.cores)
    }

    /// Sets what is assumed of a job that nothing is known of.
    pub(crate) fn assume(&mut self, demand: BytesPerSec) {
        self.demand = demand;
        self.traffic = self.traffic.scaled_to(demand);
    }
}

/// The state of the machine when a quantum is about to start.
///
/// The head of the run queue has been chosen already (iabw section 4.1, step 3): its cores and its
/// demand are committed and it is not in `queue`, so no policy can starve a job.
#[derive(Clone, Copy, Debug)]
pub struct QuantumView<'a> {
    /// Number of the quantum, from zero.
    pub quantum: u64,
    /// Cores still free: those of the machine less those of the head, or of the jobs that run on
    /// in mid-quantum (see [`crate::QuantumScheduler::backfill`]). May be zero.
    pub cores: u32,
    /// Predicted bandwidth of the head, or of the jobs that run on.
    pub committed: BytesPerSec,
    /// Whose that is, in the order of choice: the head, or the jobs that run on. Empty if nobody
    /// could be chosen.
    pub running: &'a [Candidate],
    /// The waiting jobs in the order of the run queue. May be empty.
    pub queue: &'a [Candidate],
    /// The memory bus, as calibrated.
    pub bus: Bus,
    /// The highest bandwidth of the system in any quantum so far; zero before the first.
    pub highest_observed: BytesPerSec,
    /// Ideal average bandwidth of the jobs of the batch, iabw eq. (10); `None` as long as nothing
    /// is known of any job's bandwidth.
    pub ideal_average: Option<BytesPerSec>,
}

/// What becomes of the jobs that a policy does not choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// They are blocked until they are chosen.
    Unchosen,
    /// Nobody is ever blocked, and [`Policy::select`] is not asked for jobs: the operating system
    /// schedules.
    Nobody,
}

/// A scheduling policy. It owns whatever memory it needs.
///
/// The crate's front page shows one being written and run.
pub trait Policy: Send {
    /// Chooses jobs to run next to those committed, as indices into `view.queue`, in the order
    /// of choice. `chosen` is empty at the call.
    ///
    /// The cores of the chosen jobs must fit into `view.cores`; an index that does not fit, is out
    /// of range, or comes twice is passed over. Called once per quantum even when there is nothing
    /// to choose, and again whenever a core falls free in mid-quantum.
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>);

    /// The scheduling bandwidth target that the last selection aimed at, for reports.
    fn target(&self) -> Option<BytesPerSec> {
        None
    }

    /// Why the `nth` job of the last selection was chosen, as a clause for people.
    fn reason(&self, nth: usize) -> Option<&'static str> {
        let _ = nth;
        None
    }

    /// Whether jobs that are not chosen are blocked.
    fn blocking(&self) -> Blocking {
        Blocking::Unchosen
    }
}
