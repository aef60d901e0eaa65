//! Provides pages if the kernel cannot move any: the frames of the pool's pages are freed, and the
//! kernel uses the frames that a processor freed last for the next new pages, which are the
//! program's.
//!
//! `UFFDIO_COPY` fills holes only, and creates no mapping of its own. The result is checked
//! afterwards.

use memweir_abi::preload::Counter;

use super::{Placer, Reason};
use crate::color::choice::Set;
use crate::color::helper::Start;
use crate::color::helper::streams::AT_ONCE;
use crate::color::pool::give_back;
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Content of new pages.
pub(super) static ZEROS: [u64; AT_ONCE * PAGE / 8] = [0; AT_ONCE * PAGE / 8];

/// Takes all memory from the node on which the helper begins, as long as that has some: wherever
/// the helper runs later, a frame is freed to the place from which the next page comes. A policy
/// that the program was started with stays.
pub(in crate::color::helper) fn stay_on_node() {
    let (mut mode, mut node) = (libc::MPOL_DEFAULT, 0u32);
    // SAFETY: the kernel writes two numbers.
    let known = unsafe {
        sys!(libc::SYS_get_mempolicy, &raw mut mode, 0, 0, 0, 0).is_ok()
            && sys!(libc::SYS_getcpu, 0, &raw mut node, 0).is_ok()
    };
    if known && mode == libc::MPOL_DEFAULT {
        let _ = sys::set_memory_policy(libc::MPOL_PREFERRED, Some(node));
    }
}

impl Placer {
    /// Recycles pages of the pool to the page of the fault and the next ones. Returns their number.
    pub(super) fn recycle_in(
        &mut self,
        start: &Start,
        page: usize,
        colored: usize,
        count: usize,
        set: &Set,
    ) -> usize {
        give_back(colored, count * PAGE);
        let mut given = self.give(page, count);
        // Other memory follows the page.
        if given == 0 && count > 1 {
            given = self.give(page, 1);
        }
        if given == 0 {
            self.uffd.wake(page);
            return 0;
        }
        self.supply.placed(given);
        let mut frames = [0; AT_ONCE];
        let known = self.pagemap.frames(page, &mut frames[..given]);
        let mut right = given;
        for (i, frame) in frames[..known].iter().enumerate().filter(|(_, frame)| **frame != 0) {
            if start.palette.is_of(*frame, set) {
                start.counters.add_color(start.palette.bank_color(*frame));
            } else {
                right -= 1;
                self.missed(start, page + i * PAGE, set);
            }
        }
        start.counters.add(Counter::Placed, right as u64);
        given
    }

    /// Provides new pages; returns their number.
    fn give(&mut self, page: usize, count: usize) -> usize {
        loop {
            match self.uffd.copy_all(page, ZEROS.as_ptr() as usize, count * PAGE) {
                Err((0, Errno(libc::EAGAIN))) => {}
                Ok(bytes) | Err((bytes, _)) => return bytes / PAGE,
            }
        }
    }

    /// Handles a page of another color, which the program may have begun to use.
    fn missed(&mut self, start: &Start, page: usize, set: &Set) {
        start.counters.add(Counter::Missed, 1);
        self.maps.read();
        match self.maps.find(page) {
            Some(mapping) if mapping.writable => {
                self.mend(start, page, set, Reason::Missed, mapping);
            }
            // Memory that cannot be written stays zero.
            _ => {}
        }
    }
}
