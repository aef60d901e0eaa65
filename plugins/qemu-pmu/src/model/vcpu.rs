//! The caches of one vCPU and their counts since the last publication.

use memweir_abi::softpmu::LineAccess;
use memweir_core::MAX_MEDIA;
use memweir_core::cache::CacheHierarchy;

use super::first::FirstLevel;
use super::private::{DIRTY, Lookup, PrivateCache, Word};
use super::shared::{Access, Evicted, SharedCache};

/// Events since the last call of [`VcpuCaches::take_events`].
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
    /// Of these, reads and writes of each medium other than the local DRAM.
    pub elsewhere: [[u64; 2]; MAX_MEDIA - 1],
}

impl std::ops::AddAssign for Events {
    fn add_assign(&mut self, other: Self) {
        self.l1_misses += other.l1_misses;
        self.l2_misses += other.l2_misses;
        self.reads += other.reads;
        self.writes += other.writes;
        let more = other.elsewhere.into_iter().flatten();
        self.elsewhere.iter_mut().flatten().zip(more).for_each(|(sum, more)| *sum += more);
    }
}

impl Events {
    /// Counts events in which other media than the local DRAM may take part.
    #[cold]
    fn placed(&mut self, read_from: Option<u8>, written_back: Option<u8>) {
        self.reads += u64::from(read_from.is_some());
        self.writes += u64::from(written_back.is_some());
        for (direction, medium) in [read_from, written_back].into_iter().enumerate() {
            if let Some(other) = medium.and_then(|medium| medium.checked_sub(1)) {
                self.elsewhere[usize::from(other)][direction] += 1;
            }
        }
    }
}

/// Number of waiting words at which the list has no room for another access.
const FULL: usize = 255;

/// Capacity of the list: an access adds at most two words to less than [`FULL`].
const WAITING: usize = FULL + 2;

/// Words in flight to the last level, whose sets the host prefetches meanwhile.
const LEAVING: usize = 16;

/// The private caches of a vCPU, with its view of the shared one.
///
/// Misses of the first level wait in a list, and the lower levels handle many words in one go:
/// their cache misses on the host then overlap, and the first level keeps the host's caches to
/// itself. The order of accesses is still that of the program.
#[derive(Debug)]
#[repr(C)]
pub struct VcpuCaches {
    l1d: FirstLevel,
    /// Words for the second level: clean ones are fetched, dirty ones were evicted by the first.
    waiting: [Word; WAITING],
    /// Number of waiting words.
    words: usize,
    l2: PrivateCache,
    /// Words for the last level, in the same form, each with its set.
    leaving: [(Word, usize); LEAVING],
    /// Number of words for the last level.
    left: usize,
    /// The last level as this process sees it.
    pub llc: SharedCache<'static>,
    events: Events,
    /// Lines moved between memory and the last level since they were last taken; absent if they are
    /// not recorded.
    pub lines: Option<Vec<LineAccess>>,
}

/// Room in the list of waiting words for another access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Room {
    /// There is room.
    Left,
    /// [`VcpuCaches::take_events`] must be called before the next access.
    None,
}

impl VcpuCaches {
    /// Creates empty private caches above `llc`.
    #[must_use]
    pub fn new(caches: &CacheHierarchy, llc: SharedCache<'static>) -> Self {
        Self {
            l1d: FirstLevel::new(&caches.l1d),
            waiting: [0; WAITING],
            words: 0,
            l2: PrivateCache::new(&caches.l2),
            leaving: [(0, 0); LEAVING],
            left: 0,
            llc,
            events: Events::default(),
            lines: None,
        }
    }

    /// Drops all contents, because another program runs here now.
    pub fn clear(&mut self) {
        self.l1d.clear();
        self.words = 0;
        self.l2.clear();
        self.events = Events::default();
        if let Some(lines) = &mut self.lines {
            lines.clear();
        }
    }

