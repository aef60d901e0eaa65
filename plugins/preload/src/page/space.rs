//! What the program's memory is made of, as its calls tell: which ranges may be evicted, which lie
//! in the file already, which must be left alone. Both the hooks in the program's threads and the
//! helper look here; a forked child has a copy.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::page::spans::{Span, Spans};
use crate::sys::{self, Errno, sys};

/// Ranges of the program's memory: what has no room here is left alone.
const KNOWN: usize = 1 << 14;
/// Ranges in the file. Each is a mapping at least, of which the kernel allows fewer.
const CONVERTED: usize = 1 << 16;
const EXCLUDED: usize = 1 << 10;
/// Ranges that cannot be watched: of files, locked, of huge pages. What has no room here is counted for good.
const UNWATCHED: usize = 1 << 10;
/// Ranges that wait for the helper.
const WAITING: usize = 256;

/// Ranges that the helper has yet to look at; more than have room are looked for.
#[repr(C)]
pub(crate) struct Waiting {
    used: usize,
    items: [Span; WAITING],
    overflow: bool,
}

impl Waiting {
    pub(crate) fn push(&mut self, span: Span) {
        match self.items.get_mut(self.used) {
            Some(free) => {
                *free = span;
                self.used += 1;
            }
            None => self.overflow = true,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0 && !self.overflow
    }

    pub(crate) fn pop(&mut self) -> Option<Span> {
        self.used = self.used.checked_sub(1)?;
        Some(self.items[self.used])
    }

    /// Says that some had no room.
    pub(crate) const fn overflow(&mut self) {
        self.overflow = true;
    }

    pub(crate) const fn clear(&mut self) {
        (self.used, self.overflow) = (0, false);
    }

    /// Whether some had no room.
    pub(crate) fn overflowed(&mut self) -> bool {
        std::mem::take(&mut self.overflow)
    }
}

/// The ranges. All zero: none.
#[repr(C)]
pub(crate) struct Ranges {
    /// Private memory of the program's own.
    pub(crate) known: Spans<KNOWN>,
    /// Those parts of it that are mappings of the file.
    pub(crate) converted: Spans<CONVERTED>,
    /// What must stay in DRAM.
    pub(crate) excluded: Spans<EXCLUDED>,
    /// Writable private memory in which no access can be made to wait.
    unwatched: Spans<UNWATCHED>,
    /// Bytes of it, and of what had no room there.
    unwatched_bytes: usize,
    /// What was in the file and is given back.
    pub(crate) given_back: Waiting,
    /// What is known since memory became short.
    pub(crate) fresh: Waiting,
}

impl Ranges {
    /// The program made this range its own.
    pub(crate) fn add(&mut self, range: Span) {
        self.forget(range);
        self.known.insert(range);
        self.fresh.push(range);
    }

    /// The program made this range its own, and it cannot be watched.
    pub(crate) fn add_unwatched(&mut self, range: Span) {
        self.forget(range);
        self.unwatched.insert(range);
        self.unwatched_bytes += range.length();
    }

    /// The program has this range no longer.
    pub(crate) fn forget(&mut self, range: Span) {
        let mut rest = range;
        loop {
            let part = self.converted.first_in(rest);
            if part.is_empty() {
                break;
            }
            self.given_back.push(part);
            rest.start = part.end;
        }
        self.converted.remove(range);
        self.known.remove(range);
        self.excluded.remove(range);
        if self.unwatched.touches(range) {
            let before = self.unwatched.length();
            self.unwatched.remove(range);
            self.unwatched_bytes -= before.saturating_sub(self.unwatched.length());
        }
    }

