//! Forks: a child maps the slots that its parent mapped, so no evicted page may change until the
//! child's memory is gone ([`Children`](super::children::Children)).

use memweir_abi::preload::page::PageCounter;

use super::Monitor;
use crate::page::spans::Span;
use crate::sys::{self, Errno};
use crate::uffd::{Message, PAGE, Uffd, WRITES};

impl Monitor {
    /// Releases new children, and finds those that have ended or started another program.
    pub(in crate::page::pager) fn look_after_children(&mut self) {
        while let Some(child) = self.tables.children.next_new() {
            self.settle_child(child);
        }
        let (has_slots, doorbells) = (self.ranges(|ranges| ranges.has_slots()), self.doorbells());
        let mut at = 0;
        while let Some(child) = self.tables.children.get(at) {
            self.listen_to(child);
            // The request names no page of the child: it tells whether the child has memory.
            if has_slots && child.unprotect(doorbells, PAGE) != Err(Errno(libc::ESRCH)) {
                at += 1;
            } else {
                self.tables.children.remove(at);
            }
        }
        if let Some(since) = self.tables.children.end_pause() {
            self.count_pause(since);
        }
    }

    /// Counts a pause of evictions that began at `since` and ends now.
    pub(in crate::page::pager) fn count_pause(&self, since: u64) {
        let nanos = (sys::micros() - since) * 1000;
        self.tally.add(PageCounter::ForkPauseNanos, nanos as usize);
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
                if self.copies && !file.is_empty() {
                    let _ = child.unregister(file.start, file.length());
                    let _ = child.register(file.start, file.length(), WRITES);
                }
                rest.start = if plain.is_empty() { rest.end } else { plain.end };
            }
            at = known.end;
        }
        let mut at = 0;
        while let Some(protected) = self.tables.protection.next(at) {
            let _ = child.unprotect(protected.start, protected.length());
            at = protected.end;
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
