//! The two mixes under the scheduler, its rivals and its ablations: Fig. 7.

use memweir_core::Nanos;
use memweir_core::input::InputError;
use memweir_flow::optimal::lower_bound;
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::workload::mix::hmmsched::{self, HmmschedRecipe, MIX_1, MIX_2};
use memweir_flow::workload::mix::{Mix, Weight};
use memweir_flow::{Experiment, Hardware, SimError, simulate};
use memweir_plot::{Bars, Level, PALETTE};
use serde::Deserialize;

use super::media::hardware;
use crate::bars;
use crate::report::{Effort, Found, Plot, Table, row, short};
use crate::run::Failed;
use crate::statistics::{highest, lowest, mean};
use crate::work::Bench;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    repetitions: u64,
    seed: u64,
}

/// A mix with one set of latencies.
pub(super) struct Case {
    /// `#1, 1:1:3`.
    pub(super) name: String,
    /// Number of the mix: 1 or 2.
    mix: u32,
    /// True if its latencies are like those of PRAM.
    pram: bool,
    pub(super) hardware: Hardware,
    /// One draw per repetition: they differ in the starting points of the programs.
    pub(super) draws: Vec<Mix>,
}

/// Both mixes with both sets of latencies.
pub(super) struct Mixes {
    pub(super) repetitions: u64,
    pub(super) seed: u64,
    /// Recipe of a mix.
    pub(super) recipe: HmmschedRecipe,
    pub(super) cases: Vec<Case>,
}

impl Mixes {
    /// Makes the mixes.
    ///
    /// # Errors
    /// If a data file is invalid.
    pub(super) fn new(parameters: &Parameters, effort: Effort) -> Result<Self, InputError> {
        let repetitions = effort.repetitions(parameters.repetitions);
        let full = HmmschedRecipe::default();
        let weight = effort.pick(full.weight, Weight::Equal(QUICK_WORK));
        let recipe = HmmschedRecipe { weight, ..full };
        let catalog = Catalog::shipped();
        let mut cases = Vec::new();
        for (pram, medium) in [(false, "ratio-1-1-3"), (true, "ratio-1-3-8")] {
            for (mix, applications) in [(1, &MIX_1), (2, &MIX_2)] {
                let hardware = hardware(medium)?;
                let name = format!("#{mix}, {}", if pram { "1:3:8" } else { "1:1:3" });
                let draws = (0..repetitions).map(|repetition| {
                    let seed = parameters.seed + repetition;
                    hmmsched::mix(name.clone(), applications, &catalog, &hardware, &recipe, seed)
                        .map_err(|refusal| refusal.written_in("experiments/hmmsched"))
                });
                let draws = draws.collect::<Result<_, _>>()?;
                cases.push(Case { name, mix, pram, hardware, draws });
            }
        }
        Ok(Self { repetitions, seed: parameters.seed, recipe, cases })
    }

    /// Simulated core-seconds of all cases under one policy.
    pub(super) fn work(&self) -> u64 {
        self.cases.len() as u64 * self.repetitions * WORK
    }
}

/// Work of each task of a quick run, instead of two minutes.
const QUICK_WORK: Nanos = Nanos::from_millis(30_000);

/// Simulated core-seconds of one run: eight tasks of two minutes.
pub(super) const WORK: u64 = 960;

/// Completion times of the tasks of one case under one policy, by repetition.
#[derive(Clone, Debug)]
pub(super) struct Times(pub(super) Vec<Vec<f64>>);

impl Times {
    /// Reduction of each task's mean time against a baseline, in percent.
    pub(super) fn reductions(&self, baseline: &Self) -> Vec<f64> {
        let (ours, theirs) = (self.means(), baseline.means());
        ours.iter().zip(theirs).map(|(ours, theirs)| 100.0 * (1.0 - ours / theirs)).collect()
    }

    /// Mean time of each task.
    fn means(&self) -> Vec<f64> {
        let tasks = self.0.first().map_or(0, Vec::len);
        (0..tasks).map(|task| mean(self.0.iter().map(|run| run[task]))).collect()
    }

