//! From raw chunks to a recording: costs, and the memory counts of chunks that were not simulated.

use std::ops::Range;

use memweir_abi::softpmu::layout::REGIONS;
use memweir_abi::softpmu::{RawChunk, Sampling};
use memweir_core::cache::CacheHierarchy;
use memweir_core::metrics::student_t_quantile;
use memweir_core::{Counts, Lines, MAX_MEDIA, Traffic};

use super::{Chunk, Origin, Recording, SamplingError};
use crate::launch::Exit;
use crate::softpmu::JobCounters;

/// Cycles per event on an out-of-order core of the 2020s that overlaps about half of its misses.
/// Only the ratios matter: a profile is scaled to the time that the program takes natively.
mod cycles {
    /// Per instruction whose data is in the first-level cache.
    pub(super) const INSTRUCTION: f64 = 0.5;
    /// Extra cycles of a first-level miss that the second level serves.
    pub(super) const L2_HIT: f64 = 6.0;
    /// Extra cycles of a second-level miss that the last level serves.
    pub(super) const LLC_HIT: f64 = 25.0;
    /// Extra cycles of a last-level miss.
    pub(super) const MEMORY: f64 = 100.0;
}

/// Simulated chunks to each side in time that are compared with one that was not.
const NEIGHBORS: usize = 256;

/// Chunks whose instruction pointers are so much farther than the nearest ones (of the largest
/// distance, 2) count as equally near.
const SAME_PHASE: f32 = 0.1;

/// The chunks of a running program so far.
#[derive(Debug)]
pub(super) struct Course {
    sampling: Sampling,
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

    /// Returns the counts of so many instructions.
    fn counts(&self, instructions: u64) -> Counts {
        let lines = |rate: f64| Lines((rate * instructions as f64).round() as u64);
        let traffic = self
            .traffic
            .map(|[reads, writes]| Traffic { reads: lines(reads), writes: lines(writes) });
        Counts::by_medium(instructions, traffic)
    }
}

impl Course {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self { sampling, raw: Vec::new() }
    }

    pub(super) fn push(&mut self, chunk: RawChunk) {
        self.raw.push(chunk);
    }

    pub(super) fn len(&self) -> usize {
        self.raw.len()
    }

    /// Returns true if the chunk was simulated: all are without sampling, else those of which more
    /// than half of the instructions were.
    fn is_simulated(&self, chunk: &RawChunk) -> bool {
        self.sampling == Sampling::All || chunk.simulated * 2 > chunk.instructions()
    }

    pub(super) fn finish(
        self,
        status: Exit,
        caches: CacheHierarchy,
        counters: &JobCounters,
    ) -> Recording {
        let estimator = Estimator::new(&self);
        let chunks = estimator.chunks();
        let total: u64 = self.raw.iter().map(RawChunk::instructions).sum();
        let simulated = self.raw.iter().filter(|raw| self.is_simulated(raw));
        let counted: u64 = simulated.map(RawChunk::instructions).sum();
        Recording {
            sampled_share: if total == 0 { 1.0 } else { counted as f64 / total as f64 },
            sampling_error: estimator.error(&chunks),
            chunks,
            status,
            caches,
            uncounted: counters.uncounted(),
            notices: counters.notices(),
        }
    }
}

/// Estimates the memory counts of chunks that were not simulated from those that were.
///
/// The first burst stands for itself alone where there are others: a program reads its text and
/// data for the first time when it starts, and the start is always simulated, so that it is no
/// random sample of the rest.
struct Estimator<'a> {
    course: &'a Course,
    /// Instructions of each chunk by code region, as shares (iabw section 4.2).
    shares: Vec<[f32; REGIONS]>,
    /// Bursts that were placed at random, as ranges of chunks.
    bursts: Vec<Range<usize>>,
    /// Chunks of these bursts.
    sample: Vec<usize>,
}

impl<'a> Estimator<'a> {
    fn new(course: &'a Course) -> Self {
        let mut bursts = Vec::new();
        let mut start = 0;
        for run in course.raw.chunk_by(|a, b| course.is_simulated(a) == course.is_simulated(b)) {
            if course.is_simulated(&run[0]) {
                bursts.push(start..start + run.len());
            }
            start += run.len();
        }
        if bursts.len() > 1 && bursts[0].start == 0 {
            bursts.remove(0);
        }
        let sample = bursts.iter().cloned().flatten().collect();
        let shares = course.raw.iter().map(shares_of).collect();
        Self { course, shares, bursts, sample }
    }

