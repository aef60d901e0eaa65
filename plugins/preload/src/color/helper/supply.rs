//! Supply of the pool: when the helper searches for pages, and when it frees the pages that the
//! search holds.

use super::{Helper, Start};
use crate::color::choice::{Set, set_of};
use crate::{memory, sys};

/// Fewest pages that a search looks for.
pub(super) const LEAST: usize = 256;
/// Most pages that the pool holds in advance.
pub(super) const MOST: usize = 65_536;
/// Microseconds after which a successful search frees the pages that it holds.
const REST: u64 = 300_000;
/// Pages after which a search checks again how much memory is left.
const CHECK: usize = 2048;

impl Helper {
    /// Continues a search or frees its pages; returns true if more can be done at once.
    pub(super) fn background(&mut self, start: &Start) -> bool {
        if self.releasing {
            self.releasing = !self.pool.release();
            start.counters.tell_pool(start.main, start.started, self.pool.ranges());
            return self.releasing;
        }
        // As much again as a quarter of the program's pages: repeated searches cost least if each
        // finds as much as all before.
        let target = (self.placed / 4).clamp(LEAST, MOST).max(start.pool_pages.min(LEAST));
        if self.pool.searching() {
            if self.pool.free < target {
                self.releasing = !self.step(start);
                return true;
            }
            // While the program grows, the search only pauses: a new one would first get the very
            // pages of other colors.
            self.releasing = sys::micros() - self.last_step > REST;
            return self.releasing;
        }
        if self.pool.free < target / 2 && sys::micros() >= self.dry_until {
            return self.begin(start);
        }
        false
    }

    pub(super) fn begin(&mut self, start: &Start) -> bool {
        // At most half of the available memory.
        let pages = start.groups.available_pages() / 2;
        self.checked_held = 0;
        let begun = pages >= LEAST && self.pool.begin(pages).is_ok();
        self.search_begun = sys::micros();
        if !begun {
            self.dry();
        }
        start.counters.tell_pool(start.main, start.started, self.pool.ranges());
        begun
    }

    pub(super) fn step(&mut self, start: &Start) -> bool {
        self.last_step = sys::micros();
        let set = set_of(start.control, 0);
        // Pages that the search holds will be freed and do not count.
        let limit = start.limit_pages;
        let full = limit > 0 && memory::own_pages().saturating_sub(self.pool.held) >= limit;
        let more = !full
            && self.leaves_room(start)
            && self.pool.step(&start.palette, &set, start.counters);
        if !more {
            self.dry();
        }
        more
    }

    /// Returns true if at least as much memory is left as the search holds. Other processes may
    /// search, too: so each of them stops at its part, and some memory is left.
    fn leaves_room(&mut self, start: &Start) -> bool {
        let held = self.pool.held;
        if held < self.checked_held + CHECK {
            return true;
        }
        self.checked_held = held;
        start.groups.available_pages() >= held
    }

    /// Ends a failed search: from here on, at most a tenth of the time goes into searching.
    fn dry(&mut self) {
        let now = sys::micros();
        self.dry_until = now + ((now - self.search_begun) * 10).clamp(50_000, 2_000_000);
    }

    /// Searches until the pool has `pages` pages or, if `wanted` is given, one of that set.
    pub(super) fn fill(
        &mut self,
        start: &Start,
        pages: usize,
        wanted: Option<&Set>,
    ) -> Option<usize> {
        while self.releasing {
            self.releasing = !self.pool.release();
        }
        if !self.pool.searching() && !self.begin(start) {
            return None;
        }
        loop {
            if let Some(page) = wanted.and_then(|set| self.pool.take(set)) {
                return Some(page);
            }
            if wanted.is_none() && self.pool.free >= pages {
                return None;
            }
            if !self.step(start) {
                self.releasing = true;
                return wanted.and_then(|set| self.pool.take(set));
            }
        }
    }

    pub(super) fn take(&mut self, start: &Start, set: &Set) -> Option<usize> {
        if let Some(page) = self.pool.take(set) {
            return Some(page);
        }
        if sys::micros() < self.dry_until { None } else { self.fill(start, 0, Some(set)) }
    }
}
