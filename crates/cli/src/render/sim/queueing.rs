//! The results of a job log as text: wait, response and slowdown of its jobs under each policy.

use memweir_study::flow::log::LogFigures;
use memweir_study::flow::queueing::{Distribution, Queueing};
use memweir_study::flow::report::Point;

use crate::render::text::{Align, count, counted, percent, seconds, table};

/// The log, and a row for each policy.
pub(super) fn of(point: &Point, log: &LogFigures) -> String {
    let figures = point.policies.iter().filter_map(|policy| Some((policy, policy.queueing?)));
    let rows = figures.flat_map(|(policy, figures)| rows(&policy.policy, &figures)).collect();
    let columns = [
        ("policy", Align::Left),
        ("of a job", Align::Left),
        ("mean", Align::Right),
        ("p50", Align::Right),
        ("p95", Align::Right),
        ("p99", Align::Right),
        ("utilization", Align::Right),
    ];
    format!("{}\n\n{}", sentence(log), table(&columns, rows))
}

/// The jobs of the log, those that are left out, and the scales.
fn sentence(log: &LogFigures) -> String {
    let mut text = format!("log {}, {}", log.file, counted(log.jobs as u64, "job"));
    if !log.left_out.is_empty() {
        let out = log.left_out.iter();
        let out = out.map(|(reason, number)| format!("{} {}", count(*number), reason.reason()));
        text += &format!("; left out: {}", out.collect::<Vec<_>>().join(", "));
    }
    if log.time_scale != 1.0 {
        text += &format!("; {} s simulated for each second", log.time_scale);
    }
    let (admitted, bound) = (counted(u64::from(log.admitted), "task"), seconds(log.bound_s));
    format!("{text}\nat most {admitted} admitted; slowdown bounded at {bound}")
}

fn rows(policy: &str, figures: &Queueing) -> [Vec<String>; 3] {
    let row = |head: [&str; 2], distribution: &Distribution, shown: fn(f64) -> String| {
        let Distribution { mean, p50, p95, p99, .. } = *distribution;
        let mut row = head.map(str::to_owned).to_vec();
        row.extend([mean, p50, p95, p99].map(shown));
        row.push(String::new());
        row
    };
    let mut rows = [
        row([policy, "wait"], &figures.wait_s, seconds),
        row(["", "response"], &figures.response_s, seconds),
        row(["", "bounded slowdown"], &figures.bounded_slowdown, |value| format!("{value:.2}")),
    ];
    rows[0][6] = percent(figures.utilization);
    rows
}
