//! A simulated [`Report`] as text: a row per policy, at each point of a sweep.

use std::fmt::Write;

use memweir_core::verdict::Verdict;
use memweir_study::flow::report::{
    Certainty, MemoryFigures, Overall, Point, PolicySummary, Report,
};

mod queueing;

use super::comparison::{conclusion, spread};
use super::text::{Table, counted, interval, percent, rate, seconds, terminal_width};

/// A share of the possible that is shown as all of it.
const WHOLE: f64 = 0.9995;

/// The whole report.
pub(crate) fn report(report: &Report) -> String {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => one(point),
        points => sweep(points, &report.overall),
    }
}

/// A scenario without a sweep.
fn one(point: &Point) -> String {
    let mut text = format!(
        "machine {}, {} on {}, quantum {} ms, predictor {}\n",
        point.machine,
        counted(point.tasks as u64, "task"),
        counted(point.cores.into(), "core"),
        point.quantum_ms,
        point.predictor
    );
    if point.memories.len() > 1 {
        let _ = writeln!(text, "{}", memories(&point.memories));
    }
    let _ = writeln!(text, "{}\n", of_workload(point));
    let _ = write!(text, "{}", compared(std::slice::from_ref(point)).within(terminal_width()));
    if let Some(log) = &point.log {
        let _ = write!(text, "\n\n{}", queueing::of(point, log));
    }
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

/// The latencies of the memories, and their ratios to that of DRAM: a figure of a data sheet means
/// another ratio beside another DRAM.
fn memories(memories: &[MemoryFigures]) -> String {
    let figures = |(place, memory): (usize, &MemoryFigures)| {
        let [read, write] = [memory.read_latency_ns, memory.write_latency_ns];
        match place {
            0 => format!("{} {read} ns", memory.name),
            _ => format!(
                "{} {read} ns read ({:.2} x), {write} ns write ({:.2} x)",
                memory.name, memory.read_ratio, memory.write_ratio
            ),
        }
    };
    let all: Vec<String> = memories.iter().enumerate().map(figures).collect();
    format!("memories: {}", all.join("; "))
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

/// Every point of a sweep in one table, then the gain of each policy over all of them.
fn sweep(points: &[Point], overall: &[Overall]) -> String {
    let mut text = format!("{}\n\n", compared(points).within(terminal_width()));
    let repeated = points.iter().any(|point| repetitions(point) > 1);
    for policy in overall {
        let _ = write!(
            text,
            "{}: gain {} mean of {}, {} best ({}), {} worst ({})",
            policy.policy,
            signed(policy.mean),
            counted(policy.points as u64, "point"),
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

/// A row per policy and point, with the columns that have content: those of repetitions if there
/// are some, that of the optimum if it is known.
fn compared(points: &[Point]) -> Table<(&Point, &PolicySummary)> {
    let rows = points.iter().flat_map(|point| point.policies.iter().map(move |p| (point, p)));
    let mut table = Table::of(rows);
    let Some(first) = points.first() else { return table };
    let repeated = points.iter().any(|point| repetitions(point) > 1);
    let bounded = |policy: &PolicySummary| policy.share_of_possible.is_some();
    table = table
        .swept(&first.at, |(point, _)| &point.at)
        .left("policy", |(_, p)| p.policy.clone())
        .right("turnaround", |(_, p)| seconds(p.mean_s));
    if repeated {
        table = table.right("RSD", |(_, p)| spread(p.rsd_percent)).expendable(3);
    }
    table = table.right("gain", gain);
    if repeated {
        let head = format!("time, {}", interval(first.confidence));
        table = table.right(head, difference).expendable(1);
    }
    if points.iter().any(|point| point.policies.iter().any(bounded)) {
        table = table.right("of possible", of_possible).expendable(2);
    }
    table = table
        .right("speedup", |(_, p)| format!("{:.2}", p.weighted_speedup))
        .expendable(4)
        .right("bandwidth", |(_, p)| rate(p.bandwidth_mean))
        .expendable(5)
        .right("std", |(_, p)| rate(p.bandwidth_std))
        .expendable(6);
    match repeated && !first.at.is_empty() {
        true => table.left("verdict", |(_, p)| short(p.verdict)),
        false => table,
    }
}

/// The difference of turnaround in percent of the baseline's, and its interval.
fn difference((point, policy): &(&Point, &PolicySummary)) -> String {
    let base = point.policies.iter().find(|p| p.policy == point.baseline).map(|p| p.mean_s);
    match (policy.difference, base.filter(|base| *base > 0.0)) {
        (Some(d), Some(base)) => {
            let percent = |seconds: f64| 100.0 * seconds / base;
            format!("{:+.1} % ({:+.1} to {:+.1})", d.percent, percent(d.low_s), percent(d.high_s))
        }
        _ => "-".to_owned(),
    }
}

/// A verdict in the space of a table of many rows.
fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Baseline => "-",
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference",
        Verdict::TooFewRounds => "one seed",
        // Simulated jobs do not fail.
        Verdict::Void => "void",
    }
}

/// Share of the possible gain that a policy takes. Where a bound stands for the optimum, which
/// gains no more, the share of a gain is a lower limit, and that of a loss an upper one.
fn of_possible((point, policy): &(&Point, &PolicySummary)) -> String {
    match (policy.share_of_possible, policy.optimum_is) {
        _ if policy.policy == point.baseline => "-".to_owned(),
        (Some(share), Some(Certainty::Bound)) if share > 0.0 && share < WHOLE => {
            format!("> {}", percent(share))
        }
        (Some(share), Some(Certainty::Bound)) if share < 0.0 => format!("< {}", percent(share)),
        (Some(share), _) => percent(share),
        (None, _) => "-".to_owned(),
    }
}

fn gain((point, policy): &(&Point, &PolicySummary)) -> String {
    if policy.policy == point.baseline {
        return "-".to_owned();
    }
    signed(policy.gain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_study::flow::report::{Run, baseline, overall, summaries};

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
                    queueing: None,
                    tasks: Vec::new(),
                });
            }
        }
        Point {
            at: at.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            machine: "iabw".to_owned(),
            memories: Vec::new(),
            cores: 1,
            tasks: 8,
            log: None,
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
        report(&Report { version: "1", scenario: "mix.toml".to_owned(), points, overall })
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
    fn a_narrow_terminal_sees_what_matters_most() {
        let point = point(&[], 3, Some(9.0));
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let narrow = compared(std::slice::from_ref(&point)).within(Some(70)).to_string();
        assert!(widest(&narrow) <= 70, "{narrow}");
        assert!(narrow.contains("gain") && narrow.contains("interval"), "{narrow}");
        assert!(!narrow.contains("std") && !narrow.contains("speedup"), "{narrow}");
        let none = compared(std::slice::from_ref(&point)).within(Some(1)).to_string();
        assert!(none.contains("turnaround") && none.contains("gain"), "{none}");
        let piped = compared(std::slice::from_ref(&point)).within(None).to_string();
        assert!(piped.contains("std"), "{piped}");
    }

    #[test]
    fn several_memories_are_shown_with_their_ratios_to_dram() {
        let mut point = point(&[], 1, None);
        let memory = |name: &str, ns: f64| MemoryFigures {
            name: name.to_owned(),
            capacity: 1e9,
            read_latency_ns: ns,
            write_latency_ns: 2.0 * ns,
            read_ratio: ns / 25.0,
            write_ratio: 2.0 * ns / 25.0,
        };
        point.memories = vec![memory("dram", 25.0), memory("slow", 250.0)];
        let text = text(vec![point]);
        let line = "memories: dram 25 ns; slow 250 ns read (10.00 x), 500 ns write (20.00 x)\n";
        assert!(text.contains(line), "{text}");
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
