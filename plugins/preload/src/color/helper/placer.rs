//! Gives the program pages of the requested colors: new ones at page faults, and others for those
//! that it already uses ([`mend`]). If the kernel cannot move pages, frames are [`recycle`]d and
//! pages [exchanged](exchange).

mod exchange;
mod mend;
pub(super) mod recycle;

use memweir_abi::preload::{Counter, Delivery};

use super::Start;
use super::supply::Supply;
use crate::color::choice::Set;
use crate::color::pool::{self, give_back};
use crate::maps::{Mapping, Maps};
use crate::pagemap::{Entry, Pagemap};
use crate::sys::{self, Errno};
use crate::uffd::{MISSING, PAGE, Uffd};
use exchange::Exchange;

/// Reason why a page is mended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    New,
    Fork,
    Drift,
    /// Recycling produced a frame of another color.
    Missed,
}

/// The placer. All zero at first.
#[repr(C)]
pub(super) struct Placer {
    pub(super) uffd: Uffd,
    pub(super) pagemap: Pagemap,
    /// Two pages through which others are moved; zero if pages are not moved.
    scratch: usize,
    exchange: Exchange,
    pub(super) supply: Supply,
    pub(super) maps: Maps,
    /// True once the program has forked.
    pub(super) forked: bool,
    unfinished: bool,
}

impl Placer {
    /// Opens what the placer works with.
    pub(super) fn prepare(&mut self, start: &Start) -> Result<(), Errno> {
        let (uffd, moves) = Uffd::open()?;
        if start.delivery == Delivery::Move && !moves {
            return Err(Errno(libc::ENOSYS));
        }
        self.uffd = uffd;
        self.pagemap = Pagemap(sys::open(c"/proc/self/pagemap", libc::O_RDONLY)?);
        match start.delivery {
            Delivery::Move => {
                self.scratch = pool::reserve(2 * PAGE, sys::READ_WRITE, start.delivery)?;
                uffd.register(self.scratch, 2 * PAGE, MISSING)?;
            }
            Delivery::Recycle => recycle::stay_on_node(),
        }
        self.exchange.prepare(uffd, self.pagemap)
    }

    /// Returns true if the mapping is the helper's own.
    pub(super) fn owns(&self, mapping: Mapping) -> bool {
        let own = self.supply.pool.ranges();
        (mapping.start >= own[0] && mapping.end <= own[1])
            || (mapping.start >= own[2] && mapping.end <= own[3])
            || (mapping.start..mapping.end).contains(&self.scratch)
    }

    /// Returns true if a page is the shared page of zeros, which a write would replace by any page
    /// without notice to the helper.
    pub(super) fn is_zero(&self, entry: Entry) -> bool {
        self.exchange.is_zero(entry)
    }

    /// Returns true if some pages could not be mended since the last call, and may be later.
    pub(super) fn take_unfinished(&mut self) -> bool {
        std::mem::take(&mut self.unfinished)
    }

    /// Counts a page that the program now has by the color of its frame.
    pub(super) fn count_color(&self, start: &Start, page: usize) {
        let frame = self.pagemap.entry(page).frame();
        if frame != 0 {
            start.counters.add_color(start.palette.bank_color(frame));
        }
    }

    /// Provides `count` pages of the pool, which are of the set, for the page of the fault and the
    /// next ones, if they fit there. Returns the number of pages provided.
    pub(super) fn deliver(
        &mut self,
        start: &Start,
        page: usize,
        colored: usize,
        count: usize,
        set: &Set,
    ) -> usize {
        match start.delivery {
            Delivery::Move => self.move_in(start, page, colored, count),
            Delivery::Recycle => self.recycle_in(start, page, colored, count, set),
        }
    }

    fn move_in(&mut self, start: &Start, page: usize, colored: usize, count: usize) -> usize {
        let uffd = self.uffd;
        let mut count = count;
        for _ in 0..8 {
            let (moved, error) = match uffd.shift(page, colored, count * PAGE) {
                Ok(bytes) => (bytes / PAGE, Errno(0)),
                Err((bytes, errno)) => (bytes / PAGE, errno),
            };
            if moved > 0 {
                self.supply.pool.put_back(colored + moved * PAGE, count - moved);
                self.supply.placed(moved);
                start.counters.add(Counter::Placed, moved as u64);
                for given in 0..moved {
                    start.counters.add_color(self.supply.pool.color_of(colored + given * PAGE));
                }
                return moved;
            }
            match error {
                Errno(libc::EAGAIN) => {}
                // Other memory follows the page.
                _ if count > 1 => {
                    self.supply.pool.put_back(colored + PAGE, count - 1);
                    count = 1;
                }
                Errno(libc::EINVAL) => return self.deliver_elsewhere(start, page, colored),
                _ => break,
            }
        }
        self.supply.pool.put_back(colored + PAGE, count - 1);
        give_back(colored, PAGE);
        uffd.wake(page);
        0
    }

