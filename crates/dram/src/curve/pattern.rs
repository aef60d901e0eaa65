//! Requests of programs with different row-buffer locality.

use memweir_core::{Bytes, Cycles, Direction, LINE_BYTES, PhysAddr};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Serialize, Serializer};

use super::{Site, Task};
use crate::config::MemoryConfig;
use crate::drive::Offer;
use crate::request::Source;

/// Order of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Successive lines.
    Streaming,
    /// Eight streams in turn, each of which jumps to a random line after 16 lines on average.
    Mixed,
    /// Random lines.
    Random,
}

memweir_core::named! {
    pub Pattern, "pattern":
    Streaming = "streaming",
    Mixed = "mixed",
    Random = "random",
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Streams of [`Pattern::Mixed`].
const STREAMS: usize = 8;
/// Mean number of lines before a stream jumps.
const RUN: u32 = 16;

/// An endless sequence of requests that depends only on the seed.
pub(super) struct Requests {
    task: Task,
    areas: Vec<Area>,
    /// Share of requests to the second area, if there are two.
    second_share: f64,
    /// Mean cycles between arrivals; `None` if requests have no arrival times.
    gap: Option<f64>,
    random: ChaCha8Rng,
    now: f64,
}

/// A memory and the state of the streams in it.
struct Area {
    from: u64,
    lines: u64,
    streams: Vec<u64>,
    turn: usize,
}

impl Area {
    fn new(task: Task, from: PhysAddr, capacity: Bytes, random: &mut ChaCha8Rng) -> Self {
        let lines = capacity.0 / LINE_BYTES;
        let streams = match task.pattern {
            Pattern::Mixed => STREAMS,
            Pattern::Streaming | Pattern::Random => 1,
        };
        let streams = (0..streams).map(|_| random.random_range(0..lines)).collect();
        Self { from: from.0, lines, streams, turn: 0 }
    }

    fn address(&mut self, pattern: Pattern, random: &mut ChaCha8Rng) -> PhysAddr {
        self.turn = (self.turn + 1) % self.streams.len();
        let stream = &mut self.streams[self.turn];
        *stream = match pattern {
            Pattern::Random => random.random_range(0..self.lines),
            Pattern::Mixed if random.random_ratio(1, RUN) => random.random_range(0..self.lines),
            Pattern::Streaming | Pattern::Mixed => (*stream + 1) % self.lines,
        };
        PhysAddr(self.from + *stream * LINE_BYTES)
    }
}

impl Requests {
    pub(super) fn new(task: Task, site: &Site, gap: Option<f64>, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let area = |(from, config): &(PhysAddr, MemoryConfig)| {
            Area::new(task, *from, config.capacity(), &mut random)
        };
        let areas = site.systems.iter().map(area).collect();
        Self { task, areas, second_share: site.second_share, gap, random, now: 0.0 }
    }
}

impl Iterator for Requests {
    type Item = Offer;

    fn next(&mut self) -> Option<Offer> {
        let second = self.areas.len() > 1 && self.random.random_bool(self.second_share);
        let area = &mut self.areas[usize::from(second)];
        let address = area.address(self.task.pattern, &mut self.random);
        let reads = self.random.random_bool(self.task.read_share);
        if let Some(gap) = self.gap {
            self.now -= gap * (1.0 - self.random.random::<f64>()).ln();
        }
        Some(Offer {
            address,
            direction: if reads { Direction::Read } else { Direction::Write },
            source: Source(0),
            due: Cycles(self.now as u64),
        })
    }
}
