//! A cache that one vCPU owns.

use memweir_core::cache::CacheGeometry;

use super::index::SetIndex;
use super::lanes::{LANES, equal_bytes, least};

/// A line and its dirty bit: `line << 1 | dirty`.
pub type Word = u64;

/// The word of an empty way: no address has this line, and it is not modified.
pub const EMPTY: Word = !DIRTY;

/// Bit of a [`Word`] that marks a modified line.
pub const DIRTY: Word = 1;

/// The time of a way that was never used. The clock of a set starts here.
pub(super) const NEVER: i16 = i16::MIN;

/// The end of every clock, and the time of ways that the cache does not have. They come after those
/// that it has, so that the first of equal times in a set belongs to a way that exists.
pub(super) const ABSENT: i16 = i16::MAX;

/// Up to sixteen ways of a set, which are searched all at once.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Block {
    /// Some bits of each line. A hint: the words decide.
    tags: [u8; LANES],
    /// Latest use of each way by the clock of its set.
    used: [i16; LANES],
    /// The latest time of use in the set. That of its first block counts.
    clock: i16,
    words: [Word; LANES],
}

impl Block {
    /// Returns the empty block with this number in a cache of `associativity` ways.
    fn nth(number: usize, associativity: usize) -> Self {
        let ways = associativity - number % associativity.div_ceil(LANES) * LANES;
        let used = std::array::from_fn(|way| if way < ways { NEVER } else { ABSENT });
        Self { tags: [0; LANES], used, clock: NEVER, words: [EMPTY; LANES] }
    }

    /// Accesses `line` at the time `now` if it is here; the result is false otherwise.
    #[inline(always)]
    fn touch(&mut self, line: u64, tag: u8, dirty: Word, now: i16) -> bool {
        let mut candidates = equal_bytes(&self.tags, tag);
        while candidates != 0 {
            let way = candidates.trailing_zeros() as usize % LANES;
            if self.words[way] & !DIRTY == line << 1 {
                self.words[way] |= dirty;
                self.used[way] = now;
                return true;
            }
            candidates &= candidates - 1;
        }
        false
    }
}

/// A set-associative cache with true LRU order.
///
/// The order is stored as times of use. So a hit changes one way only, at any position in the
/// order, and only a miss searches for the oldest.
#[derive(Debug)]
pub struct PrivateCache {
    blocks: Box<[Block]>,
    associativity: usize,
    /// Blocks per set.
    per_set: usize,
    index: SetIndex,
    /// One less than the number of sets if that is a power of two.
    mask: Option<u64>,
}

/// Result of an access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The line was present.
    Hit,
    /// The line was absent, and is present now.
    Miss {
        /// The evicted word; [`EMPTY`] if the set had room.
        victim: Word,
    },
}

impl PrivateCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(geometry: &CacheGeometry) -> Self {
        let index = SetIndex::new(geometry.sets());
        let associativity = geometry.ways as usize;
        let per_set = associativity.div_ceil(LANES);
        let all = 0..index.sets() * per_set;
        let blocks = all.map(|number| Block::nth(number, associativity)).collect();
        Self { blocks, associativity, per_set, mask: index.mask(), index }
    }

    /// Drops all contents without write-backs.
    pub fn clear(&mut self) {
        for (number, block) in self.blocks.iter_mut().enumerate() {
            *block = Block::nth(number, self.associativity);
        }
    }

    /// Returns the modified lines, in the order of their places.
    #[must_use]
    pub fn modified(&self) -> Vec<u64> {
        let words = self.blocks.iter().flat_map(|block| &block.words);
        words.filter(|word| *word & DIRTY != 0).map(|word| word >> 1).collect()
    }

    /// Returns the number of the first block of a line's set.
    #[inline(always)]
    fn first(&self, line: u64) -> usize {
        let set = match self.mask {
            Some(mask) => (line & mask) as usize,
            None => self.index.of(line),
        };
        set * self.per_set
    }

    /// Accesses `line`. `dirty` is [`DIRTY`] if the access modifies it, otherwise zero.
    #[inline]
    pub fn access(&mut self, line: u64, dirty: Word) -> Lookup {
        let first = self.first(line);
        let set = &mut self.blocks[first..first + self.per_set];
        if set[0].clock == ABSENT {
            let used = set.iter_mut().flat_map(|block| &mut block.used);
            set[0].clock = renumbered(used.take(self.associativity));
        }
        set[0].clock += 1;
        let (tag, now) = (short_tag(line), set[0].clock);
        if set.iter_mut().any(|block| block.touch(line, tag, dirty, now)) {
            return Lookup::Hit;
        }
        let block = match set {
            [only] => only,
            several => several
                .iter_mut()
                .min_by_key(|block| block.used[least(&block.used)])
                .expect("a set has ways"),
        };
        let way = least(&block.used);
        block.tags[way] = tag;
        block.used[way] = now;
        Lookup::Miss { victim: std::mem::replace(&mut block.words[way], line << 1 | dirty) }
    }
}

