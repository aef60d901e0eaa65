//! The reasons why a run had more in DRAM than its budget.

use memweir_abi::preload::page::{PageCounter, PageCounters};
use memweir_core::Bytes;
use serde::Serialize;

/// The part of the budget by which it may be exceeded: one twentieth.
const TOLERATED: u64 = 20;

/// Bytes that a thread can fill in a microsecond, at most: a page, since one page fault takes
/// longer.
const BYTES_PER_MICRO: u64 = 4096;

/// A share of the run that is too short to matter.
const SHORT: f64 = 0.01;

/// A reason that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Programs that cannot be paged had memory of their own.
    UnpagedPrograms,
    /// The NVM was full, so nothing could leave.
    NvmFull,
    /// The program locked memory, or asked for what only memory without a file has.
    UnpageableMemory,
    /// Static variables of libraries, stacks, and memory that the program mapped by system calls of
    /// its own.
    UnseenMemory,
    /// Pages were pinned.
    PinnedPages,
    /// Eviction waited for forked children.
    ForkedChildren,
    /// The machine kept the helper from its processor.
    LateHelper,
}

/// A run, as far as the causes follow from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) budget: Bytes,
    /// The most in DRAM of everything together.
    pub(super) peak: Bytes,
    /// The most in DRAM of programs that were not paged.
    pub(super) unpaged: Bytes,
    pub(super) seconds: f64,
    /// Processors on which memory can be filled while a helper is late.
    pub(super) processors: u64,
    pub(super) counters: &'a PageCounters,
}

impl Run<'_> {
    /// Returns the causes that were found, the one that explains most first; none if the budget was
    /// kept within five percent, or if nothing that is counted explains it.
    pub(super) fn causes(&self) -> Vec<Cause> {
        let tolerated = self.budget.0 / TOLERATED;
        if self.peak.0 <= self.budget.0.saturating_add(tolerated) {
            return Vec::new();
        }
        let counted = |counter| self.counters.get(counter);
        let late_micros = counted(PageCounter::LatestWake) / 1000;
        let came_meanwhile = late_micros * self.processors * BYTES_PER_MICRO;
        // The helper can be late in any run, so that it is a cause only of what the known amounts
        // leave unexplained, and only if at least half of that can have come meanwhile.
        let explained = self.unpaged.0
            + counted(PageCounter::UnpageableBytes)
            + counted(PageCounter::UnseenBytes);
        let unexplained = (self.peak.0 - self.budget.0).saturating_sub(explained);
        let late = unexplained > tolerated && came_meanwhile >= unexplained / 2;
        let paused = counted(PageCounter::ForkPauseNanos) as f64 / 1e9;
        let found = [
            (Cause::UnpagedPrograms, self.unpaged.0 > tolerated),
            (Cause::NvmFull, counted(PageCounter::NvmFull) > 0),
            (Cause::UnpageableMemory, counted(PageCounter::UnpageableBytes) > tolerated),
            (Cause::UnseenMemory, counted(PageCounter::UnseenBytes) > tolerated),
            (Cause::PinnedPages, counted(PageCounter::Skipped) > 0),
            (Cause::ForkedChildren, paused > SHORT * self.seconds),
            (Cause::LateHelper, late),
        ];
        found.into_iter().filter(|(_, is_so)| *is_so).map(|(cause, _)| cause).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn counters(counted: &[(PageCounter, u64)]) -> PageCounters {
        let mut words = [0u64; 64];
        counted.iter().for_each(|(counter, count)| words[*counter as usize] = *count);
        let content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        PageCounters::of(&content)
    }

    fn causes(peak: u64, unpaged: u64, counted: &[(PageCounter, u64)]) -> Vec<Cause> {
        let run = Run {
            budget: Bytes(40 * MIB),
            peak: Bytes(peak),
            unpaged: Bytes(unpaged),
            seconds: 10.0,
            processors: 2,
            counters: &counters(counted),
        };
        run.causes()
    }

    #[test]
    fn a_budget_that_was_kept_needs_no_cause() {
        let all = [(PageCounter::NvmFull, 9), (PageCounter::Skipped, 9)];
        assert_eq!(causes(42 * MIB, 3 * MIB, &all), []);
        assert_eq!(causes(42 * MIB + 1, 3 * MIB, &all).len(), 3);
    }

    #[test]
    fn a_late_helper_is_no_cause_of_what_others_explain() {
        let late = (PageCounter::LatestWake, 5_000_000);
        assert_eq!(causes(80 * MIB, 39 * MIB, &[late]), [Cause::UnpagedPrograms]);
        let both = [Cause::UnpagedPrograms, Cause::LateHelper];
        assert_eq!(causes(80 * MIB, 30 * MIB, &[late]), both);
        let locked = [late, (PageCounter::UnpageableBytes, 39 * MIB)];
        assert_eq!(causes(80 * MIB, 0, &locked), [Cause::UnpageableMemory]);
        let unseen = [late, (PageCounter::UnseenBytes, 39 * MIB)];
        assert_eq!(causes(80 * MIB, 0, &unseen), [Cause::UnseenMemory]);
    }

    #[test]
    fn only_what_is_large_enough_to_matter_is_a_cause() {
        assert_eq!(causes(80 * MIB, 2 * MIB, &[]), []);
        assert_eq!(causes(80 * MIB, 3 * MIB, &[]), [Cause::UnpagedPrograms]);
        // In 2.56 ms two processors fill 5120 pages: half of the 40 MiB that are too many.
        let late = |nanos| causes(80 * MIB, 0, &[(PageCounter::LatestWake, nanos)]);
        assert_eq!(late(2_559_999), []);
        assert_eq!(late(2_560_000), [Cause::LateHelper]);
        // A hundredth of ten seconds.
        let paused = |nanos| causes(80 * MIB, 0, &[(PageCounter::ForkPauseNanos, nanos)]);
        assert_eq!(paused(100_000_000), []);
        assert_eq!(paused(100_000_001), [Cause::ForkedChildren]);
        let kept = |bytes| causes(80 * MIB, 0, &[(PageCounter::UnpageableBytes, bytes)]);
        assert_eq!((kept(2 * MIB), kept(2 * MIB + 1)), (vec![], vec![Cause::UnpageableMemory]));
    }
}
