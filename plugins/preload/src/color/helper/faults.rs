//! Page faults and requests, for which the program waits.

use std::sync::atomic::Ordering;

use memweir_abi::preload::{Counter, Delivery};

use super::mend::{plain, protection};
use super::upkeep::Reason;
use super::{Helper, Start};
use crate::color::choice::{Set, chosen};
use crate::control::{Ask, REQUESTS};
use crate::maps::Mapping;
use crate::sys::{self, Errno};
use crate::uffd::{Message, PAGE, Uffd};

impl Helper {
    pub(super) fn fault(&mut self, start: &Start, message: &Message) {
        let page = message.address as usize & !(PAGE - 1);
        let bells = start.control.doorbells.load(Ordering::Relaxed);
        if (bells..bells + REQUESTS * PAGE).contains(&page) {
            self.request(start, (page - bells) / PAGE);
            let _ = Uffd(self.uffd).zero(page);
            Uffd(self.uffd).wake(page);
            return;
        }
        start.counters.add(Counter::Faults, 1);
        let set = chosen(start.control, page, message.thread);
        let Some(colored) = self.take(start, &set) else {
            return self.shortage(start, page, message.thread);
        };
        let mut count = self.streams.pages_at(page);
        // The next page may have another set of colors.
        if start.control.sets_used.load(Ordering::Relaxed) > 1 {
            count = 1;
        }
        let count = 1 + self.pool.take_behind(colored, &set, count - 1);
        let given = self.deliver(start, page, colored, count, &set);
        self.streams.given(page, given);
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
        let uffd = Uffd(self.uffd);
        let mut count = count;
        for _ in 0..8 {
            let (moved, error) = match uffd.shift(page, colored, count * PAGE) {
                Ok(bytes) => (bytes / PAGE, Errno(0)),
                Err((bytes, errno)) => (bytes / PAGE, errno),
            };
            if moved > 0 {
                self.pool.put_back(colored + moved * PAGE, count - moved);
                self.placed += moved;
                start.counters.add(Counter::Placed, moved as u64);
                for given in 0..moved {
                    start.counters.add_color(self.pool.color_of(colored + given * PAGE));
                }
                return moved;
            }
            match error {
                Errno(libc::EAGAIN) => {}
                // Other memory follows the page.
                _ if count > 1 => {
                    self.pool.put_back(colored + PAGE, count - 1);
                    count = 1;
                }
                Errno(libc::EINVAL) => return self.deliver_elsewhere(start, page, colored),
                _ => break,
            }
        }
        self.pool.put_back(colored + PAGE, count - 1);
        self.pool.drop_page(colored);
        uffd.wake(page);
        0
    }

    /// Provides a page although its mapping and the pool differ in protection or locking.
    fn deliver_elsewhere(&mut self, start: &Start, page: usize, colored: usize) -> usize {
        let uffd = Uffd(self.uffd);
        self.maps.read();
        let placed = match self.maps.find(page) {
            // Memory that cannot be written stays zero, so the shared page of zeros suffices.
            Some(mapping) if !mapping.writable => uffd.zero(page).is_ok(),
            Some(mapping) => {
                let _ = sys::lock_on_fault(mapping.start, mapping.end - mapping.start);
                let moved = self.through_scratch(mapping, page, colored);
                if moved {
                    self.placed += 1;
                    start.counters.add(Counter::Placed, 1);
                    start.counters.add_color(self.pool.color_of(colored));
                    uffd.wake(page);
                    return 1;
                }
                false
            }
            None => true,
        };
        if !placed && uffd.copy(page, colored).is_ok() {
            start.counters.add(Counter::Failed, 1);
        }
        self.pool.drop_page(colored);
        uffd.wake(page);
        0
    }

    /// Moves a page of the pool through a page with the protection of the mapping.
    fn through_scratch(&mut self, mapping: Mapping, page: usize, colored: usize) -> bool {
        let uffd = Uffd(self.uffd);
        let stage = self.scratch + PAGE;
        let plain = libc::PROT_READ | libc::PROT_WRITE;
        let moved = uffd.shift(stage, colored, PAGE).is_ok()
            && sys::protect(self.scratch, 2 * PAGE, protection(mapping)).is_ok()
            && uffd.shift(page, stage, PAGE).is_ok();
        let _ = sys::protect(self.scratch, 2 * PAGE, plain);
        moved
    }

    fn request(&mut self, start: &Start, slot: usize) {
        let Some(request) = start.control.requests.get(slot) else { return };
        let from = request.start.load(Ordering::Relaxed);
        let length = request.length.load(Ordering::Relaxed);
        match request.take() {
            ask if ask == Ask::Watch as u32 => {
                let _ = Uffd(self.uffd).register(from, length);
                let _ = sys::lock_on_fault(from, length);
                self.sweep(start, from, from + length, Reason::New, plain(from, from + length));
                self.know(from, from + length);
            }
            ask if ask == Ask::Leave as u32 => {
                let _ = Uffd(self.uffd).unregister(from, length);
            }
            _ => {}
        }
    }
}
