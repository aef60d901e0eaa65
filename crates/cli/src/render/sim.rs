//! A simulated [`Report`] as text: a row per policy, at each point of a sweep.

use std::fmt::Write;

use memweir_core::verdict::Verdict;
use memweir_study::flow::report::{
    Certainty, MemoryFigures, Overall, Point, PolicySummary, Report,
};

mod queueing;

use super::comparison::{conclusion, spread};
use super::text::{Align, counted, natural_width, percent, rate, seconds, table, terminal_width};

/// The whole report.
pub(crate) fn report(report: &Report) -> String {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => one(point),
        points => sweep(points, &report.overall),
    }
}

/// Text of a column for a policy at a point.
type Cell<'a> = Box<dyn Fn(&Point, &PolicySummary) -> String + 'a>;

/// A column of the table.
struct Column<'a> {
    head: String,
    align: Align,
    /// Order of removal from a table that is too wide: the highest first, those of 0 never.
    expendable: u8,
    cell: Cell<'a>,
}

impl<'a> Column<'a> {
    fn new(
        head: impl Into<String>,
        align: Align,
        expendable: u8,
        cell: impl Fn(&Point, &PolicySummary) -> String + 'a,
    ) -> Self {
        Self { head: head.into(), align, expendable, cell: Box::new(cell) }
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
    text += &rendered(columns(&[point]), &[point], terminal_width());
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
    let points: Vec<&Point> = points.iter().collect();
    let mut text = rendered(columns(&points), &points, terminal_width());
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

/// The table, without the columns that do not fit into `room`.
fn rendered(mut columns: Vec<Column<'_>>, points: &[&Point], room: Option<usize>) -> String {
    loop {
        let row = |point: &Point, policy: &PolicySummary| -> Vec<String> {
            columns.iter().map(|column| (column.cell)(point, policy)).collect()
        };
        let rows: Vec<Vec<String>> = points
            .iter()
            .flat_map(|p| p.policies.iter().map(move |policy| row(p, policy)))
            .collect();
        let heads: Vec<&str> = columns.iter().map(|column| column.head.as_str()).collect();
        let fits = room.is_none_or(|room| natural_width(&heads, &rows) <= room);
        let next = (0..columns.len()).max_by_key(|index| columns[*index].expendable);
        match next.filter(|index| !fits && columns[*index].expendable > 0) {
            Some(index) => drop(columns.remove(index)),
            None => {
                let heads: Vec<_> = columns.iter().map(|c| (c.head.as_str(), c.align)).collect();
                return table(&heads, rows);
            }
        }
    }
}

/// The columns that have content: those of repetitions if there are some, that of the optimum if it
/// is known.
fn columns<'a>(points: &[&'a Point]) -> Vec<Column<'a>> {
    use Align::{Left, Right};
    let Some(first) = points.first() else { return Vec::new() };
    let repeated = points.iter().any(|point| repetitions(point) > 1);
    let swept = !first.at.is_empty();
    let bounded = |policy: &PolicySummary| policy.share_of_possible.is_some();
    let mut columns: Vec<Column<'a>> = Vec::new();
    for (place, (key, _)) in first.at.iter().enumerate() {
        columns.push(Column::new(key, Right, 0, move |point, _| point.at[place].1.clone()));
    }
    columns.push(Column::new("policy", Left, 0, |_, p| p.policy.clone()));
    columns.push(Column::new("turnaround", Right, 0, |_, p| seconds(p.mean_s)));
    if repeated {
        columns.push(Column::new("RSD", Right, 3, |_, p| spread(p.rsd_percent)));
    }
    columns.push(Column::new("gain", Right, 0, gain));
    if repeated {
        let head = format!("time, {:.0} % interval", first.confidence * 100.0);
        columns.push(Column::new(head, Right, 1, difference));
    }
    if points.iter().any(|point| point.policies.iter().any(bounded)) {
        columns.push(Column::new("of possible", Right, 2, of_possible));
    }
    columns.push(Column::new("speedup", Right, 4, |_, p| format!("{:.2}", p.weighted_speedup)));
    columns.push(Column::new("bandwidth", Right, 5, |_, p| rate(p.bandwidth_mean)));
    columns.push(Column::new("std", Right, 6, |_, p| rate(p.bandwidth_std)));
    if repeated && swept {
        columns.push(Column::new("verdict", Left, 0, |_, p| short(p.verdict).to_owned()));
    }
    columns
}

/// The difference of turnaround in percent of the baseline's, and its interval.
fn difference(point: &Point, policy: &PolicySummary) -> String {
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

/// Share of the possible gain that a policy takes; a lower limit where a bound stands for the
/// optimum.
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
        let narrow = rendered(columns(&[&point]), &[&point], Some(70));
        assert!(widest(&narrow) <= 70, "{narrow}");
        assert!(narrow.contains("gain") && narrow.contains("interval"), "{narrow}");
        assert!(!narrow.contains("std") && !narrow.contains("speedup"), "{narrow}");
        let none = rendered(columns(&[&point]), &[&point], Some(1));
        assert!(none.contains("turnaround") && none.contains("gain"), "{none}");
        let piped = rendered(columns(&[&point]), &[&point], None);
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
