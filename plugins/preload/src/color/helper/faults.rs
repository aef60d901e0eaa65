//! Page faults and requests, for which the program waits.

use std::sync::atomic::Ordering;

use memweir_abi::preload::Counter;

use super::placer::Reason;
use super::upkeep::sweep;
use super::{Helper, Start};
use crate::color::choice::chosen;
use crate::control::{Ask, Request};
use crate::maps::{self, Mapping};
use crate::sys;
use crate::uffd::{MISSING, Message, PAGE};

impl Helper {
    pub(super) fn fault(&mut self, start: &Start, message: &Message) {
        let page = message.address as usize & !(PAGE - 1);
        if let Some(request) = start.control.request_at(page) {
            self.request(start, request);
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

    fn request(&mut self, start: &Start, request: &Request) {
        let Some(ask) = request.take() else { return };
        let from = request.start.load(Ordering::Relaxed);
        let length = request.length.load(Ordering::Relaxed);
        match ask {
            ask if ask == Ask::Watch as u32 => {
                let _ = self.placer.uffd.register(from, length, MISSING);
                let _ = sys::lock_on_fault(from, length);
                let (end, plain) = (from + length, Mapping::default());
                let mapping = Mapping { start: from, end, readable: true, writable: true, ..plain };
                sweep(start, &mut self.placer, Reason::New, mapping, (from, end));
                self.upkeep.know(from, end);
            }
            ask if ask == Ask::Leave as u32 => self.leave(from, from + length),
            _ => {}
        }
    }

    fn leave(&self, from: usize, to: usize) {
        if self.placer.uffd.unregister(from, to - from).is_ok() {
            return;
        }
        // The kernel refuses that for all of a range in which there is a page of a file.
        maps::for_each(|_, mapping| {
            let (start, end) = (mapping.start.max(from), mapping.end.min(to));
            if start < end && mapping.anonymous {
                let _ = self.placer.uffd.unregister(start, end - start);
            }
        });
    }
}
