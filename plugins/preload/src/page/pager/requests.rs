//! Requests of the program's threads, made by touching a page that only the helper can provide.

use std::sync::atomic::Ordering;

use super::Pager;
use crate::control::{Ask, REQUESTS};
use crate::page::spans::Span;
use crate::sys::Errno;
use crate::uffd::PAGE;

impl Pager<'_> {
    pub(super) fn is_bell(&self, page: usize) -> bool {
        let bells = self.start.control.doorbells.load(Ordering::Relaxed);
        Span::of(bells, REQUESTS * PAGE).contains(page)
    }

    /// Serves a request, and lets the thread continue.
    pub(super) fn serve_request(&mut self, bell: usize) {
        let control = self.start.control;
        let slot = (bell - control.doorbells.load(Ordering::Relaxed)) / PAGE;
        let request = &control.requests[slot];
        let range =
            Span::of(request.start.load(Ordering::Relaxed), request.length.load(Ordering::Relaxed));
        let more: [usize; 3] = std::array::from_fn(|i| request.more[i].load(Ordering::Relaxed));
        let answer = match request.take() {
            ask if ask == Ask::Watch as u32 => {
                self.watch(range);
                Ok(0)
            }
            ask if ask == Ask::Discard as u32 => self.discard(range).map(|()| 0),
            ask if ask == Ask::Restore as u32 => self.restore(range).map(|()| 0),
            ask if ask == Ask::Settle as u32 => self.settle(range).map(|()| 0),
            ask if ask == Ask::Move as u32 => self.relocate(range, more),
            // The helper performs a check after every request anyway.
            ask if ask == Ask::Look as u32 => Ok(0),
            _ => Err(Errno(libc::EINVAL)),
        };
        let answer = answer.unwrap_or_else(|Errno(errno)| -(errno as isize) as usize);
        request.answer.store(answer, Ordering::Release);
        while self.uffd.zero(bell) == Err(Errno(libc::EAGAIN)) {
            self.await_fork();
        }
        self.uffd.wake(bell);
    }
}
