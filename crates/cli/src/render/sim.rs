//! A simulated [`Report`] as text: a row per policy, at each point of a sweep.

use std::fmt::Write;

use memweir_sim::scenario::report::{Certainty, Overall, Point, PolicySummary, Report};

use super::comparison::{conclusion, difference, spread, verdict};
use super::text::{Align, percent, rate, seconds, table};

/// The whole report.
pub(crate) fn report(report: &Report) -> String {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => one(point),
        points => sweep(points, &report.overall),
    }
}

/// A column: its head, where its text stands, and what it says of a policy.
type Column<'a> = (String, Align, Box<dyn Fn(&Point, &PolicySummary) -> String + 'a>);

/// A scenario that nothing is swept in.
fn one(point: &Point) -> String {
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let mut text = format!(
        "machine {}, {} task{} on {} core{}, quantum {} ms, predictor {}\n",
        point.machine,
        point.tasks,
        plural(point.tasks as u64),
        point.cores,
        plural(point.cores.into()),
        point.quantum_ms,
        point.predictor
    );
    let _ = writeln!(text, "{}\n", of_workload(point));
    text += &rendered(&columns(&[point]), &[point]);
    let repetitions = repetitions(point);
    if repetitions == 1 {
        return text + "\n\none repetition; `--set repetitions=5` tells differences from chance\n";
    }
    let _ = writeln!(
        text,
        "\n\n{repetitions} repetitions with seeds of their own; differences are paired seed by \
         seed, negative is faster",
    );
    for p in &point.policies {
        if let Some(sentence) = conclusion(&p.policy, &point.baseline, p.verdict, p.difference) {
            let _ = writeln!(text, "{sentence}");
        }
    }
    text
}

/// Peak and ideal average bandwidth.
fn of_workload(point: &Point) -> String {
    let mut text = format!("peak {}", rate(point.peak_bandwidth));
    let known: Vec<f64> = point.runs.iter().filter_map(|r| r.ideal_average_bandwidth).collect();
    if let Some(iabw) = memweir_core::metrics::mean(&known) {
        let _ = write!(text, ", ideal average bandwidth {}", rate(iabw));
    }
    text
}

fn repetitions(point: &Point) -> usize {
    point.policies.iter().map(|policy| policy.turnaround_s.len()).max().unwrap_or(0)
}

/// Every point of a sweep in one table, then what each policy gained over all of them.
fn sweep(points: &[Point], overall: &[Overall]) -> String {
    let points: Vec<&Point> = points.iter().collect();
    let mut text = rendered(&columns(&points), &points);
    text.push_str("\n\n");
    let repeated = points.iter().any(|point| repetitions(point) > 1);
    for policy in overall {
        let _ = write!(
            text,
            "{}: gain {} mean of {} points, {} best ({}), {} worst ({})",
            policy.policy,
            signed(policy.mean),
            policy.points,
            signed(policy.best),
            at(&policy.best_at),
            signed(policy.worst),
            at(&policy.worst_at),
        );
        if repeated {
            let _ = write!(text, "; faster at {}, slower at {}", policy.faster, policy.slower);
        }
        text.push('\n');
    }
    text
}

fn at(values: &[(String, String)]) -> String {
    let values: Vec<String> = values.iter().map(|(key, value)| format!("{key}={value}")).collect();
    values.join(" ")
}

/// A gain in percent.
fn signed(gain: f64) -> String {
    format!("{:+.1} %", gain * 100.0)
}

fn rendered(columns: &[Column<'_>], points: &[&Point]) -> String {
    let heads: Vec<(&str, Align)> =
        columns.iter().map(|(h, align, _)| (h.as_str(), *align)).collect();
    let row = |point: &Point, policy: &PolicySummary| {
        columns.iter().map(|(_, _, text)| text(point, policy)).collect()
    };
    let rows = points.iter().flat_map(|point| point.policies.iter().map(move |p| row(point, p)));
    table(&heads, rows.collect())
}

/// The columns that say something: those of repetitions where there are some, that of the optimum
/// where it is known.
fn columns<'a>(points: &[&'a Point]) -> Vec<Column<'a>> {
    let Some(first) = points.first() else { return Vec::new() };
    let mut columns: Vec<Column<'a>> = Vec::new();
    for (place, (key, _)) in first.at.iter().enumerate() {
        let value = move |point: &Point, _: &PolicySummary| point.at[place].1.clone();
        columns.push((key.clone(), Align::Right, Box::new(value)));
    }
    let repeated = points.iter().any(|point| repetitions(point) > 1);
    let with = |name: &str, align, text: fn(&Point, &PolicySummary) -> String| -> Column<'a> {
        (name.to_owned(), align, Box::new(text))
    };
    let against = format!("against {}", first.baseline);
    let level = format!("{:.0} % interval", first.confidence * 100.0);
    columns.push(with("policy", Align::Left, |_, p| p.policy.clone()));
    columns.push(with("turnaround", Align::Right, |_, p| seconds(p.mean_s)));
    if repeated {
        columns.push(with("RSD", Align::Right, |_, p| spread(p.rsd_percent)));
    }
    columns.push(with("gain", Align::Right, gain));
    if repeated {
        columns.push(with(&against, Align::Right, |_, p| difference(p.difference)[0].clone()));
        columns.push(with(&level, Align::Right, |_, p| difference(p.difference)[1].clone()));
    }
    if points.iter().any(|point| point.policies.iter().any(|p| p.share_of_possible.is_some())) {
        columns.push(with("of possible", Align::Right, of_possible));
    }
    columns.push(with("speedup", Align::Right, |_, p| format!("{:.2}", p.weighted_speedup)));
    columns.push(with("bandwidth", Align::Right, |_, p| rate(p.bandwidth_mean)));
    columns.push(with("std", Align::Right, |_, p| rate(p.bandwidth_std)));
    if repeated {
        columns.push(with("verdict", Align::Left, |_, p| verdict(p.verdict).to_owned()));
    }
    columns
}

