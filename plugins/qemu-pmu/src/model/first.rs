//! The first level, where nearly every access of a program ends.
//!
//! It behaves like a [`PrivateCache`] and is laid out for speed: all of its state is adjacent at
//! fixed distances, a hit where the line was last seen takes a dozen instructions without a branch
//! that is hard to predict, and nothing is stored for ways that no machine has.

use memweir_core::cache::CacheGeometry;
use memweir_core::{Bytes, LINE_BYTES};

use super::lanes::{LANES, equal_bytes, least};
use super::private::{ABSENT, Lookup, NEVER, PrivateCache, Word, renumbered};

/// Places per set. Those beyond the associativity stay empty.
const WAYS: usize = LANES;

/// Largest number of sets.
const SETS: usize = 256;

/// Places in all.
const CAPACITY: usize = WAYS * SETS;

/// Entries of the table of places: several times the lines of a first level. Two lines that are in
/// the cache and share an entry alternately take the slow path, which is already noticeable with
/// half as many entries.
const ENTRIES: usize = 4096;

/// Marks an empty place: no address has this line.
const NO_LINE: u64 = u64::MAX;

/// A first level of up to [`SETS`] sets, a power of two of them, and [`WAYS`] ways.
#[derive(Debug)]
#[repr(C, align(64))]
struct Small {
    /// Place where the latest line with these low bits was found: below [`CAPACITY`].
    places: [u16; ENTRIES],
    lines: [u64; CAPACITY],
    /// Latest use of each place by the clock of its set.
    used: [i16; CAPACITY],
    /// Some bits of each line, to find one among many at once.
    tags: [[u8; WAYS]; SETS],
    /// One if the line is modified, otherwise zero.
    dirty: [u8; CAPACITY],
    /// The latest time of use in each set.
    clocks: [i16; SETS],
    /// One less than the number of sets.
    mask: u64,
    /// Number of bits in `mask`.
    set_bits: u32,
    associativity: usize,
}

impl Small {
    fn new(geometry: &CacheGeometry) -> Option<Self> {
        let (sets, associativity) = (geometry.sets(), geometry.ways as usize);
        if associativity > WAYS || sets > SETS as u64 || !sets.is_power_of_two() {
            return None;
        }
        let mut new = Self {
            places: [0; ENTRIES],
            lines: [NO_LINE; CAPACITY],
            used: [NEVER; CAPACITY],
            tags: [[0; WAYS]; SETS],
            dirty: [0; CAPACITY],
            clocks: [NEVER; SETS],
            mask: sets - 1,
            set_bits: sets.ilog2(),
            associativity,
        };
        new.clear();
        Some(new)
    }

    fn clear(&mut self) {
        // Places and tags are hints, which an empty place invalidates.
        self.lines.fill(NO_LINE);
        self.dirty.fill(0);
        self.clocks.fill(NEVER);
        for set in self.used.as_chunks_mut::<WAYS>().0 {
            let (present, absent) = set.split_at_mut(self.associativity);
            present.fill(NEVER);
            absent.fill(ABSENT);
        }
    }

    /// Accesses `line` if it is where it was last seen, and the clock of its set has not ended.
    #[inline(always)]
    fn touch(&mut self, line: u64, dirty: Word) -> bool {
        let place = usize::from(self.places[line as usize % ENTRIES]);
        // SAFETY: only `access` stores places, each a way of a set.
        unsafe { std::hint::assert_unchecked(place < CAPACITY) };
        self.lines[place] == line && self.touch_place(place, dirty)
    }

    #[inline(always)]
    fn touch_place(&mut self, place: usize, dirty: Word) -> bool {
        let Some(now) = self.clocks[place / WAYS].checked_add(1) else { return false };
        self.clocks[place / WAYS] = now;
        self.used[place] = now;
        self.dirty[place] |= dirty as u8;
        true
    }

    #[inline(always)]
    fn access(&mut self, line: u64, dirty: Word) -> Lookup {
        let set = (line & self.mask) as usize % SETS;
        if self.clocks[set] == ABSENT {
            let used = &mut self.used[set * WAYS..][..self.associativity];
            self.clocks[set] = renumbered(used.iter_mut());
        }
        // The lines of a set differ in the bits above its number. Few programs have lines in a set
        // that agree in eight of them.
        let tag = (line >> self.set_bits) as u8;
        let mut candidates = equal_bytes(&self.tags[set], tag);
        while candidates != 0 {
            let place = set * WAYS + candidates.trailing_zeros() as usize % WAYS;
            if self.lines[place] == line {
                self.places[line as usize % ENTRIES] = place as u16;
                self.touch_place(place, dirty);
                return Lookup::Hit;
            }
            candidates &= candidates - 1;
        }
        let way = least(&self.used.as_chunks::<WAYS>().0[set]);
        let place = set * WAYS + way;
        self.places[line as usize % ENTRIES] = place as u16;
        self.tags[set][way] = tag;
        self.clocks[set] += 1;
        self.used[place] = self.clocks[set];
        let line = std::mem::replace(&mut self.lines[place], line);
        let dirty = std::mem::replace(&mut self.dirty[place], dirty as u8);
        Lookup::Miss { victim: line << 1 | Word::from(dirty) }
    }
}

/// A first level of any geometry.
#[derive(Debug)]
#[repr(C)]
pub struct FirstLevel {
    small: Small,
    /// The cache if it is not small; `small` stays empty then.
    large: Option<PrivateCache>,
}

impl FirstLevel {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(geometry: &CacheGeometry) -> Self {
        if let Some(small) = Small::new(geometry) {
            return Self { small, large: None };
        }
        let small = Small::new(&CacheGeometry::new(Bytes(LINE_BYTES), 1));
        let small = small.expect("a cache of one line is small");
        Self { small, large: Some(PrivateCache::new(geometry)) }
    }

    /// Drops all contents without write-backs.
    pub fn clear(&mut self) {
        self.small.clear();
        if let Some(large) = &mut self.large {
            large.clear();
        }
    }

    /// Returns the modified lines, in the order of their places.
    #[must_use]
    pub fn modified(&self) -> Vec<u64> {
        let Some(large) = &self.large else {
            let places = self.small.lines.iter().zip(&self.small.dirty);
            return places.filter(|(_, dirty)| **dirty != 0).map(|(line, _)| *line).collect();
        };
        large.modified()
    }

    /// Accesses `line` and returns true if it is where it was last seen; otherwise nothing happens.
    /// `dirty` is [`DIRTY`](super::private::DIRTY) if the access modifies the line, otherwise zero.
    #[inline(always)]
    #[must_use]
    pub fn touch(&mut self, line: u64, dirty: Word) -> bool {
        self.small.touch(line, dirty)
    }

    /// Accesses `line`, wherever it is; `dirty` as for [`touch`](Self::touch).
    #[inline(always)]
    pub fn access(&mut self, line: u64, dirty: Word) -> Lookup {
        match &mut self.large {
            None => self.small.access(line, dirty),
            Some(large) => Self::access_large(large, line, dirty),
        }
    }

    #[cold]
    #[inline(never)]
    fn access_large(large: &mut PrivateCache, line: u64, dirty: Word) -> Lookup {
        large.access(line, dirty)
    }
}
