//! `memweir dram replay --timeline`: what each memory served, interval by interval.

use std::path::{Path, PathBuf};

use memweir_core::{Cycles, LINE_BYTES, Nanos, PhysAddr};
use memweir_dram::MemoryConfig;
use memweir_dram::request::{Completion, RowOutcome};
use memweir_run::table::{Field, Format, Kind, Table, cells, columns};

use super::render;
use crate::failure::Failure;
use crate::output;

/// Requests that were completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Interval {
    reads: u64,
    writes: u64,
    hits: u64,
    misses: u64,
    conflicts: u64,
    /// Sum of the reads' latencies, in cycles.
    latency: u64,
}

impl Interval {
    fn count(&mut self, completion: &Completion, latency: Option<u64>) {
        match latency {
            Some(latency) => (self.reads, self.latency) = (self.reads + 1, self.latency + latency),
            None => self.writes += 1,
        }
        match completion.outcome {
            RowOutcome::Hit => self.hits += 1,
            RowOutcome::Miss => self.misses += 1,
            RowOutcome::Conflict => self.conflicts += 1,
        }
    }
}

/// One row: an interval of a memory.
struct Row<'a> {
    memory: &'a str,
    start_s: f64,
    seconds: f64,
    of: Interval,
}

/// Returns the fields of a row.
fn fields<'a>() -> [Field<Row<'a>>; 10] {
    [
        ("memory", Kind::String, |row| row.memory.into()),
        ("start_s", Kind::Float, |row| row.start_s.into()),
        ("length_s", Kind::Float, |row| row.seconds.into()),
        ("reads", Kind::Integer, |row| row.of.reads.into()),
        ("writes", Kind::Integer, |row| row.of.writes.into()),
        ("row_hits", Kind::Integer, |row| row.of.hits.into()),
        ("row_misses", Kind::Integer, |row| row.of.misses.into()),
        ("row_conflicts", Kind::Integer, |row| row.of.conflicts.into()),
        ("read_latency_mean_cycles", Kind::Float, |row| {
            (row.of.reads > 0).then(|| row.of.latency as f64 / row.of.reads as f64).into()
        }),
        ("bandwidth_bytes_per_s", Kind::Float, |row| {
            let lines = row.of.reads + row.of.writes;
            (lines as f64 * LINE_BYTES as f64 / row.seconds).into()
        }),
    ]
}

/// The timeline of a replay.
pub(super) struct Timeline {
    path: PathBuf,
    format: Format,
    /// Length of a cycle in seconds.
    cycle_s: f64,
    /// Length of an interval in cycles.
    interval: u64,
    memories: Vec<(String, Vec<Interval>)>,
}

impl Timeline {
    /// Begins a timeline in cycles of the first memory. Refuses a file that cannot be written.
    pub(super) fn new(
        path: &Path,
        interval: Nanos,
        systems: &[(PhysAddr, MemoryConfig)],
    ) -> Result<Self, Failure> {
        let format =
            Format::of(path).map_err(|r| r.written_in("command line").key("--timeline"))?;
        output::writable(Some(path))?;
        let clock = systems[0].1.spec().clock;
        let memory = |(_, config): &(PhysAddr, MemoryConfig)| (render::devices(config), Vec::new());
        Ok(Self {
            path: path.to_owned(),
            format,
            cycle_s: clock.as_f64() * 1e-12,
            interval: (interval.0 * 1000).div_ceil(clock.0).max(1),
            memories: systems.iter().map(memory).collect(),
        })
    }

    /// Counts a completion of a memory.
    pub(super) fn count(&mut self, memory: usize, completion: &Completion, latency: Option<u64>) {
        let intervals = &mut self.memories[memory].1;
        let index = (completion.done.0 / self.interval) as usize;
        if index >= intervals.len() {
            intervals.resize(index + 1, Interval::default());
        }
        intervals[index].count(completion, latency);
    }

    /// Writes the intervals up to the end of the replay; the last one may be shorter.
    pub(super) fn finish(self, end: Cycles) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for (memory, intervals) in &self.memories {
            for index in 0..end.0.div_ceil(self.interval) {
                let start = index * self.interval;
                let cycles = self.interval.min(end.0 - start);
                let row = Row {
                    memory,
                    start_s: start as f64 * self.cycle_s,
                    seconds: cycles as f64 * self.cycle_s,
                    of: intervals.get(index as usize).copied().unwrap_or_default(),
                };
                rows.push(cells(&fields(), &row));
            }
        }
        Table::create(&self.path, self.format, columns(&fields()))
            .and_then(|table| table.finish(&rows))
            .map_err(|error| Failure::write(&self.path, error))
    }
}
