//! Indicators against the gain: Fig. 7.

use memweir_bank::indicators::Indicators;
use memweir_core::{BytesPerSec, metrics};
use memweir_plot::Chart;
use serde::Deserialize;

use super::evaluation::Gains;
use super::programs::Profile;
use super::runs::{Case, Partition, Runs};
use super::workloads::Workload;
use crate::report::{Found, Plot, Table};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::{highest, lowest, mean};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Points of each curve.
    groups: usize,
}

/// The four indicators, by the name of their statement and as the paper writes them.
const FOUR: [(&str, &str); 4] = [
    ("rbl", "Average(RBL)"),
    ("bw", "Sum(BW)"),
    ("stdev", "Stdev(RBL)"),
    ("product", "Sum(BW) x Stdev(RBL)"),
];

fn indicators(workload: &Workload, profiles: &[Profile]) -> [f64; 4] {
    let programs: Vec<(BytesPerSec, f64)> = profiles
        .iter()
        .filter(|profile| workload.programs.contains(&profile.name))
        .map(|profile| (BytesPerSec(profile.alone.bandwidth), profile.alone.rbl))
        .collect();
    let found = Indicators::of(&programs);
    [found.average_rbl, found.sum_bandwidth, found.stdev_rbl, found.product]
}

/// Fig. 7.
pub(super) fn figure_7(data: &FigureData, runs: &Runs<'_>) -> Result<Found, Failed> {
    let parameters: Parameters = data.parameters()?;
    let without = runs.outcomes(&Case::of(Partition::None))?;
    let with = runs.outcomes(&Case::of(Partition::Bpm))?;
    let gains = Gains::of(&with, &without).speedup;
    let profiles = runs.profiles()?;
    let each: Vec<[f64; 4]> =
        runs.workloads.iter().map(|workload| indicators(workload, profiles)).collect();
    let column = |place: usize| -> Vec<f64> { each.iter().map(|four| four[place]).collect() };
    let correlations = [0, 1, 2, 3]
        .map(|place| metrics::rank_correlation(&column(place), &gains).unwrap_or(f64::NAN));
    let others = highest(&correlations[..3]);
    let mut values: Vec<(&'static str, f64)> =
        FOUR.iter().zip(correlations).map(|((id, _), correlation)| (*id, correlation)).collect();
    values.push(("ahead", correlations[3] - others));
    let curves = FOUR
        .iter()
        .enumerate()
        .map(|(place, (_, name))| (*name, grouped(&column(place), &gains, parameters.groups)));
    let chart = Chart::lines(curves);
    Ok(Found {
        plots: vec![Plot::of([chart])],
        tables: vec![table(runs.workloads, &each, &gains)],
        values,
        ..Found::default()
    })
}

/// Means of groups of neighbors in the indicator, which is spread over 0 to 1.
fn grouped(indicator: &[f64], gains: &[f64], groups: usize) -> Vec<(f64, f64)> {
    let (low, high) = (lowest(indicator), highest(indicator));
    let span = if high > low { high - low } else { 1.0 };
    let normal = indicator.iter().map(|value| (value - low) / span);
    let mut pairs: Vec<(f64, f64)> = normal.zip(gains.iter().copied()).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups = groups.clamp(1, pairs.len().max(1));
    (0..groups)
        .map(|group| {
            let of = group * pairs.len() / groups..(group + 1) * pairs.len() / groups;
            let (x, y): (Vec<f64>, Vec<f64>) = pairs[of].iter().copied().unzip();
            (mean(&x), mean(&y))
        })
        .collect()
}

fn table(workloads: &[Workload], each: &[[f64; 4]], gains: &[f64]) -> Table {
    let row = |(workload, (four, gain)): (&Workload, (&[f64; 4], &f64))| {
        vec![
            workload.number.to_string(),
            format!("{:.1}", 100.0 * four[0]),
            format!("{:.2}", four[1] / 1e9),
            format!("{:.1}", 100.0 * four[2]),
            format!("{:.3}", four[3] / 1e9),
            format!("{gain:.2}"),
        ]
    };
    Table::of(workloads.iter().zip(each.iter().zip(gains)).map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_neighbors() {
        let points = grouped(&[3.0, 1.0, 2.0, 5.0], &[30.0, 10.0, 20.0, 50.0], 2);
        assert_eq!(points, [(0.125, 15.0), (0.75, 40.0)]);
        assert_eq!(grouped(&[1.0, 1.0], &[2.0, 4.0], 1), [(0.0, 3.0)]);
    }
}
