//! The monitor of the program's page faults and forks, by userfaultfd: where writes wait, and which
//! faults wait for an answer. [`forks`] has what it does for forked children.

mod children;
mod forks;
mod protection;

use std::sync::atomic::Ordering;

use memweir_abi::preload::page::PageCounter;

use super::Start;
use super::pressure::Watch;
use crate::control::Control;
use crate::page::space::{Ranges, Space};
use crate::page::spans::Span;
use crate::page::tally::Tally;
use crate::sys::{self, Errno, sys};
use crate::uffd::{MISSING, Message, PAGE, Uffd};
use children::Children;
use protection::Protection;

/// Faults that can wait for an answer, one for each thread; further threads ask again.
const PENDING: usize = 4096;
/// Attempts to lock the ranges after which other threads get time to run.
const AWHILE: u32 = 32;
/// Bytes whose writers are stalled or released at a time.
const STEP: usize = 2 << 20;

/// Requests to a userfaultfd that a fork can disturb. Tests use a fake that injects faults.
pub(super) trait Userfaultfd {
    /// Makes writes to the range wait.
    fn protect(&self, range: Span) -> Result<(), Errno>;
    /// Lets writes to the range continue.
    fn unprotect(&self, range: Span) -> Result<(), Errno>;
    /// Stops watching the range.
    fn unwatch(&self, range: Span) -> Result<(), Errno>;
    /// Wakes the threads that wait for the range, so that they retry.
    fn wake(&self, range: Span);
    /// Reads pending messages; returns their number.
    fn read(&self, messages: &mut [Message]) -> usize;
    /// Returns the file that becomes readable with a message.
    fn file(&self) -> i32;
}

impl Userfaultfd for Uffd {
    fn protect(&self, range: Span) -> Result<(), Errno> {
        Uffd::protect(*self, range.start, range.length())
    }

    fn unprotect(&self, range: Span) -> Result<(), Errno> {
        Uffd::unprotect(*self, range.start, range.length())
    }

    fn unwatch(&self, range: Span) -> Result<(), Errno> {
        self.unregister(range.start, range.length())
    }

    fn wake(&self, range: Span) {
        self.wake_range(range.start, range.length());
    }

    fn read(&self, messages: &mut [Message]) -> usize {
        Uffd::read(*self, messages)
    }

    fn file(&self) -> i32 {
        self.0
    }
}

/// Pages of faults that wait for an answer. All zero means that there are none.
///
/// They are answered in passes: each of them, also those that come meanwhile, is returned once by
/// [`next`](Self::next), and is either answered then or [put back](Self::put_back) for the next
/// pass. For those without room, the threads are woken after the pass, and fault again.
#[repr(C)]
struct Pending {
    used: usize,
    /// Pages that this pass has returned, and those of them that were put back.
    returned: usize,
    kept: usize,
    pages: [usize; PENDING],
    /// From the first to the last page without room.
    beyond: Span,
}

impl Pending {
    fn push(&mut self, page: usize) {
        let page = Span::of(page, PAGE);
        match self.pages.get_mut(self.used) {
            Some(free) => {
                *free = page.start;
                self.used += 1;
            }
            None if self.beyond.is_empty() => self.beyond = page,
            None => {
                let Span { start, end } = self.beyond;
                self.beyond = Span::new(start.min(page.start), end.max(page.end));
            }
        }
    }

    /// Returns the next page; `None` at the end of a pass.
    fn next(&mut self) -> Option<usize> {
        if self.returned < self.used {
            self.returned += 1;
            return Some(self.pages[self.returned - 1]);
        }
        (self.used, self.returned, self.kept) = (self.kept, 0, 0);
        None
    }

    /// Keeps the page that was returned last for the next pass.
    fn put_back(&mut self, page: usize) {
        self.pages[self.kept] = page;
        self.kept += 1;
    }
}

