//! What the program's memory is made of, as its calls tell: which ranges may be evicted, which lie
//! in the file already, which must be left alone. Both the hooks in the program's threads and the
//! helper look here.
//!
//! A forked child has a copy, in the middle of whatever another thread did to it. To keep others from it for
//! the time of a fork would be to wait for libc's own locks, which a thread may hold that waits here. So a
//! child finds out anew what its memory is made of, from its mappings.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::maps::{self, FileId, Mapping};
use crate::page::spans::{Span, Spans};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Ranges of the program's memory: what has no room here is left alone.
const KNOWN: usize = 1 << 14;
/// Ranges in the file. Each is a mapping at least, of which the kernel allows fewer.
const CONVERTED: usize = 1 << 16;
const EXCLUDED: usize = 1 << 10;
/// Ranges that cannot be watched: of files, locked, of huge pages. What has no room here is counted for good.
const UNWATCHED: usize = 1 << 10;
/// Ranges that forked children do not get.
const UNFORKED: usize = 1 << 14;
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
    /// What forked children do not get (`MADV_DONTFORK`), also while it is in the file.
    pub(crate) unforked: Spans<UNFORKED>,
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
        self.unforked.remove(range);
        if self.unwatched.touches(range) {
            let before = self.unwatched.length();
            self.unwatched.remove(range);
            self.unwatched_bytes -= before.saturating_sub(self.unwatched.length());
        }
    }

    /// Forked children do not get the range. A range that has no room in the table stays in DRAM,
    /// so that no mapping of the file takes its place.
    pub(crate) fn keep_from_children(&mut self, range: Span) {
        if self.known.touches(range) && !self.unforked.insert(range) {
            self.excluded.insert(range);
        }
    }

    fn clear(&mut self) {
        self.known.clear();
        self.converted.clear();
        self.excluded.clear();
        self.unforked.clear();
        self.unwatched.clear();
        self.unwatched_bytes = 0;
        self.given_back.clear();
        self.fresh.clear();
    }

    /// What a forked child has, by one of its mappings. Nobody evicts there, so nothing has to be left alone.
    fn found(&mut self, mapping: Mapping, files: [FileId; 2]) {
        let range = Span::new(mapping.start, mapping.end);
        let in_file = mapping.file != FileId::default() && files.contains(&mapping.file);
        if in_file {
            self.converted.insert(range);
        }
        if in_file || mapping.anonymous {
            self.known.insert(range);
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

/// A page that is zero in a forked child: nobody holds the lock there, and nothing is known.
#[repr(C, align(4096))]
struct Here {
    lock: AtomicU32,
    /// Whether the ranges are those of this process: zero or one.
    known: AtomicU32,
}

/// The ranges, and who may look at them.
#[repr(C)]
pub(crate) struct Space {
    here: Here,
    ranges: UnsafeCell<Ranges>,
    /// The files that have slots: their devices and inodes.
    files: [[AtomicU64; 2]; 2],
    /// Whether memory was ever put in a file.
    pub(crate) filed: AtomicBool,
    /// The program locked all of its memory.
    pub(crate) locked: AtomicBool,
    /// Bytes of new memory that the helper wants to hear of at once; zero: none, and nothing is watched.
    pub(crate) tell_from: AtomicUsize,
    /// Bytes of address space that the program has made writable, in all. It never falls.
    grown: AtomicUsize,
    /// Bytes whose protection was changed so that they cannot be written, in all. It never falls.
    shut: AtomicUsize,
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
    // Private, so that what a forked child does to it is its own.
    let start = sys::map(size_of::<Space>(), both, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
    sys::advise(start, size_of::<Here>(), libc::MADV_WIPEONFORK)?;
    SPACE.store(start as *mut Space, Ordering::Release);
    let space = get().ok_or(Errno(libc::ENOMEM))?;
    space.here.known.store(1, Ordering::Release);
    Ok(space)
}

impl Space {
    /// Looks at the ranges. `look` must not block, nor call anything that a hook replaces.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        touch_stack();
        self.acquire();
        self.look_and_release(look)
    }

    /// The same for the helper, which calls `meanwhile` while it waits: who holds the lock may be waiting
    /// for a processor, or for the helper, if its stack is in memory that is just being evicted.
    pub(crate) fn with_patience<T>(
        &self,
        mut meanwhile: impl FnMut(),
        look: impl FnOnce(&mut Ranges) -> T,
    ) -> T {
        while self.here.lock.swap(1, Ordering::Acquire) != 0 {
            meanwhile();
        }
        self.look_and_release(look)
    }

    /// To be called by who holds the lock.
    fn look_and_release<T>(&self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        // SAFETY: the lock is held.
        let ranges = unsafe { &mut *self.ranges.get() };
        if self.here.known.swap(1, Ordering::AcqRel) == 0 {
            self.find_anew(ranges);
        }
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

    /// Counts address space that was made unwritable: its pages stay, but it is no longer among what
    /// can be written.
    pub(crate) fn shut(&self, bytes: usize) {
        self.shut.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Bytes that were made unwritable until now.
    pub(crate) fn was_shut(&self) -> usize {
        self.shut.load(Ordering::Acquire)
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

    /// Finds out what the memory of a forked child is made of, unless all of it is as it would be without
    /// the library.
    #[cold]
    #[inline(never)] // because of the text that it reads
    fn find_anew(&self, ranges: &mut Ranges) {
        ranges.clear();
        if self.filed.load(Ordering::Acquire) || self.tell_from.load(Ordering::Relaxed) > 0 {
            let files = self.files();
            maps::for_each(|_, mapping| ranges.found(mapping, files));
        }
    }

    /// Says which file has slots: the first, or the second.
    pub(crate) fn set_file(&self, number: usize, file: FileId) {
        let [device, inode] = &self.files[number];
        device.store(file.device, Ordering::Relaxed);
        inode.store(file.inode, Ordering::Release);
    }

    fn files(&self) -> [FileId; 2] {
        self.files.each_ref().map(|[device, inode]| FileId {
            inode: inode.load(Ordering::Acquire),
            device: device.load(Ordering::Relaxed),
        })
    }

    fn acquire(&self) {
        let mut tries = 0u32;
        while self.here.lock.swap(1, Ordering::Acquire) != 0 {
            tries += 1;
            if tries.is_multiple_of(64) {
                // SAFETY: lets who holds the lock run.
                let _ = unsafe { sys!(libc::SYS_sched_yield) };
            }
            std::hint::spin_loop();
        }
    }

    fn release(&self) {
        self.here.lock.store(0, Ordering::Release);
    }
}

/// Touches what the stack needs while the lock is held: less than a page. It may be memory like any other, and
/// its first touch have to wait for the helper, which looks at the ranges before it answers.
#[inline(never)]
fn touch_stack() {
    let mut room = std::mem::MaybeUninit::<[u8; PAGE]>::uninit();
    // Or the compiler leaves room for the byte that is written alone.
    let room = std::hint::black_box(&mut room);
    // SAFETY: the first byte, which is the lowest.
    unsafe { room.as_mut_ptr().cast::<u8>().write_volatile(0) };
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
    fn what_children_do_not_get_is_evictable_until_the_table_is_full() {
        let mut ranges = ranges();
        ranges.add(Span::new(0, 10 * UNFORKED));
        ranges.keep_from_children(Span::new(1 << 40, 2 << 40));
        assert!(ranges.unforked.next(0).is_none(), "of what is not known");
        (0..=UNFORKED).for_each(|i| ranges.keep_from_children(Span::of(i * 4, 2)));
        let last = Span::of((UNFORKED - 1) * 4, 2);
        assert_eq!(ranges.convertible(last), last);
        assert!(ranges.convertible(Span::of(UNFORKED * 4, 2)).is_empty());
        ranges.forget(Span::new(0, 8));
        assert_eq!(ranges.unforked.next(0), Some(Span::of(8, 2)));
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
    fn a_child_knows_by_its_mappings_what_is_in_the_file() {
        let mut ranges = ranges();
        ranges.add(Span::new(0, 1 << 40));
        ranges.excluded.insert(Span::new(5, 6));
        let line = |text: &[u8]| maps::parse(text).unwrap();
        let filed = line(
            b"7f0000000000-7f0000003000 rw-p 00000000 00:01 1037 /memfd:memweir-nvm (deleted)",
        );
        let other = line(b"7f0000003000-7f0000004000 rw-p 00000000 00:02 1037 /tmp/x");
        let plain = line(b"7f0000004000-7f0000005000 rw-p 00000000 00:00 0 ");
        ranges.clear();
        for mapping in [filed, other, plain] {
            ranges.found(mapping, [filed.file, FileId::default()]);
        }
        let pages = |start: usize, end: usize| {
            Some(Span::new(0x7f00_0000_0000 + start * 4096, 0x7f00_0000_0000 + end * 4096))
        };
        assert_eq!(ranges.converted.at(0x7f00_0000_0000), pages(0, 3));
        assert_eq!(ranges.known.at(0x7f00_0000_0000), pages(0, 3));
        assert_eq!(ranges.known.at(0x7f00_0000_4000), pages(4, 5));
        assert!(ranges.excluded.at(5).is_none() && ranges.fresh.is_empty());
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
