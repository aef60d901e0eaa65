//! Scenarios of tasks: the columns of `memweir sim --out`, and the row of a run.

use std::num::NonZeroUsize;

use memweir_core::Stop;
use memweir_core::input::InputError;
use memweir_core::metrics::mean;
use memweir_run::table::{Cell, Column, Field, Kind, cells, columns};
use memweir_study::flow::queueing::Queueing;
use memweir_study::flow::report::{Certainty, Point, Run};
use memweir_study::flow::study::Study;
use memweir_study::sweep::Grid;

use super::{Simulated, Simulation, unless_stopped};

/// The fields of a run, behind the swept keys.
const FIELDS: [Field<Run>; 22] = [
    ("policy", Kind::String, |run| run.policy.as_str().into()),
    ("repetition", Kind::Integer, |run| u64::from(run.repetition).into()),
    ("seed", Kind::Integer, |run| run.seed.into()),
    ("turnaround_s", Kind::Float, |run| run.turnaround_s.into()),
    ("weighted_speedup", Kind::Float, |run| run.weighted_speedup.into()),
    ("slowdown_mean", Kind::Float, |run| mean(&slowdowns(run)).into()),
    ("slowdown_max", Kind::Float, |run| slowdowns(run).into_iter().reduce(f64::max).into()),
    ("bandwidth_mean", Kind::Float, |run| run.bandwidth_mean.into()),
    ("bandwidth_std", Kind::Float, |run| run.bandwidth_std.into()),
    ("ideal_average_bandwidth", Kind::Float, |run| run.ideal_average_bandwidth.into()),
    ("target", Kind::Float, |run| run.target.into()),
    ("quanta", Kind::Integer, |run| run.quanta.into()),
    ("optimum_s", Kind::Float, |run| run.optimum_s.into()),
    ("optimum_is", Kind::String, |run| run.optimum_is.map(Certainty::name).into()),
    ("copied_bytes", Kind::Integer, |run| run.copied_bytes.into()),
    ("wait_mean_s", Kind::Float, |run| queueing(run, |q| q.wait_s.mean)),
    ("wait_p95_s", Kind::Float, |run| queueing(run, |q| q.wait_s.p95)),
    ("response_mean_s", Kind::Float, |run| queueing(run, |q| q.response_s.mean)),
    ("response_p95_s", Kind::Float, |run| queueing(run, |q| q.response_s.p95)),
    ("bounded_slowdown_mean", Kind::Float, |run| queueing(run, |q| q.bounded_slowdown.mean)),
    ("bounded_slowdown_p95", Kind::Float, |run| queueing(run, |q| q.bounded_slowdown.p95)),
    ("utilization", Kind::Float, |run| queueing(run, |q| q.utilization)),
];

fn slowdowns(run: &Run) -> Vec<f64> {
    run.tasks.iter().map(|task| task.slowdown).collect()
}

fn queueing(run: &Run, figure: fn(&Queueing) -> f64) -> Cell {
    run.queueing.as_ref().map(figure).into()
}

/// Returns the rows of a point.
#[must_use]
pub fn rows(point: &Point) -> Vec<Vec<Cell>> {
    point.runs.iter().map(row).collect()
}

/// Returns the row of a run.
#[must_use]
pub fn row(run: &Run) -> Vec<Cell> {
    cells(&FIELDS, run)
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

    fn columns(&self) -> Vec<Column> {
        columns(&FIELDS)
    }

    fn simulate(
        &self,
        point: usize,
        threads: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let simulated = |point: &Point| Simulated::new(rows(point), point);
        let report = unless_stopped(stop, self.only(point).run(stop, threads, |_| ()))?;
        Ok(report.and_then(|report| report.points.first().map(simulated)))
    }
}
