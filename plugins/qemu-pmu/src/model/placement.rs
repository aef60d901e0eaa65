//! The medium of a page (H8), determined when a line comes into the last-level cache, never on a
//! hit.
//!
//! A line belongs to the medium in which its page was when the line came. It keeps that medium in
//! the cache, so that its write-back goes there whichever process evicts it, even if its page has
//! moved meanwhile.

use std::sync::atomic::Ordering::Relaxed;

use memweir_abi::softpmu::{HeatCell, PlacementWords};
use memweir_core::MAX_MEDIA;
use memweir_core::placement::{AddressRange, HotPages, Placement};

/// A page has `1 << PAGE_SHIFT` lines.
const PAGE_SHIFT: u32 = 6;

/// Bits of a page number: those of a line number less those within a page.
const PAGE_BITS: u32 = 35;

/// Cells in which a page may be.
const WAYS: usize = 8;

/// Cells per page of the budget, so that pages that compete for DRAM are not forgotten.
const CELLS_PER_PAGE: u64 = 8;

/// Size of the smallest table.
const FEWEST_CELLS: u64 = 4096;

/// A page outside DRAM must be hotter than one inside by one part in this many to take its place,
/// so that chance alone does not move pages.
const HOTTER_BY_ONE_IN: u64 = 4;

/// Placement of the pages of one job.
#[derive(Debug)]
pub enum PageMap<'a> {
    /// By share: pages whose hash is below the n-th bound lie in the n-th medium.
    Share([u64; MAX_MEDIA]),
    /// By address.
    Ranges(Vec<AddressRange>),
    /// By heat.
    Hot(HeatMap<'a>),
}

impl<'a> PageMap<'a> {
    /// Builds the map of a placement. `cells` and `words` are used if hot pages are placed.
    #[must_use]
    pub fn new(placement: Placement, words: &'a PlacementWords, cells: &'a [HeatCell]) -> Self {
        match placement {
            Placement::Share(shares) => {
                let mut sum = 0.0;
                Self::Share(shares.map(|share| {
                    sum += share;
                    (sum * f64::from(u32::MAX) + sum).round() as u64
                }))
            }
            Placement::Ranges(ranges) => Self::Ranges(ranges),
            Placement::Hot(hot) => Self::Hot(HeatMap::new(hot, words, cells)),
        }
    }

    /// Returns the number of the medium of a line that is being brought in.
    pub(super) fn medium(&self, process: Process, line: u64) -> u64 {
        let page = line >> PAGE_SHIFT;
        match self {
            Self::Share(bounds) => {
                let place = hash(page ^ process.ordinal << 40) >> 32;
                // Rounding must not leave the last pages without a medium.
                let found = bounds.iter().position(|bound| place < *bound);
                found.unwrap_or(0) as u64
            }
            Self::Ranges(ranges) => {
                let address = page << (PAGE_SHIFT + 6);
                let found = ranges.iter().find(|r| (r.from..r.to).contains(&address));
                found.map_or(0, |range| range.medium.index() as u64)
            }
            Self::Hot(heat) => heat.medium(process.space << PAGE_BITS | page),
        }
    }
}

/// The process that an access belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    /// Its number among the processes of the job, which is the same in every run of the job.
    pub(super) ordinal: u64,
    /// Its address space in the last level.
    pub(super) space: u64,
}

/// Returns sixty-four bits that depend on all bits of `number`.
fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    mixed ^ (mixed >> 33)
}

/// The hot pages of a job in DRAM. A new page goes to DRAM as long as there is room; from time to
/// time the hottest pages take the place of colder ones.
///
/// Processes and threads share the table without a lock. If two take the same cell at the same
/// moment, the heat of one page is lost once.
#[derive(Debug)]
pub struct HeatMap<'a> {
    hot: HotPages,
    words: &'a PlacementWords,
    cells: &'a [HeatCell],
}

impl<'a> HeatMap<'a> {
    fn new(hot: HotPages, words: &'a PlacementWords, cells: &'a [HeatCell]) -> Self {
        let wanted = (hot.pages * CELLS_PER_PAGE).max(FEWEST_CELLS).next_power_of_two();
        let used = (wanted as usize).min(cells.len());
        Self { hot, words, cells: &cells[..used] }
    }