/// The monitor.
///
/// - Writes wait exactly in the ranges of [`Protection`], once a method returns.
/// - No thread waits forever for a page that is not protected: each waiting thread leaves a
///   message, and [`drain`](Self::drain) wakes the thread if the page is open.
/// - From the moment when a fork is noticed, [`is_shared`](Self::is_shared) is true until the
///   child's memory is gone.
pub(super) struct Monitor<U = Uffd> {
    pub(super) uffd: U,
    /// Becomes readable when the program has ended.
    main: i32,
    process: i32,
    /// Index of the process among the counters.
    entry: usize,
    pub(super) control: &'static Control,
    pub(super) space: &'static Space,
    tally: Tally,
    /// True if every access to an evicted page copies it.
    copies: bool,
    tables: &'static mut MonitorTables,
}

/// Tables of the monitor, which are too large for the stack. All zero means that they are empty.
#[repr(C)]
pub(super) struct MonitorTables {
    pending: Pending,
    protection: Protection,
    children: Children,
}

impl<U> Monitor<U> {
    /// Takes over the descriptor of the program's process, `main`. Up to `children` are tracked.
    pub(super) fn new(
        uffd: U,
        main: i32,
        start: &Start,
        entry: usize,
        children: usize,
        tables: &'static mut MonitorTables,
    ) -> Self {
        tables.children.make_room(children);
        let Start { control, space, tally, copies, .. } = *start;
        Self { uffd, main, process: start.main, entry, control, space, tally, copies, tables }
    }
}

