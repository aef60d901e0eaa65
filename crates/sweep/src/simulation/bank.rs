//! Scenarios at bank level: one row per partition and program, or per policy and job of a batch.

use std::num::NonZeroUsize;

use memweir_bank::outcome::ProgramOutcome;
use memweir_core::Stop;
use memweir_core::input::InputError;
use memweir_run::table::{Cell, Column, Field, Kind, cells, columns};
use memweir_study::bank::report::{BankPoint, BatchJob, BatchRun, PartitionRun};
use memweir_study::bank::study::BankStudy;
use memweir_study::sweep::Grid;

use super::{Simulated, Simulation, unless_stopped};

/// One row: a program under a partition.
struct Row<'a> {
    point: &'a BankPoint,
    run: &'a PartitionRun,
    program: &'a ProgramOutcome,
    colors: &'a Option<String>,
}

/// Returns the fields of a row, behind the swept keys; the last three are of all programs together.
fn fields<'a>() -> [Field<Row<'a>>; 24] {
    [
        ("partition", Kind::String, |row| row.run.partition.as_str().into()),
        ("program", Kind::String, |row| row.program.together.program.as_str().into()),
        ("colors", Kind::String, |row| row.colors.as_deref().into()),
        ("seed", Kind::Integer, |row| row.point.seed.into()),
        ("instructions", Kind::Integer, |row| row.program.together.instructions.into()),
        ("time_s", Kind::Float, |row| row.program.together.time_s.into()),
        ("ipc", Kind::Float, |row| row.program.together.ipc.into()),
        ("ipc_alone", Kind::Float, |row| row.program.ipc_alone.into()),
        ("slowdown", Kind::Float, |row| row.program.slowdown.into()),
        ("mpki", Kind::Float, |row| row.program.together.mpki.into()),
        ("row_hit_rate", Kind::Float, |row| row.program.together.row_hit_rate.into()),
        ("write_row_hit_rate", Kind::Float, |row| row.program.together.write_row_hit_rate.into()),
        ("bank_parallelism", Kind::Float, |row| row.program.together.bank_parallelism.into()),
        ("bandwidth", Kind::Float, |row| row.program.together.bandwidth.into()),
        ("read_latency_ns", Kind::Float, |row| row.program.together.read_latency_ns.into()),
        ("reads", Kind::Integer, |row| row.program.together.reads.into()),
        ("writes", Kind::Integer, |row| row.program.together.writes.into()),
        ("row_hits", Kind::Integer, |row| row.program.together.row_hits.into()),
        ("row_misses", Kind::Integer, |row| row.program.together.row_misses.into()),
        ("row_conflicts", Kind::Integer, |row| row.program.together.row_conflicts.into()),
        ("fault_share", Kind::Float, |row| row.program.together.fault_share.into()),
        ("weighted_speedup", Kind::Float, |row| row.run.outcome.weighted_speedup.into()),
        ("maximum_slowdown", Kind::Float, |row| row.run.outcome.maximum_slowdown.into()),
        ("harmonic_speedup", Kind::Float, |row| row.run.outcome.harmonic_speedup.into()),
    ]
}

/// Returns the rows of a point, in the columns of the study.
#[must_use]
pub fn rows(point: &BankPoint) -> Vec<Vec<Cell>> {
    let programs = point.partitions.iter().flat_map(|run| program_rows(point, run));
    programs.chain(point.policies.iter().flat_map(|run| job_rows(point, run))).collect()
}

/// Returns the rows of a partition, one per program.
fn program_rows(point: &BankPoint, run: &PartitionRun) -> Vec<Vec<Cell>> {
    let programs = run.outcome.programs.iter().zip(&run.colors);
    let rows = programs.map(|(program, colors)| Row { point, run, program, colors });
    rows.map(|row| cells(&fields(), &row)).collect()
}

/// One row of a batch: a job under a policy.
struct JobRow<'a> {
    point: &'a BankPoint,
    run: &'a BatchRun,
    job: &'a BatchJob,
}

/// Returns the fields of a row of a batch; the last three are of all jobs together.
fn job_fields<'a>() -> [Field<JobRow<'a>>; 9] {
    [
        ("policy", Kind::String, |row| row.run.policy.as_str().into()),
        ("program", Kind::String, |row| row.job.program.as_str().into()),
        ("seed", Kind::Integer, |row| row.point.seed.into()),
        ("alone_s", Kind::Float, |row| row.job.alone_s.into()),
        ("running_s", Kind::Float, |row| row.job.running_s.into()),
        ("finish_s", Kind::Float, |row| row.job.finish_s.into()),
        ("turnaround_s", Kind::Float, |row| row.run.turnaround_s.into()),
        ("bandwidth", Kind::Float, |row| row.run.bandwidth.into()),
        ("gain", Kind::Float, |row| row.run.gain.into()),
    ]
}

/// Returns the rows of a batch under a policy, one per job.
fn job_rows(point: &BankPoint, run: &BatchRun) -> Vec<Vec<Cell>> {
    let rows = run.jobs.iter().map(|job| JobRow { point, run, job });
    rows.map(|row| cells(&job_fields(), &row)).collect()
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

    fn columns(&self) -> Vec<Column> {
        match self.points().iter().any(|point| point.batch.is_some()) {
            true => columns(&job_fields()),
            false => columns(&fields()),
        }
    }

    fn simulate(
        &self,
        point: usize,
        threads: NonZeroUsize,
        stop: &Stop,
    ) -> Result<Option<Simulated>, InputError> {
        let simulated = |point: &BankPoint| Simulated::new(rows(point), point);
        let report = unless_stopped(stop, self.only(point).run(stop, threads, |_| ()))?;
        Ok(report.and_then(|report| report.points.first().map(simulated)))
    }
}