    /// Counts an access to the page and returns its medium.
    fn medium(&self, page: u64) -> u64 {
        if (self.words.accesses.fetch_add(1, Relaxed) + 1).is_multiple_of(self.hot.interval) {
            self.place();
        }
        let rest = self.hot.rest.index() as u64;
        match self.cell_of(page) {
            Some(cell) => {
                cell.heat.fetch_add(1, Relaxed);
                if cell.in_dram.load(Relaxed) == 1 { 0 } else { rest }
            }
            None => rest,
        }
    }

    /// Returns the cell of a page: its own, a free one, or that of the coldest page outside DRAM.
    fn cell_of(&self, page: u64) -> Option<&HeatCell> {
        let sets = self.cells.len() / WAYS;
        let first = (hash(page) as usize % sets) * WAYS;
        let set = &self.cells[first..first + WAYS];
        let known = set.iter().find(|cell| cell.page.load(Relaxed) == page);
        known.or_else(|| {
            let outside = set.iter().filter(|cell| cell.in_dram.load(Relaxed) == 0);
            let cell = outside.min_by_key(|cell| match cell.page.load(Relaxed) {
                0 => 0,
                _ => u64::from(cell.heat.load(Relaxed)) + 1,
            })?;
            cell.heat.store(0, Relaxed);
            cell.page.store(page, Relaxed);
            let room = |used| (used < self.hot.pages).then_some(used + 1);
            let admitted = self.words.in_dram.fetch_update(Relaxed, Relaxed, room).is_ok();
            cell.in_dram.store(u32::from(admitted), Relaxed);
            Some(cell)
        })
    }

