//! Finding the best target by hand, and the curve through the best targets: Fig. 7 and 8.

use memweir_core::Parabola;
use memweir_flow::workload::mix::iabw::Set;
use memweir_plot::{Bars, Chart, Level, PALETTE, Panel, Series, Style};
use memweir_policy::TargetCurve;
use serde::Deserialize;

use super::combinations::{Combination, line, reached};
use super::evaluation::{Evaluation, Length, Runs, Treatment};
use super::units::{TRANSACTION, UNIT, btr, peak, rate};
use super::workloads::Counterpart;
use crate::report::{self, Found, Plot, Table};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::{highest, mean};

/// The best target of every training workload, and the curve through them.
pub(super) struct Tuned {
    /// In the order of Table 1.
    pub(super) workloads: Vec<Best>,
    /// The polynomial of degree two through the best targets, as the policy takes it.
    pub(super) curve: TargetCurve,
}

/// Result of tuning for one workload.
pub(super) struct Best {
    /// Ideal average bandwidth of the workload.
    pub(super) iabw: f64,
    /// Target and improvement over the OS in percent, in ascending order of the target.
    pub(super) tried: Vec<(f64, f64)>,
    /// The best share of the ideal average bandwidth.
    pub(super) share: Treatment,
    /// The target that it amounts to.
    pub(super) target: f64,
}

/// Tries every target on every training workload.
pub(super) fn tune(evaluation: &Evaluation<'_>) -> Result<Tuned, Failed> {
    let shares: Vec<Treatment> =
        evaluation.workloads.shares.iter().map(|share| thousandths(*share)).collect();
    let treatments: Vec<Treatment> =
        std::iter::once(Treatment::Os).chain(shares.iter().copied()).collect();
    let runs = evaluation.of(Set::SpecTraining, Length::Equal, &treatments)?;
    let peak = peak(&evaluation.workloads.hardware.machine);
    let workloads: Vec<Best> = evaluation
        .workloads
        .set(Set::SpecTraining)
        .iter()
        .zip(&runs)
        .map(|(workload, runs)| best(workload, &shares, &evaluation.workloads.shares, runs, peak))
        .collect();
    let points: Vec<_> =
        workloads.iter().map(|best| (rate(best.iabw), rate(best.target))).collect();
    let curve = TargetCurve::fit(&points)
        .map_err(|error| memweir_core::input::InputError::new("figure 8", error.to_string()))?;
    Ok(Tuned { workloads, curve })
}

fn thousandths(share: f64) -> Treatment {
    Treatment::Share((share * 1000.0).round() as u32)
}

