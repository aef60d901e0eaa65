//! `available-bandwidth`: the baseline of hmmsched section IV-B, which knows no media.

use memweir_core::medium::MediumKind;
use memweir_core::{BytesPerSec, Media, MediumId};

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
/// Every transaction counts as one, whatever it does to memory: that is what hmmsched holds against
/// the policy. Where the peaks of both kinds of memory are known, eq. (3)-(5) hold: a job fits if
/// it fits on both sides, and what it fills is the sum of its shares of both peaks. Otherwise eq.
/// (2) holds, for all transactions together; a peak that is not known is estimated as by
/// [`PeakBandwidth`](super::PeakBandwidth).
///
/// Unlike the fitness of iabw eq. (2), which divides what is left by the cores that are left, this
/// fills one core after another, with as much as fits. When nothing fits any more, the remaining
/// cores get the jobs that fill the least. Among equals the order of the queue decides.
#[derive(Clone, Debug)]
pub struct AvailableBandwidth {
    counts: Weights,
    peaks: Option<EffectiveBandwidth>,
    target: Option<BytesPerSec>,
    /// The waiting jobs, for the order in which they are tried.
    order: Vec<Use>,
}

/// What a waiting job would take, as shares of the peaks.
#[derive(Clone, Copy, Debug)]
struct Use {
    dram: f64,
    nvm: f64,
    place: usize,
}

impl Use {
    fn total(&self) -> f64 {
        self.dram + self.nvm
    }
}

impl AvailableBandwidth {
    /// The policy on the machine of `config`.
    #[must_use]
    pub fn new(config: &SchedulerConfig) -> Self {
        Self {
            counts: Weights::new(&config.media, Translation::Counts),
            peaks: peaks(config),
            target: None,
            order: Vec::new(),
        }
    }

    /// What `job` at this place would take.
    fn job_use(&self, peaks: EffectiveBandwidth, place: usize, job: &Candidate) -> Use {
        let share = |rate: BytesPerSec, peak: BytesPerSec| rate.0 / peak.0.max(1.0);
        match self.peaks {
            Some(_) => {
                let counts = self.counts.effective_bandwidth(&job.traffic);
                let (dram, nvm) = (share(counts.dram, peaks.dram), share(counts.nvm, peaks.nvm));
                Use { dram, nvm, place }
            }
            None => Use { dram: share(job.demand, peaks.dram), nvm: 0.0, place },
        }
    }
}

impl Policy for AvailableBandwidth {
    fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let peaks = self.peaks.unwrap_or_else(|| one_peak(view));
        self.target = Some(peaks.total());
        let (mut dram, mut nvm) = (1.0, 1.0);
        for job in view.running {
            let occupied = self.job_use(peaks, 0, job);
            (dram, nvm) = (dram - occupied.dram, nvm - occupied.nvm);
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(view.queue.iter().zip(0..).map(|(job, at)| self.job_use(peaks, at, job)));
        order.sort_unstable_by(|a, b| b.total().total_cmp(&a.total()).then(a.place.cmp(&b.place)));
        let mut free = view.cores;
        // What is available only shrinks: a job that does not fit now will not fit later.
        order.retain(|job| {
            let cores = view.queue[job.place].cores;
            let fits = cores <= free && job.dram <= dram && job.nvm <= nvm;
            if fits {
                chosen.push(job.place);
                free -= cores;
                (dram, nvm) = (dram - job.dram, nvm - job.nvm);
            }
            !fits
        });
        take_least(&mut order, free, view, chosen);
        self.order = order;
    }

    fn target(&self) -> Option<BytesPerSec> {
        self.target
    }

    fn reason(&self, _: usize) -> Option<&'static str> {
        Some("nearest to what is available")
    }
}

/// Chooses, for the cores that are left, the jobs that take the least.
fn take_least(order: &mut [Use], mut free: u32, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
    if free == 0 {
        return;
    }
    order.sort_unstable_by(|a, b| a.total().total_cmp(&b.total()).then(a.place.cmp(&b.place)));
    for job in order {
        let cores = view.queue[job.place].cores;
        if cores <= free {
            chosen.push(job.place);
            free -= cores;
        }
        if free == 0 {
            break;
        }
    }
}

/// The peaks of both kinds of memory: those of DRAM as calibrated or of all its media, those of
/// NVM if the machine has any and they are known.
fn peaks(config: &SchedulerConfig) -> Option<EffectiveBandwidth> {
    let sum = |kind| sum_of_peaks(&config.media, kind, |id| config.medium_peaks[id.index()]);
    let nvm = sum(MediumKind::Nvm)?;
    let dram = sum(MediumKind::Dram).or(config.bus.peak)?;
    (nvm > BytesPerSec::ZERO).then_some(EffectiveBandwidth { dram, nvm })
}

/// The sum over the media of one kind; `None` if the peak of one of them is not known.
fn sum_of_peaks(
    media: &Media,
    kind: MediumKind,
    peak: impl Fn(MediumId) -> Option<BytesPerSec>,
) -> Option<BytesPerSec> {
    media.iter().filter(|(_, medium)| medium.kind == kind).map(|(id, _)| peak(id)).sum()
}

/// The one peak that there is where media are not told apart.
fn one_peak(view: &QuantumView<'_>) -> EffectiveBandwidth {
    let peak = view.bus.peak.unwrap_or_else(|| super::peak_bandwidth::estimate(view));
    EffectiveBandwidth { dram: peak, nvm: BytesPerSec::ZERO }
}