    /// Provides a page although its mapping and the pool differ in protection or locking.
    fn deliver_elsewhere(&mut self, start: &Start, page: usize, colored: usize) -> usize {
        let uffd = self.uffd;
        self.maps.read();
        let placed = match self.maps.find(page) {
            // Memory that cannot be written stays zero, so the shared page of zeros suffices.
            Some(mapping) if !mapping.writable => uffd.zero(page).is_ok(),
            Some(mapping) => {
                let _ = sys::lock_on_fault(mapping.start, mapping.end - mapping.start);
                let moved = self.through_scratch(mapping, page, colored);
                if moved {
                    self.supply.placed(1);
                    start.counters.add(Counter::Placed, 1);
                    start.counters.add_color(self.supply.pool.color_of(colored));
                    uffd.wake(page);
                    return 1;
                }
                false
            }
            None => true,
        };
        // Not from the page of the pool: if that was moved away already, the helper would wait for
        // itself.
        if !placed && uffd.copy(page, recycle::ZEROS.as_ptr() as usize).is_ok() {
            start.counters.add(Counter::Failed, 1);
        }
        give_back(colored, PAGE);
        uffd.wake(page);
        0
    }

    /// Moves a page of the pool through a page with the protection of the mapping.
    fn through_scratch(&mut self, mapping: Mapping, page: usize, colored: usize) -> bool {
        let uffd = self.uffd;
        let stage = self.scratch + PAGE;
        let moved = uffd.shift(stage, colored, PAGE).is_ok()
            && sys::protect(self.scratch, 2 * PAGE, mapping.protection()).is_ok()
            && uffd.shift(page, stage, PAGE).is_ok();
        let _ = sys::protect(self.scratch, 2 * PAGE, sys::READ_WRITE);
        if !moved {
            give_back(stage, PAGE);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use memweir_abi::preload::Order;

    use super::*;
    use crate::color::counters::Counters;
    use crate::control;

    /// Returns a placer with a pool that has room for a page, and the page's address; `None` if
    /// pages cannot be moved here.
    pub(super) fn placer() -> Option<(Start, Box<Placer>, usize)> {
        let order = "offset=0;bank=2000;colors=0-1;shortage=spill;delivery=move;pool=1;limit=0;\
                     counters=";
        let order: Order = order.parse().unwrap();
        let start = Start::of(&order, control::create().unwrap(), Counters::NONE).unwrap();
        let mut placer = crate::all_zero::<Placer>();
        placer.prepare(&start).ok()?;
        let (uffd, pagemap) = (placer.uffd, placer.pagemap);
        placer.supply.pool.prepare(Delivery::Move, uffd, &pagemap, 1).ok()?;
        let colored = placer.supply.pool.ranges()[0];
        Some((start, placer, colored))
    }

    /// Returns a page of zeros whose faults the placer answers.
    pub(super) fn watched(placer: &Placer, protection: i32) -> usize {
        let page = sys::map(PAGE, protection, libc::MAP_PRIVATE).unwrap();
        placer.uffd.register(page, PAGE, MISSING).unwrap();
        placer.uffd.copy(page, recycle::ZEROS.as_ptr() as usize).unwrap();
        page
    }

    #[test]
    fn a_page_that_was_given_for_another_fault_is_left_alone() {
        let Some((start, mut placer, colored)) = placer() else {
            return memweir_test_support::skip!(Privilege, "pages are moved by root only");
        };
        let (uffd, pagemap) = (placer.uffd, placer.pagemap);
        // Pages of the pool get there through the scratch area only.
        let page = watched(&placer, sys::READ_WRITE | libc::PROT_EXEC);
        uffd.copy(colored, recycle::ZEROS.as_ptr() as usize).unwrap();
        // Two threads have touched it at the same time.
        assert_eq!(placer.deliver(&start, page, colored, 1, &start.set), 0);
        let stage = placer.scratch + PAGE;
        assert!([colored, stage].iter().all(|place| pagemap.entry(*place).is_empty()));
        sys::unmap(page, PAGE);
    }
}