    /// Puts the hottest pages into DRAM, and cools all pages.
    fn place(&self) {
        let mut pages: Vec<(u64, usize)> = Vec::new();
        for (number, cell) in self.cells.iter().enumerate() {
            let heat = u64::from(cell.heat.load(Relaxed));
            if cell.page.load(Relaxed) == 0 {
                continue;
            }
            if heat == 0 {
                // Not touched for a long time, or its process is gone.
                cell.in_dram.store(0, Relaxed);
                cell.page.store(0, Relaxed);
                continue;
            }
            let inside = u64::from(cell.in_dram.load(Relaxed));
            pages.push((heat * (HOTTER_BY_ONE_IN + inside), number));
            cell.heat.store((heat / 2) as u32, Relaxed);
        }
        let budget = self.hot.pages as usize;
        if pages.len() > budget {
            // Among equals the order of the table decides, so that the result is reproducible.
            pages.select_nth_unstable_by(budget, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        let mut moved = 0;
        for (place, (_, number)) in pages.iter().enumerate() {
            let inside = u32::from(place < budget);
            moved += u64::from(self.cells[*number].in_dram.swap(inside, Relaxed) != inside);
        }
        self.words.moved.fetch_add(moved, Relaxed);
        self.words.in_dram.store(pages.len().min(budget) as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::MediumId;
    use proptest::prelude::*;

    const LINES: u64 = 1 << PAGE_SHIFT;

    fn medium(number: usize) -> MediumId {
        MediumId::new(number).unwrap()
    }

    fn map(placement: Placement) -> PageMap<'static> {
        let words = Box::leak(Box::new(PlacementWords::default()));
        let cells: Vec<HeatCell> = (0..1 << 13).map(|_| HeatCell::default()).collect();
        PageMap::new(placement, words, cells.leak())
    }

    fn process(ordinal: u64) -> Process {
        Process { ordinal, space: ordinal + 1 }
    }

    fn words<'a>(map: &'a PageMap<'static>) -> &'a PlacementWords {
        match map {
            PageMap::Hot(heat) => heat.words,
            _ => panic!("hot pages are placed"),
        }
    }

    #[test]
    fn shares_of_the_pages_lie_where_they_shall_and_stay() {
        let map = map(Placement::Share([0.25, 0.5, 0.0, 0.25]));
        let mut pages = [0; MAX_MEDIA];
        for page in 0..10_000 {
            let place = map.medium(process(3), page * LINES);
            pages[place as usize] += 1;
            assert_eq!(map.medium(process(3), page * LINES + 63), place, "a page is in one medium");
        }
        assert!((2400..2600).contains(&pages[0]), "{pages:?}");
        assert!((4850..5150).contains(&pages[1]), "{pages:?}");
        assert_eq!(pages[2], 0);
        let differ = (0..1000)
            .filter(|page| {
                map.medium(process(0), page * LINES) != map.medium(process(1), page * LINES)
            })
            .count();
        assert!(differ > 300, "the same addresses of two processes are different pages");
    }

    #[test]
    fn no_page_and_every_page_are_shares_too() {
        let all = map(Placement::Share([0.0, 1.0, 0.0, 0.0]));
        assert!((0..10_000).all(|page| all.medium(process(0), page * LINES) == 1));
        let none = map(Placement::Share([1.0, 0.0, 0.0, 0.0]));
        assert!((0..10_000).all(|page| none.medium(process(0), page * LINES) == 0));
    }

    #[test]
    fn ranges_begin_and_end_where_they_say() {
        let range = AddressRange { from: 0x4000, to: 0x8000, medium: medium(2) };
        let map = map(Placement::Ranges(vec![range]));
        let at = |address: u64| map.medium(process(0), address >> 6);
        assert_eq!([0x3fff, 0x4000, 0x7fff, 0x8000].map(at), [0, 2, 2, 0]);
    }

    fn hot(pages: u64, interval: u64) -> PageMap<'static> {
        map(Placement::Hot(HotPages { pages, rest: medium(1), interval }))
    }

    #[test]
    fn first_come_first_in_dram_until_it_is_full() {
        let map = hot(3, 1_000);
        let places: Vec<u64> = (0..6).map(|page| map.medium(process(0), page * LINES)).collect();
        assert_eq!(places, [0, 0, 0, 1, 1, 1]);
        assert_eq!(words(&map).in_dram.load(Relaxed), 3);
    }

    #[test]
    fn hot_pages_take_the_place_of_cold_ones() {
        let map = hot(2, 100);
        let touch = |page: u64, times: usize| {
            (0..times).fold(0, |_, _| map.medium(process(0), page * LINES))
        };
        // Pages 0 and 1 come first; then 2 and 3 are used ten times as much.
        touch(0, 4);
        touch(1, 4);
        assert_eq!((touch(2, 45), touch(3, 46)), (1, 1));
        assert_eq!(words(&map).moved.load(Relaxed), 0);
        // The hundredth access triggers a new placement.
        assert_eq!(touch(3, 1), 0);
        assert_eq!((touch(0, 1), touch(1, 1), touch(2, 1)), (1, 1, 0));
        assert_eq!(words(&map).moved.load(Relaxed), 4);
        assert_eq!(words(&map).in_dram.load(Relaxed), 2);
    }

    #[test]
    fn a_little_hotter_is_no_reason_to_move() {
        let map = hot(1, 100);
        (0..45).for_each(|_| assert_eq!(map.medium(process(0), 0), 0));
        (0..56).for_each(|_| assert_eq!(map.medium(process(0), LINES), 1));
        assert_eq!(words(&map).moved.load(Relaxed), 0, "54 against 45 is less than a quarter more");
    }

    #[test]
    fn pages_that_nobody_uses_any_more_give_their_room_back() {
        let map = hot(2, 10);
        map.medium(process(0), 0);
        map.medium(process(0), LINES);
        // Another process: the first one's pages cool and are forgotten.
        (0..60).for_each(|_| {
            map.medium(process(1), 7 * LINES);
        });
        assert_eq!(words(&map).in_dram.load(Relaxed), 1);
        assert_eq!(map.medium(process(1), 8 * LINES), 0);
    }

    proptest! {
        /// For any accesses, DRAM never holds more pages than fit.
        #[test]
        fn the_budget_is_kept(
            pages in prop::collection::vec(0_u64..400, 1..3_000),
            budget in 1_u64..64,
            interval in 1_u64..500,
        ) {
            let map = hot(budget, interval);
            for page in pages {
                map.medium(process(0), page * LINES);
            }
            let PageMap::Hot(heat) = &map else { unreachable!("hot pages are placed") };
            let inside = heat.cells.iter().filter(|cell| cell.in_dram.load(Relaxed) == 1).count();
            prop_assert!(inside as u64 <= budget);
            prop_assert_eq!(inside as u64, heat.words.in_dram.load(Relaxed));
        }
    }
}