fn best(
    workload: &Counterpart,
    treatments: &[Treatment],
    shares: &[f64],
    runs: &[Runs],
    peak: f64,
) -> Best {
    let iabw = btr(workload.equal.iabw);
    let (os, tuned) = (&runs[0], &runs[1..]);
    let gains = tuned.iter().map(|runs| runs.improvement(os));
    let tried: Vec<(f64, f64)> = shares.iter().map(|share| share * iabw).zip(gains).collect();
    // Takes the lowest of the best ones: all targets from the peak on are the same.
    let at = (0..tried.len()).rev().max_by(|a, b| tried[*a].1.total_cmp(&tried[*b].1)).unwrap_or(0);
    Best { iabw, target: tried[at].0.min(peak), share: treatments[at], tried }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TuningParameters {
    workload: u32,
    band: [f64; 2],
}

/// Fig. 7.
pub(super) fn figure_7(
    data: &FigureData,
    evaluation: &Evaluation<'_>,
    tuned: &Tuned,
) -> Result<Found, Failed> {
    let parameters: TuningParameters = data.parameters()?;
    let training = evaluation.workloads.set(Set::SpecTraining);
    let mut pairs = training.iter().zip(&tuned.workloads);
    let wanted =
        |(workload, _): &(&Counterpart, &Best)| workload.paper.index == parameters.workload;
    let Some((workload, best)) = pairs.find(wanted) else { return Ok(Found::default()) };
    let os = evaluation.one(workload, Length::Equal, Treatment::Os)?;
    let at_best = evaluation.one(workload, Length::Equal, best.share)?;
    let gain = highest(best.tried.iter().map(|(_, gain)| *gain));
    let [from, to] = parameters.band.map(|edge| edge as usize);
    let time = |(target, gain): &(f64, f64)| (*target, os.turnaround() / (1.0 + gain / 100.0));
    let turnaround = Chart {
        x_start: (best.tried.first().map_or(0.0, |(target, _)| *target) - 1.0).floor(),
        y_start: Some(lowest(&best.tried, os.turnaround()) * 0.99),
        levels: vec![Level::new("OS", os.turnaround(), PALETTE[5])],
        ..Chart::lines([("", best.tried.iter().map(time).collect())])
    };
    let bands: Vec<usize> = (0..44).step_by(4).collect();
    let set = |runs: &Runs| ("", bands.iter().map(|band| runs.share(*band, band + 4)).collect());
    let names = bands.iter().map(|band| format!("{band}-{}", band + 4));
    let distribution = Bars::of(names, [&os, &at_best].map(set)).colored([PALETTE[6], PALETTE[0]]);
    Ok(Found {
        plots: vec![
            Plot::of([Panel::Chart(turnaround), distribution.into()]).captioned(workload.label()),
        ],
        values: vec![
            ("best-target", best.target),
            ("gain", gain),
            ("concentrated", at_best.share(from, to)),
        ],
        remarks: vec![format!(
            "Under the OS {:.1} % of the quanta lie between {from} and {to} {UNIT}.",
            os.share(from, to)
        )],
        ..Found::default()
    })
}

fn lowest(tried: &[(f64, f64)], os: f64) -> f64 {
    tried.iter().map(|(_, gain)| os / (1.0 + gain / 100.0)).fold(os, f64::min)
}

/// Fig. 8.
pub(super) fn figure_8(tuned: &Tuned, combinations: &[Combination], peak: f64) -> Found {
    let curve = parabola(&tuned.curve);
    let hogsim = reached(combinations);
    let gap = |iabw: f64| iabw - curve.at(iabw);
    let right = hogsim
        .map_or(f64::NAN, |fit| mean((25..=60).map(f64::from).map(|x| fit.at(x) - curve.at(x))));
    let chart = Chart {
        series: targets(tuned, &curve, hogsim.as_ref()),
        levels: vec![Level::new("peak", peak, PALETTE[6])],
        ..Chart::default()
    };
    let table = Table::of(tuned.workloads.iter().map(row)).columns(shares(tuned));
    let spread = Bars::of(shares(tuned), [("", by_share(tuned))]);
    Found {
        plots: vec![Plot::of([Panel::Chart(chart), spread.into()])],
        tables: vec![table],
        values: vec![
            ("quadratic", curve.quadratic),
            ("linear", curve.linear),
            ("constant", curve.constant),
            ("at-30", curve.at(30.0)),
            ("at-45", curve.at(45.0)),
            ("at-60", curve.at(60.0)),
            ("gap-grows", gap(60.0) - gap(30.0)),
            ("right-of-hogsim", right),
        ],
        remarks: vec![format!(
            "The fit explains {:.0} % of the variance of the best targets (R squared {:.2}).",
            100.0 * curve.r_squared,
            curve.r_squared
        )],
        ..Found::default()
    }
}

/// The best targets, the polynomial through them, the paper's, and the regression of Fig. 6.
fn targets(tuned: &Tuned, curve: &Parabola, hogsim: Option<&Parabola>) -> Vec<Series> {
    let best = tuned.workloads.iter().map(|best| (best.iabw, best.target)).collect();
    let (from, to) = (btr(tuned.curve.iabw_min), btr(tuned.curve.iabw_max));
    let paper = parabola(&TargetCurve::paper());
    let series = |points, style, color| Series::new("", points, style, color);
    let span = |fit: &Parabola, from: f64, to: f64| -> Vec<(f64, f64)> {
        line(fit, to).into_iter().filter(|(x, _)| *x >= from).collect()
    };
    let hogsim = hogsim.map(|fit| series(span(fit, 15.0, 62.9), Style::Dashes, PALETTE[2]));
    [
        series(best, Style::Dots, PALETTE[0]),
        series(span(curve, from, to), Style::Line, PALETTE[0]),
        series(span(&paper, 23.2, 62.9), Style::Line, PALETTE[5]),
    ]
    .into_iter()
    .chain(hogsim)
    .collect()
}

/// The curve in the paper's unit.
fn parabola(curve: &TargetCurve) -> Parabola {
    let unit = TRANSACTION / 1e9;
    Parabola {
        quadratic: curve.quadratic * unit,
        linear: curve.linear,
        constant: curve.constant / unit,
        r_squared: curve.r_squared.unwrap_or(f64::NAN),
    }
}

/// The targets that were tried, as shares of the ideal average bandwidth.
fn shares(tuned: &Tuned) -> impl Iterator<Item = String> {
    tuned
        .workloads
        .first()
        .into_iter()
        .flat_map(|best| best.tried.iter().map(|(target, _)| format!("{:.2}", target / best.iabw)))
}

fn row(best: &Best) -> Vec<String> {
    let gains = best.tried.iter().map(|(_, gain)| *gain);
    report::row(format!("{:.1}", best.iabw), 1, std::iter::once(best.target).chain(gains))
}

fn by_share(tuned: &Tuned) -> Vec<f64> {
    let count = tuned.workloads.first().map_or(0, |best| best.tried.len());
    (0..count).map(|at| mean(tuned.workloads.iter().map(|best| best.tried[at].1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_change_their_unit_and_back() {
        let paper = parabola(&TargetCurve::paper());
        // Eq. (11) at 33.3: -13.085 + 48.521 - 6.240.
        assert!((paper.at(33.3) - 29.196).abs() < 1e-3, "{}", paper.at(33.3));
        assert!((paper.quadratic + 0.0118).abs() < 1e-9 && (paper.constant + 6.2403).abs() < 1e-9);
    }
}
