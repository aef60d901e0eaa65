//! Scenarios of tasks: the columns of `memweir sim --out`, and the row of a run.

use std::num::NonZeroUsize;

use memweir_core::input::InputError;
use memweir_flow::Stop;
use memweir_run::table::{Cell, Kind};
use memweir_study::flow::queueing::Queueing;
use memweir_study::flow::report::{Certainty, Point, Report, Run};
use memweir_study::flow::study::Study;
use memweir_study::sweep::Grid;

use super::{Simulated, Simulation, unless_stopped};

/// The columns, behind the swept keys.
pub const COLUMNS: [(&str, Kind); 22] = [
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

/// Returns the rows of all runs, each with the number of its point.
pub fn rows(report: &Report) -> impl Iterator<Item = (usize, Vec<Cell>)> {
    let points = report.points.iter().enumerate();
    points.flat_map(|(at, point)| point.runs.iter().map(move |run| (at, row(run))))
}

/// Returns the row of a run.
#[must_use]
pub fn row(run: &Run) -> Vec<Cell> {
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

impl Simulation for Study {
    fn command(&self) -> &'static str {
        "sim"
    }

    fn grid(&self) -> &Grid {
        self.grid()
    }

    fn keys(&self) -> Vec<String> {
        self.keys()
    }

    fn columns(&self) -> &[(&'static str, Kind)] {
        &COLUMNS
    }

    fn simulate(
        &self,
        point: usize,
        threads: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let simulated = |point: &Point| Simulated::new(point.runs.iter().map(row).collect(), point);
        let report = unless_stopped(stop, self.only(point).run_until(stop, threads, |_| ()))?;
        Ok(report.and_then(|report| report.points.first().map(simulated)))
    }
}

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Best => "best",
        Certainty::Bound => "bound",
    }
}
