//! The fitness selection of iabw section 3.1, shared by every policy that aims at a bandwidth.

use memweir_core::BytesPerSec;

use crate::policy::QuantumView;
use crate::scan::{fill_lanes, first_smallest};

/// Chooses jobs by the fitness of iabw eq. (2) until the cores or the jobs run out.
///
/// ```text
/// FITNESS(p) = 1 / | BW_remain / CPU_remain - BW_required(p) |          iabw eq. (2)
/// ```
///
/// `BW_remain` starts at the target less what is committed, and each choice subtracts its demand. A
/// job that fits exactly has infinite fitness and is the best, so the search minimizes the gap
/// instead. Among equals the order of the queue decides. `BW_remain` falls below zero when the head
/// alone requires more than the target: the smallest gap is then that of the job with the smallest
/// demand, which is the right choice.
///
/// Beyond the paper, whose jobs have one core: a job of several cores is compared per core, and
/// takes as many off `CPU_remain`. Jobs that do not fit the free cores are skipped.
///
/// The selector keeps its buffer between calls, so that a decision allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct FitnessSelector {
    /// Demand per core by place in the queue; infinite for jobs that are no longer candidates.
    demands: Vec<f64>,
}

impl FitnessSelector {
    /// Appends to `chosen` the places in `view.queue` of the jobs chosen for `target`.
    pub fn select(&mut self, target: BytesPerSec, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
        let mut cpu_remain = view.cores;
        let mut bw_remain = target - view.committed;
        self.demands.clear();
        self.demands.extend(view.queue.iter().map(|job| job.demand_per_core().0));
        fill_lanes(&mut self.demands);
        let mut widest = view.queue.iter().map(|job| job.cores).max().unwrap_or(0);
        while cpu_remain > 0 {
            if widest > cpu_remain {
                widest = self.drop_wider_than(cpu_remain, view);
            }
            let share = (bw_remain / f64::from(cpu_remain)).0;
            // The denominator of iabw eq. (2).
            let gap = |demand: f64| (share - demand).abs();
            let Some(best) = first_smallest(&self.demands, gap) else { break };
            chosen.push(best);
            self.demands[best] = f64::INFINITY;
            cpu_remain -= view.queue[best].cores;
            bw_remain -= view.queue[best].demand;
        }
    }

    /// Excludes the jobs that need more than `cores`; returns the width of the widest candidate
    /// left.
    fn drop_wider_than(&mut self, cores: u32, view: &QuantumView<'_>) -> u32 {
        let mut widest = 0;
        for (demand, job) in self.demands.iter_mut().zip(view.queue) {
            if job.cores > cores {
                *demand = f64::INFINITY;
            } else {
                widest = widest.max(job.cores);
            }
        }
        widest
    }
}
