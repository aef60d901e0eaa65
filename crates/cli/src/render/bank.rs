//! A bank-level [`BankReport`] as text: each program, the conflicts between programs, and a row per
//! partition.

use std::fmt::Write;

use memweir_bank::outcome::{Improvement, ProgramOutcome};
use memweir_study::bank::report::{BankPoint, BankReport, BatchJob, BatchRun, PartitionRun};

use super::text::{Table, count, counted, known, percent, rate};

/// The whole report.
pub(crate) fn report(report: &BankReport) -> String {
    match report.points.as_slice() {
        [point] if point.at.is_empty() => one(point),
        points => compared(points),
    }
}

/// A row per partition or policy, at each of the points.
fn compared(points: &[BankPoint]) -> String {
    match points.iter().all(|point| point.policies.is_empty()) {
        true => partitions(points),
        false => policies(points),
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
    if let Some(peak) = point.peak {
        let _ = writeln!(text, "memory carries {} when every core reads\n", rate(peak));
    }
    for run in &point.partitions {
        let _ = writeln!(text, "partition {}\n\n{}\n", run.partition, programs(run));
        if let Some(conflicts) = conflicts(run) {
            let _ = writeln!(text, "row conflicts, by who had opened the row\n\n{conflicts}\n");
        }
    }
    for run in &point.policies {
        let _ = writeln!(text, "policy {}\n\n{}\n", run.policy, jobs(run));
    }
    text + &compared(std::slice::from_ref(point)) + "\n" + &notes(point)
}

/// A row per program.
fn programs(run: &PartitionRun) -> Table<(&ProgramOutcome, &Option<String>)> {
    let number = |digits: usize| move |value: f64| format!("{value:.digits$}");
    Table::of(run.outcome.programs.iter().zip(&run.colors))
        .left("program", |(program, _)| program.together.program.clone())
        .right("IPC", |(program, _)| number(2)(program.together.ipc))
        .right("alone", |(program, _)| number(2)(program.ipc_alone))
        .right("slowdown", |(program, _)| number(3)(program.slowdown))
        .right("MPKI", |(program, _)| number(2)(program.together.mpki))
        .right("row hits", |(program, _)| known(program.together.row_hit_rate, percent))
        .right("banks", |(program, _)| known(program.together.bank_parallelism, number(2)))
        .right("bandwidth", |(program, _)| rate(program.together.bandwidth))
        .right("latency", |(program, _)| {
            known(program.together.read_latency_ns, |ns| format!("{ns:.0} ns"))
        })
        .left("colors", |(_, colors)| colors.as_deref().unwrap_or("any").to_owned())
}

/// A row per job.
fn jobs(run: &BatchRun) -> Table<&BatchJob> {
    let millis = |seconds: f64| format!("{:.3} ms", 1e3 * seconds);
    Table::of(&run.jobs)
        .left("job", |job| job.program.clone())
        .right("alone", move |job| millis(job.alone_s))
        .right("on cores", move |job| millis(job.running_s))
        .right("end", move |job| millis(job.finish_s))
}

/// A row per victim, a column per program that was in its way; `None` without conflicts.
fn conflicts(run: &PartitionRun) -> Option<Table<(&ProgramOutcome, &Vec<u64>)>> {
    let (programs, matrix) = (&run.outcome.programs, &run.outcome.conflicts);
    if matrix.iter().flatten().all(|count| *count == 0) {
        return None;
    }
    let rows = Table::of(programs.iter().zip(matrix));
    let table = rows.left("", |(program, _)| program.together.program.clone());
    let of_others = programs.iter().enumerate();
    Some(of_others.fold(table, |table, (other, program)| {
        table.right(&program.together.program, |(_, row)| count(row[other]))
    }))
}

/// A row per policy, at each of the points.
fn policies(points: &[BankPoint]) -> String {
    let rows = points.iter().flat_map(|point| point.policies.iter().map(move |run| (point, run)));
    let table = Table::of(rows)
        .swept(&points[0].at, |(point, _)| &point.at)
        .left("policy", |(_, run)| run.policy.clone())
        .right("turnaround", |(_, run)| format!("{:.3} ms", 1e3 * run.turnaround_s))
        .right("gain", |(_, run)| known(run.gain, |gain| format!("{:+.1} %", 100.0 * gain)))
        .right("bandwidth", |(_, run)| rate(run.bandwidth));
    format!("{table}\n")
}

/// A row per partition, at each of the points.
fn partitions(points: &[BankPoint]) -> String {
    let better = |value: fn(&Improvement) -> f64| {
        move |(_, run): &(&BankPoint, &PartitionRun)| {
            known(run.improvement.as_ref().map(value), |better| format!("{:+.1} %", 100.0 * better))
        }
    };
    let rows = points.iter().flat_map(|point| point.partitions.iter().map(move |run| (point, run)));
    let table = Table::of(rows)
        .swept(&points[0].at, |(point, _)| &point.at)
        .left("partition", |(_, run)| run.partition.clone())
        .right("weighted speedup", |(_, run)| format!("{:.3}", run.outcome.weighted_speedup))
        .right("gain", better(|better| better.weighted_speedup))
        .right("max slowdown", |(_, run)| format!("{:.3}", run.outcome.maximum_slowdown))
        .right("less", better(|better| better.maximum_slowdown))
        .right("harmonic", |(_, run)| format!("{:.3}", run.outcome.harmonic_speedup))
        .right("row misses", |(_, run)| percent(run.outcome.row_miss_rate))
        .right("conflicts", |(_, run)| count(run.outcome.conflicts.iter().flatten().sum()));
    format!("{table}\n")
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
