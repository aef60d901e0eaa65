//! The caches of the machine: private ones of each core, and the shared one.

use super::core::Timed;
use crate::cache::{Line, Victim};
use crate::clock::{Clock, Time};
use crate::machine::{CacheLevel, CoreConfig};
use crate::stream::{AccessKind, Level};

/// Location of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In a cache of the core.
    Private,
    /// In the shared cache.
    Shared,
    /// In no cache.
    Nowhere,
}

/// A dirty line that leaves the caches, and the core that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteBack {
    pub(super) owner: usize,
    pub(super) line: Line,
}

/// Private caches of a core.
#[derive(Debug)]
struct Private {
    l1: Option<Timed>,
    l2: Option<Timed>,
}

/// All caches. A line that a method displaces is lost unless it is dirty: those of the shared cache
/// are returned, those of the private caches wait for [`overflowing`](Self::overflowing).
#[derive(Debug)]
pub(super) struct Caches {
    private: Vec<Private>,
    shared: Option<Timed>,
    /// Dirty lines just evicted from the private caches.
    overflow: Vec<WriteBack>,
}

impl Caches {
    /// Returns a shared cache and no core.
    pub(super) fn new(shared: Option<&CacheLevel>, clock: Clock) -> Self {
        let shared = shared.map(|level| Timed::new(level, clock));
        Self { private: Vec::new(), shared, overflow: Vec::new() }
    }

    /// Adds the private caches of the next core.
    pub(super) fn add(&mut self, config: &CoreConfig, clock: Clock) {
        let timed = |level: &Option<CacheLevel>| level.as_ref().map(|l| Timed::new(l, clock));
        self.private.push(Private { l1: timed(&config.l1), l2: timed(&config.l2) });
    }

    pub(super) fn has_private(&self, core: usize) -> bool {
        self.private[core].l1.is_some() || self.private[core].l2.is_some()
    }

    /// Returns true if a cache from `level` on can hold a line for the core.
    pub(super) fn can_hold(&self, core: usize, level: Level) -> bool {
        level != Level::Memory && self.shared.is_some()
            || level == Level::Core && self.has_private(core)
    }

    /// Returns the number of lines of the shared cache, if there is one.
    pub(super) fn shared_lines(&self) -> Option<usize> {
        self.shared.as_ref().map(|shared| shared.cache.lines())
    }

    /// Looks up a line in the caches from `level` on. Returns its location and the time taken.
    pub(super) fn look_up(
        &mut self,
        core: usize,
        line: Line,
        level: Level,
        kind: AccessKind,
    ) -> (Found, Time) {
        let mut delay = Time::default();
        let store = kind.writes();
        let private = level == Level::Core && self.has_private(core);
        if private {
            let Private { l1, l2 } = &mut self.private[core];
            if let Some(l1) = l1 {
                delay = delay.after(l1.delay);
                if l1.cache.touch(line, store) {
                    return (Found::Private, delay);
                }
            }
            let is_first = l1.is_none();
            if let Some(l2) = l2 {
                delay = delay.after(l2.delay);
                if l2.cache.touch(line, store && is_first) {
                    self.fill_private(core, line, kind);
                    return (Found::Private, delay);
                }
            }
        }
        if level != Level::Memory
            && let Some(shared) = &mut self.shared
        {
            delay = delay.after(shared.delay);
            if shared.cache.touch(line, store && !private) {
                if private {
                    self.fill_private(core, line, kind);
                }
                return (Found::Shared, delay);
            }
        }
        (Found::Nowhere, delay)
    }

    /// Inserts a line into the private caches of a core. The second-level cache may already have
    /// it, and all of them if several accesses of the core waited for it.
    pub(super) fn fill_private(&mut self, core: usize, line: Line, kind: AccessKind) {
        let store = kind.writes();
        let Private { l1, l2 } = &mut self.private[core];
        let is_first = l1.is_none();
        let owner = core as u16;
        let mut into_l2 = |line: Line, written: bool| match l2 {
            Some(l2) => {
                let there = l2.cache.touch(line, written);
                if there { None } else { l2.cache.insert(line, owner, written) }
            }
            None => Some(Victim { line, owner, dirty: written && !is_first }),
        };
        let mut gone = [into_l2(line, store && is_first), None];
        let victim = l1.as_mut().and_then(|l1| {
            let there = l1.cache.touch(line, store);
            if there { None } else { l1.cache.insert(line, owner, store) }
        });
        if let Some(victim) = victim.filter(|victim| victim.dirty) {
            gone[1] = into_l2(victim.line, true);
        }
        let dirty = gone.into_iter().flatten().filter(|victim| victim.dirty);
        self.overflow.extend(dirty.map(|victim| WriteBack { owner: core, line: victim.line }));
    }

