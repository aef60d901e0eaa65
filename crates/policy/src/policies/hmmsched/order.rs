//! The two orders in which hmmsched takes jobs: the lowest EBW first, and the four complementary
//! steps.

use crate::ebw::EffectiveBandwidth;
use crate::scan::{fill_lanes, first_smallest};

/// Waiting latency-sensitive jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct LowestFirst {
    /// EBW by place in the queue; NaN for all other jobs.
    ebw: Vec<f64>,
}

impl LowestFirst {
    /// Starts over with these jobs; `None` for places that hold others.
    pub(super) fn fill(&mut self, jobs: impl Iterator<Item = Option<EffectiveBandwidth>>) {
        self.ebw.clear();
        self.ebw.extend(jobs.map(|job| job.map_or(f64::NAN, |ebw| ebw.total().0)));
        fill_lanes(&mut self.ebw);
    }

    /// Takes the job with the lowest EBW of those that fit.
    pub(super) fn take(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        loop {
            let place = first_smallest(&self.ebw, |ebw| ebw)?;
            self.ebw[place] = f64::NAN;
            if fits(place) {
                return Some(place);
            }
        }
    }
}

/// Criterion of a step of the complementary order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    LargestDram,
    SmallestNvm,
    LargestNvm,
    SmallestDram,
}

impl Step {
    /// Returns the step's criterion as a clause for people.
    fn reason(self) -> &'static str {
        match self {
            Self::LargestDram => "largest effective bandwidth on DRAM",
            Self::SmallestNvm => "smallest effective bandwidth on NVM",
            Self::LargestNvm => "largest effective bandwidth on NVM",
            Self::SmallestDram => "smallest effective bandwidth on DRAM",
        }
    }
}

/// The four steps in the order of hmmsched section V-A-2.
const STEPS: [Step; 4] =
    [Step::LargestDram, Step::SmallestNvm, Step::LargestNvm, Step::SmallestDram];

/// Waiting bandwidth-sensitive jobs, and the position in the order.
///
/// The head of the run queue runs whatever the order says. It takes the step that it fits best, the
/// one for which the fewest waiting jobs would have come before it, and the order continues after
/// that step: so a head with much DRAM traffic gets the company that a job chosen for its DRAM
/// traffic would have got, and the jobs of one quantum on four cores are four successive steps. The
/// same holds for a job that is the only one to keep running in mid-quantum. A latency-sensitive
/// head has no part in the order.
///
/// Where all waiting jobs have the same traffic with one kind of memory, such as none, its two
/// steps are skipped; where that holds for both kinds, the queue decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Complementary {
    /// `EBW_D` by place in the queue; NaN for all other jobs.
    dram: Vec<f64>,
    /// `EBW_NV`, likewise.
    nvm: Vec<f64>,
    /// True if the jobs differ in `EBW_D`, so that its two steps apply; `nvm_tells` likewise.
    dram_tells: bool,
    nvm_tells: bool,
    /// Next step, as an index into [`STEPS`].
    next: usize,
    /// Reason for the last job taken.
    reason: &'static str,
}

impl Complementary {
    /// Starts over with these jobs; `None` for places that hold others. The order continues.
    pub(super) fn fill(&mut self, jobs: impl Iterator<Item = Option<EffectiveBandwidth>>) {
        self.dram.clear();
        self.nvm.clear();
        for job in jobs {
            self.dram.push(job.map_or(f64::NAN, |ebw| ebw.dram.0));
            self.nvm.push(job.map_or(f64::NAN, |ebw| ebw.nvm.0));
        }
        self.dram_tells = differ(&self.dram);
        self.nvm_tells = differ(&self.nvm);
        fill_lanes(&mut self.dram);
        fill_lanes(&mut self.nvm);
    }

    /// Continues after the step that `head` fits best.
    pub(super) fn follow(&mut self, head: EffectiveBandwidth) {
        let before_head = |step: &usize| match STEPS[*step] {
            Step::LargestDram => count(&self.dram, |dram| dram > head.dram.0),
            Step::SmallestNvm => count(&self.nvm, |nvm| nvm < head.nvm.0),
            Step::LargestNvm => count(&self.nvm, |nvm| nvm > head.nvm.0),
            Step::SmallestDram => count(&self.dram, |dram| dram < head.dram.0),
        };
        let telling = (0..STEPS.len()).filter(|step| self.tells(STEPS[*step]));
        if let Some(taken) = telling.min_by_key(before_head) {
            self.next = (taken + 1) % STEPS.len();
        }
    }

    /// Takes the next step: the best of the jobs that fit, the first in the queue among equals.
    pub(super) fn take(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let telling = (0..STEPS.len()).map(|ahead| (self.next + ahead) % STEPS.len());
        let Some(step) = { telling }.find(|step| self.tells(STEPS[*step])) else {
            return self.take_in_queue_order(fits);
        };
        let place = match STEPS[step] {
            Step::LargestDram => self.take_first(fits, |jobs| largest(&jobs.dram)),
            Step::SmallestNvm => self.take_first(fits, |jobs| smallest(&jobs.nvm)),
            Step::LargestNvm => self.take_first(fits, |jobs| largest(&jobs.nvm)),
            Step::SmallestDram => self.take_first(fits, |jobs| smallest(&jobs.dram)),
        }?;
        self.next = (step + 1) % STEPS.len();
        self.reason = STEPS[step].reason();
        Some(place)
    }

    /// Returns the reason for the last job taken, as a clause for people.
    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }

    /// Takes the first job in the queue that fits; the order does not advance.
    pub(super) fn take_in_queue_order(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        self.reason = "next bandwidth-sensitive job in the run queue";
        self.take_first(fits, |jobs| jobs.dram.iter().position(|dram| !dram.is_nan()))
    }

    /// Takes the best job that fits. Jobs that do not fit now will not fit later in this selection,
    /// so they are removed from it.
    fn take_first(
        &mut self,
        fits: impl Fn(usize) -> bool,
        best: impl Fn(&Self) -> Option<usize>,
    ) -> Option<usize> {
        loop {
            let place = best(self)?;
            (self.dram[place], self.nvm[place]) = (f64::NAN, f64::NAN);
            if fits(place) {
                return Some(place);
            }
        }
    }

    fn tells(&self, step: Step) -> bool {
        match step {
            Step::LargestDram | Step::SmallestDram => self.dram_tells,
            Step::SmallestNvm | Step::LargestNvm => self.nvm_tells,
        }
    }
}

fn smallest(figures: &[f64]) -> Option<usize> {
    first_smallest(figures, |figure| figure)
}

fn largest(figures: &[f64]) -> Option<usize> {
    first_smallest(figures, |figure| -figure)
}

/// Returns true if not all jobs have the same figure.
fn differ(figures: &[f64]) -> bool {
    let mut jobs = figures.iter().filter(|figure| !figure.is_nan());
    jobs.next().is_some_and(|first| jobs.any(|other| other != first))
}

/// Returns the number of jobs whose figure satisfies `such`. NaN, which marks all other jobs, fails
/// every comparison.
fn count(figures: &[f64], such: impl Fn(f64) -> bool) -> usize {
    figures.iter().filter(|figure| such(**figure)).count()
}
