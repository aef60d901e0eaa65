//! Forks: a child maps the slots that its parent mapped, so no evicted page may change until the
//! child's memory is gone ([`Children`](super::children::Children)). This module also waits for
//! forks and all other messages of the kernel.

use memweir_abi::preload::page::PageCounter;

use super::{PENDING, Pager};
use crate::page::spans::Span;
use crate::sys::{self, Errno, sys};
use crate::uffd::{Message, PAGE, Uffd, WRITES};

impl Pager<'_> {
    /// Waits that many microseconds, or until a message arrives. Returns true if the program has
    /// ended.
    pub(super) fn wait(&self, micros: usize) -> bool {
        const FEW: usize = 30;
        let mut files = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; FEW + 2];
        (files[0].fd, files[1].fd) = (self.main, self.uffd.0);
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
            self.start.tally.most(PageCounter::LatestWake, late);
        }
        files[0].revents != 0
    }

    /// Reads the messages of the kernel. Reading answers forks; faults wait for
    /// [`answer`](Self::answer).
    pub(super) fn drain(&mut self) {
        let mut messages = [Message::default(); 16];
        while self.tables.pending_used + messages.len() <= PENDING {
            let read = self.uffd.read(&mut messages);
            for message in &messages[..read] {
                match message.event {
                    Message::FORK => self.adopt(message),
                    Message::FAULT if message.flags & Message::FLAG_PROTECTED != 0 => {
                        self.start.tally.add(PageCounter::Waits, 1);
                        let page = message.address as usize & !(PAGE - 1);
                        self.tables.protection.arrived(page);
                        self.wake_late(page);
                    }
                    Message::FAULT => {
                        self.tables.pending[self.tables.pending_used] = *message;
                        self.tables.pending_used += 1;
                    }
                    _ => {}
                }
            }
            if read < messages.len() {
                return;
            }
        }
    }

    /// Wakes a thread that began to wait for a page when its protection was removed already: the
    /// kernel checks the page-table entry once more, but lets every thread wait that finds it empty
    /// or read-only.
    fn wake_late(&self, page: usize) {
        if self.tables.protection.is_open(page) {
            self.uffd.wake(page);
        }
    }

    /// Returns true if a child maps pages of the file. Pages that were found in DRAM before a call
    /// that returns false are in DRAM in any later child, too, so their slots may be removed.
    pub(super) fn is_shared(&mut self) -> bool {
        let bells = self.start.control.doorbells.load(std::sync::atomic::Ordering::Relaxed);
        // From before the first page is copied for a child until the message of the fork is read,
        // the kernel refuses every such request for now; this one does nothing else.
        while self.uffd.unprotect(bells, PAGE) == Err(Errno(libc::EAGAIN)) {
            self.await_fork();
        }
        self.tables.children.any()
    }

    /// Reads the message of a fork in progress. The forking thread must be able to run meanwhile.
    pub(super) fn await_fork(&mut self) {
        self.drain();
        sys::sleep_micros(20);
    }

    fn adopt(&mut self, message: &Message) {
        self.tables.children.adopt(message.flags as i32, sys::micros());
        self.start.tally.add(PageCounter::ForkPauses, 1);
    }

    /// Releases new children, and finds those that have ended or started another program.
    pub(super) fn look_after_children(&mut self) {
        while let Some(child) = self.tables.children.next_new() {
            self.settle_child(child);
        }
        let shared = self.ranges(|ranges| ranges.converted.next(0));
        let mut at = 0;
        while let Some(child) = self.tables.children.get(at) {
            self.listen_to(child);
            let alive = shared
                .is_some_and(|span| child.unprotect(span.start, PAGE) != Err(Errno(libc::ESRCH)));
            if alive {
                at += 1;
            } else {
                self.tables.children.remove(at);
            }
        }
        if let Some(since) = self.tables.children.end_pause() {
            let nanos = (sys::micros() - since) * 1000;
            self.start.tally.add(PageCounter::ForkPauseNanos, nanos as usize);
        }
    }

    /// Makes a child's memory independent, so that no thread in it waits for this process. Mappings
    /// of the file stay watched, so that forks of the child are reported.
    fn settle_child(&mut self, child: Uffd) {
        let mut at = 0;
        while let Some(known) = self.ranges(|ranges| ranges.known.next(at)) {
            let mut rest = known;
            while !rest.is_empty() {
                let plain = self.ranges(|ranges| ranges.converted.first_out(rest));
                let file =
                    Span::new(rest.start, if plain.is_empty() { rest.end } else { plain.start });
                if !plain.is_empty() {
                    let _ = child.unregister(plain.start, plain.length());
                }
                if self.start.copies && !file.is_empty() {
                    let _ = child.unregister(file.start, file.length());
                    let _ = child.register_for(file.start, file.length(), WRITES);
                }
                rest.start = if plain.is_empty() { rest.end } else { plain.end };
            }
            at = known.end;
        }
        let mut at = 0;
        while let Some(busy) = self.tables.protection.next_moving(at) {
            let _ = child.unprotect(busy.start, busy.length());
            at = busy.end;
        }
        let mut at = 0;
        while let Some(held) = self.tables.protection.next_held(at) {
            let _ = child.unprotect(held.start, held.length());
            at = held.end;
        }
    }

    fn listen_to(&mut self, child: Uffd) {
        let mut messages = [Message::default(); 16];
        loop {
            let read = child.read(&mut messages);
            for message in &messages[..read] {
                if message.event == Message::FORK {
                    self.adopt(message);
                } else {
                    // The access waits for no helper: the kernel provides the page.
                    let page = message.address as usize & !(PAGE - 1);
                    let _ = child.unregister(page, PAGE);
                    child.wake(page);
                }
            }
            if read < messages.len() {
                return;
            }
        }
    }
}
