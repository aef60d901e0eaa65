//! From raw chunks to a recording: costs, and the memory counts of what was not simulated.

use std::process::ExitStatus;

use memweir_core::cache::CacheHierarchy;
use memweir_core::softpmu::{RawChunk, Sampling};
use memweir_core::{Counts, Lines, MAX_MEDIA, Traffic};

use super::{Chunk, CostModel, Origin, Recording};
use crate::softpmu::JobCounters;

/// Simulated chunks to each side in time that are compared with one that was not.
const NEIGHBORS: usize = 256;

/// Chunks whose instruction pointers are so much farther than the nearest ones (of the largest
/// distance, 2) count as equally near.
const SAME_PHASE: f64 = 0.1;

/// The chunks of a running program so far.
#[derive(Debug)]
pub(super) struct Course {
    sampling: Sampling,
    cost: CostModel,
    raw: Vec<RawChunk>,
}

/// Events per instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    /// Reads and writes of each medium.
    traffic: [[f64; 2]; MAX_MEDIA],
    l1_misses: f64,
    l2_misses: f64,
}

impl Rates {
    fn reads(&self) -> f64 {
        self.traffic.iter().map(|[reads, _]| reads).sum()
    }

    fn lines(&self) -> f64 {
        self.traffic.iter().flatten().sum()
    }

    /// What comes of so many instructions.
    fn counts(&self, instructions: u64) -> Counts {
        let lines = |rate: f64| Lines((rate * instructions as f64).round() as u64);
        let traffic = self
            .traffic
            .map(|[reads, writes]| Traffic { reads: lines(reads), writes: lines(writes) });
        Counts::by_medium(instructions, traffic)
    }
}

impl Course {
    pub(super) fn new(sampling: Sampling, cost: CostModel) -> Self {
        Self { sampling, cost, raw: Vec::new() }
    }

    pub(super) fn push(&mut self, chunk: RawChunk) {
        self.raw.push(chunk);
    }

    pub(super) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether all that a chunk did to memory was counted.
    fn is_simulated(&self, chunk: &RawChunk) -> bool {
        self.sampling == Sampling::All || chunk.simulated * 2 > chunk.instructions()
    }

    pub(super) fn finish(
        self,
        status: ExitStatus,
        caches: CacheHierarchy,
        counters: &JobCounters,
    ) -> Recording {
        let simulated: Vec<usize> =
            (0..self.raw.len()).filter(|i| self.is_simulated(&self.raw[*i])).collect();
        let chunks: Vec<Chunk> =
            (0..self.raw.len()).map(|index| self.chunk(index, &simulated)).collect();
        let total: u64 = self.raw.iter().map(RawChunk::instructions).sum();
        let counted: u64 = simulated.iter().map(|i| self.raw[*i].instructions()).sum();
        Recording {
            sampled_share: if total == 0 { 1.0 } else { counted as f64 / total as f64 },
            sampling_error: self.sampling_error(),
            chunks,
            status,
            caches,
            notices: counters.notices(),
        }
    }

    fn chunk(&self, index: usize, simulated: &[usize]) -> Chunk {
        let raw = &self.raw[index];
        let (rates, origin) = if self.is_simulated(raw) {
            (rates_of(raw), Origin::Simulated)
        } else {
            (self.like(index, simulated), Origin::Extrapolated)
        };
        let cost = &self.cost;
        let per_instruction = cost.instruction
            + rates.l1_misses * cost.l2_hit
            + rates.l2_misses * cost.llc_hit
            + rates.reads() * cost.memory;
        Chunk {
            counts: rates.counts(raw.instructions()),
            cycles: per_instruction * raw.instructions() as f64,
            instruction_pointers: raw.instruction_pointers(),
            origin,
        }
    }

    /// The mean rates of the simulated chunks that execute about the same code.
    fn like(&self, index: usize, simulated: &[usize]) -> Rates {
        let here = simulated.partition_point(|other| *other < index);
        let near =
            &simulated[here.saturating_sub(NEIGHBORS)..(here + NEIGHBORS).min(simulated.len())];
        let distances: Vec<f64> =
            near.iter().map(|other| distance(&self.raw[index], &self.raw[*other])).collect();
        let least = distances.iter().copied().fold(f64::INFINITY, f64::min);
        let alike = near.iter().zip(&distances).filter(|(_, d)| **d <= least + SAME_PHASE);
        rates_of_all(alike.map(|(other, _)| &self.raw[*other]))
    }

    /// Half the width of the 95 % confidence interval of the mean over bursts, relative to it.
    fn sampling_error(&self) -> Option<f64> {
        if self.sampling == Sampling::All {
            return None;
        }
        let bursts: Vec<f64> = self
            .raw
            .chunk_by(|a, b| self.is_simulated(a) == self.is_simulated(b))
            .filter(|run| self.is_simulated(&run[0]))
            .map(|run| rates_of_all(run.iter()))
            .map(|rates| rates.lines())
            .collect();
        if bursts.len() < 2 {
            return None;
        }
        let count = bursts.len() as f64;
        let mean = bursts.iter().sum::<f64>() / count;
        let variance = bursts.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Some(if mean > 0.0 { 1.96 * (variance / count).sqrt() / mean } else { 0.0 })
    }
}

