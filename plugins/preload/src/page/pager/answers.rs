//! Answers accesses that wait: to new memory, which is given by credit while memory is short, in
//! copying mode to every page that is not in DRAM, and to the pages by which the program's threads
//! send requests.

use std::sync::atomic::Ordering;

use memweir_abi::preload::page::Timed;

use super::Pager;
use super::evict::free_slots;
use super::pressure::Watch;
use crate::control::{Ask, Request};
use crate::page::spans::Span;
use crate::sys::{self, Errno};
use crate::uffd::PAGE;

/// Microseconds that new memory waits for a forked child to end.
const CHILD_TIMEOUT: u64 = 20_000;

impl Pager {
    /// Answers the accesses that can be answered now.
    pub(super) fn answer(&mut self) {
        while let Some(page) = self.memory.monitor.next_fault() {
            if !self.answer_one(page) {
                self.memory.monitor.answer_later(page);
            }
        }
    }

    /// Answers one access; returns false if it has to wait longer.
    fn answer_one(&mut self, page: usize) -> bool {
        let monitor = &mut self.memory.monitor;
        if let Some(request) = monitor.control.request_at(page) {
            self.serve_request(request);
            let _ = self.memory.monitor.request(|uffd| uffd.zero(page));
            self.memory.monitor.uffd.wake(page);
            return true;
        }
        if monitor.ranges(|ranges| ranges.converted.at(page)).is_some() {
            return self.copy_in(page);
        }
        if monitor
            .children()
            .paused_since()
            .is_some_and(|since| sys::micros() < since + CHILD_TIMEOUT)
        {
            return false;
        }
        let least = self.pressure.budget().window();
        self.pressure.give_credit(page, least, &mut self.memory) || self.give_window(page, least)
    }

    /// Gives the window of that many pages around `page`, if there is room in DRAM or room can be
    /// made.
    fn give_window(&mut self, page: usize, pages: usize) -> bool {
        let Self { memory, pressure, evictor, .. } = self;
        let window = memory.window_of(page, pages * PAGE);
        let stuck = |pressure: &super::Pressure| pressure.is_idle() || !pressure.can_keep_budget();
        if pressure.is_full_with(pages) && !stuck(pressure) {
            evictor.evict(pages * 2, pressure, memory);
        }
        let stuck = stuck(pressure);
        if pressure.is_full_with(pages) && !stuck {
            return false;
        }
        if !stuck {
            evictor.empty_window(window, pressure, memory);
        }
        if memory.monitor.ranges(|ranges| ranges.converted.at(page)).is_none() {
            pressure.give(window, page, memory);
        } else {
            pressure.count(pages);
        }
        true
    }

    /// Copies the page to DRAM, as every access requires in copying mode.
    fn copy_in(&mut self, page: usize) -> bool {
        let Self { memory, pressure, .. } = self;
        let crowded = pressure.is_full_with(0) && pressure.can_keep_budget();
        if memory.copies && crowded && !pressure.cannot_evict(memory) {
            return false;
        }
        let begun = sys::nanos();
        let Some(slot) = memory.store.slot(page).filter(|_| memory.copies) else {
            memory.monitor.uffd.wake(page);
            return true;
        };
        self.content.fill(0);
        let read = memory.store.read(slot, self.content);
        if memory.tally.check(read).is_some() {
            let from = self.content.as_ptr() as usize;
            let copied = memory.monitor.request(|uffd| uffd.copy(page, from));
            if copied.is_ok()
                && let Some(arrival) = memory.residency.delivered(slot)
            {
                memory.count_arrival(arrival);
                pressure.count(1);
                if !memory.monitor.is_shared() {
                    free_slots(Span::of(page, PAGE), pressure, memory);
                }
            }
        }
        memory.store.delay(1, |slowdown| slowdown.read);
        memory.monitor.uffd.wake(page);
        memory.tally.time(Timed::Copy, sys::nanos() - begun);
        true
    }

    fn serve_request(&mut self, request: &Request) {
        let Some(ask) = request.take() else { return };
        let memory = &mut self.memory;
        let range =
            Span::of(request.start.load(Ordering::Relaxed), request.length.load(Ordering::Relaxed));
        let more = request.more.each_ref().map(|word| word.load(Ordering::Relaxed));
        let answer = match ask {
            ask if ask == Ask::Watch as u32 => {
                memory.monitor.watch(range);
                Ok(0)
            }
            ask if ask == Ask::Discard as u32 => memory.discard(range).map(|()| 0),
            ask if ask == Ask::Restore as u32 => memory.restore(range).map(|()| 0),
            ask if ask == Ask::Settle as u32 => memory.settle(range).map(|()| 0),
            ask if ask == Ask::Move as u32 => {
                memory.relocate(range, more, self.pressure.nvm_room())
            }
            // The helper performs a check after every request anyway.
            ask if ask == Ask::Look as u32 => Ok(0),
            _ => Err(Errno(libc::EINVAL)),
        };
        let answer = answer.unwrap_or_else(|Errno(errno)| -(errno as isize) as usize);
        request.answer.store(answer, Ordering::Release);
    }
}
