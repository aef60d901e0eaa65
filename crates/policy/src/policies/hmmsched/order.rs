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

/// Places of the kinds of memory in the arrays of [`Complementary`].
const DRAM: usize = 0;
const NVM: usize = 1;

/// A step of the complementary order.
struct Step {
    memory: usize,
    sought: Sought,
    /// The criterion as a clause for people.
    reason: &'static str,
}

/// The effective bandwidth with which a step takes a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sought {
    Largest,
    Smallest,
}

/// The four steps in the order of hmmsched section V-A-2.
const STEPS: [Step; 4] = [
    Step { memory: DRAM, sought: Sought::Largest, reason: "largest effective bandwidth on DRAM" },
    Step { memory: NVM, sought: Sought::Smallest, reason: "smallest effective bandwidth on NVM" },
    Step { memory: NVM, sought: Sought::Largest, reason: "largest effective bandwidth on NVM" },
    Step { memory: DRAM, sought: Sought::Smallest, reason: "smallest effective bandwidth on DRAM" },
];

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
    /// `EBW_D` and `EBW_NV` by place in the queue; NaN for all other jobs.
    ebw: [Vec<f64>; 2],
    /// True for each of them if the jobs differ in it, so that its two steps apply.
    tells: [bool; 2],
    /// Next step, as an index into [`STEPS`].
    next: usize,
    /// Reason for the last job taken.
    reason: &'static str,
}

impl Complementary {
    /// Starts over with these jobs; `None` for places that hold others. The order continues.
    pub(super) fn fill(&mut self, jobs: impl Iterator<Item = Option<EffectiveBandwidth>>) {
        self.ebw.iter_mut().for_each(Vec::clear);
        for job in jobs {
            self.ebw[DRAM].push(job.map_or(f64::NAN, |ebw| ebw.dram.0));
            self.ebw[NVM].push(job.map_or(f64::NAN, |ebw| ebw.nvm.0));
        }
        self.tells = self.ebw.each_ref().map(|figures| differ(figures));
        self.ebw.iter_mut().for_each(fill_lanes);
    }

    /// Continues after the step that `head` fits best.
    pub(super) fn follow(&mut self, head: EffectiveBandwidth) {
        let of_head = [head.dram.0, head.nvm.0];
        let before_head = |step: &usize| {
            let Step { memory, sought, .. } = STEPS[*step];
            match sought {
                Sought::Largest => count(&self.ebw[memory], |figure| figure > of_head[memory]),
                Sought::Smallest => count(&self.ebw[memory], |figure| figure < of_head[memory]),
            }
        };
        let telling = (0..STEPS.len()).filter(|step| self.tells[STEPS[*step].memory]);
        if let Some(taken) = telling.min_by_key(before_head) {
            self.next = (taken + 1) % STEPS.len();
        }
    }

    /// Takes the next step: the best of the jobs that fit, the first in the queue among equals.
    pub(super) fn take(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let telling = (0..STEPS.len()).map(|ahead| (self.next + ahead) % STEPS.len());
        let Some(step) = { telling }.find(|step| self.tells[STEPS[*step].memory]) else {
            return self.take_in_queue_order(fits);
        };
        let Step { memory, sought, reason } = STEPS[step];
        let place = match sought {
            Sought::Largest => self.take_first(fits, |jobs| largest(&jobs.ebw[memory])),
            Sought::Smallest => self.take_first(fits, |jobs| smallest(&jobs.ebw[memory])),
        }?;
        self.next = (step + 1) % STEPS.len();
        self.reason = reason;
        Some(place)
    }

    /// Returns the reason for the last job taken, as a clause for people.
    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }

    /// Takes the first job in the queue that fits; the order does not advance.
    pub(super) fn take_in_queue_order(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        self.reason = "next bandwidth-sensitive job in the run queue";
        self.take_first(fits, |jobs| jobs.ebw[DRAM].iter().position(|dram| !dram.is_nan()))
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
            self.ebw.iter_mut().for_each(|figures| figures[place] = f64::NAN);
            if fits(place) {
                return Some(place);
            }
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
