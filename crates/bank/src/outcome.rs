//! Results of an experiment: each program alone and together with the others, conflicts between
//! programs, and the metrics of the papers.

use memweir_core::metrics::{harmonic_speedup, maximum_slowdown, weighted_speedup};
use memweir_core::units::LINE_BYTES;
use memweir_core::{BytesPerSec, Cycles};
use memweir_dram::Stats;
use memweir_dram::intervals::Intervals;
use memweir_dram::request::RowCounts;
use serde::Serialize;

use crate::clock::Clock;
use crate::experiment::Execution;
use crate::indicators::Indicators;
use crate::tally::Tally;

/// Result of one program in one execution, over its measured instructions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramRun {
    /// Its name.
    pub program: String,
    /// Instructions of all its threads.
    pub instructions: u64,
    /// Time until its last thread finished, in seconds.
    pub time_s: f64,
    /// Instructions of all threads per core cycle of that time.
    pub ipc: f64,
    /// Misses of the last-level cache per 1,000 instructions.
    pub mpki: f64,
    /// Share of its memory reads that were row-buffer hits, 0 to 1; absent without reads.
    pub row_hit_rate: Option<f64>,
    /// Share of its write-backs that were row-buffer hits, 0 to 1; absent without write-backs.
    pub write_row_hit_rate: Option<f64>,
    /// Mean number of banks with an outstanding read while there was one; absent without reads.
    pub bank_parallelism: Option<f64>,
    /// Lines read and written back per time, in bytes per second.
    pub bandwidth: f64,
    /// Mean time from a read's arrival at memory to its data, in nanoseconds; absent without reads.
    pub read_latency_ns: Option<f64>,
    /// Lines read.
    pub reads: u64,
    /// Lines written back.
    pub writes: u64,
    /// Row-buffer hits of reads and write-backs.
    pub row_hits: u64,
    /// Row-buffer misses: requests that found their bank closed.
    pub row_misses: u64,
    /// Row-buffer conflicts: requests that found another row open.
    pub row_conflicts: u64,
    /// Row-buffer conflicts by the program that had opened the other row.
    pub conflicts_with: Vec<u64>,
    /// Share of its threads' time spent in page faults.
    pub fault_share: f64,
}

impl ProgramRun {
    /// Returns the result of each program in an execution.
    #[must_use]
    pub fn of(execution: &Execution, clock: Clock) -> Vec<Self> {
        let programs = execution.run.names.len();
        (0..programs).map(|program| Self::one(execution, program, clock)).collect()
    }

    fn one(execution: &Execution, program: usize, clock: Clock) -> Self {
        let run = &execution.run;
        let threads: Vec<_> = run.threads.iter().filter(|t| t.program == program).collect();
        let finished = threads.iter().map(|thread| thread.finished).max().unwrap_or_default();
        let instructions: u64 = threads.iter().map(|thread| thread.instructions).sum();
        let sum = |count: fn(&Tally) -> u64| -> u64 {
            threads.iter().map(|thread| count(&thread.tally)).sum()
        };
        let rows = |count: fn(&Tally) -> RowCounts| {
            threads.iter().fold(RowCounts::default(), |all, thread| all.and(count(&thread.tally)))
        };
        let (reads, writes) = (sum(|t| t.reads), sum(|t| t.writes));
        let (read_rows, write_rows) = (rows(|t| t.read_rows), rows(|t| t.write_rows));
        let all = read_rows.and(write_rows);
        let latency: u128 = threads.iter().map(|thread| thread.tally.read_latency).sum();
        let cycles = finished.0 as f64 / clock.period().0 as f64;
        let (areas, busy) = threads.iter().fold((0.0, 0.0), |(area, busy), thread| {
            let own = thread.tally.parallelism.busy().as_secs_f64();
            (area + own * thread.tally.parallelism.mean().unwrap_or(0.0), busy + own)
        });
        let faulting: f64 = threads.iter().map(|t| t.tally.faulting.as_secs_f64()).sum();
        Self {
            program: run.names[program].clone(),
            instructions,
            time_s: finished.as_secs_f64(),
            ipc: ratio(instructions as f64, cycles),
            mpki: ratio(1e3 * sum(|t| t.llc_misses) as f64, instructions as f64),
            row_hit_rate: read_rows.hit_rate(),
            write_row_hit_rate: write_rows.hit_rate(),
            bank_parallelism: (busy > 0.0).then(|| areas / busy),
            bandwidth: ratio(((reads + writes) * LINE_BYTES) as f64, finished.as_secs_f64()),
            read_latency_ns: (reads > 0).then(|| latency as f64 / 1e6 / reads as f64),
            reads,
            writes,
            row_hits: all.hits,
            row_misses: all.misses,
            row_conflicts: all.conflicts,
            conflicts_with: conflicts(execution, program),
            fault_share: ratio(faulting, finished.as_secs_f64() * threads.len() as f64),
        }
    }
}

