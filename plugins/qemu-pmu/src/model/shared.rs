//! The last-level cache that all running jobs share through memory.
//!
//! Each access reads and rewrites ways with relaxed atomics and takes no lock. If two processes use
//! the same set at the same moment, one of the two changes can be lost: a line is then forgotten
//! (one miss too many, or one write-back too few) or listed twice (one way less until it ages out).
//! There are many sets and an access takes tens of nanoseconds, so this is rare. No race can have
//! another effect than a slightly different order of lines, and a write-back that counts as one of
//! the local DRAM.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::index::SetIndex;
use super::lanes::prefetch;
use super::placement::{PageMap, Process};
use super::private::DIRTY;

/// Words in a cache line of the host.
const WORDS_PER_LINE: usize = 8;

/// Lines of a large page, 2 MiB.
const PAGE_LINES: u32 = 15;

/// Bits of a line number: 47-bit addresses.
const LINE_BITS: u32 = 41;

/// Position of the number of a line's medium in a word, and its mask.
const MEDIUM_SHIFT: u32 = LINE_BITS + 1;
const MEDIUM: u64 = 0b11 << MEDIUM_SHIFT;
const SPACE_SHIFT: u32 = MEDIUM_SHIFT + 2;

/// Number of distinct address spaces.
const ADDRESS_SPACES: u64 = 1 << (64 - SPACE_SHIFT);

/// The view that one process has of the shared cache.
#[derive(Clone, Copy, Debug)]
pub struct SharedCache<'a> {
    words: &'a [AtomicU64],
    ways: usize,
    index: SetIndex,
    process: Process,
    /// Absent if everything is in local DRAM.
    pages: Option<&'a PageMap<'a>>,
}

/// Result of an access to the last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The line was present.
    Hit,
    /// The line was brought in, and an unmodified line or none was evicted.
    Miss,
    /// The line was brought in, and a modified line, perhaps of another process, was written back.
    MissWithWriteBack,
    /// One of these two misses, if other media than the local DRAM may take part.
    Placed {
        /// Number of the medium that the line came from.
        from: u8,
        /// Number of the medium that a line was written back to, if one was.
        written_back: Option<u8>,
    },
}

/// A modified line that left the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its address space.
    pub space: u32,
    /// Its number there.
    pub line: u64,
}

impl<'a> SharedCache<'a> {
    /// Creates the view of the cache with the ways `words` from an address space. Spaces start at
    /// one.
    #[must_use]
    pub fn new(words: &'a [AtomicU64], ways: usize, address_space: u64) -> Self {
        assert!(ways > 0 && !words.is_empty() && words.len().is_multiple_of(ways));
        let index = SetIndex::new((words.len() / ways) as u64);
        Self { words, ways, index, process: Process::default(), pages: None }
            .in_address_space(address_space)
    }

    /// Returns the same cache seen from another address space, whose lines never equal those of
    /// this one.
    #[must_use]
    pub fn in_address_space(self, address_space: u64) -> Self {
        // Zero would make line 0 look like an empty way. After a million processes a number is
        // reused; no line of its first owner is left by then.
        let space = 1 + address_space % (ADDRESS_SPACES - 1);
        Self { process: Process { space, ..self.process }, ..self }
    }

    /// Returns the same cache with the page placement of this process, the `ordinal`-th of its job,
    /// if `pages` is given.
    #[must_use]
    pub fn with_pages(self, pages: Option<&'a PageMap<'a>>, ordinal: u64) -> Self {
        Self { pages, process: Process { ordinal, ..self.process }, ..self }
    }

