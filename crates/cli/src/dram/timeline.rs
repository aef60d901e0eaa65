//! `memweir dram replay --timeline` and `--svg`: the requests that each memory served, interval by
//! interval.

use std::path::Path;

use memweir_core::{Cycles, Nanos, PhysAddr, Picos};
use memweir_dram::MemoryConfig;
use memweir_dram::intervals::Intervals;
use memweir_dram::request::Completion;

use super::render;
use crate::failure::Failure;
use crate::render::plot::Figure;
use crate::shared::over_time::{self, Group, Line};

/// The timeline of a replay.
pub(super) struct Timeline {
    /// Clock of the driver: that of the first memory.
    clock: Picos,
    interval: Nanos,
    memories: Vec<(String, Intervals)>,
}

impl Timeline {
    /// Begins a timeline.
    pub(super) fn new(interval: Nanos, systems: &[(PhysAddr, MemoryConfig)]) -> Self {
        let of = |(_, config): &(PhysAddr, MemoryConfig)| {
            (render::devices(config), Intervals::new(Picos::from_nanos(interval.0)))
        };
        let clock = systems[0].1.spec().clock;
        Self { clock, interval, memories: systems.iter().map(of).collect() }
    }

    /// Counts a completion of a memory.
    pub(super) fn count(&mut self, memory: usize, completion: &Completion, latency: Option<u64>) {
        let (at, latency) = (self.time(completion.done.0), self.time(latency.unwrap_or(0)));
        self.memories[memory].1.count(at, completion, latency);
    }

    /// Returns the length of so many cycles.
    fn time(&self, cycles: u64) -> Picos {
        Picos(cycles * self.clock.0)
    }

    fn lines(&self, end: Cycles) -> Vec<Line<'_>> {
        let end = self.time(end.0);
        let memories = self.memories.iter();
        memories.map(|(name, requests)| Line { name, requests, end }).collect()
    }

    /// Writes a row for each memory and interval up to the end of the replay.
    pub(super) fn write(&self, path: &Path, end: Cycles) -> Result<(), Failure> {
        over_time::write(path, "memory", &self.lines(end))
    }

    /// Draws the memories over time.
    pub(super) fn figure(&self, trace: &str, end: Cycles) -> Figure {
        Figure {
            title: trace.to_owned(),
            subtitle: format!("in intervals of {} us", self.interval.as_f64() / 1e3),
            panels: over_time::panels(&[Group { name: "", lines: self.lines(end) }]),
        }
    }
}
