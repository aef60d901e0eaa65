//! Runs of workloads under treatments, each once per repetition, and their results.

use std::cell::RefCell;
use std::collections::HashMap;

use memweir_core::{BytesPerSec, metrics};
use memweir_flow::workload::mix::iabw::Set;
use memweir_flow::{Experiment, SimError, Task, simulate};
use memweir_policy::{CoreUse, TargetCurve};

use super::units::{btr, rate};
use super::workloads::{Counterpart, Workloads};
use crate::run::Failed;
use crate::statistics::mean;
use crate::work::Bench;

/// Treatment of a workload: its scheduling and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Treatment {
    /// The operating system schedules.
    Os,
    /// The target is the peak bandwidth.
    PeakBandwidth,
    /// The target is the ideal average bandwidth itself, eq. (10).
    IdealAverage,
    /// The target is this share of the ideal average bandwidth, in thousandths.
    Share(u32),
    /// The target follows from the ideal average bandwidth by the curve of Fig. 8.
    Fitted,
    /// The target follows by the paper's own curve, eq. (11).
    PaperCurve,
    /// The longest job first.
    LongJobFirst,
    /// The best share, without the saturation filter.
    Unfiltered(u32),
    /// The curve of Fig. 8, with idle cores where that pays.
    AutoCores,
}

/// Two minutes of each program, or each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Length {
    Equal,
    Normal,
}

/// Bands of one transaction per microsecond in which the quanta are counted; the last holds
/// everything above.
const BANDS: usize = 64;

/// Kept results of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    /// Turnaround of the workload in seconds.
    pub(super) turnaround: f64,
    /// Standard deviation of the bandwidth of the quanta.
    pub(super) deviation: f64,
    /// Quanta per band of bandwidth.
    bands: [u32; BANDS],
}

/// All repetitions of one workload under one treatment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Runs(Vec<Run>);

impl Runs {
    /// Mean turnaround in seconds.
    pub(super) fn turnaround(&self) -> f64 {
        self.mean(|run| run.turnaround)
    }

    /// Mean standard deviation of the bandwidth of the quanta.
    pub(super) fn deviation(&self) -> f64 {
        self.mean(|run| run.deviation)
    }

    fn mean(&self, value: impl Fn(&Run) -> f64) -> f64 {
        mean(self.0.iter().map(value))
    }

    /// Relative standard deviation of the turnaround in percent.
    pub(super) fn spread(&self) -> f64 {
        let turnarounds: Vec<f64> = self.0.iter().map(|run| run.turnaround).collect();
        metrics::relative_std_deviation_percent(&turnarounds).unwrap_or(f64::NAN)
    }

    /// Throughput gained over a baseline, in percent.
    pub(super) fn improvement(&self, baseline: &Self) -> f64 {
        100.0 * (baseline.turnaround() / self.turnaround() - 1.0)
    }

    /// Share of the quanta with a bandwidth from `from` up to but not including `to`, in percent.
    pub(super) fn share(&self, from: usize, to: usize) -> f64 {
        let bands = || self.0.iter().map(|run| &run.bands);
        let inside: u32 = bands().flat_map(|bands| &bands[from.min(BANDS)..to.min(BANDS)]).sum();
        let all: u32 = bands().flatten().sum();
        100.0 * f64::from(inside) / f64::from(all.max(1))
    }
}

type Key = (Set, u32, Length, Treatment);

/// Runs by workload, length and treatment.
pub(super) type Known = RefCell<HashMap<Key, Runs>>;

/// The runs so far, and what further ones need besides the name of their treatment.
pub(super) struct Evaluation<'a> {
    pub(super) known: &'a Known,
    pub(super) workloads: &'a Workloads,
    /// The curve of Fig. 8, where it is known.
    pub(super) curve: Option<&'a TargetCurve>,
    pub(super) bench: &'a Bench<'a>,
}

impl Evaluation<'_> {
    /// Makes the runs that are missing, and returns all: per workload of the set, per treatment.
    ///
    /// # Errors
    /// If the engine refuses an experiment.
    pub(super) fn of(
        &self,
        set: Set,
        length: Length,
        treatments: &[Treatment],
    ) -> Result<Vec<Vec<Runs>>, Failed> {
        let workloads = self.workloads.set(set);
        let wanted = workloads
            .iter()
            .flat_map(|workload| treatments.iter().map(move |treatment| (workload, *treatment)));
        self.each(length, &wanted.collect::<Vec<_>>())?;
        let known = self.known.borrow();
        let of = |workload: &Counterpart, treatment: &Treatment| {
            known[&(set, workload.paper.index, length, *treatment)].clone()
        };
        Ok(workloads
            .iter()
            .map(|workload| treatments.iter().map(|treatment| of(workload, treatment)).collect())
            .collect())
    }

    /// One workload under one treatment.
    ///
    /// # Errors
    /// If the engine refuses an experiment.
    pub(super) fn one(
        &self,
        workload: &Counterpart,
        length: Length,
        treatment: Treatment,
    ) -> Result<Runs, Failed> {
        self.each(length, &[(workload, treatment)])?;
        let key = (workload.paper.set, workload.paper.index, length, treatment);
        Ok(self.known.borrow()[&key].clone())
    }

    fn each(&self, length: Length, wanted: &[(&Counterpart, Treatment)]) -> Result<(), Failed> {
        let key = |workload: &Counterpart, treatment| {
            (workload.paper.set, workload.paper.index, length, treatment)
        };
        let missing: Vec<_> = {
            let known = self.known.borrow();
            let new = |(workload, treatment): &&(&Counterpart, Treatment)| {
                !known.contains_key(&key(workload, *treatment))
            };
            wanted.iter().filter(new).copied().collect()
        };
        let (workloads, curve) = (self.workloads, self.curve);
        let repetitions = 0..workloads.repetitions;
        let inputs: Vec<_> = missing
            .iter()
            .flat_map(|case| repetitions.clone().map(move |repetition| (*case, repetition)))
            .collect();
        let runs = self.bench.try_all(WORK, &inputs, |((workload, treatment), repetition)| {
            let tasks = &workload.mix(length).tasks;
            run(&experiment(workloads, tasks, *treatment, curve, *repetition))
        })?;
        let mut known = self.known.borrow_mut();
        let per_case = workloads.repetitions as usize;
        for ((workload, treatment), runs) in missing.into_iter().zip(runs.chunks(per_case)) {
            known.insert(key(workload, treatment), Runs(runs.to_vec()));
        }
        Ok(())
    }
}