    /// Inserts a line into the shared cache, which may have got it from a private one since it was
    /// asked for.
    #[must_use]
    pub(super) fn fill_shared(
        &mut self,
        core: usize,
        line: Line,
        dirty: bool,
    ) -> Option<WriteBack> {
        let shared = &mut self.shared.as_mut()?.cache;
        if shared.touch(line, dirty) {
            return None;
        }
        let victim = shared.insert(line, core as u16, dirty)?;
        let owner = usize::from(victim.owner);
        victim.dirty.then_some(WriteBack { owner, line: victim.line })
    }

    /// Puts a dirty line into the shared cache; without one, it leaves the caches.
    #[must_use]
    pub(super) fn put(&mut self, core: usize, line: Line) -> Option<WriteBack> {
        match self.shared {
            Some(_) => self.fill_shared(core, line, true),
            None => Some(WriteBack { owner: core, line }),
        }
    }

    /// Takes the next dirty line that the private caches have evicted.
    pub(super) fn overflowing(&mut self) -> Option<WriteBack> {
        self.overflow.pop()
    }

    /// Touches a line of the shared cache without effects on the others. Returns true if it was
    /// missing.
    pub(super) fn warm(&mut self, core: usize, line: Line, kind: AccessKind) -> bool {
        let Some(shared) = &mut self.shared else { return false };
        let missing = !shared.cache.touch(line, kind.writes());
        if missing {
            shared.cache.insert(line, core as u16, kind.writes());
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Bytes;
    use memweir_core::cache::CacheGeometry;

    use super::*;

    /// A cache of one set of `ways` lines.
    fn level(ways: u32) -> CacheLevel {
        let size = Bytes(64 * u64::from(ways));
        CacheLevel { geometry: CacheGeometry::new(size, ways), latency: 1 }
    }

    fn caches(l1: Option<u32>, shared: Option<u32>) -> Caches {
        caches_of(l1, None, shared)
    }

    fn caches_of(l1: Option<u32>, l2: Option<u32>, shared: Option<u32>) -> Caches {
        let clock = Clock::gigahertz(1.0);
        let mut caches = Caches::new(shared.map(level).as_ref(), clock);
        let [l1, l2] = [l1, l2].map(|ways| ways.map(level));
        caches.add(&CoreConfig { width: 4, window: 128, mshrs: 16, l1, l2 }, clock);
        caches
    }

    /// The dirty lines that have left the private caches.
    fn overflow(caches: &mut Caches) -> Vec<Line> {
        std::iter::from_fn(|| caches.overflowing()).map(|gone| gone.line).collect()
    }

    #[test]
    fn a_dirty_line_leaves_through_every_level() {
        let mut caches = caches(Some(1), Some(1));
        caches.fill_private(0, 7, AccessKind::Store);
        caches.fill_private(0, 8, AccessKind::Load);
        let evicted = caches.overflowing().expect("it was written");
        assert_eq!(evicted, WriteBack { owner: 0, line: 7 });
        assert_eq!(caches.put(0, 7), None, "the shared cache has room");
        assert_eq!(caches.fill_shared(0, 8, false), Some(evicted));
        assert_eq!(caches.fill_shared(0, 9, false), None, "clean lines are dropped");
    }

    #[test]
    fn a_line_that_comes_twice_takes_one_place() {
        let mut caches = caches(Some(2), Some(2));
        caches.fill_private(0, 7, AccessKind::Load);
        caches.fill_private(0, 8, AccessKind::Load);
        caches.fill_private(0, 8, AccessKind::Load);
        assert_eq!(caches.look_up(0, 7, Level::Core, AccessKind::Load).0, Found::Private);
        for line in [7, 8, 8] {
            assert_eq!(caches.fill_shared(0, line, true), None, "there is room for both lines");
        }
    }

    #[test]
    fn a_line_is_found_from_the_level_of_the_access_on() {
        let mut caches = caches(Some(1), Some(2));
        assert_eq!(caches.look_up(0, 7, Level::Core, AccessKind::Load).0, Found::Nowhere);
        assert!(caches.fill_shared(0, 7, false).is_none());
        assert_eq!(caches.look_up(0, 7, Level::Memory, AccessKind::Load).0, Found::Nowhere);
        assert_eq!(caches.look_up(0, 7, Level::Core, AccessKind::Load).0, Found::Shared);
        assert_eq!(
            caches.look_up(0, 7, Level::Core, AccessKind::Load).0,
            Found::Private,
            "it was filled"
        );
    }

    #[test]
    fn each_level_that_is_looked_up_takes_its_time() {
        let mut caches = caches_of(Some(1), Some(2), Some(4));
        let mut load = |line| {
            let (found, delay) = caches.look_up(0, line, Level::Core, AccessKind::Load);
            if found == Found::Nowhere {
                assert_eq!(caches.fill_shared(0, line, false), None);
                caches.fill_private(0, line, AccessKind::Load);
            }
            (found, delay.0 / 1_000_000)
        };
        assert_eq!([load(7), load(8)], [(Found::Nowhere, 3); 2]);
        // Line 8 has taken the place of line 7 in the first level, and line 9 in the second.
        assert_eq!(
            [load(8), load(7), load(7)],
            [(Found::Private, 1), (Found::Private, 2), (Found::Private, 1)]
        );
        assert_eq!([load(9), load(8)], [(Found::Nowhere, 3), (Found::Shared, 3)]);
    }

    #[test]
    fn a_dirty_line_of_the_first_level_leaves_by_the_second() {
        let mut caches = caches_of(Some(1), Some(2), None);
        caches.fill_private(0, 7, AccessKind::Store);
        // It leaves the first level and becomes the latest line of the second.
        caches.fill_private(0, 8, AccessKind::Load);
        caches.fill_private(0, 9, AccessKind::Load);
        assert_eq!(overflow(&mut caches), []);
        caches.fill_private(0, 10, AccessKind::Load);
        assert_eq!(overflow(&mut caches), [7]);
    }

    #[test]
    fn a_store_makes_its_line_dirty_in_the_first_cache_that_it_meets() {
        // The first level: the shared cache drops its own copy.
        let mut all = caches(Some(1), Some(1));
        assert_eq!(all.fill_shared(0, 7, false), None);
        assert_eq!(all.look_up(0, 7, Level::Core, AccessKind::Store).0, Found::Shared);
        assert_eq!(all.fill_shared(0, 8, false), None);
        all.fill_private(0, 8, AccessKind::Load);
        assert_eq!(overflow(&mut all), [7]);
        // The second level, if there is no first.
        let mut second = caches_of(None, Some(1), None);
        second.fill_private(0, 7, AccessKind::Load);
        assert_eq!(second.look_up(0, 7, Level::Core, AccessKind::Store).0, Found::Private);
        second.fill_private(0, 8, AccessKind::Load);
        assert_eq!(overflow(&mut second), [7]);
        // The shared cache, for an access that enters there.
        let mut shared = caches(Some(1), Some(1));
        assert_eq!(shared.fill_shared(0, 7, false), None);
        assert_eq!(shared.look_up(0, 7, Level::Shared, AccessKind::Store).0, Found::Shared);
        let written = WriteBack { owner: 0, line: 7 };
        assert_eq!(shared.fill_shared(0, 8, false), Some(written));
        assert_eq!(overflow(&mut shared), []);
    }

    #[test]
    fn a_line_that_is_dirty_in_the_first_level_is_clean_in_the_second() {
        let mut caches = caches_of(Some(2), Some(3), None);
        (7..10).for_each(|line| caches.fill_private(0, line, AccessKind::Load));
        // Line 7 has left the first level alone. From now on it stays there.
        assert_eq!(caches.look_up(0, 7, Level::Core, AccessKind::Store).0, Found::Private);
        for line in [10, 11, 12] {
            caches.fill_private(0, line, AccessKind::Load);
            assert_eq!(caches.look_up(0, 7, Level::Core, AccessKind::Load).0, Found::Private);
        }
        assert_eq!(overflow(&mut caches), [], "the second level has dropped its copy");
        // It leaves the first level with line 14, and the second three lines later.
        (13..17).for_each(|line| caches.fill_private(0, line, AccessKind::Load));
        assert_eq!(overflow(&mut caches), []);
        caches.fill_private(0, 17, AccessKind::Load);
        assert_eq!(overflow(&mut caches), [7]);
    }

    #[test]
    fn a_loaded_line_is_clean_where_the_second_level_is_the_first() {
        let mut caches = caches_of(None, Some(1), None);
        caches.fill_private(0, 7, AccessKind::Load);
        assert_eq!(caches.look_up(0, 7, Level::Core, AccessKind::Load).0, Found::Private);
        caches.fill_private(0, 8, AccessKind::Load);
        assert_eq!(overflow(&mut caches), []);
    }

    #[test]
    fn a_dirty_line_needs_no_shared_cache() {
        let mut caches = caches(None, None);
        assert_eq!(caches.put(0, 7), Some(WriteBack { owner: 0, line: 7 }));
        assert!(!caches.can_hold(0, Level::Core));
    }
}
