//! Moves pages that the program already uses into the requested colors.

use memweir_abi::preload::{Counter, Delivery};

use super::{Placer, Reason};
use crate::color::choice::Set;
use crate::color::helper::Start;
use crate::color::pool::give_back;
use crate::maps::Mapping;
use crate::sys::{self, Errno};
use crate::uffd::{PAGE, copy_page};

impl Placer {
    /// Puts the content of `page` into a page of the set. Between the two moves the page is away: a
    /// thread that touches it waits, as for any page fault, and mappings must not change. Returns
    /// true if the page is of the set afterwards.
    pub(in crate::color::helper) fn mend(
        &mut self,
        start: &Start,
        page: usize,
        set: &Set,
        reason: Reason,
        mapping: Mapping,
    ) -> bool {
        let Some(colored) = self.supply.take(start, set) else {
            // There may be one later.
            self.unfinished = true;
            return false;
        };
        if !start.control.close_gate() {
            start.counters.add(Counter::Busy, 1);
            self.unfinished = true;
            give_back(colored, PAGE);
            return false;
        }
        let mended = match start.delivery {
            Delivery::Move => {
                let moved = self.move_over(page, colored, mapping);
                // The kernel does not move a page that a fork has marked as shared, even if it is
                // no longer shared, and the page stays marked until it is written. A new page can
                // be moved next time.
                if moved == Err(Errno(libc::EBUSY)) && self.forked {
                    let _ = self.exchange.exchange(page, None, mapping);
                }
                moved.map(|()| true)
            }
            Delivery::Recycle => self.exchange_over(start, page, colored, set, mapping),
        };
        // Once the gate is open, the program may already have another page in its place.
        if mended.is_ok() && matches!(reason, Reason::New | Reason::Missed) {
            self.count_color(start, page);
        }
        start.control.open_gate();
        start.counters.add(
            match (mended, reason) {
                (Ok(_), Reason::New) => Counter::Adopted,
                (Ok(_), Reason::Fork) => Counter::MendedAfterFork,
                (Ok(_), Reason::Drift) => Counter::MendedDrift,
                (Ok(_), Reason::Missed) => Counter::Placed,
                (Err(_), _) => Counter::Busy,
            },
            1,
        );
        mended == Ok(true)
    }

    /// Moves the page away, copies it, and moves the copy to its place.
    fn move_over(&mut self, page: usize, colored: usize, mapping: Mapping) -> Result<(), Errno> {
        let uffd = self.uffd;
        let (old, stage) = (self.scratch, self.scratch + PAGE);
        let ready = uffd.shift(stage, colored, PAGE).is_ok()
            && sys::protect(self.scratch, 2 * PAGE, mapping.protection()).is_ok();
        let away = if ready {
            uffd.shift(old, page, PAGE).map_err(|(_, errno)| errno)
        } else {
            Err(Errno(0))
        };
        if away.is_ok() {
            // SAFETY: both pages were moved into the scratch area, which belongs to the helper.
            unsafe { copy_page(stage, old) };
            let mut back = uffd.shift(page, stage, PAGE);
            while let Err((_, Errno(libc::EAGAIN))) = back {
                back = uffd.shift(page, stage, PAGE);
            }
            if back.is_err() {
                self.unfinished = true;
                let _ = uffd.copy(page, old);
                uffd.wake(page);
            }
        }
        let _ = sys::protect(self.scratch, 2 * PAGE, sys::READ_WRITE);
        // Each of the moves may have failed and left its page.
        give_back(self.scratch, 2 * PAGE);
        if away.is_err() {
            give_back(colored, PAGE);
            self.unfinished = true;
        }
        away.map(drop)
    }

    /// Puts the content of `page` into a recycled page. Returns false if that became another one.
    fn exchange_over(
        &mut self,
        start: &Start,
        page: usize,
        colored: usize,
        set: &Set,
        mapping: Mapping,
    ) -> Result<bool, Errno> {
        let done = self.exchange.exchange(page, Some(colored), mapping);
        if let Err(errno) = done {
            self.supply.pool.put_back(colored, 1);
            self.unfinished = true;
            return Err(errno);
        }
        let frame = self.pagemap.entry(page).frame();
        let hit = frame == 0 || start.palette.is_of(frame, set);
        if !hit {
            start.counters.add(Counter::Missed, 1);
            self.unfinished = true;
        }
        Ok(hit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recycle::ZEROS;
    use super::super::tests::{placer, watched};
    use super::*;

    #[test]
    fn a_page_that_cannot_be_replaced_leaves_none_of_the_pool_behind() {
        let Some((_, mut placer, colored)) = placer() else {
            return memweir_test_support::skip!(Privilege, "pages are moved by root only");
        };
        let (uffd, pagemap, stage) = (placer.uffd, placer.pagemap, placer.scratch + PAGE);
        let page = watched(&placer, sys::READ_WRITE);
        // The kernel moves no page to where one is.
        for place in [colored, stage] {
            uffd.copy(place, ZEROS.as_ptr() as usize).unwrap();
        }
        let mapping = Mapping { readable: true, writable: true, ..Mapping::default() };
        assert!(placer.move_over(page, colored, mapping).is_err());
        assert!([colored, stage].iter().all(|place| pagemap.entry(*place).is_empty()));
        assert!(!pagemap.entry(page).is_empty());
        sys::unmap(page, PAGE);
    }
}
