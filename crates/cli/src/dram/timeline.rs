//! `memweir dram replay --timeline` and `--svg`: the requests that each memory served, interval by
//! interval.

use std::path::Path;

use memweir_core::{Cycles, LINE_BYTES, Nanos, PhysAddr};
use memweir_dram::MemoryConfig;
use memweir_dram::request::{Completion, RowOutcome};
use memweir_run::table::{Field, Format, Kind, Table, cells, columns};

use super::render;
use crate::failure::Failure;
use crate::render::plot::{Chart, Figure, PALETTE, Panel, Series, Style};

/// Requests that were completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Interval {
    reads: u64,
    writes: u64,
    hits: u64,
    misses: u64,
    conflicts: u64,
    /// Sum of the reads' latencies, in cycles.
    latencies: u64,
}

impl Interval {
    fn count(&mut self, completion: &Completion, latency: Option<u64>) {
        match latency {
            Some(latency) => {
                (self.reads, self.latencies) = (self.reads + 1, self.latencies + latency)
            }
            None => self.writes += 1,
        }
        match completion.outcome {
            RowOutcome::Hit => self.hits += 1,
            RowOutcome::Miss => self.misses += 1,
            RowOutcome::Conflict => self.conflicts += 1,
        }
    }

    fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the mean latency of its reads, in cycles.
    fn latency(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.latencies as f64 / self.reads as f64)
    }
}

/// One row: an interval of a memory.
struct Row<'a> {
    memory: &'a str,
    start_s: f64,
    seconds: f64,
    of: Interval,
}

impl Row<'_> {
    fn bandwidth(&self) -> f64 {
        self.of.requests() as f64 * LINE_BYTES as f64 / self.seconds
    }
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
        ("read_latency_mean_cycles", Kind::Float, |row| row.of.latency().into()),
        ("bandwidth_bytes_per_s", Kind::Float, |row| row.bandwidth().into()),
    ]
}

/// The timeline of a replay.
pub(super) struct Timeline {
    /// Length of a cycle in seconds.
    cycle_s: f64,
    /// Length of an interval in cycles.
    interval: u64,
    memories: Vec<(String, Vec<Interval>)>,
}

impl Timeline {
    /// Begins a timeline in cycles of the first memory.
    pub(super) fn new(interval: Nanos, systems: &[(PhysAddr, MemoryConfig)]) -> Self {
        let clock = systems[0].1.spec().clock;
        let memory = |(_, config): &(PhysAddr, MemoryConfig)| (render::devices(config), Vec::new());
        Self {
            cycle_s: clock.as_f64() * 1e-12,
            interval: (interval.0 * 1000).div_ceil(clock.0).max(1),
            memories: systems.iter().map(memory).collect(),
        }
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

    /// Returns the intervals of a memory up to the end of the replay; the last may be shorter.
    fn rows(&self, memory: usize, end: Cycles) -> impl Iterator<Item = Row<'_>> {
        let (memory, intervals) = &self.memories[memory];
        (0..end.0.div_ceil(self.interval)).map(move |index| {
            let start = index * self.interval;
            Row {
                memory,
                start_s: start as f64 * self.cycle_s,
                seconds: self.interval.min(end.0 - start) as f64 * self.cycle_s,
                of: intervals.get(index as usize).copied().unwrap_or_default(),
            }
        })
    }

    /// Writes a row for each memory and interval.
    pub(super) fn write(&self, path: &Path, end: Cycles) -> Result<(), Failure> {
        let fields = fields();
        let rows = (0..self.memories.len()).flat_map(|memory| self.rows(memory, end));
        let rows: Vec<_> = rows.map(|row| cells(&fields, &row)).collect();
        Table::create(path, format(path)?, columns(&fields))
            .and_then(|table| table.finish(&rows))
            .map_err(|error| Failure::write(path, error))
    }

    /// Draws bandwidth, share of row hits and mean read latency of each memory over time.
    pub(super) fn figure(&self, trace: &str, end: Cycles) -> Figure {
        let panel = |y_label: &str, value: &dyn Fn(&Row<'_>) -> Option<f64>| {
            let series = self.memories.iter().enumerate().map(|(index, (name, _))| Series {
                name: name.clone(),
                points: self
                    .rows(index, end)
                    .filter_map(|row| Some((row.start_s * 1e6, value(&row)?)))
                    .collect(),
                style: Style::Line,
                color: PALETTE[index % PALETTE.len()],
            });
            Panel::Chart(Chart {
                x_label: "time (us)".to_owned(),
                y_label: y_label.to_owned(),
                y_start: Some(0.0),
                series: series.filter(|series| !series.points.is_empty()).collect(),
                ..Chart::default()
            })
        };
        // A short last interval would end the lines in a spike.
        let is_whole = |row: &Row<'_>| row.seconds > (self.interval - 1) as f64 * self.cycle_s;
        let share = |row: &Row<'_>| row.of.hits as f64 / row.of.requests() as f64;
        let has_any = |row: &Row<'_>| row.of.requests() > 0;
        let panels = vec![
            panel("bandwidth (GB/s)", &|row| is_whole(row).then(|| row.bandwidth() / 1e9)),
            panel("row hits (%)", &|row| has_any(row).then(|| 100.0 * share(row))),
            panel("read latency (ns)", &|row| Some(row.of.latency()? * self.cycle_s * 1e9)),
        ];
        let subtitle =
            format!("in intervals of {:.3} us", self.interval as f64 * self.cycle_s * 1e6);
        Figure { title: trace.to_owned(), subtitle, panels }
    }
}

/// Returns the format of a timeline's file.
pub(super) fn format(path: &Path) -> Result<Format, Failure> {
    Format::of(path).map_err(|r| r.written_in("command line").key("--timeline").into())
}
