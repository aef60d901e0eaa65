//! Communication between the program's threads and the helper, in the program's memory.
//!
//! The pages are wiped in a forked child (`MADV_WIPEONFORK`), so a child sees at once that it has
//! no helper, however it was forked.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memweir_abi::preload::MAX_PRELOAD_COLORS;

use crate::sys::{self, Errno, sys};
use crate::uffd::{MISSING, PAGE, Uffd};

/// Requests that can wait at the same time.
pub(crate) const REQUESTS: usize = 64;
/// Threads that can have their own colors.
pub(crate) const THREADS: usize = 1024;
/// Ranges of memory that can have their own colors.
pub(crate) const REGIONS: usize = 1024;
/// Different sets of colors; the first is that of the process.
pub(crate) const SETS: usize = 64;
/// Words of a set.
pub(crate) const SET_WORDS: usize = MAX_PRELOAD_COLORS as usize / 64;

/// A request of a thread to the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Ask {
    /// Place the pages of this range.
    Watch = 1,
    /// Leave this range alone, because it has another userfaultfd.
    Leave = 2,
    /// Fill this range with zeros: the program dropped its content.
    Discard = 3,
    /// Make this range plain memory without a file, permanently.
    Restore = 4,
    /// Merge the mappings of this range as far as possible.
    Settle = 5,
    /// Move this range: its new length, flags of `mremap` and the new address follow. The answer is
    /// the new address, or an error as the kernel would return it.
    Move = 6,
    /// Check how much memory there is: it may be more than was agreed.
    Look = 7,
}

/// No request is pending, or the helper has taken it.
const NOTHING: u32 = 0;

/// One request.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Request {
    pub(crate) ask: AtomicU32,
    pub(crate) start: AtomicUsize,
    pub(crate) length: AtomicUsize,
    pub(crate) more: [AtomicUsize; 3],
    pub(crate) answer: AtomicUsize,
}

impl Request {
    /// Takes the request, once: a thread that locks all memory touches every doorbell again, and
    /// must not change an answer. The other words belong to the request from then on. For the
    /// helper.
    pub(crate) fn take(&self) -> Option<u32> {
        let ask = self.ask.swap(NOTHING, Ordering::AcqRel);
        (ask != NOTHING).then_some(ask)
    }
}

/// Marks a missing answer: no address and no error has this value.
const UNANSWERED: usize = usize::MAX - 8192;

/// The helper has started and closed the program's files.
pub(crate) const STARTED: u32 = 1;
/// The helper answers requests.
pub(crate) const READY: u32 = 2;
/// The helper has given up.
pub(crate) const GONE: u32 = 3;

/// The shared words. All zero means that nothing has started.
#[repr(C)]
pub(crate) struct Control {
    /// [`STARTED`], [`READY`] or [`GONE`].
    pub(crate) state: AtomicU32,
    /// The helper changes pages while [`MENDING`] is set; the bits below it count the threads that
    /// change mappings.
    pub(crate) gate: AtomicU32,
    /// Process number of the helper, which the kernel clears when the helper ends.
    pub(crate) helper: AtomicI32,
    /// Forks since the helper last checked.
    pub(crate) forks: AtomicU32,
    /// A number that identifies this helper.
    pub(crate) cookie: AtomicU64,
    /// Pages whose fault is a request; see [`Control::ask`].
    pub(crate) doorbells: AtomicUsize,
    /// Requests in use.
    pub(crate) busy: AtomicU64,
    pub(crate) requests: [Request; REQUESTS],
    /// Thread id in the upper half, number of the set in the lower; zero if free.
    pub(crate) threads: [AtomicU64; THREADS],
    /// Start, end and set of ranges with their own colors; a start of zero marks a free entry.
    pub(crate) regions: [[AtomicUsize; 3]; REGIONS],
    /// One while a thread adds a set.
    pub(crate) adding_set: AtomicU32,
    pub(crate) sets_used: AtomicU32,
    pub(crate) sets: [[AtomicU64; SET_WORDS]; SETS],
}