/// Returns eight bits that differ between most lines.
#[inline(always)]
#[must_use]
pub fn short_tag(line: u64) -> u8 {
    // Fibonacci hashing: the upper bits of the product depend on all bits of the line.
    (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Restarts the clock of a set, given the times of its ways, which keep their order. Returns the
/// clock.
#[cold]
#[inline(never)]
pub(super) fn renumbered<'a>(used: impl Iterator<Item = &'a mut i16>) -> i16 {
    let mut used: Vec<&mut i16> = used.filter(|time| **time > NEVER).collect();
    used.sort_unstable();
    let mut clock = NEVER;
    for time in used {
        clock += 1;
        *time = clock;
    }
    clock
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::Bytes;

    /// Two sets of two ways.
    fn tiny() -> PrivateCache {
        PrivateCache::new(&CacheGeometry::new(Bytes(256), 2))
    }

    fn victim(line: u64, dirty: Word) -> Lookup {
        Lookup::Miss { victim: line << 1 | dirty }
    }

    const COLD: Lookup = Lookup::Miss { victim: EMPTY };

    #[test]
    fn the_least_recently_used_line_of_the_set_goes() {
        let mut cache = tiny();
        // Lines 0, 2, 4 share set 0; line 1 is in set 1.
        assert_eq!(cache.access(0, 0), COLD);
        assert_eq!(cache.access(2, 0), COLD);
        assert_eq!(cache.access(1, 0), COLD);
        assert_eq!(cache.access(0, 0), Lookup::Hit);
        assert_eq!(cache.access(4, 0), victim(2, 0));
        assert_eq!(cache.access(0, 0), Lookup::Hit);
        assert_eq!(cache.access(2, 0), victim(4, 0));
        assert_eq!(cache.access(1, 0), Lookup::Hit);
    }

    #[test]
    fn a_line_stays_dirty_until_it_leaves() {
        let mut cache = tiny();
        cache.access(0, DIRTY);
        cache.access(0, 0);
        cache.access(2, 0);
        assert_eq!(cache.access(4, 0), victim(0, DIRTY));
        assert_eq!(cache.access(0, 0), victim(2, 0), "it comes back clean");
    }

    #[test]
    fn eight_and_nine_ways_differ_in_room_alone() {
        for ways in [8, 9, 16] {
            let mut cache = PrivateCache::new(&CacheGeometry::new(Bytes(64 * ways), ways as u32));
            assert!((0..ways).all(|line| cache.access(line, line & DIRTY) == COLD));
            assert_eq!(cache.access(0, 0), Lookup::Hit);
            assert_eq!(cache.access(3, 0), Lookup::Hit);
            assert_eq!(cache.access(2, DIRTY), Lookup::Hit);
            assert_eq!(cache.access(100, 0), victim(1, DIRTY));
            assert_eq!(cache.access(101, 0), victim(4, 0));
            // From the latest: 101, 100, 2, 3, 0, ways - 1, ..., 5.
            for line in (5..ways).chain([0, 3, 2, 100, 101]) {
                let dirty = if line == 2 { DIRTY } else { line & DIRTY & u64::from(line < 100) };
                assert_eq!(cache.access(1000 + line, 0), victim(line, dirty));
            }
        }
    }

    #[test]
    fn three_sets_of_three_ways_hold_nine_lines() {
        let mut cache = PrivateCache::new(&CacheGeometry::new(Bytes(9 * 64), 3));
        assert!((0..9).all(|line| cache.access(line, 0) == COLD));
        assert!((0..9).all(|line| cache.access(line, 0) == Lookup::Hit));
        assert_eq!(cache.access(9, 0), victim(0, 0));
    }
}
