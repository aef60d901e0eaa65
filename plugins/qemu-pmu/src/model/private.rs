//! A cache that one vCPU owns.

use memweir_core::LINE_BYTES;
use memweir_core::cache::CacheGeometry;

use super::index::SetIndex;
use super::lanes::prefetch;
use super::tags::{GROUP, Group, candidates, short_tag};

/// A line and its dirty bit: `line << 1 | dirty`.
pub type Word = u64;

/// The word of an empty way: no address has this line, and it is not modified.
pub const EMPTY: Word = !DIRTY;

/// Bit of a [`Word`] that marks a modified line.
pub const DIRTY: Word = 1;

/// Content of a way, and the time of its latest use by the clock of its cache. All times differ,
/// except that those of empty ways are zero.
#[derive(Clone, Copy, Debug)]
struct Way {
    word: Word,
    used: u64,
}

/// Ways in a cache line of the host.
const WAYS_PER_LINE: usize = LINE_BYTES as usize / size_of::<Way>();

const UNUSED: Way = Way { word: EMPTY, used: 0 };

/// A set-associative cache with true LRU order.
///
/// The order is stored as times of use. So a hit changes one way only, at any position in the
/// order, and only a miss searches for the oldest.
#[derive(Debug)]
pub struct PrivateCache {
    ways: Box<[Way]>,
    /// Short tags of the same ways, to find a line among many at once.
    tags: Box<[Group]>,
    clock: u64,
    /// Ways per set that are in use; the rest of the last group stays empty.
    associativity: usize,
    /// Groups per set.
    groups: usize,
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
        let groups = associativity.div_ceil(GROUP);
        let tags = vec![Group::default(); index.sets() * groups].into_boxed_slice();
        let ways = vec![UNUSED; tags.len() * GROUP].into_boxed_slice();
        Self { ways, tags, clock: 0, associativity, groups, mask: index.mask(), index }
    }

    /// Drops all contents without write-backs.
    pub fn clear(&mut self) {
        // Tags are hints, which an empty way invalidates.
        self.ways.fill(UNUSED);
    }

    /// Returns the modified lines, in the order of their places.
    #[must_use]
    pub fn modified(&self) -> Vec<u64> {
        let modified = |way: &&Way| way.word != EMPTY && way.word & DIRTY != 0;
        self.ways.iter().filter(modified).map(|way| way.word >> 1).collect()
    }

    /// Accesses `line` if it is at `place`; otherwise nothing happens and the result is false.
    #[inline(always)]
    fn touch(&mut self, place: usize, line: u64, dirty: Word) -> bool {
        match self.ways.get_mut(place) {
            Some(way) if way.word & !DIRTY == line << 1 => {
                self.clock += 1;
                *way = Way { word: way.word | dirty, used: self.clock };
                true
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn set(&self, line: u64) -> usize {
        match self.mask {
            Some(mask) => (line & mask) as usize,
            None => self.index.of(line),
        }
    }

    /// Makes the host fetch the set of `line` for a later access.
    #[inline(always)]
    pub fn prefetch(&self, line: u64) {
        let first = self.set(line) * self.groups;
        prefetch(&self.tags[first]);
        let ways = &self.ways[first * GROUP..][..self.associativity];
        ways.iter().step_by(WAYS_PER_LINE).for_each(prefetch);
    }

    /// Accesses `line`. `dirty` is [`DIRTY`] if the access modifies it, otherwise zero.
    #[inline]
    pub fn access(&mut self, line: u64, dirty: Word) -> Lookup {
        let set = self.set(line);
        let tag = short_tag(line);
        let first = set * self.groups;
        for group in first..first + self.groups {
            for way in candidates(&self.tags[group], tag) {
                let place = group * GROUP + way;
                if self.touch(place, line, dirty) {
                    return Lookup::Hit;
                }
            }
        }
        let place = self.oldest(first * GROUP);
        self.clock += 1;
        let new = Way { word: line << 1 | dirty, used: self.clock };
        let victim = std::mem::replace(&mut self.ways[place], new).word;
        self.tags[place / GROUP].0[place % GROUP] = tag;
        Lookup::Miss { victim }
    }

    /// Returns the least recently used of the ways from `start`: an empty one if there is any.
    #[inline]
    fn oldest(&self, start: usize) -> usize {
        let (mut place, mut oldest) = (start, u64::MAX);
        for (number, way) in self.ways[start..start + self.associativity].iter().enumerate() {
            let older = way.used < oldest;
            place = if older { start + number } else { place };
            oldest = if older { way.used } else { oldest };
        }
        place
    }
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