    /// Mean time of the last task.
    pub(super) fn turnaround(&self) -> f64 {
        let last = |run: &Vec<f64>| run.iter().copied().fold(0.0, f64::max);
        mean(self.0.iter().map(last))
    }
}

/// Runs every case under every policy: per case, per policy.
pub(super) fn run(
    mixes: &Mixes,
    policies: &[&str],
    bench: &Bench<'_>,
) -> Result<Vec<Vec<Times>>, Failed> {
    let mut inputs = Vec::new();
    for case in &mixes.cases {
        for policy in policies {
            inputs.extend(case.draws.iter().enumerate().map(|draw| (case, *policy, draw)));
        }
    }
    let runs = bench.try_all(WORK, &inputs, |(case, policy, (number, mix))| {
        let seed = mixes.seed + *number as u64;
        completion(&experiment(&case.hardware, mix, policy, seed))
    })?;
    let per_policy: Vec<Times> =
        runs.chunks(mixes.repetitions as usize).map(|runs| Times(runs.to_vec())).collect();
    Ok(per_policy.chunks(policies.len()).map(<[Times]>::to_vec).collect())
}

/// A mix under a policy.
pub(super) fn experiment(hardware: &Hardware, mix: &Mix, policy: &str, seed: u64) -> Experiment {
    let mut experiment = Experiment::new(hardware.machine.clone(), mix.tasks.clone(), policy);
    experiment.seed = seed;
    experiment.scheduler.seed = seed;
    // Peaks of eq. (4) and (5) for the hybrid-agnostic policy.
    for (peak, memory) in
        experiment.scheduler.medium_peaks.iter_mut().zip(&hardware.machine.memories)
    {
        *peak = Some(memory.service.capacity);
    }
    experiment
}

/// Completion time of each task, in seconds.
pub(super) fn completion(experiment: &Experiment) -> Result<Vec<f64>, SimError> {
    let outcome = simulate(experiment)?;
    Ok(outcome.tasks.iter().map(|task| task.turnaround().as_secs_f64()).collect())
}

/// Fig. 7.
pub(super) fn figure_7(mixes: &Mixes, bench: &Bench<'_>) -> Result<Found, Failed> {
    let policies = ["os", "hmmsched", "available-bandwidth", "hmmsched:no-guard"];
    let runs = run(mixes, &policies, bench)?;
    let reductions = |at: usize| -> Vec<Vec<f64>> {
        runs.iter().map(|case| case[at].reductions(&case[0])).collect()
    };
    let (ours, agnostic) = (reductions(1), reductions(2));
    let all: Vec<f64> = ours.concat();
    let place = |mix: u32, pram: bool| {
        mixes.cases.iter().position(|case| (case.mix, case.pram) == (mix, pram)).unwrap_or(0)
    };
    let first = place(1, false);
    let of = |case: usize, name: &str| -> Vec<f64> {
        let tasks = mixes.cases[case].draws.first().map_or(&[][..], |mix| &mix.tasks);
        let named = tasks.iter().zip(&ours[case]).filter(|(task, _)| task.program.name == name);
        named.map(|(_, reduction)| *reduction).collect()
    };
    let whole: Vec<f64> = runs
        .iter()
        .map(|case| 100.0 * (1.0 - case[1].turnaround() / case[0].turnaround()))
        .collect();
    let saved = |at: usize| -> f64 {
        runs.iter().map(|case| case[0].turnaround() - case[at].turnaround()).sum()
    };
    let bounds = mixes.cases.iter().map(bound);
    let possible: f64 =
        runs.iter().zip(bounds).map(|(case, bound)| case[0].turnaround() - bound).sum();
    let values = vec![
        ("best", highest(&all)),
        ("mean", mean(&all)),
        ("omnetpp", highest(of(first, "471.omnetpp"))),
        ("mcf", mean(of(first, "429.mcf"))),
        ("mix2", mean(&ours[place(2, false)])),
        ("pram", mean(&ours[place(1, true)])),
        ("pram-more", mean(&ours[place(1, true)]) - mean(&ours[first])),
        ("agnostic", mean(&all) - mean(agnostic.concat())),
        ("turnaround", mean(&whole)),
        ("possible", 100.0 * saved(1) / possible),
    ];
    let plots =
        mixes.cases.iter().zip(&runs).map(|(case, runs)| {
            Plot::of([normalized(case, &policies, runs)]).captioned(&case.name)
        });
    let tables = vec![table(mixes, &policies, &runs)];
    let remarks = vec![format!(
        "Of the turnaround that could be saved at most (by a proved bound, which may be out of \
         reach), hmmsched saves {:.0} % and available-bandwidth {:.0} %.",
        100.0 * saved(1) / possible,
        100.0 * saved(2) / possible
    )];
    Ok(Found { plots: plots.collect(), tables, values, remarks, ..Found::default() })
}