/// Returns the requests of each program over time, up to the end of its instructions; nothing of an
/// execution that did not record them.
#[must_use]
pub fn over_time(execution: &Execution) -> Vec<Intervals> {
    let run = &execution.run;
    let of_program = |program: usize| {
        let threads = run.threads.iter().filter(|thread| thread.program == program);
        let recorded = threads.filter_map(|thread| thread.tally.over_time.clone());
        recorded.reduce(|mut all, thread| {
            all += &thread;
            all
        })
    };
    (0..run.names.len()).filter_map(of_program).collect()
}

/// Counts the conflicts of a program by the program that had opened the row.
fn conflicts(execution: &Execution, program: usize) -> Vec<u64> {
    let run = &execution.run;
    let mut by = vec![0; run.names.len()];
    for thread in run.threads.iter().filter(|thread| thread.program == program) {
        for (other, count) in thread.tally.blamed.iter().enumerate() {
            by[run.threads[other].program] += count;
        }
    }
    by
}

fn ratio(value: f64, by: f64) -> f64 {
    if by > 0.0 { value / by } else { 0.0 }
}

/// Result of a program that ran with the others, compared with the program alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramOutcome {
    /// Result in the joint run.
    #[serde(flatten)]
    pub together: ProgramRun,
    /// Instructions per cycle alone.
    pub ipc_alone: f64,
    /// Time together over time alone.
    pub slowdown: f64,
}

/// Result of one memory in one execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryRun {
    /// Its name.
    pub memory: String,
    /// Memory cycles until all requests were answered.
    pub cycles: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Row activations.
    pub activates: u64,
    /// Refreshes.
    pub refreshes: u64,
    /// Row-buffer hits of all reads and writes, including those after the measured instructions.
    pub row_hits: u64,
    /// Row-buffer misses: requests that found their bank closed.
    pub row_misses: u64,
    /// Row-buffer conflicts: requests that found another row open.
    pub row_conflicts: u64,
    /// Share of the cycles in which a channel's bus carried data, 0 to 1.
    pub bus_utilization: f64,
}

/// Result of programs that ran together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Weighted speedup (bpm section 4.3): sum of the times alone over the times together.
    pub weighted_speedup: f64,
    /// Maximum slowdown (bpm section 4.3).
    pub maximum_slowdown: f64,
    /// Harmonic speedup: programs over the sum of their slowdowns.
    pub harmonic_speedup: f64,
    /// Share of all measured requests that were not row-buffer hits.
    pub row_miss_rate: f64,
    /// Row-buffer conflicts: rows by program, columns by the program that had opened the row.
    pub conflicts: Vec<Vec<u64>>,
    /// Indicators of the programs alone (B9).
    pub indicators: Indicators,
    /// The programs.
    pub programs: Vec<ProgramOutcome>,
    /// The memories.
    pub memories: Vec<MemoryRun>,
    /// Number of page faults.
    pub faults: u64,
    /// Faults that got a frame of another color or zone because the allowed colors were used up.
    pub spilled: u64,
    /// Time from the start until the last program finished, in seconds.
    pub time_s: f64,
}

