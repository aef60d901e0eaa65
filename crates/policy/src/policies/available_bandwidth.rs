//! `available-bandwidth`: the baseline of hmmsched section IV-B, which does not distinguish media.

use std::cmp::Ordering;

use memweir_core::BytesPerSec;
use memweir_core::medium::MediumKind;

use crate::ebw::{EffectiveBandwidth, Translation, Weights};
use crate::policy::{Candidate, Policy, QuantumView};
use crate::scheduler::SchedulerConfig;

/// Gives each free core to the job whose bandwidth comes nearest to what is available without
/// exceeding it.
///
/// ```text
/// BW          ~ number of memory transactions / unit time               hmmsched eq. (1)
/// BW_Avail    = BW_Peak - BW_Occ                                        hmmsched eq. (2)
/// BW_Avail    = (BW_D,Avail, BW_NV,Avail)                               hmmsched eq. (3)
/// BW_D,Avail  = BW_D,Peak - BW_D,Occ                                    hmmsched eq. (4)
/// BW_NV,Avail = (BW_NV,Peak(R) + BW_NV,Peak(W)) - (BW_NV,Occ(R) + BW_NV,Occ(W))    eq. (5)
/// ```
///
/// Every transaction counts as one, whatever its cost in memory, which is hmmsched's objection to
/// the policy. Where the peaks of both kinds of memory are known, eq. (3)-(5) hold: a job fits if
/// it fits on both sides, and its use is the sum of its shares of both peaks. Otherwise eq. (2)
/// holds, for all transactions together; an unknown peak is estimated as by
/// [`PeakBandwidth`](super::PeakBandwidth).
///
/// Unlike the fitness of iabw eq. (2), which divides the remaining bandwidth by the remaining
/// cores, this policy fills one core after another with the largest job that fits. When no job fits
/// any more, the remaining cores get the jobs with the smallest use. Among equals the order of the
/// queue decides.
#[derive(Clone, Debug)]
pub struct AvailableBandwidth {
    counts: Weights,
    peaks: Option<EffectiveBandwidth>,
    target: Option<BytesPerSec>,
    /// The waiting jobs, in the order in which they are tried.
    order: Vec<Use>,
}

/// Bandwidth that a waiting job would use, as shares of the peaks.
#[derive(Clone, Copy, Debug)]
struct Use {
    dram: f64,
    nvm: f64,
    cores: u32,
    place: usize,
    chosen: bool,
}

impl Use {
    fn total(&self) -> f64 {
        self.dram + self.nvm
    }

    fn largest_first(left: &Self, right: &Self) -> Ordering {
        right.total().total_cmp(&left.total()).then(left.place.cmp(&right.place))
    }

    fn smallest_first(left: &Self, right: &Self) -> Ordering {
        left.total().total_cmp(&right.total()).then(left.place.cmp(&right.place))
    }
}

impl AvailableBandwidth {
    /// Creates the policy for the machine of `config`.
    #[must_use]
    pub fn new(config: &SchedulerConfig) -> Self {
        Self {
            counts: Weights::new(&config.media, Translation::Counts),
            peaks: peaks(config),
            target: None,
            order: Vec::new(),
        }
    }

    /// Returns the bandwidth that `job` at this place would use.
    fn job_use(&self, peaks: EffectiveBandwidth, place: usize, job: &Candidate) -> Use {
        let share = |rate: BytesPerSec, peak: BytesPerSec| rate.0 / peak.0.max(1.0);
        let (dram, nvm) = match self.peaks {
            Some(_) => {
                let counts = self.counts.effective_bandwidth(&job.traffic);
                (share(counts.dram, peaks.dram), share(counts.nvm, peaks.nvm))
            }
            None => (share(job.demand, peaks.dram), 0.0),
        };
        Use { dram, nvm, cores: job.cores, place, chosen: false }
    }
}

