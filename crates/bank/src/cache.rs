//! Set-associative write-back caches of lines with LRU replacement, indexed by physical address.

use memweir_core::cache::CacheGeometry;

/// Line number: physical address over the line size.
pub type Line = u64;

/// Bits of the owner's number in an entry. An entry is, from high to low bits, line, owner, dirty.
const OWNER_BITS: u32 = 15;
const DIRTY: u64 = 1;
/// An entry that holds no line.
const EMPTY: u64 = u64::MAX;

/// A line that was evicted by an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The line.
    pub line: Line,
    /// The core that brought it into the cache.
    pub owner: u16,
    /// True if it has to be written back.
    pub dirty: bool,
}

/// A cache. It tracks which lines are present and holds no data.
#[derive(Clone, Debug)]
pub struct Cache {
    sets: u64,
    ways: usize,
    /// The sets one after another, each ordered from the most to the least recently used line.
    entries: Vec<u64>,
}

impl Cache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(geometry: &CacheGeometry) -> Self {
        let (sets, ways) = (geometry.sets().max(1), geometry.ways as usize);
        Self { sets, ways, entries: vec![EMPTY; sets as usize * ways] }
    }

    /// Returns the capacity in lines.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.entries.len()
    }

    fn set(&mut self, line: Line) -> &mut [u64] {
        let set =
            if self.sets.is_power_of_two() { line & (self.sets - 1) } else { line % self.sets };
        let start = set as usize * self.ways;
        &mut self.entries[start..start + self.ways]
    }

    /// Looks up a line. If it is present, makes it the most recently used one, marks it dirty if
    /// `written`, and returns true.
    pub fn touch(&mut self, line: Line, written: bool) -> bool {
        let set = self.set(line);
        let holds = |entry: &u64| *entry >> (OWNER_BITS + 1) == line && *entry != EMPTY;
        let Some(way) = set.iter().position(holds) else { return false };
        let entry = set[way] | if written { DIRTY } else { 0 };
        set.copy_within(..way, 1);
        set[0] = entry;
        true
    }

    /// Inserts a line that is not present. Returns the evicted line, if any.
    pub fn insert(&mut self, line: Line, owner: u16, dirty: bool) -> Option<Victim> {
        let set = self.set(line);
        let last = set[set.len() - 1];
        set.copy_within(..set.len() - 1, 1);
        set[0] = line << (OWNER_BITS + 1) | u64::from(owner) << 1 | u64::from(dirty);
        (last != EMPTY).then_some(Victim {
            line: last >> (OWNER_BITS + 1),
            owner: (last >> 1) as u16 & ((1 << OWNER_BITS) - 1),
            dirty: last & DIRTY != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Bytes;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_least_recently_used_line_makes_room() {
        // Two sets of two ways: lines 0, 2, 4 share a set.
        let mut cache = Cache::new(&CacheGeometry::new(Bytes(256), 2));
        assert!(!cache.touch(0, false));
        assert_eq!(cache.insert(0, 3, false), None);
        assert_eq!(cache.insert(2, 1, true), None);
        assert!(cache.touch(0, true));
        assert_eq!(cache.insert(4, 1, false), Some(Victim { line: 2, owner: 1, dirty: true }));
        assert_eq!(cache.insert(6, 2, false), Some(Victim { line: 0, owner: 3, dirty: true }));
        assert!(!cache.touch(1, false));
    }

    #[test]
    fn an_empty_cache_does_not_hold_the_last_line_of_all() {
        let mut cache = Cache::new(&CacheGeometry::new(Bytes(64), 1));
        let last = EMPTY >> (OWNER_BITS + 1);
        assert!(!cache.touch(last, true));
        assert_eq!(cache.insert(last, 0, false), None);
        assert!(cache.touch(last, false));
    }

    proptest! {
        #[test]
        fn it_holds_what_the_sets_last_saw(
            accesses in prop::collection::vec((0u64..64, any::<bool>()), 1..300), ways in 1u32..5,
            sets in 1u64..7,
        ) {
            let size = Bytes(sets * u64::from(ways) * 64);
            let mut cache = Cache::new(&CacheGeometry::new(size, ways));
            let mut model: Vec<Vec<(u64, bool)>> = vec![Vec::new(); sets as usize];
            for (line, written) in accesses {
                let set = &mut model[(line % sets) as usize];
                let place = set.iter().position(|(held, _)| *held == line);
                prop_assert_eq!(cache.touch(line, written), place.is_some());
                match place {
                    Some(place) => {
                        let (_, dirty) = set.remove(place);
                        set.insert(0, (line, dirty || written));
                    }
                    None => {
                        let victim = cache.insert(line, 0, written);
                        set.insert(0, (line, written));
                        let expected = (set.len() > ways as usize).then(|| set.pop()).flatten();
                        prop_assert_eq!(victim.map(|v| (v.line, v.dirty)), expected);
                    }
                }
            }
        }
    }
}
