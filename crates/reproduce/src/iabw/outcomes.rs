//! Results of a set of workloads under several treatments: improvements, means and their intervals,
//! and the share of the possible gain.

use memweir_core::metrics;
use memweir_flow::optimal::lower_bound;
use memweir_flow::workload::mix::iabw::Set;
use memweir_plot::Bars;

use super::evaluation::{Evaluation, Length, Runs, Treatment};
use super::workloads::Counterpart;
use crate::bars;
use crate::report::{Found, Plot, Table};
use crate::run::Failed;
use crate::statistics::mean;

/// Runs of one set, by workload: under the OS, then under each of the named treatments.
pub(super) struct Outcomes<'a> {
    pub(super) workloads: &'a [Counterpart],
    /// Lower bounds of the turnaround in seconds, by workload.
    pub(super) bounds: Vec<f64>,
    pub(super) names: Vec<&'static str>,
    pub(super) runs: Vec<Vec<Runs>>,
}

impl<'a> Outcomes<'a> {
    /// Runs a set under the OS and under these treatments.
    ///
    /// # Errors
    /// If the engine refuses an experiment.
    pub(super) fn of(
        evaluation: &Evaluation<'a>,
        set: Set,
        length: Length,
        named: &[(&'static str, Treatment)],
    ) -> Result<Self, Failed> {
        let treatments: Vec<Treatment> =
            std::iter::once(Treatment::Os).chain(named.iter().map(|(_, t)| *t)).collect();
        let runs = evaluation.of(set, length, &treatments)?;
        let names = named.iter().map(|(name, _)| *name).collect();
        let workloads = evaluation.workloads.set(set);
        let machine = &evaluation.workloads.hardware.machine;
        let bounds = workloads.iter().map(|workload| {
            let tasks = &workload.mix(length).tasks;
            lower_bound(machine, tasks, machine.cores()).as_secs_f64()
        });
        Ok(Self { workloads, bounds: bounds.collect(), names, runs })
    }

    /// Adds a treatment that differs from workload to workload.
    pub(super) fn with(mut self, name: &'static str, runs: Vec<Runs>) -> Self {
        for (all, more) in self.runs.iter_mut().zip(runs) {
            all.push(more);
        }
        self.names.push(name);
        self
    }

    /// Improvements over the OS under the treatment at this place, by workload.
    pub(super) fn improvements(&self, at: usize) -> Vec<f64> {
        self.runs.iter().map(|runs| runs[at + 1].improvement(&runs[0])).collect()
    }

    /// Share of the possible gain over the OS that a treatment reaches, in percent: over all
    /// workloads, so that those without a possible gain count for nothing.
    pub(super) fn possible(&self, at: usize) -> f64 {
        let pairs = || self.runs.iter().zip(&self.bounds);
        let saved: f64 =
            pairs().map(|(runs, _)| runs[0].turnaround() - runs[at + 1].turnaround()).sum();
        let possible: f64 = pairs().map(|(runs, bound)| runs[0].turnaround() - bound).sum();
        100.0 * saved / possible
    }

    /// The same for every treatment, in words.
    pub(super) fn possible_in_words(&self) -> String {
        let pairs = self.runs.iter().zip(&self.bounds);
        let most = mean(pairs.map(|(runs, bound)| 100.0 * (runs[0].turnaround() / bound - 1.0)));
        let shares = self.names.iter().enumerate();
        let shares = shares.map(|(at, name)| format!("{name} {:.0} %", self.possible(at)));
        format!(
            "No schedule improves on the OS by more than {most:.1} % on average (a proved bound, \
             which may be out of reach). Of the time that could be saved at most, so much is \
             saved: {}.",
            shares.collect::<Vec<_>>().join(", ")
        )
    }

    /// Mean improvement with its 95 % interval over the workloads, in words.
    pub(super) fn means_in_words(&self) -> String {
        let means = self.names.iter().enumerate().map(|(at, name)| {
            let pairs: Vec<(f64, f64)> =
                self.improvements(at).into_iter().map(|gain| (0.0, gain)).collect();
            let found = metrics::paired_difference(&pairs, 0.95);
            let interval = found.and_then(|found| found.interval);
            let interval =
                interval.map_or_else(String::new, |i| format!(" ({:.1} to {:.1})", i.low, i.high));
            format!("{name} {:+.1} %{interval}", found.map_or(f64::NAN, |found| found.mean))
        });
        format!(
            "Mean improvement, with the 95 % interval over the workloads: {}.",
            means.collect::<Vec<_>>().join(", ")
        )
    }

    /// Mean improvement under the treatment at this place.
    pub(super) fn mean_improvement(&self, at: usize) -> f64 {
        mean(self.improvements(at))
    }

    /// The improvement on the workload with this number.
    pub(super) fn of_workload(&self, index: u32, at: usize) -> f64 {
        let place = self.workloads.iter().position(|workload| workload.paper.index == index);
        place.map_or(f64::NAN, |place| self.improvements(at)[place])
    }

    pub(super) fn labels(&self) -> Vec<String> {
        self.workloads.iter().map(Counterpart::label).collect()
    }

    /// A group of bars per workload, and the mean.
    pub(super) fn bars(&self, values: impl Fn(usize) -> Vec<f64>) -> Bars {
        let sets = self.names.iter().enumerate().map(|(at, name)| (*name, values(at)));
        bars::with_means(self.labels(), sets)
    }

    pub(super) fn improvement_bars(&self) -> Bars {
        self.bars(|at| self.improvements(at))
    }

    /// Returns the results of a figure that shows the improvements, with these values.
    pub(super) fn found(&self, values: Vec<(&'static str, f64)>) -> Found {
        Found {
            plots: vec![Plot::of([self.improvement_bars()])],
            tables: vec![self.table()],
            values,
            remarks: vec![self.means_in_words(), self.possible_in_words()],
            ..Found::default()
        }
    }

    /// Table of the results by workload.
    pub(super) fn table(&self) -> Table {
        let each = self.names.iter().map(|name| format!("{name} (%)"));
        let deviations = self.names.iter().map(|name| format!("{name} sd"));
        let names = ["workload", "IABW", "bound (s)", "OS (s)"].map(str::to_owned);
        let header = names.into_iter().chain(each).chain(["OS sd".to_owned()]).chain(deviations);
        let row = |(workload, (bound, runs)): (&Counterpart, (&f64, &Vec<Runs>))| {
            let names = [
                workload.label(),
                format!("{:.1}", workload.paper.iabw),
                format!("{bound:.1}"),
                format!("{:.1}", runs[0].turnaround()),
            ];
            let gains = runs[1..].iter().map(|r| format!("{:.2}", r.improvement(&runs[0])));
            let deviations = runs.iter().map(|r| format!("{:.2}", r.deviation()));
            names.into_iter().chain(gains).chain(deviations).collect()
        };
        let rows = self.workloads.iter().zip(self.bounds.iter().zip(&self.runs)).map(row);
        Table::new("Turnaround, improvement, and standard deviation by workload", header, rows)
    }
}

/// Share of the values for which `holds` is true, in percent.
pub(super) fn share(values: &[f64], holds: impl Fn(f64) -> bool) -> f64 {
    100.0 * values.iter().filter(|value| holds(**value)).count() as f64 / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(share(&[1.0, -1.0, -2.0, 0.0], |value| value < 0.0), 50.0);
    }
}