/// Bit of [`Control::gate`] that the helper sets.
pub(crate) const MENDING: u32 = 1 << 31;

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the control pages, once they exist.
pub(crate) fn get() -> Option<&'static Control> {
    // SAFETY: the mapping is never removed, zero is valid for every field, and all are atomic.
    unsafe { CONTROL.load(Ordering::Acquire).as_ref() }
}

/// Creates the control pages.
pub(crate) fn create() -> Result<&'static Control, Errno> {
    let length = size_of::<Control>().next_multiple_of(PAGE);
    let start = sys::map(length, sys::READ_WRITE, libc::MAP_PRIVATE)?;
    sys::advise(start, length, libc::MADV_WIPEONFORK)?;
    CONTROL.store(start as *mut Control, Ordering::Release);
    get().ok_or(Errno(libc::ENOMEM))
}

impl Control {
    /// Populates every page of the control words: the helper reads them, and cannot answer a page
    /// fault of its own.
    pub(crate) fn provide(&self) -> Result<(), Errno> {
        let length = size_of::<Self>().next_multiple_of(PAGE);
        sys::advise(std::ptr::from_ref(self) as usize, length, sys::MADV_POPULATE_WRITE)
    }

    /// Returns true if a helper answers.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) == READY
    }

    /// Returns true if a helper may move pages. In a forked child it begins before it answers.
    pub(crate) fn may_move(&self) -> bool {
        (STARTED..GONE).contains(&self.state.load(Ordering::Acquire))
    }

    /// Sets the state and wakes the threads that wait for it.
    pub(crate) fn announce(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: wakes waiters on a word of this library.
        let _ = unsafe { sys!(libc::SYS_futex, self.state.as_ptr(), wake, i32::MAX) };
    }

    /// Waits until the state is at least `wanted`, or the helper is dead.
    pub(crate) fn await_state(&self, wanted: u32) {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state >= wanted || !self.helper_lives() {
                return;
            }
            let time = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: waits on a word of this library.
            let _ =
                unsafe { sys!(libc::SYS_futex, self.state.as_ptr(), wait, state, &raw const time) };
        }
    }

    /// Returns true if the helper lives; announces its death, which it cannot do itself.
    pub(crate) fn look_after_helper(&self) -> bool {
        let lives = self.helper_lives();
        if !lives {
            self.announce(GONE);
        }
        lives
    }

    fn helper_lives(&self) -> bool {
        self.helper.load(Ordering::Acquire) != 0
    }

    /// Keeps the helper from moving pages while a mapping changes: a page that is away for a
    /// microsecond must neither be forked without its content, nor come back after it was released.
    /// Returns true if [`leave`](Self::leave) must follow.
    pub(crate) fn enter(&self) -> bool {
        if !self.may_move() {
            return false;
        }
        let mut waited = 0u32;
        loop {
            let gate = self.gate.load(Ordering::Relaxed);
            if gate & MENDING == 0 {
                let next = gate + 1;
                let order = (Ordering::Acquire, Ordering::Relaxed);
                if self.gate.compare_exchange_weak(gate, next, order.0, order.1).is_ok() {
                    return true;
                }
                continue;
            }
            sys::sleep_micros(10);
            waited += 1;
            if waited.is_multiple_of(1000) && !self.look_after_helper() {
                return false;
            }
        }
    }

    /// Undoes [`enter`](Self::enter).
    pub(crate) fn leave(&self) {
        self.gate.fetch_sub(1, Ordering::Release);
    }

    /// Waits a moment until no thread changes mappings, and keeps threads from it; returns false if
    /// some do so for longer. For the helper.
    pub(crate) fn close_gate(&self) -> bool {
        self.gate.fetch_or(MENDING, Ordering::AcqRel);
        for _ in 0..100 {
            if self.gate.load(Ordering::Acquire) == MENDING {
                return true;
            }
            sys::sleep_micros(10);
        }
        self.open_gate();
        false
    }

    /// Undoes [`close_gate`](Self::close_gate).
    pub(crate) fn open_gate(&self) {
        self.gate.fetch_and(!MENDING, Ordering::Release);
    }

    /// Maps the pages by which threads send requests, and watches them. For the helper.
    pub(crate) fn make_doorbells(&self, uffd: Uffd) -> Result<(), Errno> {
        let doorbells = sys::map(REQUESTS * PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        sys::advise(doorbells, REQUESTS * PAGE, libc::MADV_DONTFORK)?;
        uffd.register(doorbells, REQUESTS * PAGE, MISSING)?;
        self.doorbells.store(doorbells, Ordering::Release);
        Ok(())
    }

    /// Returns the request of a thread that waits for the page; `None` if it has none.
    pub(crate) fn request_at(&self, page: usize) -> Option<&Request> {
        let doorbells = self.doorbells.load(Ordering::Relaxed);
        self.requests.get(page.checked_sub(doorbells)? / PAGE)
    }

    /// Sends a request to the helper and waits for the answer, by touching a page that only the
    /// helper can provide. If the helper is dead, the kernel provides the page, so no thread waits
    /// forever.
    pub(crate) fn ask(&self, ask: Ask, start: usize, length: usize) {
        self.ask_more(ask, start, length, [0; 3]);
    }

    /// Does the same with more arguments; returns the answer. `None` if the helper does not answer,
    /// or too many requests wait.
    pub(crate) fn ask_more(
        &self,
        ask: Ask,
        start: usize,
        length: usize,
        more: [usize; 3],
    ) -> Option<usize> {
        if !self.is_ready() {
            return None;
        }
        let doorbells = self.doorbells.load(Ordering::Acquire);
        let slot = self.claim()?;
        let request = &self.requests[slot];
        request.start.store(start, Ordering::Relaxed);
        request.length.store(length, Ordering::Relaxed);
        request
            .more
            .iter()
            .zip(more)
            .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        request.answer.store(UNANSWERED, Ordering::Relaxed);
        request.ask.store(ask as u32, Ordering::Release);
        let bell = doorbells + slot * PAGE;
        // Twice if the page was present already, as it is if the program has locked all of its
        // memory.
        for _ in 0..2 {
            // SAFETY: the page is mapped, readable, and belongs to this slot alone.
            unsafe { std::ptr::read_volatile(bell as *const u8) };
            let _ = sys::advise(bell, PAGE, sys::MADV_DONTNEED_LOCKED);
            if request.ask.load(Ordering::Acquire) == NOTHING {
                break;
            }
        }
        let answer = request.answer.load(Ordering::Acquire);
        self.busy.fetch_and(!(1 << slot), Ordering::Release);
        (answer != UNANSWERED).then_some(answer)
    }

    /// Claims a free request; `None` if all are taken, in which case the helper detects the change
    /// later.
    fn claim(&self) -> Option<usize> {
        loop {
            let busy = self.busy.load(Ordering::Relaxed);
            let slot = (!busy).trailing_zeros() as usize;
            if slot >= REQUESTS {
                return None;
            }
            let taken = busy | 1 << slot;
            let order = (Ordering::Acquire, Ordering::Relaxed);
            if self.busy.compare_exchange_weak(busy, taken, order.0, order.1).is_ok() {
                return Some(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once() {
        let request = Request::default();
        assert_eq!(request.take(), None);
        request.ask.store(Ask::Move as u32, Ordering::Release);
        assert_eq!([request.take(), request.take()], [Some(Ask::Move as u32), None]);
    }

    #[test]
    fn mappings_wait_for_a_helper_that_does_not_answer_yet() {
        let control = crate::all_zero::<Control>();
        assert!(!control.enter(), "there is none");
        control.announce(STARTED);
        assert!(control.enter());
        assert!(!control.close_gate(), "a mapping changes");
        control.leave();
        assert!(control.close_gate());
        control.open_gate();
        control.announce(GONE);
        assert!(!control.enter());
    }
}
