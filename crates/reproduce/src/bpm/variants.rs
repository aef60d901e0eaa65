//! The workloads under other conditions: Fig. 8, 9, 10, and other assignments of the colors.

use std::collections::BTreeMap;

use memweir_dram::config::PagePolicy;
use memweir_plot::{Bars, Chart};
use serde::Deserialize;

use super::evaluation::{Gains, bars};
use super::memory::PAPER_MEMORY;
use super::rig::{Conditions, Layout};
use super::runs::{Case, Outcome, Partition, Runs};
use crate::report::{self, Found, Plot, Table};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::mean;

/// Fig. 8.
pub(super) fn figure_8(runs: &Runs<'_>) -> Result<Found, Failed> {
    let normal = Case::of(Partition::None);
    let on = Conditions { page: PagePolicy::Closed { accesses: 1 }, ..Conditions::of_paper() };
    let closed = runs.outcomes(&Case { on, ..normal.clone() })?;
    let open = Gains::of(&runs.outcomes(&normal)?, &closed).speedup;
    let bpm = Gains::of(&runs.outcomes(&Case::of(Partition::Bpm))?, &closed).speedup;
    Ok(Found {
        plots: vec![Plot::of([bars(&[&bpm, &open])])],
        values: vec![("ws", mean(&bpm)), ("open", mean(&open))],
        ..Found::default()
    })
}

/// Fig. 9.
pub(super) fn figure_9(runs: &Runs<'_>) -> Result<Found, Failed> {
    let without = runs.outcomes(&Case::of(Partition::None))?;
    let gains = |partition| -> Result<Gains, Failed> {
        Ok(Gains::of(&runs.outcomes(&Case::of(partition))?, &without))
    };
    let (bpm, banks) = (gains(Partition::Bpm)?, gains(Partition::Banks)?);
    let apart = |partition| {
        let on = Conditions { layout: Layout::Apart, ..Conditions::of_paper() };
        runs.outcomes(&Case { on, partition })
    };
    let cache = Gains::of(&apart(Partition::Bpm)?, &apart(Partition::None)?);
    let means = |gains: &Gains| [mean(&gains.speedup), mean(&gains.fairness)];
    let [cache_ws, cache_ms] = means(&cache);
    let ([bpm_ws, bpm_ms], [banks_ws, banks_ms]) = (means(&bpm), means(&banks));
    let sets = [[cache_ws, cache_ms], [banks_ws, banks_ms], [bpm_ws, bpm_ms]];
    let sets = sets.map(|values| ("", values.to_vec()));
    let means = Bars::of(["weighted speedup", "fairness"], sets);
    let each = bars(&[&cache.speedup, &banks.speedup, &bpm.speedup]);
    Ok(Found {
        plots: vec![Plot::of([means, each])],
        values: vec![
            ("cache-ws", cache_ws),
            ("cache-ms", cache_ms),
            ("bpm-ws", bpm_ws),
            ("bpm-ms", bpm_ms),
            ("banks-ws", banks_ws),
            ("banks-ms", banks_ms),
            ("more-ws", bpm_ws - cache_ws),
            ("more-ms", bpm_ms - cache_ms),
        ],
        ..Found::default()
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Memories {
    /// Devices, the slowest first.
    memories: Vec<String>,
}

/// Bandwidth of all programs of a workload over their number: mean of the workloads, GB/s.
fn bandwidth_per_program(outcomes: &[Outcome]) -> f64 {
    let each = outcomes
        .iter()
        .map(|outcome| outcome.executed.bandwidth / outcome.slowdowns.len() as f64 / 1e9);
    mean(each)
}

/// Results of one memory in Fig. 10.
struct Point {
    memory: String,
    /// Bandwidth of one program in GB/s.
    per_core: f64,
    /// Improvements in percent.
    speedup: f64,
    fairness: f64,
}

/// Fig. 10.
pub(super) fn figure_10(data: &FigureData, runs: &Runs<'_>) -> Result<Found, Failed> {
    let parameters: Memories = data.parameters()?;
    let mut points = Vec::new();
    for memory in &parameters.memories {
        let case = |partition| Case { on: Conditions::with_memory(memory), partition };
        let without = runs.outcomes(&case(Partition::None))?;
        let with = runs.outcomes(&case(Partition::Bpm))?;
        let gains = Gains::of(&with, &without);
        let per_core = bandwidth_per_program(&without);
        let (speedup, fairness) = (mean(&gains.speedup), mean(&gains.fairness));
        points.push(Point { memory: memory.clone(), per_core, speedup, fairness });
    }
    let gain = |place: usize| points.get(place).map_or(f64::NAN, |point| point.speedup);
    let per_core = |place: usize| points.get(place).map_or(f64::NAN, |point| point.per_core);
    let last = points.len().saturating_sub(1);
    let improvements: [fn(&Point) -> f64; 2] = [|point| point.speedup, |point| point.fairness];
    let curves = improvements
        .map(|value| ("", points.iter().map(|point| (point.per_core, value(point))).collect()));
    let chart = Chart::lines(curves);
    let row = |point: &Point| {
        report::row(&point.memory, 2, [point.per_core, point.speedup, point.fairness])
    };
    Ok(Found {
        plots: vec![Plot::of([chart]).captioned(parameters.memories.join(", "))],
        tables: vec![Table::of(points.iter().map(row))],
        values: vec![
            ("slow", gain(0)),
            ("middle", gain(1)),
            ("fast", gain(last)),
            ("more", gain(0) - gain(last)),
            ("per-core-fast", per_core(last)),
            ("per-core-slow", per_core(0)),
        ],
        remarks: vec![format!("The machine of the other figures has {PAPER_MEMORY}.")],
        ..Found::default()
    })
}

/// Colors by demand and by intensity.
pub(super) fn assignment(
    demands: &BTreeMap<String, u32>,
    runs: &Runs<'_>,
) -> Result<Found, Failed> {
    let without = runs.outcomes(&Case::of(Partition::None))?;
    let gains = |partition| -> Result<Gains, Failed> {
        let outcomes = runs.outcomes_with(&Case::of(partition), demands)?;
        Ok(Gains::of(&outcomes, &without))
    };
    let uniform = gains(Partition::Bpm)?;
    let (demand, intensity) = (gains(Partition::Demand)?, gains(Partition::Intensity)?);
    let panel = |of: &dyn Fn(&Gains) -> &[f64]| bars(&[of(&uniform), of(&demand), of(&intensity)]);
    let demanded = |banks: u32| demands.values().filter(|demand| **demand == banks).count();
    Ok(Found {
        plots: vec![Plot::of(vec![
            panel(&|gains| &gains.speedup),
            panel(&|gains| &gains.fairness),
        ])],
        values: vec![
            ("demand", mean(&demand.speedup)),
            ("demand-ms", mean(&demand.fairness)),
            ("intensity", mean(&intensity.speedup)),
            ("intensity-ms", mean(&intensity.fairness)),
        ],
        remarks: vec![format!(
            "Uniform improves weighted speedup by {:.2} % and fairness by {:.2} %. Of {} programs, \
             {} demand 8 banks, {} demand 16, the others more.",
            mean(&uniform.speedup),
            mean(&uniform.fairness),
            demands.len(),
            demanded(8),
            demanded(16)
        )],
        ..Found::default()
    })
}
