//! The evaluation: targets against each other and against the OS, Fig. 9 to 14, Table 2, the spread
//! of repetitions, and idle cores.

use memweir_flow::workload::mix::iabw::Set;
use memweir_plot::{Arrangement, Bars};
use serde::Deserialize;

use super::evaluation::{Evaluation, Length, Runs, Treatment};
use super::outcomes::{Outcomes, share};
use super::tuning::{Best, Tuned};
use super::units::UNIT;
use crate::report::{Found, Plot, Table};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::{highest, lowest, mean};

/// The training workloads under PBW, IABW and the best target of each.
fn training<'a>(evaluation: &Evaluation<'a>, tuned: &Tuned) -> Result<Outcomes<'a>, Failed> {
    let named = [("PBW", Treatment::PeakBandwidth), ("IABW", Treatment::IdealAverage)];
    let set = Set::SpecTraining;
    let outcomes = Outcomes::of(evaluation, set, Length::Equal, &named)?;
    let best = evaluation.workloads.set(set).iter().zip(&tuned.workloads);
    let best = best.map(|(workload, best)| evaluation.one(workload, Length::Equal, best.share));
    Ok(outcomes.with("tuned", best.collect::<Result<_, _>>()?))
}

/// Fig. 9.
pub(super) fn figure_9(evaluation: &Evaluation<'_>, tuned: &Tuned) -> Result<Found, Failed> {
    let outcomes = training(evaluation, tuned)?;
    let (pbw, iabw, best) =
        (outcomes.improvements(0), outcomes.improvements(1), outcomes.improvements(2));
    let deviation =
        |at: usize| outcomes.runs.iter().map(|runs| runs[at].deviation()).collect::<Vec<_>>();
    let (pbw_sd, iabw_sd, best_sd) = (deviation(1), deviation(2), deviation(3));
    let less: Vec<f64> = iabw_sd.iter().zip(&pbw_sd).map(|(iabw, pbw)| iabw - pbw).collect();
    let beaten = beaten(&outcomes, tuned, &iabw, &best);
    let high = iabw.len().saturating_sub(5);
    let low: Vec<f64> = [11, 12, 13].map(|index| outcomes.of_workload(index, 0)).into();
    let values = vec![
        ("pbw-worst", lowest(&pbw)),
        ("pbw-low", mean(&low)),
        ("pbw-mean", mean(&pbw)),
        ("iabw-14", outcomes.of_workload(14, 1)),
        ("iabw-high", mean(&iabw[high..])),
        ("iabw-mean", mean(&iabw)),
        ("tuned-best", highest(&best)),
        ("tuned-mean", mean(&best)),
        ("sd-iabw", share(&less, |difference| difference < 0.0)),
        ("sd-tuned", mean(&best_sd) - mean(&pbw_sd).min(mean(&iabw_sd))),
        ("correlation", correlation(&bar_pairs(&outcomes))),
        ("possible", outcomes.possible(2)),
    ];
    let deviations = outcomes.bars(|at| deviation(at + 1));
    let plot = Plot::of([outcomes.improvement_bars(), deviations]);
    Ok(Found {
        plots: vec![plot],
        tables: vec![outcomes.table()],
        values,
        remarks: [
            Some(outcomes.means_in_words()),
            Some(outcomes.possible_in_words()),
            beaten,
            Some(format!(
                "The mean standard deviation is {:.2} {UNIT} under the OS, {:.2} with PBW, {:.2} \
                 with IABW and {:.2} tuned. The tuned target is the best of {} per workload, so \
                 that a part of its gain is luck of the draw, as it is in the paper.",
                mean(deviation(0)),
                mean(&pbw_sd),
                mean(&iabw_sd),
                mean(&best_sd),
                evaluation.workloads.shares.len(),
            )),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ..Found::default()
    })
}

/// Each bar of Fig. 9(a) with its bar of Fig. 9(b), over that of the OS.
fn bar_pairs(outcomes: &Outcomes<'_>) -> Vec<(f64, f64)> {
    let of_workload = |runs: &Vec<Runs>| -> Vec<(f64, f64)> {
        let os = &runs[0];
        let pair = |run: &Runs| (run.deviation() / os.deviation(), run.improvement(os));
        runs[1..].iter().map(pair).collect()
    };
    outcomes.runs.iter().flat_map(of_workload).collect()
}

/// The workloads on which the ideal average bandwidth itself does better than the best target that
/// was tried, in words.
fn beaten(outcomes: &Outcomes<'_>, tuned: &Tuned, iabw: &[f64], best: &[f64]) -> Option<String> {
    let lines: Vec<String> = outcomes
        .workloads
        .iter()
        .zip(&tuned.workloads)
        .zip(iabw.iter().zip(best))
        .filter(|(_, (iabw, best))| iabw > best)
        .map(|((workload, tried), (iabw, best))| {
            let whole = with_whole(tried)
                .map_or_else(String::new, |gain| format!(", {gain:.2} % with a share of 1.00"));
            format!("{} ({iabw:.2} % beside {best:.2} % tuned{whole})", workload.label())
        })
        .collect();
    let why = match tuned.workloads.first().and_then(with_whole) {
        Some(_) => {
            "A share of 1.00 of the ideal average bandwidth is among the targets that were tried, and \
             differs from IABW in rounding alone. The policy chooses between nearly equal sets of \
             jobs, so that rounding is enough for another schedule: differences of this size are \
             chance."
        }
        None => "A quick run does not try a share of 1.00 of the ideal average bandwidth.",
    };
    (!lines.is_empty()).then(|| {
        format!(
            "IABW does better than the best target that was tried on {}. {why}",
            lines.join(", ")
        )
    })
}

/// The improvement with a target that is the ideal average bandwidth itself, if that was tried.
fn with_whole(best: &Best) -> Option<f64> {
    let whole = |(target, _): &&(f64, f64)| (target / best.iabw - 1.0).abs() < 1e-6;
    best.tried.iter().find(whole).map(|(_, gain)| *gain)
}

/// Pearson's correlation of pairs.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let (xs, ys): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (x, y) = (mean(&xs), mean(&ys));
    let covariance: f64 = pairs.iter().map(|(a, b)| (a - x) * (b - y)).sum();
    let squares =
        |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    covariance / (squares(&xs, x) * squares(&ys, y)).sqrt()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BreakdownParameters {
    workload: u32,
}

/// Fig. 10.
pub(super) fn figure_10(
    data: &FigureData,
    evaluation: &Evaluation<'_>,
    tuned: &Tuned,
) -> Result<Found, Failed> {
    let parameters: BreakdownParameters = data.parameters()?;
    let outcomes = training(evaluation, tuned)?;
    let place = outcomes.workloads.iter().position(|w| w.paper.index == parameters.workload);
    let Some(place) = place else { return Ok(Found::default()) };
    let runs = &outcomes.runs[place];
    let edges = [0, 10, 20, 30, 40, usize::MAX];
    let names = ["0-10", "10-20", "20-30", "30-40", "40+"];
    let sets = names.iter().zip(edges.windows(2)).map(|(name, edge)| {
        (*name, runs.iter().map(|runs| runs.share(edge[0], edge[1])).collect())
    });
    let categories = std::iter::once("OS").chain(outcomes.names.iter().copied());
    let bars = Bars { arrangement: Arrangement::Stacked, ..Bars::of(categories, sets) };
    let more = |from: usize, to: usize| runs[1].share(from, to) - runs[0].share(from, to);
    Ok(Found {
        plots: vec![Plot::of([bars]).captioned(outcomes.workloads[place].label())],
        values: vec![("high", more(40, usize::MAX)), ("low", more(0, 10))],
        ..Found::default()
    })
}

/// Treatments of other workloads: PBW, and the target by our curve and by the paper's.
const TRIED: [(&str, Treatment); 3] = [
    ("PBW", Treatment::PeakBandwidth),
    ("IABW, our curve", Treatment::Fitted),
    ("IABW, eq. (11)", Treatment::PaperCurve),
];

/// Fig. 11 and 12.
pub(super) fn figure_11_or_12(evaluation: &Evaluation<'_>, set: Set) -> Result<Found, Failed> {
    let outcomes = Outcomes::of(evaluation, set, Length::Equal, &TRIED)?;
    let [pbw, ours, paper] = [0, 1, 2].map(|at| outcomes.improvements(at));
    let mut values = vec![
        ("mean", mean(&ours)),
        ("pbw-mean", mean(&pbw)),
        ("order", mean(&ours) - mean(&pbw)),
        ("paper-curve", mean(&paper)),
        ("possible", outcomes.possible(1)),
    ];
    if set == Set::Npb {
        let spec = Outcomes::of(evaluation, Set::Spec, Length::Equal, &TRIED)?;
        let all: Vec<f64> = ours.iter().copied().chain(spec.improvements(1)).collect();
        values.extend([
            ("pbw-best", highest(&pbw)),
            ("best", highest(&all)),
            ("worst", lowest(&all)),
            ("all-mean", mean(&all)),
        ]);
    } else {
        values.extend([("best", highest(&ours)), ("worst", lowest(&ours))]);
    }
    Ok(outcomes.found(values))
}

/// Fig. 13 and 14.
pub(super) fn figure_13_or_14(evaluation: &Evaluation<'_>, set: Set) -> Result<Found, Failed> {
    let named = [
        ("long job first", Treatment::LongJobFirst),
        ("PBW", Treatment::PeakBandwidth),
        ("IABW", Treatment::Fitted),
    ];
    let outcomes = Outcomes::of(evaluation, set, Length::Normal, &named)?;
    let [longest, pbw, ours] = [0, 1, 2].map(|at| outcomes.improvements(at));
    let mut values = vec![("mean", mean(&ours)), ("pbw-mean", mean(&pbw))];
    if set == Set::Npb {
        values.extend([
            ("ljf-share", share(&longest, |gain| gain < 0.0)),
            ("order", mean(&ours) - mean(&pbw)),
        ]);
    } else {
        values.extend([
            ("ljf-mean", mean(&longest)),
            ("ljf-best", highest(&longest)),
            ("ljf-order", mean(&longest) - mean(&ours)),
            ("worst", lowest(&ours)),
        ]);
    }
    Ok(outcomes.found(values))
}

/// Table 2: with the saturation filter and without.
pub(super) fn table_2(evaluation: &Evaluation<'_>, tuned: &Tuned) -> Result<Found, Failed> {
    let training = evaluation.workloads.set(Set::SpecTraining);
    let mut differences = Vec::new();
    for (workload, best) in training.iter().zip(&tuned.workloads) {
        let Treatment::Share(share) = best.share else { continue };
        let run = |treatment| evaluation.one(workload, Length::Equal, treatment);
        let os = run(Treatment::Os)?;
        let (with, without) = (run(best.share)?, run(Treatment::Unfiltered(share))?);
        differences.push(with.improvement(&os) - without.improvement(&os));
    }
    let scheduler = evaluation.workloads.scheduler("ideal-average");
    let threshold = scheduler.bus.saturation_threshold().map_or(f64::NAN, super::units::btr);
    let saturation = format!("saturation threshold T_B ({UNIT})");
    let rows = [
        ("cores", scheduler.cores.to_string()),
        ("quantum (ms)", format!("{:.0}", scheduler.quantum.as_millis_f64())),
        ("predictor, with the threshold T_S", scheduler.predictor.to_string()),
        (saturation.as_str(), format!("{threshold:.1}")),
    ];
    Ok(Found {
        tables: vec![Table::of(rows.map(|(name, value)| vec![name.to_owned(), value]))],
        values: vec![("filter", mean(&differences))],
        ..Found::default()
    })
}

/// %RSD of the repetitions.
pub(super) fn repetitions(evaluation: &Evaluation<'_>, tuned: &Tuned) -> Result<Found, Failed> {
    let outcomes = training(evaluation, tuned)?;
    let spread = |at: usize| mean(outcomes.runs.iter().map(|runs| runs[at].spread()));
    Ok(Found { values: vec![("os", spread(0)), ("tuned", spread(3))], ..Found::default() })
}

/// Idle cores where they pay.
pub(super) fn idle(evaluation: &Evaluation<'_>) -> Result<Found, Failed> {
    let named = [("every core", Treatment::Fitted), ("cores auto", Treatment::AutoCores)];
    let outcomes = Outcomes::of(evaluation, Set::SpecTraining, Length::Equal, &named)?;
    let (full, auto) = (outcomes.improvements(0), outcomes.improvements(1));
    let gains: Vec<f64> = auto.iter().zip(&full).map(|(auto, full)| auto - full).collect();
    Ok(outcomes.found(vec![("auto", mean(&gains)), ("auto-best", highest(&gains))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlation_by_hand() {
        assert!((correlation(&[(0.0, 1.0), (1.0, 0.0), (2.0, -1.0)]) + 1.0).abs() < 1e-12);
        // Deviations -1 0 1 and -1 2 -1: no correlation.
        assert!(correlation(&[(1.0, 1.0), (2.0, 4.0), (3.0, 1.0)]).abs() < 1e-12);
    }
}