/// Simulated core-seconds of one run: twelve jobs of two minutes.
pub(super) const WORK: u64 = 1440;

fn run(experiment: &Experiment) -> Result<Run, SimError> {
    let outcome = simulate(experiment)?;
    let quantum = experiment.scheduler.quantum;
    let rates = outcome.bandwidths(quantum);
    let mut bands = [0; BANDS];
    for rate in &rates {
        bands[band(btr(*rate))] += 1;
    }
    let deviation = outcome.bandwidth_deviation(quantum).map_or(0.0, btr);
    Ok(Run { turnaround: outcome.turnaround.as_secs_f64(), deviation, bands })
}

/// The band of a bandwidth. Within half a percent of a band's lower edge it counts as inside: a
/// simulated bus saturates at exactly its peak, less what rounding to lines takes.
fn band(btr: f64) -> usize {
    ((btr * 1.005) as usize).min(BANDS - 1)
}

/// A workload under a treatment.
pub(super) fn experiment(
    workloads: &Workloads,
    tasks: &[Task],
    treatment: Treatment,
    curve: Option<&TargetCurve>,
    repetition: u64,
) -> Experiment {
    let policy = match treatment {
        Treatment::Os => "os",
        Treatment::PeakBandwidth => "peak-bandwidth",
        Treatment::LongJobFirst => "long-job-first",
        _ => "ideal-average",
    };
    let mut scheduler = workloads.scheduler(policy);
    scheduler.seed = workloads.seed + repetition;
    scheduler.target = match treatment {
        Treatment::Share(thousandths) | Treatment::Unfiltered(thousandths) => {
            Some(proportional(f64::from(thousandths) / 1000.0))
        }
        Treatment::Fitted | Treatment::AutoCores => curve.cloned(),
        Treatment::PaperCurve => Some(TargetCurve::paper()),
        _ => None,
    };
    if let Treatment::Unfiltered(_) = treatment {
        scheduler.bus.saturation = Some(rate(f64::from(u16::MAX)));
    }
    if treatment == Treatment::AutoCores {
        scheduler.core_use = CoreUse::Auto;
    }
    let mut experiment =
        Experiment::new(workloads.hardware.machine.clone(), tasks.to_vec(), policy);
    experiment.scheduler = scheduler;
    experiment.kernel = workloads.kernel;
    experiment.seed = workloads.seed + repetition;
    experiment
}

/// A target that is this share of the ideal average bandwidth.
fn proportional(share: f64) -> TargetCurve {
    TargetCurve {
        quadratic: 0.0,
        linear: share,
        constant: 0.0,
        iabw_min: BytesPerSec::ZERO,
        iabw_max: BytesPerSec(f64::MAX),
        r_squared: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(turnarounds: &[f64]) -> Runs {
        let run = |turnaround: &f64| {
            let mut bands = [0; BANDS];
            (bands[5], bands[40]) = (1, 3);
            Run { turnaround: *turnaround, deviation: 1.0, bands }
        };
        Runs(turnarounds.iter().map(run).collect())
    }

    #[test]
    fn improvement_is_in_throughput_of_the_means() {
        let (os, better) = (runs(&[100.0, 140.0]), runs(&[100.0]));
        assert!((better.improvement(&os) - 20.0).abs() < 1e-9);
        assert!((os.improvement(&better) + 100.0 / 6.0).abs() < 1e-9);
    }

    #[test]
    fn shares_count_the_quanta_of_all_repetitions() {
        let runs = runs(&[1.0, 2.0]);
        assert_eq!(
            (runs.share(0, 10), runs.share(40, BANDS), runs.share(10, 40)),
            (25.0, 75.0, 0.0)
        );
    }

    #[test]
    fn a_bus_at_its_peak_counts_as_saturated() {
        assert_eq!((band(39.999), band(39.5), band(0.0), band(1e9)), (40, 39, 0, BANDS - 1));
    }

    #[test]
    fn a_share_of_the_ideal_average_is_at_most_the_peak() {
        let curve = proportional(0.8);
        let target = |iabw| btr(curve.apply(rate(iabw), Some(rate(40.0))));
        assert!((target(30.0) - 24.0).abs() < 1e-9 && (target(90.0) - 40.0).abs() < 1e-9);
    }
}
