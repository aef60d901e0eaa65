//! The columns of `memweir sim --out`, and the row of a run.

use memweir_run::table::{Cell, Kind};
use memweir_study::flow::queueing::Queueing;
use memweir_study::flow::report::{Certainty, Report, Run};

/// The columns, behind the swept keys.
pub(super) const COLUMNS: [(&str, Kind); 22] = [
    ("policy", Kind::Text),
    ("repetition", Kind::Whole),
    ("seed", Kind::Whole),
    ("turnaround_s", Kind::Number),
    ("weighted_speedup", Kind::Number),
    ("slowdown_mean", Kind::Number),
    ("slowdown_max", Kind::Number),
    ("bandwidth_mean", Kind::Number),
    ("bandwidth_std", Kind::Number),
    ("ideal_average_bandwidth", Kind::Number),
    ("target", Kind::Number),
    ("quanta", Kind::Whole),
    ("optimum_s", Kind::Number),
    ("optimum_is", Kind::Text),
    ("copied_bytes", Kind::Whole),
    ("wait_mean_s", Kind::Number),
    ("wait_p95_s", Kind::Number),
    ("response_mean_s", Kind::Number),
    ("response_p95_s", Kind::Number),
    ("bounded_slowdown_mean", Kind::Number),
    ("bounded_slowdown_p95", Kind::Number),
    ("utilization", Kind::Number),
];

/// The rows of all runs, each with the number of its point.
pub(super) fn rows(report: &Report) -> impl Iterator<Item = (usize, Vec<Cell>)> {
    let points = report.points.iter().enumerate();
    points.flat_map(|(at, point)| point.runs.iter().map(move |run| (at, row(run))))
}

/// The row of a run.
pub(super) fn row(run: &Run) -> Vec<Cell> {
    let queueing =
        |figure: fn(&Queueing) -> f64| -> Cell { run.queueing.as_ref().map(figure).into() };
    let slowdowns: Vec<f64> = run.tasks.iter().map(|task| task.slowdown).collect();
    vec![
        run.policy.as_str().into(),
        u64::from(run.repetition).into(),
        run.seed.into(),
        run.turnaround_s.into(),
        run.weighted_speedup.into(),
        memweir_core::metrics::mean(&slowdowns).into(),
        slowdowns.into_iter().reduce(f64::max).into(),
        run.bandwidth_mean.into(),
        run.bandwidth_std.into(),
        run.ideal_average_bandwidth.into(),
        run.target.into(),
        run.quanta.into(),
        run.optimum_s.into(),
        run.optimum_is.map(certainty).into(),
        run.copied_bytes.into(),
        queueing(|q| q.wait_s.mean),
        queueing(|q| q.wait_s.p95),
        queueing(|q| q.response_s.mean),
        queueing(|q| q.response_s.p95),
        queueing(|q| q.bounded_slowdown.mean),
        queueing(|q| q.bounded_slowdown.p95),
        queueing(|q| q.utilization),
    ]
}

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Best => "best",
        Certainty::Bound => "bound",
    }
}
