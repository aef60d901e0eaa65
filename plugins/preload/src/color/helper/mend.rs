//! Moves pages that the program already uses into the requested colors.

use memweir_abi::preload::{Counter, Delivery};

use super::upkeep::Reason;
use super::{Helper, Start};
use crate::color::choice::Set;
use crate::maps::Mapping;
use crate::pagemap::Pagemap;
use crate::sys::{self, Errno};
use crate::uffd::{PAGE, Uffd, copy_page};

impl Helper {
    /// Puts the content of `page` into a page of the set. Between the two moves the page is away: a
    /// thread that touches it waits, as for any page fault, and mappings must not change.
    pub(super) fn mend(
        &mut self,
        start: &Start,
        page: usize,
        set: &Set,
        reason: Reason,
        mapping: Mapping,
    ) {
        let Some(colored) = self.take(start, set) else {
            // There may be one later.
            return self.look_again();
        };
        if !start.control.close_gate() {
            start.counters.add(Counter::Busy, 1);
            self.look_again();
            return self.pool.drop_page(colored);
        }
        let mended = match start.delivery {
            Delivery::Move => {
                let moved = self.move_over(page, colored, mapping);
                // The kernel does not move a page that a fork has marked as shared, even if it is
                // no longer shared, and the page stays marked until it is written. A new page can
                // be moved next time.
                if moved == Err(Errno(libc::EBUSY)) && self.forked {
                    self.renew(page, mapping);
                }
                moved
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
                (Ok(()), Reason::New) => Counter::Adopted,
                (Ok(()), Reason::Fork) => Counter::MendedAfterFork,
                (Ok(()), Reason::Drift) => Counter::MendedDrift,
                (Ok(()), Reason::Missed) => Counter::Placed,
                (Err(_), _) => Counter::Busy,
            },
            1,
        );
    }

    /// Counts a page that the program now has by the color of its frame.
    pub(super) fn count_color(&self, start: &Start, page: usize) {
        let frame = Pagemap(self.pagemap).entry(page).frame();
        if frame != 0 {
            start.counters.add_color(start.palette.bank_color(frame));
        }
    }

    /// Moves the page away, copies it, and moves the copy to its place.
    fn move_over(&mut self, page: usize, colored: usize, mapping: Mapping) -> Result<(), Errno> {
        let uffd = Uffd(self.uffd);
        let (old, stage) = (self.scratch, self.scratch + PAGE);
        let plain = libc::PROT_READ | libc::PROT_WRITE;
        let ready = uffd.shift(stage, colored, PAGE).is_ok()
            && sys::protect(self.scratch, 2 * PAGE, protection(mapping)).is_ok();
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
                self.look_again();
                let _ = uffd.copy(page, old);
                uffd.wake(page);
            }
        }
        let _ = sys::protect(self.scratch, 2 * PAGE, plain);
        self.pool.drop_page(old);
        if away.is_err() {
            self.pool.drop_page(stage);
            self.look_again();
        }
        away.map(drop)
    }
}

pub(super) fn plain(start: usize, end: usize) -> Mapping {
    Mapping { start, end, readable: true, writable: true, ..Mapping::default() }
}

pub(super) fn protection(mapping: Mapping) -> i32 {
    let bit = |set: bool, bit: i32| if set { bit } else { 0 };
    bit(mapping.readable, libc::PROT_READ)
        | bit(mapping.writable, libc::PROT_WRITE)
        | bit(mapping.executable, libc::PROT_EXEC)
}