impl Outcome {
    /// Computes the outcome of an execution; `alone` has the solo runs of the same programs in the
    /// same order.
    #[must_use]
    pub fn of(
        execution: &Execution,
        names: &[String],
        channels: &[u32],
        clock: Clock,
        alone: &[ProgramRun],
    ) -> Self {
        let together = ProgramRun::of(execution, clock);
        let times: Vec<(f64, f64)> =
            alone.iter().zip(&together).map(|(a, t)| (a.time_s, t.time_s)).collect();
        let local: Vec<(BytesPerSec, f64)> = alone
            .iter()
            .map(|run| (BytesPerSec(run.bandwidth), run.row_hit_rate.unwrap_or(0.0)))
            .collect();
        let requests: u64 =
            together.iter().map(|run| run.row_hits + run.row_misses + run.row_conflicts).sum();
        let hits: u64 = together.iter().map(|run| run.row_hits).sum();
        Self {
            weighted_speedup: weighted_speedup(&times),
            maximum_slowdown: maximum_slowdown(&times).unwrap_or(1.0),
            harmonic_speedup: harmonic_speedup(&times).unwrap_or(1.0),
            row_miss_rate: ratio((requests - hits) as f64, requests as f64),
            conflicts: together.iter().map(|run| run.conflicts_with.clone()).collect(),
            indicators: Indicators::of(&local),
            memories: memories(execution, names, channels),
            faults: execution.os.iter().map(|process| process.faults).sum(),
            spilled: execution.os.iter().map(|process| process.spilled).sum(),
            time_s: execution.run.end.as_secs_f64(),
            programs: together
                .into_iter()
                .zip(alone)
                .map(|(together, alone)| ProgramOutcome {
                    ipc_alone: alone.ipc,
                    slowdown: ratio(together.time_s, alone.time_s),
                    together,
                })
                .collect(),
        }
    }
}

fn memories(execution: &Execution, names: &[String], channels: &[u32]) -> Vec<MemoryRun> {
    let of = execution.memories.iter().zip(names.iter().zip(channels));
    let run =
        |((cycles, stats), (name, channels)): (&(Cycles, Stats), (&String, &u32))| MemoryRun {
            memory: name.clone(),
            cycles: cycles.0,
            reads: stats.reads,
            writes: stats.writes,
            activates: stats.activates,
            refreshes: stats.refreshes,
            row_hits: stats.row_hits,
            row_misses: stats.row_misses,
            row_conflicts: stats.row_conflicts,
            bus_utilization: ratio(
                stats.data_cycles as f64,
                cycles.0 as f64 * f64::from(*channels),
            ),
        };
    of.map(run).collect()
}

/// Improvement of one outcome over another, in throughput and in fairness (bpm section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Improvement {
    /// Relative increase of the weighted speedup: 0.05 is 5 % more.
    pub weighted_speedup: f64,
    /// Relative decrease of the maximum slowdown: 0.05 is 5 % less.
    pub maximum_slowdown: f64,
}

