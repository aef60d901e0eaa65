//! A bank-level [`BankReport`] as text: each program, the conflicts between programs, and a row per
//! partition.

use std::fmt::Write;

use memweir_bank::outcome::Improvement;
use memweir_study::bank::report::{BankPoint, BankReport, PartitionRun};

use super::text::{Align, count, counted, percent, rate, table};

/// The whole report.
pub(crate) fn report(report: &BankReport) -> String {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => one(point),
        points => sweep(points),
    }
}

fn one(point: &BankPoint) -> String {
    let mut text = format!(
        "machine {}, {}, {}, seed {}\n\n",
        point.machine,
        counted(point.alone.len() as u64, "program"),
        counted(point.colors.into(), "page color"),
        point.seed
    );
    for run in &point.partitions {
        let _ = writeln!(text, "partition {}\n\n{}\n", run.partition, programs(run));
        if let Some(conflicts) = conflicts(run) {
            let _ = writeln!(text, "row conflicts, by who had opened the row\n\n{conflicts}\n");
        }
    }
    text + &partitions(&[point]) + "\n" + &notes(point)
}

/// A row per program.
fn programs(run: &PartitionRun) -> String {
    let right = |head| (head, Align::Right);
    let columns = [
        ("program", Align::Left),
        right("IPC"),
        right("alone"),
        right("slowdown"),
        right("MPKI"),
        right("row hits"),
        right("banks"),
        right("bandwidth"),
        right("latency"),
        ("colors", Align::Left),
    ];
    let rows = run.outcome.programs.iter().zip(&run.colors).map(|(program, colors)| {
        let own = &program.together;
        vec![
            own.program.clone(),
            format!("{:.2}", own.ipc),
            format!("{:.2}", program.ipc_alone),
            format!("{:.3}", program.slowdown),
            format!("{:.2}", own.mpki),
            own.row_hit_rate.map_or("-".to_owned(), percent),
            own.bank_parallelism.map_or("-".to_owned(), |banks| format!("{banks:.2}")),
            rate(own.bandwidth),
            own.read_latency_ns.map_or("-".to_owned(), |ns| format!("{ns:.0} ns")),
            colors.clone().unwrap_or_else(|| "any".to_owned()),
        ]
    });
    table(&columns, rows.collect())
}

/// A row per victim, a column per program that was in its way; `None` without conflicts.
fn conflicts(run: &PartitionRun) -> Option<String> {
    let matrix = &run.outcome.conflicts;
    if matrix.iter().flatten().all(|count| *count == 0) {
        return None;
    }
    let names: Vec<String> =
        run.outcome.programs.iter().map(|program| program.together.program.clone()).collect();
    let mut columns = vec![("", Align::Left)];
    columns.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    let rows = names.iter().zip(matrix).map(|(name, row)| {
        std::iter::once(name.clone()).chain(row.iter().map(|number| count(*number))).collect()
    });
    Some(table(&columns, rows.collect()))
}

/// A row per partition, at each of the points.
fn partitions(points: &[&BankPoint]) -> String {
    let keys: Vec<String> = points[0].at.iter().map(|(key, _)| key.clone()).collect();
    let mut columns: Vec<(&str, Align)> =
        keys.iter().map(|key| (key.as_str(), Align::Right)).collect();
    let right = |head| (head, Align::Right);
    columns.push(("partition", Align::Left));
    columns.extend(
        ["weighted speedup", "gain", "max slowdown", "less", "harmonic", "row misses", "conflicts"]
            .map(right),
    );
    let rows = points.iter().flat_map(|point| {
        point.partitions.iter().map(move |run| {
            let better = |value: fn(&Improvement) -> f64| {
                run.improvement
                    .as_ref()
                    .map_or("-".to_owned(), |better| format!("{:+.1} %", 100.0 * value(better)))
            };
            let outcome = &run.outcome;
            let conflicts = outcome.conflicts.iter().flatten().sum();
            let own = [
                run.partition.clone(),
                format!("{:.3}", outcome.weighted_speedup),
                better(|better| better.weighted_speedup),
                format!("{:.3}", outcome.maximum_slowdown),
                better(|better| better.maximum_slowdown),
                format!("{:.3}", outcome.harmonic_speedup),
                percent(outcome.row_miss_rate),
                count(conflicts),
            ];
            point.at.iter().map(|(_, value)| value.clone()).chain(own).collect()
        })
    });
    table(&columns, rows.collect()) + "\n"
}

fn sweep(points: &[BankPoint]) -> String {
    partitions(&points.iter().collect::<Vec<_>>())
}

/// Indicators, spilled pages, and programs that miss the requested characteristics.
fn notes(point: &BankPoint) -> String {
    let mut text = String::new();
    if let Some(run) = point.partitions.first() {
        let indicators = &run.outcome.indicators;
        let _ = writeln!(
            text,
            "alone: Average(RBL) {}, Sum(BW) {}, Stdev(RBL) {}, Sum(BW)*Stdev(RBL) {}",
            percent(indicators.average_rbl),
            rate(indicators.sum_bandwidth),
            percent(indicators.stdev_rbl),
            rate(indicators.product),
        );
    }
    for run in point.partitions.iter().filter(|run| run.outcome.spilled > 0) {
        let _ = writeln!(
            text,
            "{}: {} of {} pages got other colors, their own were used up",
            run.partition,
            count(run.outcome.spilled),
            count(run.outcome.faults)
        );
    }
    for alone in &point.alone {
        if let Some(fit) = alone.fit.filter(|fit| !fit.reached) {
            let _ = writeln!(
                text,
                "{} is not as asked on this machine: MPKI {:.2} for {:.2}, row hits {} for {}, \
                 banks {:.2} for {:.2}",
                alone.run.program,
                fit.mpki[1],
                fit.mpki[0],
                percent(fit.rbl[1]),
                percent(fit.rbl[0]),
                fit.blp[1],
                fit.blp[0],
            );
        }
    }
    text
}
