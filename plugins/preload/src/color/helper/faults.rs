//! Page faults and requests, for which the program waits.

use std::sync::atomic::Ordering;

use memweir_abi::preload::Counter;

use super::placer::Reason;
use super::upkeep::sweep;
use super::{Helper, Start};
use crate::color::choice::chosen;
use crate::control::{Ask, REQUESTS};
use crate::maps::Mapping;
use crate::sys;
use crate::uffd::{Message, PAGE};

impl Helper {
    pub(super) fn fault(&mut self, start: &Start, message: &Message) {
        let page = message.address as usize & !(PAGE - 1);
        let doorbells = start.control.doorbells.load(Ordering::Relaxed);
        if (doorbells..doorbells + REQUESTS * PAGE).contains(&page) {
            self.request(start, (page - doorbells) / PAGE);
            let _ = self.placer.uffd.zero(page);
            self.placer.uffd.wake(page);
            return;
        }
        start.counters.add(Counter::Faults, 1);
        let set = chosen(start.control, page, message.thread);
        let Some(colored) = self.placer.supply.take(start, &set) else {
            return self.shortage(start, page, message.thread);
        };
        let mut count = self.streams.pages_at(page);
        // The next page may have another set of colors.
        if start.control.sets_used.load(Ordering::Relaxed) > 1 {
            count = 1;
        }
        let count = 1 + self.placer.supply.pool.take_behind(colored, &set, count - 1);
        let given = self.placer.deliver(start, page, colored, count, &set);
        self.streams.given(page, given);
    }

    fn request(&mut self, start: &Start, slot: usize) {
        let Some(request) = start.control.requests.get(slot) else { return };
        let from = request.start.load(Ordering::Relaxed);
        let length = request.length.load(Ordering::Relaxed);
        match request.take() {
            ask if ask == Ask::Watch as u32 => {
                let _ = self.placer.uffd.register(from, length);
                let _ = sys::lock_on_fault(from, length);
                let (end, plain) = (from + length, Mapping::default());
                let mapping = Mapping { start: from, end, readable: true, writable: true, ..plain };
                sweep(start, &mut self.placer, Reason::New, mapping, (from, end));
                self.upkeep.know(from, end);
            }
            ask if ask == Ask::Leave as u32 => {
                let _ = self.placer.uffd.unregister(from, length);
            }
            _ => {}
        }
    }
}
