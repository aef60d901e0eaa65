//! The caches of one vCPU and what they have counted since it was last published.

use memweir_core::cache::CacheHierarchy;
use memweir_core::{Lines, MAX_MEDIA, Traffic};

use super::private::{DIRTY, EMPTY, Lookup, PrivateCache, Word};
use super::shared::{Access, SharedCache};

/// Events since the last [`take`](Events::take).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Misses of the first level.
    pub l1_misses: u64,
    /// Misses of the second level.
    pub l2_misses: u64,
    /// Lines read from memory.
    pub reads: u64,
    /// Lines written back to memory.
    pub writes: u64,
    /// Of these, the ones that went to each medium but the local DRAM.
    pub elsewhere: [Traffic; MAX_MEDIA - 1],
}

impl Events {
    /// The events, which start at zero again.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    fn read(&mut self, medium: usize) {
        self.reads += 1;
        if let Some(medium) = medium.checked_sub(1) {
            self.elsewhere[medium].reads += Lines(1);
        }
    }

    fn written_back(&mut self, medium: Option<usize>) {
        let Some(medium) = medium else { return };
        self.writes += 1;
        if let Some(medium) = medium.checked_sub(1) {
            self.elsewhere[medium].writes += Lines(1);
        }
    }
}

/// Entries of the table of places: a few times the lines of a first level, and small beside the
/// first level of the machine that all this runs on.
const PLACES: usize = 4096;

/// The private caches of a vCPU, with its view of the shared one.
#[derive(Debug)]
pub struct VcpuCaches {
    /// Where in the first level the latest line with these low bits was found.
    places: [u16; PLACES],
    l1d: PrivateCache,
    l2: PrivateCache,
    /// The last level as this process sees it.
    pub llc: SharedCache<'static>,
    /// What happened.
    pub events: Events,
}

impl VcpuCaches {
    /// Empty private caches above `llc`.
    #[must_use]
    pub fn new(caches: &CacheHierarchy, llc: SharedCache<'static>) -> Self {
        let (l1d, l2) = (PrivateCache::new(&caches.l1d), PrivateCache::new(&caches.l2));
        Self { places: [0; PLACES], l1d, l2, llc, events: Events::default() }
    }

    /// Forgets everything: another program runs here now.
    pub fn clear(&mut self) {
        self.l1d.clear();
        self.l2.clear();
        self.events = Events::default();
    }

    /// Accesses `line` if it is where it was last seen in the first level; otherwise nothing
    /// happens, the answer is false and [`access`](Self::access) is due. `dirty` is [`DIRTY`] for
    /// a store, else zero. True nearly always.
    #[inline(always)]
    #[must_use]
    pub fn touch(&mut self, line: u64, dirty: Word) -> bool {
        let place = self.places[line as usize % PLACES];
        self.l1d.touch(usize::from(place), line, dirty)
    }

    /// Accesses `line`, wherever it is. True if the first level missed.
    #[inline]
    pub fn access(&mut self, line: u64, dirty: Word) -> bool {
        let lookup = self.l1d.access(line, dirty);
        let (Lookup::Hit { place } | Lookup::Miss { place, .. }) = lookup;
        // Places of a first level too large for this table are not remembered.
        if let Ok(place) = u16::try_from(place) {
            self.places[line as usize % PLACES] = place;
        }
        let Lookup::Miss { victim, .. } = lookup else { return false };
        self.miss(line, victim);
        true
    }

    fn miss(&mut self, line: u64, victim: Word) {
        self.events.l1_misses += 1;
        if let Lookup::Miss { victim, .. } = self.l2.access(line, 0) {
            self.events.l2_misses += 1;
            self.fetch(line);
            self.write_back_to_llc(victim);
        }
        if is_dirty(victim)
            && let Lookup::Miss { victim, .. } = self.l2.access(victim >> 1, DIRTY)
        {
            self.write_back_to_llc(victim);
        }
    }

    fn fetch(&mut self, line: u64) {
        if let Access::Miss { from, written_back } = self.llc.access(line, 0) {
            self.events.read(from);
            self.events.written_back(written_back);
        }
    }

    /// A whole line moves down, so nothing is read for it.
    fn write_back_to_llc(&mut self, victim: Word) {
        if is_dirty(victim)
            && let Access::Miss { written_back, .. } = self.llc.access(victim >> 1, DIRTY)
        {
            self.events.written_back(written_back);
        }
    }
}

fn is_dirty(victim: Word) -> bool {
    victim != EMPTY && victim & DIRTY != 0
}