    /// The first part of `range` that can be converted; empty if none can.
    pub(crate) fn convertible(&self, range: Span) -> Span {
        let mut rest = range;
        while !rest.is_empty() {
            let known = self.known.first_in(rest);
            if known.is_empty() {
                return known;
            }
            let open = self.converted.first_out(known);
            let free = if open.is_empty() { open } else { self.excluded.first_out(open) };
            if !free.is_empty() {
                return free;
            }
            rest.start = if open.is_empty() { known.end } else { open.end };
        }
        Span::default()
    }
}

/// A page that is zero in a forked child, so that nobody holds the lock there.
#[repr(C, align(4096))]
struct Lock(AtomicU32);

/// The ranges, and who may look at them.
#[repr(C)]
pub(crate) struct Space {
    lock: Lock,
    ranges: UnsafeCell<Ranges>,
    /// The program locked all of its memory.
    pub(crate) locked: AtomicBool,
    /// Bytes of new memory that the helper wants to hear of at once; zero: none, and nothing is watched.
    pub(crate) tell_from: AtomicUsize,
    /// Bytes of address space that the program has made writable, in all. It never falls.
    grown: AtomicUsize,
    /// Bytes in which no access can be made to wait, as the ranges say.
    unwatched: AtomicUsize,
    /// What [`grown`](Self::grown) may come to before the helper wants to hear of it; zero: it looks
    /// by itself.
    tell_beyond: AtomicUsize,
}

// SAFETY: the ranges are looked at under the lock only.
unsafe impl Sync for Space {}

static SPACE: AtomicPtr<Space> = AtomicPtr::new(std::ptr::null_mut());

/// The space, once it exists.
pub(crate) fn get() -> Option<&'static Space> {
    // SAFETY: the mapping is never removed, and zero is valid for every field.
    unsafe { SPACE.load(Ordering::Acquire).as_ref() }
}

/// Makes the space.
pub(crate) fn create() -> Result<&'static Space, Errno> {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // Private, so that a forked child has a copy as of the fork.
    let start = sys::map(size_of::<Space>(), both, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
    sys::advise(start, size_of::<Lock>(), libc::MADV_WIPEONFORK)?;
    SPACE.store(start as *mut Space, Ordering::Release);
    get().ok_or(Errno(libc::ENOMEM))
}

