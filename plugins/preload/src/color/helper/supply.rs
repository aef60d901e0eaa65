//! Supply of the pool: when the helper searches for pages, and when it frees the pages that the
//! search holds.

use super::Start;
use crate::color::choice::{Set, set_of};
use crate::color::pool::Pool;
use crate::{launch, memory, sys};

/// Fewest pages that a search looks for.
pub(super) const LEAST: usize = 256;
/// Most pages that the pool holds in advance.
pub(super) const MOST: usize = 65_536;
/// Microseconds after which a successful search frees the pages that it holds.
const REST: u64 = 300_000;
/// Pages after which a search checks again how much memory is left.
const CHECK: usize = 2048;

/// The pool, and the searches that fill it. All zero means that none was made.
///
/// A search goes on step by step while the pool has too few pages, rests while it has enough, and
/// is given up by [releasing](Self::background) the pages that it holds. After one that failed,
/// none begins before `dry_until`, in microseconds.
#[repr(C)]
pub(super) struct Supply {
    pub(super) pool: Pool,
    /// Pages that the program was given.
    placed: usize,
    releasing: bool,
    search_begun: u64,
    /// Pages that the search held when it last checked the memory that is left.
    checked_held: usize,
    last_step: u64,
    dry_until: u64,
}

impl Supply {
    /// Counts pages that the program was given.
    pub(super) fn placed(&mut self, pages: usize) {
        self.placed += pages;
    }

    /// Lets a search begin although the last one failed.
    pub(super) fn try_again(&mut self) {
        self.dry_until = 0;
    }

    /// Continues a search or frees its pages; returns true if more can be done at once.
    pub(super) fn background(&mut self, start: &Start) -> bool {
        if self.releasing {
            self.releasing = !self.pool.release();
            start.counters.tell_pool(start.main, start.started, self.pool.ranges());
            return self.releasing;
        }
        let target = target(self.placed);
        if self.pool.searching() {
            if self.pool.free < target {
                self.releasing = !self.step(start, &set_of(start.control, 0));
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

    fn begin(&mut self, start: &Start) -> bool {
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

    /// Searches a little further for pages of the set. Returns false if the search has ended.
    fn step(&mut self, start: &Start, set: &Set) -> bool {
        self.last_step = sys::micros();
        // Pages that the search holds will be freed and do not count.
        let limit = start.limit_pages;
        let full = limit > 0 && memory::own_pages().saturating_sub(self.pool.held) >= limit;
        // The first search is before the helper waits for the end of its program.
        let more = !full
            && launch::same_program(start.control, start.main)
            && self.leaves_room(start)
            && self.pool.step(&start.palette, set, start.counters);
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

    /// Ends a failed search.
    fn dry(&mut self) {
        let now = sys::micros();
        self.dry_until = now + rest_after(now - self.search_begun);
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
            let all = set_of(start.control, 0);
            // More pages of the colors that the pool has would leave no room for these.
            let is_full = wanted.is_some() && self.pool.free >= target(self.placed);
            let gathered = if is_full { self.pool.lacking(&all) } else { all };
            if !self.step(start, &gathered) {
                self.releasing = true;
                return wanted.and_then(|set| self.pool.take(set));
            }
        }
    }

    /// Takes a page of the set, after a search if need be.
    pub(super) fn take(&mut self, start: &Start, set: &Set) -> Option<usize> {
        if let Some(page) = self.pool.take(set) {
            return Some(page);
        }
        if sys::micros() < self.dry_until { None } else { self.fill(start, 0, Some(set)) }
    }
}

/// Returns the number of pages that the pool should have for a program that has received `placed`
/// pages: a quarter as many. A pool that grows with the program needs few searches.
fn target(placed: usize) -> usize {
    (placed / 4).clamp(LEAST, MOST)
}

/// Returns the microseconds in which no search begins after one that failed in that many: at most a
/// tenth of the time goes into searching.
fn rest_after(search: u64) -> u64 {
    (search * 10).clamp(50_000, 2_000_000)
}

#[cfg(test)]
mod tests {
    use memweir_abi::preload::{Delivery, Order, Shortage};
    use memweir_core::address_map::AddressMap;

    use super::*;
    use crate::color::choice::tests::set;
    use crate::color::counters::Counters;
    use crate::color::pool::give_back;
    use crate::control;
    use crate::pagemap::Pagemap;
    use crate::uffd::{PAGE, Uffd};

    #[test]
    fn a_search_ends_with_its_program() {
        let map = include_str!("../../../../../crates/core/data/maps/i7-860.toml");
        let order = Order {
            coloring: AddressMap::parse("i7-860.toml", map).unwrap().coloring(12),
            colors: "0-31".parse().unwrap(),
            cache: None,
            shortage: Shortage::Spill,
            delivery: Delivery::Recycle,
            pool_pages: 0,
            limit_pages: 0,
            counters: String::new(),
        };
        let start = Start::of(&order, control::create().unwrap(), Counters::NONE).unwrap();
        let gone = Start { main: i32::MAX, ..start };
        let mut supply = crate::all_zero::<Supply>();
        supply.pool.begin(4 * LEAST).unwrap();
        assert!(supply.step(&start, &start.set) && !supply.step(&gone, &gone.set));
    }

    #[test]
    fn a_search_for_one_color_does_not_fill_the_pool_with_others() {
        let order = "offset=0;bank=1000,2000;colors=0-3;shortage=spill;delivery=recycle;pool=0;\
                     limit=0;counters=";
        let control = control::create().unwrap();
        let start = Start::of(&order.parse().unwrap(), control, Counters::NONE).unwrap();
        crate::color::remember_set(control, &start);
        let pagemap = Pagemap(sys::open(c"/proc/self/pagemap", libc::O_RDONLY).unwrap());
        if pagemap.entry(&raw const start as usize).frame() == 0 {
            return memweir_test_support::skip!(Privilege, "page frames are visible to root only");
        }
        // There is room for 8192 pages.
        let mut supply = crate::all_zero::<Supply>();
        supply.pool.prepare(Delivery::Recycle, Uffd(-1), &pagemap, 1).unwrap();
        let program = sys::map(4096 * PAGE, sys::READ_WRITE, libc::MAP_PRIVATE).unwrap();
        let _ = sys::advise(program, 4096 * PAGE, libc::MADV_NOHUGEPAGE);
        for taken in 0..4096 {
            let page = supply.take(&start, &set(&[1]));
            give_back(page.unwrap_or_else(|| panic!("none after {taken}")), PAGE);
            // The program gets the frame.
            sys::advise(program + taken * PAGE, PAGE, sys::MADV_POPULATE_WRITE).unwrap();
        }
        sys::unmap(program, 4096 * PAGE);
    }

    #[test]
    fn the_pool_grows_with_the_program() {
        assert_eq!([0, 4 * LEAST, 4000].map(target), [LEAST, LEAST, 1000]);
        assert_eq!(target(1 << 30), MOST);
    }

    #[test]
    fn failed_searches_take_a_tenth_of_the_time() {
        assert_eq!([10, 20_000].map(rest_after), [50_000, 200_000]);
        assert_eq!(rest_after(1 << 30), 2_000_000, "the program may release pages meanwhile");
    }
}