impl Policy for AvailableBandwidth {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let peaks = self.peaks.unwrap_or_else(|| one_peak(view));
        self.target = Some(peaks.total());
        let mut left = Left { cores: view.cores, dram: 1.0, nvm: 1.0 };
        for job in view.running {
            let occupied = self.job_use(peaks, 0, job);
            (left.dram, left.nvm) = (left.dram - occupied.dram, left.nvm - occupied.nvm);
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(view.queue.iter().zip(0..).map(|(job, at)| self.job_use(peaks, at, job)));
        left.take(&mut order, Left::fits, Use::largest_first, chosen);
        left.take(&mut order, Left::has_cores, Use::smallest_first, chosen);
        self.order = order;
    }

    fn target(&self) -> Option<BytesPerSec> {
        self.target
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("nearest to what is available")
    }
}

/// Available cores, and available bandwidth as shares of the peaks.
#[derive(Clone, Copy, Debug)]
struct Left {
    cores: u32,
    dram: f64,
    nvm: f64,
}

impl Left {
    /// Returns true if the job fits the available cores and bandwidth.
    fn fits(&self, job: &Use) -> bool {
        self.has_cores(job) && job.dram <= self.dram && job.nvm <= self.nvm
    }

    /// Returns true if the job fits the available cores, whatever its bandwidth.
    fn has_cores(&self, job: &Use) -> bool {
        !job.chosen && job.cores <= self.cores
    }

    /// Takes, in this order, every job for which `may` still holds when its turn comes.
    ///
    /// The remainder only shrinks, so a job that may not run now may not run later. Of a thousand
    /// jobs a few dozen are taken: each pass sorts no more jobs than there are cores.
    fn take(
        &mut self,
        mut jobs: &mut [Use],
        may: fn(&Self, &Use) -> bool,
        order: fn(&Use, &Use) -> Ordering,
        chosen: &mut Vec<usize>,
    ) {
        while self.cores > 0 {
            let candidates = partition(jobs, |job| may(self, job));
            jobs = &mut jobs[..candidates];
            let sorted = candidates.min(self.cores as usize);
            if sorted == 0 {
                break;
            }
            jobs.select_nth_unstable_by(sorted - 1, order);
            jobs[..sorted].sort_unstable_by(order);
            for job in &mut jobs[..sorted] {
                if may(self, job) {
                    chosen.push(job.place);
                    job.chosen = true;
                    self.cores -= job.cores;
                    (self.dram, self.nvm) = (self.dram - job.dram, self.nvm - job.nvm);
                }
            }
        }
    }
}

/// Moves the jobs that satisfy `such` to the front and returns their number.
fn partition(jobs: &mut [Use], such: impl Fn(&Use) -> bool) -> usize {
    let mut front = 0;
    for index in 0..jobs.len() {
        if such(&jobs[index]) {
            jobs.swap(front, index);
            front += 1;
        }
    }
    front
}

/// Returns the peaks of both kinds of memory: for DRAM the sum over its media, or the calibrated
/// peak of the bus; for NVM the sum over its media. `None` if a peak is not known, or that of NVM
/// is zero.
fn peaks(config: &SchedulerConfig) -> Option<EffectiveBandwidth> {
    let sum = |kind: MediumKind| -> Option<BytesPerSec> {
        let of_kind = config.media.iter().filter(|(_, medium)| medium.kind == kind);
        of_kind.map(|(id, _)| config.medium_peaks[id.index()]).sum()
    };
    let nvm = sum(MediumKind::Nvm)?;
    let dram = sum(MediumKind::Dram).or(config.bus.peak)?;
    (nvm > BytesPerSec::ZERO).then_some(EffectiveBandwidth { dram, nvm })
}

/// Returns the single peak for machines whose media are not distinguished.
fn one_peak(view: &QuantumView<'_>) -> EffectiveBandwidth {
    let peak = view.bus.peak.unwrap_or_else(|| super::peak_bandwidth::estimate(view));
    EffectiveBandwidth { dram: peak, nvm: BytesPerSec::ZERO }
}