    fn chunks(&self) -> Vec<Chunk> {
        (0..self.course.raw.len()).map(|index| self.chunk(index)).collect()
    }

    fn chunk(&self, index: usize) -> Chunk {
        let raw = &self.course.raw[index];
        let (rates, origin) = if self.course.is_simulated(raw) {
            (rates_of(raw), Origin::Simulated)
        } else {
            (self.like(index, &self.sample), Origin::Extrapolated)
        };
        let per_instruction = cycles::INSTRUCTION
            + rates.l1_misses * cycles::L2_HIT
            + rates.l2_misses * cycles::LLC_HIT
            + rates.reads() * cycles::MEMORY;
        Chunk {
            counts: rates.counts(raw.instructions()),
            cycles: per_instruction * raw.instructions() as f64,
            instruction_pointers: raw.instruction_pointers(),
            origin,
        }
    }

    /// Returns the mean rates of the chunks of `sample` that execute about the same code.
    fn like(&self, index: usize, sample: &[usize]) -> Rates {
        let here = sample.partition_point(|other| *other < index);
        let near = &sample[here.saturating_sub(NEIGHBORS)..(here + NEIGHBORS).min(sample.len())];
        let distances: Vec<f32> =
            near.iter().map(|other| distance(&self.shares[index], &self.shares[*other])).collect();
        let least = distances.iter().copied().fold(f32::INFINITY, f32::min);
        let alike = near.iter().zip(&distances).filter(|(_, d)| **d <= least + SAME_PHASE);
        rates_of_all(alike.map(|(other, _)| &self.course.raw[*other]))
    }

    /// Returns half the width of the 95 % confidence interval of the extrapolated traffic, in lines
    /// and relative to the traffic of `chunks`. Each burst is estimated from the others as if it
    /// had not been simulated; the differences are those of an extrapolation, phases included.
    fn error(&self, chunks: &[Chunk]) -> Option<SamplingError> {
        if self.course.sampling == Sampling::All {
            return None;
        }
        let lines: f64 = chunks.iter().map(|chunk| chunk.counts.lines().as_f64()).sum();
        let extrapolated: u64 = chunks
            .iter()
            .filter(|chunk| chunk.origin == Origin::Extrapolated)
            .map(|chunk| chunk.counts.instructions)
            .sum();
        if extrapolated == 0 {
            return Some(SamplingError { lines: 0.0, share: 0.0 });
        }
        if self.bursts.len() < 2 {
            return None;
        }
        let errors: Vec<f64> = self.bursts.iter().map(|burst| self.error_of(burst)).collect();
        let count = errors.len() as f64;
        let square = errors.iter().map(|error| error.powi(2)).sum::<f64>() / (count - 1.0);
        let quantile = student_t_quantile(errors.len() - 1, 0.95)?;
        let half = quantile * (square / count).sqrt() * extrapolated as f64;
        Some(SamplingError { lines: half, share: if lines > 0.0 { half / lines } else { 0.0 } })
    }

    /// Returns the lines per instruction by which a burst differs from its estimate.
    fn error_of(&self, burst: &Range<usize>) -> f64 {
        let others: Vec<usize> =
            self.sample.iter().copied().filter(|chunk| !burst.contains(chunk)).collect();
        let (mut difference, mut instructions) = (0.0, 0);
        for index in burst.clone() {
            let raw = &self.course.raw[index];
            let rates = rates_of(raw).lines() - self.like(index, &others).lines();
            difference += rates * raw.instructions() as f64;
            instructions += raw.instructions();
        }
        difference / instructions.max(1) as f64
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

fn shares_of(chunk: &RawChunk) -> [f32; REGIONS] {
    let all = chunk.instructions().max(1) as f32;
    chunk.regions.map(|instructions| instructions as f32 / all)
}

/// Returns the Manhattan distance of two chunks' shares (iabw section 4.2), 0 to 2.
fn distance(a: &[f32; REGIONS], b: &[f32; REGIONS]) -> f32 {
    // Sixteen sums, so that the compiler computes several at once.
    let mut sums = [0.0; 16];
    for (a, b) in a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0) {
        for lane in 0..16 {
            sums[lane] += (a[lane] - b[lane]).abs();
        }
    }
    sums.iter().sum()
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
        Course { sampling, raw }
    }