    /// Empties the caches after another program has used them: modified lines move down to the last
    /// level. To be called after [`take_events`](Self::take_events); its events are part of the
    /// next result.
    pub fn flush(&mut self) {
        for line in self.l1d.modified() {
            if let Lookup::Miss { victim } = self.l2.access(line, DIRTY)
                && is_dirty(victim)
            {
                self.leave(victim);
            }
        }
        for line in self.l2.modified() {
            self.leave(line << 1 | DIRTY);
        }
        self.reach_llc();
        self.l1d.clear();
        self.l2.clear();
    }

    /// Accesses `line` and returns true if the line is where it was last seen in the first level.
    /// Otherwise nothing happens, and [`access`](Self::access) must follow. `dirty` is [`DIRTY`]
    /// for a store, otherwise zero. Nearly always true.
    #[inline(always)]
    #[must_use]
    pub fn touch(&mut self, line: u64, dirty: Word) -> bool {
        self.l1d.touch(line, dirty)
    }

    /// Accesses `line`, wherever it is.
    #[inline(always)]
    pub fn access(&mut self, line: u64, dirty: Word) -> Room {
        let Lookup::Miss { victim } = self.l1d.access(line, dirty) else { return Room::Left };
        let words = self.words % (FULL + 1);
        self.waiting[words] = line << 1;
        self.waiting[words + 1] = victim;
        self.words = words + 1 + usize::from(is_dirty(victim));
        if self.words < FULL { Room::Left } else { Room::None }
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Events {
        let words = std::mem::take(&mut self.words).min(WAITING);
        for number in 0..words {
            let word = self.waiting[number];
            let dirty = word & DIRTY;
            self.events.l1_misses += 1 - dirty;
            if let Lookup::Miss { victim } = self.l2.access(word >> 1, dirty) {
                // A whole line that moves down does not require a fetch.
                if dirty == 0 {
                    self.events.l2_misses += 1;
                    self.leave(word);
                }
                if is_dirty(victim) {
                    self.leave(victim);
                }
            }
        }
        self.reach_llc();
        std::mem::take(&mut self.events)
    }

    /// Adds a word to those that leave the private caches.
    #[inline(always)]
    fn leave(&mut self, word: Word) {
        let set = self.llc.set(word >> 1);
        self.llc.prefetch(set);
        self.leaving[self.left % LEAVING] = (word, set);
        self.left += 1;
        if self.left == LEAVING {
            self.reach_llc();
        }
    }

    /// Passes the words that left the private caches to the last level, in order.
    fn reach_llc(&mut self) {
        for number in 0..std::mem::take(&mut self.left).min(LEAVING) {
            let (word, set) = self.leaving[number];
            match is_dirty(word) {
                true => self.write_back_to_llc(word, set),
                false => self.fetch(word >> 1, set),
            }
        }
    }

    fn fetch(&mut self, line: u64, set: usize) {
        let (access, evicted) = self.llc.exchange(set, line, 0);
        if let Some(lines) = &mut self.lines {
            if access != Access::Hit {
                let space = self.llc.space();
                lines.push(LineAccess { line, space, write: false, gap: 0 });
            }
            lines.extend(evicted.map(written_back));
        }
        match access {
            Access::Hit => {}
            Access::Miss => self.events.reads += 1,
            Access::MissWithWriteBack => {
                self.events.reads += 1;
                self.events.writes += 1;
            }
            Access::Placed { from, written_back } => self.events.placed(Some(from), written_back),
        }
    }

    /// Moves a whole line down, for which nothing is read.
    fn write_back_to_llc(&mut self, victim: Word, set: usize) {
        let (access, evicted) = self.llc.exchange(set, victim >> 1, DIRTY);
        if let Some(lines) = &mut self.lines {
            lines.extend(evicted.map(written_back));
        }
        match access {
            Access::Hit | Access::Miss => {}
            Access::MissWithWriteBack => self.events.writes += 1,
            Access::Placed { written_back, .. } => self.events.placed(None, written_back),
        }
    }
}

fn written_back(evicted: Evicted) -> LineAccess {
    LineAccess { line: evicted.line, space: evicted.space, write: true, gap: 0 }
}

fn is_dirty(victim: Word) -> bool {
    victim & DIRTY != 0
}
