//! The results of a job log as text: wait, response and slowdown of its jobs under each policy.

use memweir_study::flow::log::LogFigures;
use memweir_study::flow::queueing::{Distribution, Queueing};
use memweir_study::flow::report::Point;

use crate::render::text::{Table, count, counted, percent, seconds};

/// One row: a quantity of the jobs under a policy.
struct Row<'a> {
    policy: &'a str,
    quantity: &'static str,
    distribution: Distribution,
    shown: fn(f64) -> String,
    utilization: Option<f64>,
}

/// The log, and three rows for each policy.
pub(super) fn of(point: &Point, log: &LogFigures) -> String {
    let figures = point.policies.iter().filter_map(|policy| Some((policy, policy.queueing?)));
    let rows = figures.flat_map(|(policy, figures)| rows(&policy.policy, &figures));
    let of = |figure: fn(&Distribution) -> f64| {
        move |row: &Row<'_>| (row.shown)(figure(&row.distribution))
    };
    let table = Table::of(rows)
        .left("policy", |row| row.policy)
        .left("of a job", |row| row.quantity)
        .right("mean", of(|times| times.mean))
        .right("p50", of(|times| times.p50))
        .right("p95", of(|times| times.p95))
        .right("p99", of(|times| times.p99))
        .right("utilization", |row| row.utilization.map(percent).unwrap_or_default());
    format!("{}\n\n{table}", sentence(log))
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

fn rows<'a>(policy: &'a str, figures: &Queueing) -> [Row<'a>; 3] {
    let Queueing { wait_s, response_s, bounded_slowdown, utilization, .. } = *figures;
    let row = |quantity, distribution, shown| Row {
        policy: "",
        quantity,
        distribution,
        shown,
        utilization: None,
    };
    [
        Row { policy, utilization: Some(utilization), ..row("wait", wait_s, seconds) },
        row("response", response_s, seconds),
        row("bounded slowdown", bounded_slowdown, |value| format!("{value:.2}")),
    ]
}