/// What of the possible gain a policy takes; at least so much where a bound stands for the optimum.
fn of_possible(point: &Point, policy: &PolicySummary) -> String {
    match (policy.share_of_possible, policy.optimum_is) {
        _ if policy.policy == point.baseline => "-".to_owned(),
        (Some(share), Some(Certainty::Bound)) if share > 0.0 => format!("> {}", percent(share)),
        (Some(share), _) => percent(share),
        (None, _) => "-".to_owned(),
    }
}

fn gain(point: &Point, policy: &PolicySummary) -> String {
    if policy.policy == point.baseline {
        return "-".to_owned();
    }
    signed(policy.gain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_sim::scenario::report::{Run, baseline, overall, summaries};

    fn point(at: &[(&str, &str)], repetitions: u32, optimum_s: Option<f64>) -> Point {
        let policies = ["os", "ideal-average"].map(str::to_owned);
        let mut runs = Vec::new();
        for repetition in 0..repetitions {
            for (policy, turnaround_s) in policies.iter().zip([12.0, 10.0]) {
                let jitter = f64::from(repetition) * 0.1;
                runs.push(Run {
                    policy: policy.clone(),
                    repetition,
                    seed: 1,
                    turnaround_s: turnaround_s + jitter * turnaround_s / 10.0,
                    weighted_speedup: 7.5,
                    bandwidth_mean: 3.7e9,
                    bandwidth_std: 0.7e9,
                    ideal_average_bandwidth: Some(4e9),
                    target: None,
                    quanta: 100,
                    copied_bytes: 0,
                    optimum_s,
                    optimum_is: optimum_s.map(|_| Certainty::Best),
                    tasks: Vec::new(),
                });
            }
        }
        Point {
            at: at.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            machine: "iabw".to_owned(),
            cores: 1,
            tasks: 8,
            predictor: "last".to_owned(),
            quantum_ms: 100.0,
            confidence: 0.95,
            peak_bandwidth: 5.1e9,
            baseline: baseline(&policies).to_owned(),
            policies: summaries(&policies, &runs, 0.95),
            runs,
        }
    }

    fn text(points: Vec<Point>) -> String {
        let overall = overall(&points);
        report(&Report { scenario: "mix.toml".to_owned(), points, overall })
    }

    #[test]
    fn one_repetition_has_no_columns_of_chance() {
        let text = text(vec![point(&[], 1, None)]);
        for needle in [
            "machine iabw, 8 tasks on 1 core, quantum 100 ms",
            "+20.0 %",
            "4.0 GB/s",
            "one repetition",
        ] {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
        for absent in ["interval", "verdict", "possible"] {
            assert!(!text.contains(absent), "{absent} is in\n{text}");
        }
    }

    #[test]
    fn repetitions_and_the_optimum_have_theirs() {
        let text = text(vec![point(&[], 3, Some(9.0))]);
        for needle in
            ["95 % interval", "faster", "of possible", "ideal-average is faster than os by"]
        {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
    }

    #[test]
    fn a_sweep_has_its_keys_in_front_and_its_sum_at_the_end() {
        let text = text(vec![
            point(&[("cores", "1"), ("x.y", "a")], 1, None),
            point(&[("cores", "2"), ("x.y", "a")], 1, None),
        ]);
        let head = text.lines().next().expect("a head");
        assert!(head.find("cores") < head.find("x.y") && head.find("x.y") < head.find("policy"));
        assert!(text.contains("ideal-average: gain +20.0 % mean of 2 points"), "{text}");
    }
}
