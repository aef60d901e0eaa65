//! Pages that the program already uses, moved into the asked colors under its feet.

use memweir_core::preload::Counter;

use super::upkeep::Reason;
use super::{Helper, Start};
use crate::choice::Set;
use crate::maps::Mapping;
use crate::sys::{self, Errno};
use crate::uffd::{PAGE, Uffd, copy_page};

impl Helper {
    /// Puts the content of `page` into a page of the set. Between the two moves the page is away:
    /// who touches it waits, as for any page fault, and mappings must not change.
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
        let uffd = Uffd(self.uffd);
        let (old, stage) = (self.scratch, self.scratch + PAGE);
        if !start.control.close_gate() {
            start.counters.add(Counter::Busy, 1);
            self.look_again();
            return self.pool.drop_page(colored);
        }
        let plain = libc::PROT_READ | libc::PROT_WRITE;
        let ready = uffd.shift(stage, colored, PAGE).is_ok()
            && sys::protect(self.scratch, 2 * PAGE, protection(mapping)).is_ok();
        let away = if ready {
            uffd.shift(old, page, PAGE).map_err(|(_, errno)| errno)
        } else {
            Err(Errno(0))
        };
        if away.is_ok() {
            // SAFETY: both pages were moved into the scratch area, which is the helper's.
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
        start.control.open_gate();
        start.counters.add(
            match (away, reason) {
                (Ok(_), Reason::New) => Counter::Adopted,
                (Ok(_), Reason::Fork) => Counter::MendedAfterFork,
                (Ok(_), Reason::Drift) => Counter::MendedDrift,
                (Err(_), _) => Counter::Busy,
            },
            1,
        );
    }
}

pub(super) fn plain() -> Mapping {
    Mapping { readable: true, writable: true, ..Mapping::default() }
}

pub(super) fn protection(mapping: Mapping) -> i32 {
    let bit = |set: bool, bit: i32| if set { bit } else { 0 };
    bit(mapping.readable, libc::PROT_READ)
        | bit(mapping.writable, libc::PROT_WRITE)
        | bit(mapping.executable, libc::PROT_EXEC)
}