/// Lower bound of the turnaround in seconds, as a mean over the case's draws.
fn bound(case: &Case) -> f64 {
    let machine = &case.hardware.machine;
    let bounds = case.draws.iter().map(|mix| lower_bound(machine, &mix.tasks, machine.cores()));
    mean(bounds.map(Nanos::as_secs_f64))
}

/// Times of each instance over those under the OS.
fn normalized(case: &Case, policies: &[&str], runs: &[Times]) -> Bars {
    let sets = policies.iter().zip(runs).skip(1).map(|(policy, times)| {
        let reductions = times.reductions(&runs[0]);
        (*policy, reductions.iter().map(|reduction| 1.0 - reduction / 100.0).collect())
    });
    Bars {
        title: case.name.clone(),
        levels: vec![Level::new("OS", 1.0, PALETTE[5])],
        ..bars::with_means(short_names(&case.draws), sets)
    }
}

/// The names of a mix's tasks without their programs' numbers.
pub(super) fn short_names(draws: &[Mix]) -> impl Iterator<Item = &str> {
    let tasks = draws.first().map_or(&[][..], |mix| &mix.tasks);
    tasks.iter().map(|task| short(&task.name))
}

/// Mean reduction, best, worst and turnaround by case and policy.
fn table(mixes: &Mixes, policies: &[&str], runs: &[Vec<Times>]) -> Table {
    let mut rows = Vec::new();
    for (case, runs) in mixes.cases.iter().zip(runs) {
        for (policy, times) in policies.iter().zip(runs) {
            let reductions = times.reductions(&runs[0]);
            let values =
                [mean(&reductions), highest(&reductions), lowest(&reductions), times.turnaround()];
            rows.push(row(format!("{}: {policy}", case.name), 1, values));
        }
    }
    let header = ["mix and policy", "mean reduction (%)", "best (%)", "worst (%)", "last task (s)"];
    Table::new("Reduction of the instances' times, by mix, latencies and policy", header, rows)
}

/// Removes each rule of the scheduler in turn.
pub(super) fn ablation(mixes: &Mixes, bench: &Bench<'_>) -> Result<Found, Failed> {
    let policies = [
        "os",
        "hmmsched",
        "hmmsched:no-classes",
        "hmmsched:no-guard",
        "hmmsched:counts",
        "hmmsched:no-order",
    ];
    let runs = run(mixes, &policies, bench)?;
    let total = |at: usize| mean(runs.iter().flat_map(|case| case[at].reductions(&case[0])));
    let whole = total(1);
    let names = mixes.cases.iter().map(|case| &case.name);
    let sets = policies.iter().enumerate().skip(1).map(|(at, policy)| {
        (*policy, runs.iter().map(|case| mean(case[at].reductions(&case[0]))).collect())
    });
    Ok(Found {
        plots: vec![Plot::of([bars::with_means(names, sets)])],
        tables: vec![table(mixes, &policies, &runs)],
        values: vec![
            ("no-classes", whole - total(2)),
            ("no-guard", whole - total(3)),
            ("counts", whole - total(4)),
            ("no-complement", whole - total(5)),
        ],
        ..Found::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_are_of_mean_times() {
        let os = Times(vec![vec![100.0, 50.0], vec![120.0, 50.0]]);
        let ours = Times(vec![vec![88.0, 60.0], vec![88.0, 60.0]]);
        let reductions = ours.reductions(&os);
        assert!((reductions[0] - 20.0).abs() < 1e-9 && (reductions[1] + 20.0).abs() < 1e-9);
        assert_eq!((os.turnaround(), ours.turnaround()), (110.0, 88.0));
    }
}
