//! The evaluation on 20 workloads: Fig. 4, Fig. 5 and memory power.

use memweir_plot::Bars;

use super::runs::{Case, Outcome, Partition, Runs};
use super::workloads::{WITH_MCF, Workload};
use crate::bars;
use crate::report::{self, Found, Plot, Table, short};
use crate::run::Failed;
use crate::statistics::{highest, lowest, mean};

/// Differences between two cases, workload by workload.
pub(super) struct Gains {
    /// Improvement of weighted speedup, %.
    pub(super) speedup: Vec<f64>,
    /// Improvement of fairness: reduction of maximum slowdown, %.
    pub(super) fairness: Vec<f64>,
}

impl Gains {
    /// Gains of `with` over `without` (section 4.3).
    pub(super) fn of(with: &[Outcome], without: &[Outcome]) -> Self {
        let pairs = || with.iter().zip(without);
        let speedup = |(with, without): (&Outcome, &Outcome)| {
            100.0 * (with.weighted_speedup() / without.weighted_speedup() - 1.0)
        };
        let fairness = |(with, without): (&Outcome, &Outcome)| {
            100.0 * (1.0 - with.maximum_slowdown() / without.maximum_slowdown())
        };
        Self { speedup: pairs().map(speedup).collect(), fairness: pairs().map(fairness).collect() }
    }
}

/// The values of some workloads, by their numbers.
fn some(values: &[f64], numbers: impl IntoIterator<Item = u32>) -> Vec<f64> {
    numbers.into_iter().filter_map(|number| values.get(number as usize - 1).copied()).collect()
}

/// Bars for each workload and, behind them, for the mean.
pub(super) fn bars(sets: &[&[f64]]) -> Bars {
    let numbers = (1..=20).map(|number: u32| number.to_string());
    bars::with_means(numbers, sets.iter().map(|values| ("", values.to_vec())))
}

/// Fig. 4.
pub(super) fn figure_4(runs: &Runs<'_>) -> Result<Found, Failed> {
    let without = runs.outcomes(&Case::of(Partition::None))?;
    let with = runs.outcomes(&Case::of(Partition::Bpm))?;
    let gains = Gains::of(&with, &without);
    let (speedup, fairness) = (&gains.speedup, &gains.fairness);
    let (eight, four) = (mean(some(speedup, 1..=10)), mean(some(speedup, 11..=20)));
    let values = vec![
        ("ws", mean(speedup)),
        ("ws-best", highest(speedup)),
        ("ws-worst", lowest(speedup)),
        ("ws-four", four),
        ("ws-eight", eight),
        ("eight-over-four", eight - four),
        ("ws-11", speedup[10]),
        ("ms", mean(fairness)),
        ("ms-best", highest(fairness)),
        ("ms-11", fairness[10]),
        ("ms-14", fairness[13]),
        ("ms-mcf", mean(some(fairness, WITH_MCF))),
    ];
    let spilled: u64 = with.iter().map(|outcome| outcome.executed.spilled.0).sum();
    let pages: u64 = with.iter().map(|outcome| outcome.executed.spilled.1).sum();
    Ok(Found {
        plots: vec![Plot::of([bars(&[speedup, fairness])])],
        tables: vec![
            table(runs.workloads, &without, &with),
            slowdowns(runs.workloads, &without, &with),
        ],
        values,
        remarks: vec![format!(
            "Of {pages} pages that the programs touched, {spilled} had to have other colors than \
             their program's."
        )],
        ..Found::default()
    })
}

fn table(workloads: &[Workload], without: &[Outcome], with: &[Outcome]) -> Table {
    let row = |(workload, (without, with)): (&Workload, (&Outcome, &Outcome))| {
        let names: Vec<&str> = workload.programs.iter().map(|name| short(name)).collect();
        let speedups = [without, with].map(Outcome::weighted_speedup);
        let slowdowns = [without, with].map(Outcome::maximum_slowdown);
        let name = format!("{}: {}", workload.number, names.join(", "));
        report::row(name, 3, speedups.into_iter().chain(slowdowns))
    };
    Table::of(workloads.iter().zip(without.iter().zip(with)).map(row))
}

/// Table of the slowdown of each program.
fn slowdowns(workloads: &[Workload], without: &[Outcome], with: &[Outcome]) -> Table {
    let rows =
        workloads.iter().zip(without.iter().zip(with)).flat_map(|(workload, (without, with))| {
            let programs = workload.programs.iter().enumerate();
            programs.map(move |(place, name)| {
                let name = format!("{}: {}", workload.number, short(name));
                report::row(name, 3, [without.slowdowns[place], with.slowdowns[place]])
            })
        });
    Table::of(rows)
}

/// Fig. 5.
pub(super) fn figure_5(runs: &Runs<'_>) -> Result<Found, Failed> {
    let without = runs.outcomes(&Case::of(Partition::None))?;
    let with = runs.outcomes(&Case::of(Partition::Bpm))?;
    let rates = |outcomes: &[Outcome]| -> Vec<f64> {
        outcomes.iter().map(|outcome| 100.0 * outcome.executed.miss_rate()).collect()
    };
    let (before, after) = (rates(&without), rates(&with));
    let less: Vec<f64> = before.iter().zip(&after).map(|(before, after)| before - after).collect();
    let fell = less.iter().filter(|less| **less > 0.0).count();
    Ok(Found {
        plots: vec![Plot::of([bars(&[&before, &after])])],
        values: vec![
            ("w11", before[10]),
            ("w11-less", less[10]),
            ("mean-less", mean(&less)),
            ("share", 100.0 * fell as f64 / less.len() as f64),
        ],
        ..Found::default()
    })
}

/// Memory power (section 5.4).
pub(super) fn power(runs: &Runs<'_>) -> Result<Found, Failed> {
    let without = runs.outcomes(&Case::of(Partition::None))?;
    let with = runs.outcomes(&Case::of(Partition::Bpm))?;
    let less = |value: &dyn Fn(&Outcome) -> f64| -> Vec<f64> {
        let pairs = with.iter().zip(without.iter());
        pairs.map(|(with, without)| 100.0 * (1.0 - value(with) / value(without))).collect()
    };
    let power = less(&|outcome| outcome.executed.energy.watts());
    let energy = less(&|outcome| outcome.executed.energy.nanojoules_per_request());
    let watts: Vec<f64> = without.iter().map(|outcome| outcome.executed.energy.watts()).collect();
    Ok(Found {
        plots: vec![Plot::of([bars(&[&power, &energy])])],
        values: vec![
            ("power", highest(&power)),
            ("power-mean", mean(&power)),
            ("energy-mean", mean(&energy)),
        ],
        remarks: vec![format!(
            "The devices of all eight ranks take {:.1} W on average without BPM.",
            mean(&watts)
        )],
        ..Found::default()
    })
}