impl<U: Userfaultfd> Monitor<U> {
    /// Waits for a message, for at most `micros` microseconds. Returns true if the program has
    /// ended.
    pub(super) fn wait(&self, micros: usize) -> bool {
        const FEW: usize = 30;
        let mut files = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; FEW + 2];
        (files[0].fd, files[1].fd) = (self.main, self.uffd.file());
        for (file, child) in files[2..].iter_mut().zip(self.tables.children.files()) {
            file.fd = *child;
        }
        let time = libc::timespec {
            tv_sec: (micros / 1_000_000) as i64,
            tv_nsec: (micros % 1_000_000 * 1000) as i64,
        };
        let begun = sys::nanos();
        // SAFETY: the kernel writes the results into the array.
        let ready = unsafe {
            sys!(libc::SYS_ppoll, files.as_mut_ptr(), files.len(), &raw const time, 0, 8)
        };
        if ready == Ok(0) {
            let late = (sys::nanos() - begun).saturating_sub(micros as u64 * 1000);
            self.tally.most(PageCounter::LatestWake, late);
        }
        files[0].revents != 0
    }

    /// Reads all messages of the kernel, which reports a fork behind the faults. Reading answers
    /// forks; faults wait for [`next_fault`](Self::next_fault).
    pub(super) fn drain(&mut self) {
        let mut messages = [Message::default(); 16];
        loop {
            let read = self.uffd.read(&mut messages);
            for message in &messages[..read] {
                let page = message.address as usize & !(PAGE - 1);
                match message.event {
                    Message::FORK => self.adopt(message),
                    Message::FAULT if message.flags & Message::FLAG_PROTECTED != 0 => {
                        self.tally.add(PageCounter::Waits, 1);
                        self.tables.protection.arrived(page);
                        // The thread may have begun to wait when the protection was removed
                        // already: the kernel checks the page-table entry once more, but lets
                        // every thread wait that finds it empty or read-only.
                        if self.tables.protection.is_open(page) {
                            self.uffd.wake(Span::of(page, PAGE));
                        }
                    }
                    Message::FAULT => self.tables.pending.push(page),
                    _ => {}
                }
            }
            if read < messages.len() {
                return;
            }
        }
    }

    /// Returns the page of the next fault that waits for an answer; `None` after all of them.
    pub(super) fn next_fault(&mut self) -> Option<usize> {
        let next = self.tables.pending.next();
        if next.is_none() {
            let beyond = std::mem::take(&mut self.tables.pending.beyond);
            if !beyond.is_empty() {
                self.uffd.wake(beyond);
            }
        }
        next
    }

    /// Lets the fault that was returned last wait for longer.
    pub(super) fn answer_later(&mut self, page: usize) {
        self.tables.pending.put_back(page);
    }

    /// Returns true if threads wait for the helper.
    pub(super) fn has_waiters(&self) -> bool {
        self.tables.protection.any_stalled() || self.tables.pending.used > 0
    }

    pub(super) fn children(&self) -> &Children {
        &self.tables.children
    }

    pub(super) fn protection(&self) -> &Protection {
        &self.tables.protection
    }

    /// Records that the page was found in DRAM: the next stall starts there.
    pub(super) fn arrived(&mut self, page: usize) {
        self.tables.protection.arrived(page);
    }

    /// Makes a request, again and again while a fork is in progress.
    pub(super) fn request(
        &mut self,
        request: impl Fn(&U) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        loop {
            match request(&self.uffd) {
                // The fork waits until its message is read, and the forking thread must be able to
                // run meanwhile.
                Err(Errno(libc::EAGAIN)) => {
                    self.drain();
                    sys::sleep_micros(20);
                }
                result => return result,
            }
        }
    }

    /// Returns true if a child maps pages of the file. Pages that were found in DRAM before a call
    /// that returns false are in DRAM in any later child, too, so their slots may be removed.
    pub(super) fn is_shared(&mut self) -> bool {
        let doorbells = self.doorbells();
        // From before the first page is copied for a child until the message of the fork is read,
        // the kernel refuses every such request for now; this one does nothing else.
        let _ = self.request(|uffd| uffd.unprotect(Span::of(doorbells, PAGE)));
        self.tables.children.any()
    }

    pub(super) fn adopt(&mut self, message: &Message) {
        self.tables.children.adopt(message.flags as i32, sys::micros());
        self.tally.add(PageCounter::ForkPauses, 1);
    }

    /// Makes writes to the range wait: step 1 of the protocol that [`page`](crate::page) argues
    /// for. Returns false if the kernel cannot do that here.
    pub(super) fn protect(&mut self, range: Span) -> bool {
        if !self.tables.protection.begin_move(range) {
            return false;
        }
        let result = self.request(|uffd| uffd.protect(range));
        let done = self.tally.check(result).is_some();
        if !done {
            self.unprotect(range);
        }
        done
    }

    /// Lets writes to the range continue, except where writers are stalled.
    pub(super) fn unprotect(&mut self, range: Span) {
        let mut rest = range;
        while !rest.is_empty() {
            let open = self.tables.protection.first_not_stalled(rest);
            if open.is_empty() {
                break;
            }
            self.let_go(open);
            rest.start = open.end;
        }
        self.tables.protection.end_move(range);
    }

    /// Does the same for all ranges.
    pub(super) fn unprotect_all(&mut self) {
        while let Some(span) = self.tables.protection.first_moving() {
            self.unprotect(span);
        }
    }

    /// Stops watching the plain memory in the range. What has gone to the file since the program
    /// looked stays watched: it could not be protected otherwise.
    pub(super) fn unwatch_plain(&mut self, range: Span) -> Result<(), Errno> {
        let mut rest = range;
        while !rest.is_empty() {
            let plain = self.ranges(|ranges| ranges.converted.first_out(rest));
            if plain.is_empty() {
                break;
            }
            self.uffd.unwatch(plain)?;
            rest.start = plain.end;
        }
        Ok(())
    }

    /// Ends the protection of a range that new memory has replaced.
    pub(super) fn replaced(&mut self, range: Span) {
        self.tables.protection.end_move(range);
        self.uffd.wake(range);
    }

    /// Lets writes to the range continue. The kernel stops at a mapping that cannot be protected,
    /// such as one that has taken the place of another, so the rest is tried in parts; writers of
    /// what was replaced are woken, too.
    fn let_go(&mut self, range: Span) {
        if self.request(|uffd| uffd.unprotect(range)).is_ok() {
            return;
        }
        if range.length() <= PAGE {
            return self.uffd.wake(range);
        }
        let middle = range.start + (range.length() / 2).next_multiple_of(PAGE);
        self.let_go(Span::new(range.start, middle));
        self.let_go(Span::new(middle, range.end));
    }

    /// Begins to stall writers, where a page last came to DRAM, unless some are stalled already.
    pub(super) fn begin_stall(&mut self) {
        if self.tables.protection.begin_stall(STEP, sys::nanos()) {
            self.tally.add(PageCounter::Stalls, 1);
        }
    }

    /// Returns the range of the file whose writers are to be stalled next.
    pub(super) fn next_to_stall(&mut self) -> Option<Span> {
        let from = self.tables.protection.stall_from();
        self.ranges(|ranges| ranges.converted.part_behind(from, STEP))
    }

    /// Goes on behind `step`; returns true if not all of its writers are stalled.
    pub(super) fn pass(&mut self, step: Span) -> bool {
        self.tables.protection.pass(step)
    }

    /// Stalls the writers of a range.
    pub(super) fn stall(&mut self, step: Span) {
        if self.tables.protection.stall(step) && self.uffd.protect(step).is_err() {
            self.tables.protection.undo_stall(step);
            // The mappings before one that was replaced just now may be protected.
            self.unprotect(step);
        }
    }

    /// Lets the stalled writers of the next range continue; returns false if there are none. It
    /// resumes where it ended last, so that no writer waits forever.
    pub(super) fn release_next(&mut self) -> bool {
        let Some(step) = self.tables.protection.next_to_release(STEP) else { return false };
        self.let_go(step);
        if let Some(since) = self.tables.protection.released(step) {
            self.tally.add(PageCounter::StallNanos, (sys::nanos() - since) as usize);
        }
        true
    }

    /// Lets all stalled writers continue.
    pub(super) fn release(&mut self) {
        while self.release_next() {}
    }

    /// Makes the ranges behind `address`, which were just released, the first to be stalled again.
    pub(super) fn stall_again_from(&mut self, address: usize) {
        self.tables.protection.stall_again_from(address);
    }

    /// Calls `look` on the ranges, and answers forks while another thread holds their lock. Must
    /// not be called while pages are protected for eviction: the lock holder may wait for one of
    /// them.
    pub(super) fn ranges<T>(&mut self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        let space = self.space;
        let mut tries = 0u32;
        let meanwhile = || {
            self.drain();
            tries += 1;
            if tries.is_multiple_of(AWHILE) {
                self.let_others_look(tries / AWHILE);
            }
        };
        space.with_patience(meanwhile, look)
    }

    /// Lets the lock holder of the ranges run. It may have been descheduled by this very process,
    /// which runs before others, or wait because writers are stalled.
    fn let_others_look(&mut self, rests: u32) {
        const LONG: u32 = 20;
        if rests.is_multiple_of(LONG) {
            if self.wait(0) {
                // The program has ended, so the lock will never be released.
                self.tally.release(self.entry, self.process as u64);
                sys::exit();
            }
            self.release();
        }
        sys::sleep_micros(50);
    }

    /// Returns the address of the pages that threads touch to send requests.
    pub(super) fn doorbells(&self) -> usize {
        self.control.doorbells.load(Ordering::Relaxed)
    }
}

impl Watch for Monitor {
    fn watch(&mut self, range: Span) {
        let mut rest = range;
        loop {
            let plain = self.ranges(|ranges| ranges.convertible(rest));
            if plain.is_empty() {
                return;
            }
            // Mappings that are gone already, or that have another handler, do not matter.
            let _ = self.uffd.register(plain.start, plain.length(), MISSING);
            rest.start = plain.end;
        }
    }

    fn watch_all(&mut self) {
        self.ranges(|ranges| ranges.fresh.clear());
        let mut at = 0;
        while let Some(known) = self.ranges(|ranges| ranges.known.next(at)) {
            self.watch(known);
            at = known.end;
        }
    }

    fn next_fresh(&mut self) -> Option<Span> {
        self.ranges(|ranges| ranges.fresh.pop())
    }

    fn missed_fresh(&mut self) -> bool {
        self.ranges(|ranges| ranges.fresh.overflowed())
    }
}

#[cfg(test)]
mod tests;