impl Space {
    /// Looks at the ranges. `look` must not block, nor call anything that a hook replaces.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        self.acquire();
        self.look_and_release(look)
    }

    /// The same for the helper, which calls `meanwhile` while it waits: a thread that forks holds the
    /// lock, and waits for the helper.
    pub(crate) fn with_patience<T>(
        &self,
        mut meanwhile: impl FnMut(),
        look: impl FnOnce(&mut Ranges) -> T,
    ) -> T {
        while self.lock.0.swap(1, Ordering::Acquire) != 0 {
            meanwhile();
        }
        self.look_and_release(look)
    }

    /// To be called by who holds the lock.
    fn look_and_release<T>(&self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        // SAFETY: the lock is held.
        let ranges = unsafe { &mut *self.ranges.get() };
        let result = look(ranges);
        self.unwatched.store(ranges.unwatched_bytes, Ordering::Release);
        self.release();
        result
    }

    /// Whether the program has locked all of its memory.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Acquire)
    }

    /// Counts address space that was made writable. True if the helper is to hear of it.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let grown = self.grown.fetch_add(bytes, Ordering::AcqRel).wrapping_add(bytes);
        let beyond = self.tell_beyond.load(Ordering::Acquire);
        beyond > 0 && grown > beyond
    }

    /// Bytes in which no access can be made to wait. No look at the ranges.
    pub(crate) fn unwatched(&self) -> usize {
        self.unwatched.load(Ordering::Acquire)
    }

    /// What was made writable until now; to be asked for before looking how much there is.
    pub(crate) fn grown(&self) -> usize {
        self.grown.load(Ordering::Acquire)
    }

    /// From now on the helper wants to hear when there is so much more than there was at `grown`; zero:
    /// it looks by itself.
    pub(crate) fn tell_beyond(&self, grown: usize, room: usize) {
        let beyond = if room == 0 { 0 } else { grown.saturating_add(room) };
        self.tell_beyond.store(beyond, Ordering::Release);
    }

    /// Takes the lock; also for the time of a fork, so that the child's copy is whole.
    pub(crate) fn acquire(&self) {
        let mut tries = 0u32;
        while self.lock.0.swap(1, Ordering::Acquire) != 0 {
            tries += 1;
            if tries.is_multiple_of(64) {
                // SAFETY: lets who holds the lock run.
                let _ = unsafe { sys!(libc::SYS_sched_yield) };
            }
            std::hint::spin_loop();
        }
    }

    pub(crate) fn release(&self) {
        self.lock.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges() -> Box<Ranges> {
        // SAFETY: zero is valid for every field.
        unsafe { Box::<Ranges>::new_zeroed().assume_init() }
    }

    #[test]
    fn what_is_given_back_waits_for_its_slots() {
        let mut ranges = ranges();
        ranges.add(Span::new(0, 100));
        assert!(ranges.converted.insert(Span::new(20, 40)));
        assert!(ranges.converted.insert(Span::new(60, 80)));
        ranges.forget(Span::new(30, 70));
        assert_eq!(ranges.given_back.pop(), Some(Span::new(60, 70)));
        assert_eq!(ranges.given_back.pop(), Some(Span::new(30, 40)));
        assert!(ranges.given_back.is_empty());
        assert_eq!(ranges.known.at(35), None);
        assert_eq!(ranges.converted.at(75), Some(Span::new(70, 80)));
    }

    #[test]
    fn only_what_is_known_and_free_is_converted() {
        let mut ranges = ranges();
        ranges.add(Span::new(10, 50));
        ranges.converted.insert(Span::new(10, 20));
        ranges.excluded.insert(Span::new(25, 30));
        assert_eq!(ranges.convertible(Span::new(0, 60)), Span::new(20, 25));
        assert_eq!(ranges.convertible(Span::new(25, 60)), Span::new(30, 50));
        assert!(ranges.convertible(Span::new(12, 20)).is_empty());
        assert!(ranges.convertible(Span::new(50, 60)).is_empty());
    }

    #[test]
    fn what_cannot_be_watched_is_counted_as_long_as_it_is_there() {
        let mut ranges = ranges();
        ranges.add_unwatched(Span::new(0, 100));
        ranges.add_unwatched(Span::new(50, 150));
        assert_eq!(ranges.unwatched_bytes, 150);
        ranges.add(Span::new(20, 30));
        ranges.forget(Span::new(140, 500));
        assert_eq!(ranges.unwatched_bytes, 130);
        // What has no room is counted, and never taken off.
        (0..UNWATCHED).for_each(|i| ranges.add_unwatched(Span::of(1000 + i * 10, 5)));
        let all = 130 + UNWATCHED * 5;
        assert_eq!(ranges.unwatched_bytes, all);
        ranges.forget(Span::new(0, usize::MAX));
        assert_eq!(ranges.unwatched_bytes, 2 * 5);
    }

    #[test]
    fn growth_beyond_what_was_agreed_is_told() {
        // SAFETY: zero is valid for every field.
        let space = unsafe { Box::<Space>::new_zeroed().assume_init() };
        assert!(!space.grow(100), "nobody wants to hear of it");
        let before = space.grown();
        // Not yet seen when the helper looked, and so counted twice rather than not at all.
        assert!(!space.grow(30));
        space.tell_beyond(before, 50);
        assert!(!space.grow(20) && space.grow(1));
        space.tell_beyond(space.grown(), 0);
        assert!(!space.grow(1000));
    }

    #[test]
    fn what_has_no_room_to_wait_is_told() {
        let mut ranges = ranges();
        (0..WAITING + 1).for_each(|i| ranges.add(Span::of(i * 10, 5)));
        assert!(ranges.fresh.overflowed() && !ranges.fresh.overflowed());
        assert!((0..WAITING).all(|_| ranges.fresh.pop().is_some()));
        assert!(ranges.fresh.is_empty());
    }
}