    /// Returns the set of `line`. Memory is assumed to consist of 2 MiB pages at random places:
    /// neighboring lines fall into neighboring sets, as in a large page, and processes do not
    /// collide at equal addresses.
    #[inline]
    #[must_use]
    pub fn set(&self, line: u64) -> usize {
        let line = line & ((1 << LINE_BITS) - 1);
        let page = (line >> PAGE_LINES) ^ (self.process.space << 40);
        let place = page.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        let place = (place ^ (place >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 33;
        self.index.of(place + (line & ((1 << PAGE_LINES) - 1)))
    }

    fn words_of(&self, set: usize) -> &[AtomicU64] {
        &self.words[set * self.ways..(set + 1) * self.ways]
    }

    /// Makes the host fetch a set for a later access.
    #[inline(always)]
    pub fn prefetch(&self, set: usize) {
        self.words_of(set).iter().step_by(WORDS_PER_LINE).for_each(prefetch);
    }

    /// Returns the number of the address space, from one.
    #[must_use]
    pub fn space(&self) -> u32 {
        self.process.space as u32
    }

    /// Accesses `line`; `dirty` is [`DIRTY`] if a private cache writes it back.
    #[inline]
    pub fn access(&self, line: u64, dirty: u64) -> Access {
        self.exchange(self.set(line), line, dirty).0
    }

    /// Does the same for a line whose [`set`](Self::set) is known, and also returns the line that
    /// was written back, if any.
    #[inline]
    pub fn exchange(&self, set: usize, line: u64, dirty: u64) -> (Access, Option<Evicted>) {
        let line = line & ((1 << LINE_BITS) - 1);
        let set = self.words_of(set);
        let clean = self.process.space << SPACE_SHIFT | line << 1;
        let mut carried = clean | dirty;
        for way in set {
            let here = way.load(Relaxed);
            way.store(carried, Relaxed);
            if here & !(DIRTY | MEDIUM) == clean {
                if here != clean | dirty {
                    set[0].store(here | dirty, Relaxed);
                }
                return (Access::Hit, None);
            }
            carried = here;
        }
        let access = match self.pages {
            None if carried & MEDIUM == 0 => match carried & DIRTY {
                0 => Access::Miss,
                _ => Access::MissWithWriteBack,
            },
            _ => self.place(set, clean | dirty, carried),
        };
        let evicted = Evicted {
            space: (carried >> SPACE_SHIFT) as u32,
            line: carried >> 1 & ((1 << LINE_BITS) - 1),
        };
        (access, (carried & DIRTY != 0).then_some(evicted))
    }

    /// Marks `word`, which has just come into the set, with the medium of its line, and returns the
    /// result for the word that it replaced. Another process may have moved the word meanwhile, so
    /// this function searches for it, and no other line gets its medium. Out of line, so that with
    /// a single medium a miss costs nothing extra.
    #[cold]
    fn place(&self, set: &[AtomicU64], word: u64, replaced: u64) -> Access {
        let line = word >> 1 & ((1 << LINE_BITS) - 1);
        let from = self.pages.map_or(0, |pages| pages.medium(self.process, line));
        let placed = word | from << MEDIUM_SHIFT;
        let _ = set.iter().any(|way| way.compare_exchange(word, placed, Relaxed, Relaxed).is_ok());
        let medium = ((replaced & MEDIUM) >> MEDIUM_SHIFT) as u8;
        let written_back = (replaced & DIRTY != 0).then_some(medium);
        Access::Placed { from: from as u8, written_back }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_abi::softpmu::PlacementWords;
    use memweir_core::MAX_MEDIA;
    use memweir_core::placement::Placement;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn one_set_keeps_lru_order_and_writes_modified_lines_back() {
        let words = words(2);
        let cache = SharedCache::new(&words, 2, 1);
        assert_eq!(cache.access(0, DIRTY), Access::Miss);
        assert_eq!(cache.access(1, 0), Access::Miss);
        assert_eq!(cache.access(0, 0), Access::Hit);
        assert_eq!(cache.access(2, 0), Access::Miss, "line 1 was clean");
        assert_eq!(cache.access(3, 0), Access::MissWithWriteBack, "line 0 stayed dirty");
        assert_eq!(cache.access(0, 0), Access::Miss, "and comes back clean");
        assert_eq!(cache.access(0, DIRTY), Access::Hit);
        assert_eq!(cache.access(0, DIRTY), Access::Hit);
        assert_eq!(cache.access(4, 0), Access::Miss);
        assert_eq!(cache.access(5, 0), Access::MissWithWriteBack);
    }

    #[test]
    fn equal_addresses_of_two_processes_are_different_lines() {
        let words = words(16);
        let one = SharedCache::new(&words, 16, 1);
        let two = one.in_address_space(2);
        assert_eq!(one.access(7, 0), Access::Miss);
        assert_eq!(two.access(7, 0), Access::Miss);
        assert_eq!(one.access(7, 0), Access::Hit);
    }

    #[test]
    fn a_write_back_goes_to_the_medium_of_its_own_line() {
        let in_medium = |medium: usize| {
            let mut shares = [0.0; MAX_MEDIA];
            shares[medium] = 1.0;
            let words = Box::leak(Box::new(PlacementWords::default()));
            &*Box::leak(Box::new(PageMap::new(Placement::Share(shares), words, &[])))
        };
        let words = words(2);
        let plain = SharedCache::new(&words, 2, 1);
        let one = plain.with_pages(Some(in_medium(1)), 0);
        let three = plain.in_address_space(2).with_pages(Some(in_medium(3)), 0);
        let miss = |from, written_back| Access::Placed { from, written_back };
        assert_eq!(one.access(5, 0), miss(1, None));
        assert_eq!(one.access(5, DIRTY), Access::Hit, "it keeps its medium when it is modified");
        assert_eq!(three.access(5, DIRTY), miss(3, None));
        assert_eq!(one.access(5, 0), Access::Hit, "and when it is read again");
        assert_eq!(plain.access(8, 0), miss(0, Some(3)));
        assert_eq!(plain.access(9, DIRTY), miss(0, Some(1)), "whoever evicts it");
        assert_eq!(three.access(6, 0), miss(3, None), "line 8 was clean");
        assert_eq!(three.access(7, 0), miss(3, Some(0)));
    }

    #[test]
    fn a_large_page_lies_evenly_over_the_sets() {
        // 1024 sets of 4 ways hold 4096 neighboring lines of one page, wherever it was placed.
        let words = words(4096);
        let cache = SharedCache::new(&words, 4, 3);
        let misses = |lines: std::ops::Range<u64>| {
            lines.filter(|line| cache.access(*line, 0) != Access::Hit).count()
        };
        assert_eq!(misses(8192..12288), 4096);
        assert_eq!(misses(8192..12288), 0);
    }

    #[test]
    fn races_neither_invent_nor_keep_lines_of_nobody() {
        let words = words(8 * 16);
        std::thread::scope(|scope| {
            for space in 1..=4 {
                let cache = SharedCache::new(&words, 16, space);
                scope.spawn(move || {
                    (0..200_000_u64).for_each(|n| {
                        cache.access(n * 7 % 512, n & 1);
                    })
                });
            }
        });
        for word in &words {
            let word = word.load(Relaxed);
            let (space, line) = (word >> SPACE_SHIFT, word >> 1 & ((1 << LINE_BITS) - 1));
            assert!((2..=5).contains(&space) && line < 512, "{space} {line}");
        }
    }
}