fn rates_of(chunk: &RawChunk) -> Rates {
    rates_of_all(std::iter::once(chunk))
}

fn rates_of_all<'a>(chunks: impl Iterator<Item = &'a RawChunk>) -> Rates {
    let (mut instructions, mut l1_misses, mut l2_misses) = (0, 0, 0);
    let mut traffic = [Traffic::default(); MAX_MEDIA];
    for chunk in chunks {
        instructions += chunk.instructions();
        l1_misses += chunk.l1_misses;
        l2_misses += chunk.l2_misses;
        traffic.iter_mut().zip(chunk.traffic()).for_each(|(sum, medium)| *sum += medium);
    }
    let rate = |events: u64| events as f64 / instructions.max(1) as f64;
    Rates {
        traffic: traffic.map(|medium| [rate(medium.reads.0), rate(medium.writes.0)]),
        l1_misses: rate(l1_misses),
        l2_misses: rate(l2_misses),
    }
}

/// Manhattan distance of the normalized instruction-pointer vectors (iabw section 4.2), 0 to 2.
fn distance(a: &RawChunk, b: &RawChunk) -> f64 {
    let share = |chunk: &RawChunk, n: u64| n as f64 / chunk.instructions().max(1) as f64;
    let (all_a, all_b) = (share(a, 1), share(b, 1));
    a.regions
        .iter()
        .zip(&b.regions)
        .map(|(x, y)| (*x as f64 * all_a - *y as f64 * all_b).abs())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand instructions in one region.
    fn raw(region: usize, simulated: u64, reads: u64) -> RawChunk {
        let mut chunk = RawChunk {
            simulated,
            reads,
            l1_misses: reads,
            l2_misses: reads,
            ..RawChunk::default()
        };
        chunk.regions[region] = 1000;
        chunk
    }

    fn course(sampling: Sampling, raw: Vec<RawChunk>) -> Course {
        Course { sampling, cost: CostModel::default(), raw }
    }

    #[test]
    fn what_was_not_simulated_is_taken_from_the_same_code() {
        let course = course(
            Sampling::Share(0.1),
            vec![raw(1, 1000, 10), raw(2, 1000, 50), raw(2, 0, 0), raw(1, 0, 0), raw(1, 1000, 20)],
        );
        let simulated = [0, 1, 4];
        let chunk = |i| course.chunk(i, &simulated);
        assert_eq!((chunk(2).counts.reads, chunk(2).origin), (Lines(50), Origin::Extrapolated));
        assert_eq!(chunk(3).counts.reads, Lines(15), "the mean of its phase");
        assert_eq!((chunk(4).counts.reads, chunk(4).origin), (Lines(20), Origin::Simulated));
    }

    #[test]
    fn what_was_not_simulated_is_taken_by_medium() {
        let mut placed = raw(1, 1000, 30);
        placed.elsewhere[1] = Traffic { reads: Lines(20), writes: Lines(0) };
        let course = course(Sampling::Share(0.1), vec![placed, raw(1, 0, 0)]);
        let counts = course.chunk(1, &[0]).counts;
        let of = |medium| counts.traffic(memweir_core::MediumId::ALL[medium]).reads;
        assert_eq!([of(0), of(1), of(2)], [Lines(10), Lines(0), Lines(20)]);
    }

    #[test]
    fn a_chunk_costs_its_instructions_and_misses() {
        let course = course(Sampling::All, vec![raw(0, 0, 10)]);
        // 1000 x 0.5 + 10 x (6 + 25 + 100).
        assert!((course.chunk(0, &[0]).cycles - 1810.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_to_compare_with_means_no_traffic() {
        let course = course(Sampling::Share(0.1), vec![raw(0, 0, 0)]);
        assert_eq!(course.chunk(0, &[]).counts.reads, Lines(0));
        assert_eq!(course.sampling_error(), None);
    }

    #[test]
    fn the_error_follows_the_spread_of_the_bursts() {
        let even =
            course(Sampling::Share(0.1), vec![raw(0, 1000, 9), raw(0, 0, 0), raw(0, 1000, 9)]);
        assert_eq!(even.sampling_error(), Some(0.0));
        // Means 0.008 and 0.012: deviation 0.002828, 1.96 x 0.002828 / sqrt(2) / 0.01.
        let uneven =
            course(Sampling::Share(0.1), vec![raw(0, 1000, 8), raw(0, 0, 0), raw(0, 1000, 12)]);
        assert!((uneven.sampling_error().unwrap() - 0.392).abs() < 1e-9);
    }
}
