//! Scenarios at bank level: one row per partition and program.

use std::num::NonZeroUsize;

use memweir_core::input::InputError;
use memweir_flow::Stop;
use memweir_run::table::{Cell, Kind};
use memweir_study::bank::report::{BankPoint, PartitionRun};
use memweir_study::bank::study::BankStudy;
use memweir_study::sweep::Grid;

use super::{Simulated, Simulation, unless_stopped};

/// The columns, behind the swept keys.
pub const COLUMNS: [(&str, Kind); 24] = [
    ("partition", Kind::Text),
    ("program", Kind::Text),
    ("colors", Kind::Text),
    ("seed", Kind::Whole),
    ("instructions", Kind::Whole),
    ("time_s", Kind::Number),
    ("ipc", Kind::Number),
    ("ipc_alone", Kind::Number),
    ("slowdown", Kind::Number),
    ("mpki", Kind::Number),
    ("row_hit_rate", Kind::Number),
    ("write_row_hit_rate", Kind::Number),
    ("bank_parallelism", Kind::Number),
    ("bandwidth", Kind::Number),
    ("read_latency_ns", Kind::Number),
    ("reads", Kind::Whole),
    ("writes", Kind::Whole),
    ("row_hits", Kind::Whole),
    ("row_misses", Kind::Whole),
    ("row_conflicts", Kind::Whole),
    ("fault_share", Kind::Number),
    ("weighted_speedup", Kind::Number),
    ("maximum_slowdown", Kind::Number),
    ("harmonic_speedup", Kind::Number),
];

/// Returns the rows of a partition, one per program; the last three cells are of all programs
/// together.
fn rows(point: &BankPoint, run: &PartitionRun) -> Vec<Vec<Cell>> {
    let outcome = &run.outcome;
    let row = |(program, colors): (&memweir_bank::outcome::ProgramOutcome, &Option<String>)| {
        let together = &program.together;
        vec![
            run.partition.as_str().into(),
            together.program.as_str().into(),
            colors.as_deref().into(),
            point.seed.into(),
            together.instructions.into(),
            together.time_s.into(),
            together.ipc.into(),
            program.ipc_alone.into(),
            program.slowdown.into(),
            together.mpki.into(),
            together.row_hit_rate.into(),
            together.write_row_hit_rate.into(),
            together.bank_parallelism.into(),
            together.bandwidth.into(),
            together.read_latency_ns.into(),
            together.reads.into(),
            together.writes.into(),
            together.row_hits.into(),
            together.row_misses.into(),
            together.row_conflicts.into(),
            together.fault_share.into(),
            outcome.weighted_speedup.into(),
            outcome.maximum_slowdown.into(),
            outcome.harmonic_speedup.into(),
        ]
    };
    outcome.programs.iter().zip(&run.colors).map(row).collect()
}

impl Simulation for BankStudy {
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
        let simulated = |point: &BankPoint| {
            let rows = point.partitions.iter().flat_map(|run| rows(point, run)).collect();
            Simulated::new(rows, point)
        };
        let report = unless_stopped(stop, self.only(point).run_until(stop, threads, || ()))?;
        Ok(report.and_then(|report| report.points.first().map(simulated)))
    }
}
