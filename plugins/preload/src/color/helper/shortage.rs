//! Handles page faults for which no page of their colors can be found.

use memweir_abi::preload::{Counter, Shortage};

use super::{Helper, Start};
use crate::color::choice::{Set, chosen};
use crate::sys::{self, sys};
use crate::uffd::PAGE;

/// Faults that can wait: one of each thread.
const WAITERS: usize = 1024;
/// Bounds of the pause between two searches for waiting faults, in microseconds. Within them, the
/// pause is ten times the duration of the last search.
const PAUSES: (u64, u64) = (20_000, 2_000_000);

/// A waiting page fault.
#[derive(Clone, Copy, Default)]
struct Waiting {
    page: usize,
    thread: u32,
    since: u64,
}

/// The waiting faults. All zero at first.
#[repr(C)]
pub(super) struct Queue {
    faults: [Waiting; WAITERS],
    used: usize,
    retry_at: u64,
}

impl Queue {
    /// Returns the milliseconds after which [`Helper::retry`] is due; `None` if no fault waits.
    pub(super) fn due(&self) -> Option<i32> {
        let left = self.retry_at.saturating_sub(sys::micros());
        (self.used > 0).then_some(left.div_ceil(1000) as i32)
    }

    /// Makes a fault wait; returns false if too many do.
    fn push(&mut self, page: usize, thread: u32) -> bool {
        if self.faults[..self.used].iter().any(|waiting| waiting.page == page) {
            return true;
        }
        let Some(free) = self.faults.get_mut(self.used) else { return false };
        *free = Waiting { page, thread, since: sys::micros() };
        self.used += 1;
        true
    }

    fn remove(&mut self, at: usize) {
        self.faults.copy_within(at + 1..self.used, at);
        self.used -= 1;
    }
}

impl Helper {
    /// Does what the order requests for a shortage of pages, unless the page is there: it may have
    /// come for another thread that touched it, or have been away while it was mended.
    pub(super) fn shortage(&mut self, start: &Start, page: usize, thread: u32) {
        if !self.placer.pagemap.entry(page).is_empty() {
            return self.placer.uffd.wake(page);
        }
        match start.shortage {
            Shortage::Spill => self.spill(start, page),
            Shortage::Refuse => self.refuse(start, page, thread),
            Shortage::Wait => {
                start.counters.add(Counter::Waited, 1);
                if self.queue.used == 0 {
                    self.queue.retry_at = sys::micros() + PAUSES.0;
                }
                if !self.queue.push(page, thread) {
                    // The thread touches the page again, and by then another fault may no longer
                    // wait.
                    self.placer.uffd.wake(page);
                }
            }
        }
    }

    fn spill(&mut self, start: &Start, page: usize) {
        // A copy, because a first write would replace the kernel's page of zeros by any page,
        // without notice.
        static ZEROS: [u64; PAGE / 8] = [0; PAGE / 8];
        start.counters.add(Counter::Spilled, 1);
        match self.placer.uffd.copy(page, ZEROS.as_ptr() as usize) {
            Ok(_) => self.placer.count_color(start, page),
            Err(_) => {
                self.placer.uffd.wake(page);
            }
        }
    }

    fn refuse(&mut self, start: &Start, page: usize, thread: u32) {
        start.counters.add(Counter::Refused, 1);
        if self.placer.uffd.poison(page).is_err() {
            // A thread that ignores the signal faults again; from the kernel it would have been
            // fatal.
            let again = self.refused == (page, thread);
            let signal = if again { libc::SIGKILL } else { libc::SIGBUS };
            self.refused = (page, thread);
            // SAFETY: ends the program, as requested.
            let _ = unsafe { sys!(libc::SYS_tgkill, start.main, thread, signal) };
        }
        self.placer.uffd.wake(page);
    }

    /// Serves the waiting faults, as far as pages are found now. All others are served meanwhile:
    /// pages that they release may be what these wait for.
    pub(super) fn retry(&mut self, start: &Start) {
        if self.queue.due() != Some(0) {
            return;
        }
        let begun = sys::micros();
        self.placer.supply.try_again();
        let mut at = 0;
        while at < self.queue.used {
            let Waiting { page, thread, since } = self.queue.faults[at];
            let set: Set = chosen(start.control, page, thread);
            // After the first failed search, the others only check the pool.
            let Some(colored) = self.placer.supply.take(start, &set) else {
                at += 1;
                continue;
            };
            self.queue.remove(at);
            self.placer.deliver(start, page, colored, 1, &set);
            start.counters.add(Counter::WaitMicros, sys::micros() - since);
        }
        let now = sys::micros();
        self.queue.retry_at = now + ((now - begun) * 10).clamp(PAUSES.0, PAUSES.1);
    }
}

#[cfg(test)]
mod tests {
    use memweir_abi::preload::Order;

    use super::*;
    use crate::color::counters::Counters;
    use crate::control;

    #[test]
    fn no_access_to_a_page_that_is_there_is_refused() {
        let order = "offset=0;bank=2000;colors=0-1;shortage=refuse;delivery=recycle;pool=1;\
                     limit=0;counters=";
        let order: Order = order.parse().unwrap();
        let start = Start::of(&order, control::create().unwrap(), Counters::NONE).unwrap();
        let mut helper = crate::all_zero::<Helper>();
        if helper.placer.prepare(&start).is_err() {
            return memweir_test_support::skip!(Privilege, "no userfaultfd");
        }
        let page = [7u64; PAGE / 8];
        // No thread has this number.
        helper.shortage(&start, page.as_ptr() as usize & !(PAGE - 1), i32::MAX as u32);
        assert_eq!(helper.refused, (0, 0));
    }
}