impl Improvement {
    /// Computes the improvement of `other` over `baseline`.
    #[must_use]
    pub fn of(baseline: &Outcome, other: &Outcome) -> Self {
        let relative = |from: f64, to: f64| ratio(to - from, from);
        Self {
            weighted_speedup: relative(baseline.weighted_speedup, other.weighted_speedup),
            maximum_slowdown: -relative(baseline.maximum_slowdown, other.maximum_slowdown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Time;
    use crate::os::ProcessStats;
    use crate::system::{MachineRun, ThreadRun};
    use crate::tally::Parallelism;

    const NANOS: u64 = 1_000_000;

    fn rows(hits: u64, misses: u64, conflicts: u64) -> RowCounts {
        RowCounts { hits, misses, conflicts }
    }

    /// Reads of bank 0 for the first time, and of bank 1 for the second, from the start on.
    fn parallelism(first: u64, second: u64) -> Parallelism {
        let mut parallelism = Parallelism::default();
        parallelism.begin(0, Time(0));
        parallelism.begin(1, Time(0));
        parallelism.end(1, Time(second * NANOS));
        parallelism.end(0, Time(first * NANOS));
        parallelism
    }

    /// A program of two threads, and one that does not reach memory.
    fn execution() -> Execution {
        let first = Tally {
            llc_misses: 30,
            reads: 20,
            writes: 5,
            read_rows: rows(12, 6, 2),
            write_rows: rows(1, 2, 2),
            blamed: vec![1, 0, 3],
            read_latency: 20 * 100 * u128::from(NANOS),
            parallelism: parallelism(200, 100),
            faulting: Time(500 * NANOS),
            ..Tally::default()
        };
        let second = Tally {
            llc_misses: 10,
            reads: 10,
            read_rows: rows(5, 3, 2),
            blamed: vec![0, 1, 1],
            read_latency: 10 * 250 * u128::from(NANOS),
            parallelism: parallelism(300, 0),
            ..Tally::default()
        };
        let thread = |program, nanos, tally| ThreadRun {
            program,
            instructions: 1_000,
            finished: Time(nanos * NANOS),
            tally,
        };
        let threads = vec![
            thread(0, 2_000, first),
            thread(0, 1_000, second),
            thread(1, 4_000, Tally::default()),
        ];
        let names = vec!["a".to_owned(), "b".to_owned()];
        let (end, drained) = (Time(4_000 * NANOS), Time(5_000 * NANOS));
        let stats = Stats { data_cycles: 500, activates: 7, refreshes: 2, ..Stats::default() };
        let faults = |faults, spilled| ProcessStats { faults, spilled, ..ProcessStats::default() };
        Execution {
            run: MachineRun { names, threads, end, drained },
            memories: vec![(Cycles(1_000), stats)],
            os: vec![faults(9, 1), faults(4, 2)],
        }
    }

    #[test]
    fn a_program_has_the_sums_of_its_threads_and_the_time_of_the_last() {
        let runs = ProgramRun::of(&execution(), Clock::gigahertz(1.0));
        let run = &runs[0];
        assert_eq!((run.instructions, run.ipc), (2_000, 1.0));
        assert!((run.time_s / 2e-6 - 1.0).abs() < 1e-12, "{run:?}");
        assert_eq!((run.mpki, run.reads, run.writes), (20.0, 30, 5));
        assert_eq!((run.row_hits, run.row_misses, run.row_conflicts), (18, 11, 6));
        assert_eq!((run.row_hit_rate, run.write_row_hit_rate), (Some(17.0 / 30.0), Some(0.2)));
        assert_eq!(run.read_latency_ns, Some(4_500.0 / 30.0));
        // 1.5 banks for 200 ns, and one for 300 ns.
        assert!((run.bank_parallelism.unwrap() - 1.2).abs() < 1e-12, "{run:?}");
        assert!((run.bandwidth / (35.0 * 64.0 / 2e-6) - 1.0).abs() < 1e-12, "{run:?}");
        assert!((run.fault_share - 0.125).abs() < 1e-12, "{run:?}");
        // Threads 0 and 1 are of the first program, and thread 2 of the second.
        assert_eq!(run.conflicts_with, [2, 4]);
        let idle = &runs[1];
        assert_eq!((idle.ipc, idle.mpki, idle.bandwidth), (0.25, 0.0, 0.0));
        assert_eq!((idle.row_hit_rate, idle.write_row_hit_rate), (None, None));
        assert_eq!((idle.bank_parallelism, idle.read_latency_ns), (None, None));
        assert_eq!((idle.conflicts_with.as_slice(), idle.fault_share), ([0, 0].as_slice(), 0.0));
    }

    #[test]
    fn an_outcome_compares_programs_with_themselves_alone() {
        let (execution, clock) = (execution(), Clock::gigahertz(1.0));
        let mut alone = ProgramRun::of(&execution, clock);
        // Slowdowns of 2 and 4.
        (alone[0].time_s, alone[1].time_s) = (1e-6, 1e-6);
        let outcome = Outcome::of(&execution, &["m".to_owned()], &[2], clock, &alone);
        assert!((outcome.weighted_speedup - 0.75).abs() < 1e-12, "{outcome:?}");
        assert!((outcome.maximum_slowdown - 4.0).abs() < 1e-12, "{outcome:?}");
        assert!((outcome.harmonic_speedup - 2.0 / 6.0).abs() < 1e-12, "{outcome:?}");
        assert!((outcome.row_miss_rate - 17.0 / 35.0).abs() < 1e-12, "{outcome:?}");
        assert_eq!(outcome.conflicts, [[2, 4], [0, 0]]);
        assert_eq!((outcome.faults, outcome.spilled), (13, 3));
        assert!((outcome.time_s / 4e-6 - 1.0).abs() < 1e-12, "{outcome:?}");
        let slowdowns: Vec<f64> = outcome.programs.iter().map(|program| program.slowdown).collect();
        assert!((slowdowns[0] - 2.0).abs() < 1e-12 && (slowdowns[1] - 4.0).abs() < 1e-12);
        let memory = &outcome.memories[0];
        assert_eq!(
            (memory.memory.as_str(), memory.cycles, memory.bus_utilization),
            ("m", 1_000, 0.25)
        );
        assert_eq!((memory.activates, memory.refreshes), (7, 2));
        let better = Outcome { weighted_speedup: 0.9, maximum_slowdown: 3.0, ..outcome.clone() };
        let gain = Improvement::of(&outcome, &better);
        assert!((gain.weighted_speedup - 0.2).abs() < 1e-12, "{gain:?}");
        assert!((gain.maximum_slowdown - 0.25).abs() < 1e-12, "{gain:?}");
    }
}