    #[test]
    fn what_was_not_simulated_is_taken_from_the_same_code() {
        let raw = vec![
            raw(1, 0, 0),
            raw(1, 1000, 10),
            raw(2, 1000, 50),
            raw(2, 0, 0),
            raw(1, 0, 0),
            raw(1, 1000, 20),
        ];
        let course = course(Sampling::Share(0.1), raw);
        let estimator = Estimator::new(&course);
        let chunk = |i| estimator.chunk(i);
        assert_eq!((chunk(3).counts.reads, chunk(3).origin), (Lines(50), Origin::Extrapolated));
        assert_eq!(chunk(4).counts.reads, Lines(15), "the mean of its phase");
        assert_eq!((chunk(5).counts.reads, chunk(5).origin), (Lines(20), Origin::Simulated));
    }

    #[test]
    fn the_start_of_a_program_stands_for_itself_alone() {
        let rest = [raw(1, 0, 0), raw(1, 1000, 2), raw(1, 0, 0), raw(1, 1000, 2)];
        let raw = [vec![raw(1, 1000, 900)], rest.to_vec()].concat();
        let course = course(Sampling::Share(0.1), raw);
        let estimator = Estimator::new(&course);
        let reads: u64 = (0..5).map(|index| estimator.chunk(index).counts.reads.0).sum();
        assert_eq!(reads, 900 + 4 * 2);
        assert_eq!(
            estimator.error(&estimator.chunks()),
            Some(SamplingError { lines: 0.0, share: 0.0 })
        );
    }

    #[test]
    fn what_was_not_simulated_is_taken_by_medium() {
        let mut placed = raw(1, 1000, 30);
        placed.elsewhere[1] = Traffic { reads: Lines(20), writes: Lines(0) };
        let course = course(Sampling::Share(0.1), vec![placed, raw(1, 0, 0)]);
        let counts = Estimator::new(&course).chunk(1).counts;
        let of = |medium| counts.traffic(memweir_core::MediumId::ALL[medium]).reads;
        assert_eq!([of(0), of(1), of(2)], [Lines(10), Lines(0), Lines(20)]);
    }

    #[test]
    fn a_chunk_costs_its_instructions_and_misses() {
        let course = course(Sampling::All, vec![raw(0, 0, 10)]);
        // 1000 x 0.5 + 10 x (6 + 25 + 100).
        assert!((Estimator::new(&course).chunk(0).cycles - 1810.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_to_compare_with_means_no_traffic() {
        let course = course(Sampling::Share(0.1), vec![raw(0, 0, 0)]);
        let estimator = Estimator::new(&course);
        assert_eq!(estimator.chunk(0).counts.reads, Lines(0));
        assert_eq!(estimator.error(&estimator.chunks()), None);
    }

    #[test]
    fn the_error_follows_the_differences_between_estimates_and_bursts() {
        let bursts = |regions: [usize; 4], reads: [u64; 4]| {
            let bursts = regions.iter().zip(reads);
            let raw = bursts.flat_map(|(r, reads)| [raw(*r, 0, 0), raw(*r, 1000, reads)]);
            let course = course(Sampling::Share(0.1), raw.collect());
            let estimator = Estimator::new(&course);
            estimator.error(&estimator.chunks()).unwrap()
        };
        assert_eq!(bursts([0; 4], [9; 4]), SamplingError { lines: 0.0, share: 0.0 });
        // Two phases that differ, each the same throughout.
        let phases = bursts([1, 1, 2, 2], [5, 5, 50, 50]);
        assert_eq!(phases, SamplingError { lines: 0.0, share: 0.0 });
        // Estimates 0.032/3, 0.028/3 in turn: every burst is off by 0.008/3 lines per instruction.
        // 3.182 x 0.008/3 x sqrt(4/3) / sqrt(4) x 4,000 = 19.596, of 80 lines.
        let uneven = bursts([0; 4], [8, 12, 8, 12]);
        assert!((uneven.lines - 19.596).abs() < 1e-2, "{uneven:?}");
        assert!((uneven.share - 0.24495).abs() < 1e-3, "{uneven:?}");
    }
}
