//! The program's memory as its calls describe it: ranges that may be evicted, ranges that are in
//! the file already, and ranges that must be left alone. The hooks in the program's threads and the
//! helper share it.
//!
//! A forked child has a copy, which another thread may have been changing at that moment. Keeping
//! other threads out during a fork would mean waiting for libc's own locks, which a thread that
//! waits here may hold. So a child rebuilds the ranges from its mappings.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::maps::{self, FileId, Mapping};
use crate::page::spans::{Span, Spans};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Ranges of the program's memory; any beyond these are left alone.
const KNOWN: usize = 1 << 14;
/// Ranges in the file. Each is at least one mapping, and the kernel allows fewer mappings than
/// this.
const CONVERTED: usize = 1 << 16;
const EXCLUDED: usize = 1 << 10;
/// Ranges that cannot be watched: of files, locked, of huge pages. Any beyond these stay counted
/// for good.
const UNWATCHED: usize = 1 << 10;
/// Ranges that forked children do not inherit.
const UNFORKED: usize = 1 << 14;
/// Ranges that threads are about to release at the same time.
const RELEASING: usize = 256;
/// Ranges that wait for the helper.
const WAITING: usize = 256;

/// Ranges that the helper has not handled yet; if they overflow, it searches for them.
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

    /// Records that some ranges had no room.
    pub(crate) const fn overflow(&mut self) {
        self.overflow = true;
    }

    pub(crate) const fn clear(&mut self) {
        (self.used, self.overflow) = (0, false);
    }

    /// Returns true if some ranges had no room, and clears that state.
    pub(crate) fn overflowed(&mut self) -> bool {
        std::mem::take(&mut self.overflow)
    }
}

/// The record of a mapping.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    known: bool,
    unwatched: bool,
    lasting: bool,
    locked: bool,
}

/// The ranges. All zero means that there are none.
#[repr(C)]
pub(crate) struct Ranges {
    /// Private memory of the program.
    pub(crate) known: Spans<KNOWN>,
    /// Parts of it that are mappings of the file.
    pub(crate) converted: Spans<CONVERTED>,
    /// Ranges that must stay in DRAM.
    pub(crate) excluded: Spans<EXCLUDED>,
    /// Those of them that must for another reason than a lock, which the program may remove.
    lasting: Spans<EXCLUDED>,
    /// Ranges that the program has locked.
    pub(crate) locks: Spans<EXCLUDED>,
    /// Ranges that forked children do not inherit (`MADV_DONTFORK`), including those in the file.
    pub(crate) unforked: Spans<UNFORKED>,
    /// Writable private memory in which accesses cannot be made to wait.
    unwatched: Spans<UNWATCHED>,
    /// Bytes of it, and of ranges that had no room there.
    unwatched_bytes: usize,
    /// Ranges that the program is about to release, without the parts that another thread was given
    /// since.
    pub(crate) releasing: Spans<RELEASING>,
    /// Ranges that were in the file and that the program has released.
    pub(crate) given_back: Waiting,
    /// Ranges that the program has added since memory became short.
    pub(crate) fresh: Waiting,
}

impl Ranges {
    /// Records that the program made this range its own.
    pub(crate) fn add(&mut self, range: Span) {
        self.forget(range);
        self.known.insert(range);
        self.fresh.push(range);
    }

    /// Records that the program made this range its own, and that it cannot be watched.
    pub(crate) fn add_unwatched(&mut self, range: Span) {
        self.forget(range);
        self.unwatched.insert(range);
        self.unwatched_bytes += range.length();
    }

    /// Records that this range must stay in DRAM, for as long as the program has it. A range that
    /// has no room in the tables counts as one that is not the program's.
    pub(crate) fn exclude(&mut self, range: Span) {
        if !self.lasting.insert(range) || !self.excluded.insert(range) {
            self.known.remove(range);
        }
    }

    /// Records that the range is locked. One that has no room in the tables counts as one that is
    /// not the program's: the mapping of a file in its place would not be locked.
    pub(crate) fn lock(&mut self, range: Span) {
        if !self.excluded.insert(range) || !self.locks.insert(range) {
            self.known.remove(range);
        }
    }

    /// Records that the range is locked no more.
    pub(crate) fn unlock(&mut self, range: Span) {
        self.locks.remove(range);
        self.excluded.remove(range);
        for part in self.lasting.parts_in(range) {
            self.excluded.insert(part);
        }
    }

    /// Returns what is recorded about a mapping, which has one reason to stay in DRAM throughout.
    pub(crate) fn record_of(&self, range: Span) -> Record {
        Record {
            known: self.known.at(range.start).is_some(),
            unwatched: self.unwatched.touches(range),
            lasting: self.lasting.touches(range),
            locked: self.locks.touches(range),
        }
    }

    /// Records that the program moved a mapping to this range. Nothing is left of what was there.
    pub(crate) fn move_to(&mut self, range: Span, record: Record) {
        match (record.known, record.unwatched) {
            (true, _) => self.add(range),
            (false, true) => self.add_unwatched(range),
            (false, false) => self.forget(range),
        }
        if record.locked {
            self.lock(range);
        }
        if record.lasting {
            self.exclude(range);
        }
    }

    /// Records that the program no longer has what it was about to release in this range.
    pub(crate) fn forget_released(&mut self, range: Span) {
        loop {
            let part = self.releasing.first_in(range);
            if part.is_empty() {
                return;
            }
            self.forget(part);
        }
    }

    /// Records that the program no longer has this range.
    pub(crate) fn forget(&mut self, range: Span) {
        for part in self.converted.parts_in(range) {
            self.given_back.push(part);
        }
        self.converted.remove(range);
        self.known.remove(range);
        self.excluded.remove(range);
        self.lasting.remove(range);
        self.locks.remove(range);
        self.unforked.remove(range);
        self.releasing.remove(range);
        if self.unwatched.touches(range) {
            let before = self.unwatched.length();
            self.unwatched.remove(range);
            self.unwatched_bytes -= before.saturating_sub(self.unwatched.length());
        }
    }

    /// Returns true if a forked child may map slots with content: those that this process maps, or
    /// has released and not removed from the file.
    pub(crate) fn has_slots(&self) -> bool {
        self.converted.count() > 0 || !self.given_back.is_empty()
    }

    /// Records that forked children do not inherit the range. A range that has no room in the table
    /// stays in DRAM, so that no mapping of the file takes its place.
    pub(crate) fn keep_from_children(&mut self, range: Span) {
        if self.known.touches(range) && !self.unforked.insert(range) {
            self.exclude(range);
        }
    }

    fn clear(&mut self) {
        self.known.clear();
        self.converted.clear();
        self.excluded.clear();
        self.lasting.clear();
        self.locks.clear();
        self.unforked.clear();
        self.unwatched.clear();
        self.unwatched_bytes = 0;
        self.releasing.clear();
        self.given_back.clear();
        self.fresh.clear();
    }

    /// Adds a mapping of a forked child. Nothing is evicted in children, so nothing must be left
    /// alone.
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

    /// Returns the first part of `range` that can be converted; empty if there is none.
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

/// A page that is zero in a forked child: the lock is free there, and the ranges are unknown.
#[repr(C, align(4096))]
struct Here {
    lock: AtomicU32,
    /// One if the ranges are those of this process, otherwise zero.
    known: AtomicU32,
}

/// The ranges and their lock.
#[repr(C)]
pub(crate) struct Space {
    here: Here,
    ranges: UnsafeCell<Ranges>,
    /// The files with slots: their devices and inodes.
    files: [[AtomicU64; 2]; 2],
    /// True once any memory was put in a file.
    pub(crate) filed: AtomicBool,
    /// True if the program locked all of its memory.
    pub(crate) locked: AtomicBool,
    /// Bytes of new memory from which the program notifies the helper at once; zero if it does not,
    /// and nothing is watched.
    pub(crate) tell_from: AtomicUsize,
    /// Bytes of address space that the program has made writable, in total. It never decreases.
    grown: AtomicUsize,
    /// Bytes whose protection was changed so that they cannot be written, in total. It never
    /// decreases.
    shut: AtomicUsize,
    /// Bytes in which accesses cannot be made to wait, according to the ranges.
    unwatched: AtomicUsize,
    /// The value of [`grown`](Self::grown) above which the program notifies the helper; zero if the
    /// helper checks on its own.
    tell_beyond: AtomicUsize,
}

// SAFETY: the ranges are accessed under the lock only.
unsafe impl Sync for Space {}

static SPACE: AtomicPtr<Space> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the space, once it exists.
pub(crate) fn get() -> Option<&'static Space> {
    // SAFETY: the mapping is never removed, and zero is valid for every field.
    unsafe { SPACE.load(Ordering::Acquire).as_ref() }
}

/// Creates the space.
pub(crate) fn create() -> Result<&'static Space, Errno> {
    // Private, so that changes by a forked child are its own.
    let how = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
    let start = sys::map(size_of::<Space>(), sys::READ_WRITE, how)?;
    sys::advise(start, size_of::<Here>(), libc::MADV_WIPEONFORK)?;
    SPACE.store(start as *mut Space, Ordering::Release);
    let space = get().ok_or(Errno(libc::ENOMEM))?;
    space.here.known.store(1, Ordering::Release);
    Ok(space)
}

impl Space {
    /// Calls `look` on the ranges under the lock. `look` must not block, nor call any function that
    /// a hook replaces. A handler of a signal, which may call one, has to wait.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        touch_stack();
        sys::without_signals(|| {
            self.acquire();
            self.look_and_release(look)
        })
    }

    /// Does the same for the helper, which calls `meanwhile` while it waits: the lock holder may
    /// wait for a processor, or for the helper, if its stack is in memory that is being evicted.
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

    /// Calls `look` and releases the lock, which the caller holds.
    fn look_and_release<T>(&self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        // SAFETY: the lock is held.
        let ranges = unsafe { &mut *self.ranges.get() };
        if self.here.known.swap(1, Ordering::AcqRel) == 0 {
            // A child inherits no locks.
            self.locked.store(false, Ordering::Release);
            self.find_anew(ranges);
        }
        let result = look(ranges);
        self.unwatched.store(ranges.unwatched_bytes, Ordering::Release);
        self.release();
        result
    }

    /// Returns true if the program has locked all of its memory.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked.load(Ordering::Acquire)
    }

    /// Counts address space that was made writable; returns true if the helper must be notified.
    pub(crate) fn grow(&self, bytes: usize) -> bool {
        let grown = self.grown.fetch_add(bytes, Ordering::AcqRel).wrapping_add(bytes);
        let beyond = self.tell_beyond.load(Ordering::Acquire);
        beyond > 0 && grown > beyond
    }

    /// Counts address space that was made unwritable: its pages stay, but it no longer counts as
    /// writable.
    pub(crate) fn shut(&self, bytes: usize) {
        self.shut.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Returns the bytes that were made unwritable so far.
    pub(crate) fn was_shut(&self) -> usize {
        self.shut.load(Ordering::Acquire)
    }

    /// Returns the bytes in which accesses cannot be made to wait, without taking the lock.
    pub(crate) fn unwatched(&self) -> usize {
        self.unwatched.load(Ordering::Acquire)
    }

    /// Returns the bytes that were made writable so far; to be read before the pages are counted.
    pub(crate) fn grown(&self) -> usize {
        self.grown.load(Ordering::Acquire)
    }

    /// Makes the program notify the helper once there are `room` bytes more than at `grown`; zero
    /// if the helper checks on its own.
    pub(crate) fn tell_beyond(&self, grown: usize, room: usize) {
        let beyond = if room == 0 { 0 } else { grown.saturating_add(room) };
        self.tell_beyond.store(beyond, Ordering::Release);
    }

    /// Rebuilds the ranges of a forked child from its mappings, unless all of its memory is as it
    /// would be without the library. A child that cannot read its mappings (without `/proc`, or
    /// with too many files open) keeps the ranges of its parent.
    #[cold]
    #[inline(never)] // because of the text that it reads
    fn find_anew(&self, ranges: &mut Ranges) {
        if !self.filed.load(Ordering::Acquire) && self.tell_from.load(Ordering::Relaxed) == 0 {
            return ranges.clear();
        }
        let (files, mut is_first) = (self.files(), true);
        maps::for_each(|_, mapping| {
            if std::mem::take(&mut is_first) {
                ranges.clear();
            }
            ranges.found(mapping, files);
        });
    }

    /// Sets the identity of a file with slots: the first (0) or the second (1).
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
                // SAFETY: yields the processor, so that the lock holder can run.
                let _ = unsafe { sys!(libc::SYS_sched_yield) };
            }
            std::hint::spin_loop();
        }
    }

    fn release(&self) {
        self.here.lock.store(0, Ordering::Release);
    }
}

/// Touches the stack that is needed while the lock is held: less than a page. The stack may be
/// memory like any other, and its first touch may have to wait for the helper, which takes the lock
/// before it answers. A read is such a touch, and changes nothing behind the end of a small stack.
fn touch_stack() {
    // SAFETY: reads a byte of the stack, or of what lies below it.
    unsafe {
        std::arch::asm!(
            "test byte ptr [rsp - {page}], 0",
            page = const PAGE,
            options(nostack, readonly),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(ranges: &mut Ranges, from: Span, to: Span) {
        let record = ranges.record_of(from);
        ranges.forget(from);
        ranges.move_to(to, record);
    }

    extern "C" fn touch() {
        touch_stack();
    }

    #[test]
    fn memory_below_a_small_stack_is_left_alone() {
        const STACK: usize = PAGE / 2;
        let mut memory = vec![0xa5u8; 2 * PAGE + STACK];
        // SAFETY: zero is valid for both; the function runs on the end of the memory, and returns
        // to this one.
        unsafe {
            let mut contexts = std::mem::zeroed::<[libc::ucontext_t; 2]>();
            let [here, there] = contexts.each_mut().map(std::ptr::from_mut);
            assert_eq!(libc::getcontext(there), 0);
            (*there).uc_stack.ss_sp = memory.as_mut_ptr().add(2 * PAGE).cast();
            (*there).uc_stack.ss_size = STACK;
            (*there).uc_link = here;
            libc::makecontext(there, touch, 0);
            assert_eq!(libc::swapcontext(here, there), 0);
        }
        assert!(memory[..2 * PAGE].iter().all(|byte| *byte == 0xa5));
    }

    #[test]
    fn what_another_thread_is_given_is_not_released_with_what_was_there() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add(Span::new(0, 100));
        assert!(ranges.converted.insert(Span::new(0, 100)));
        assert!(ranges.releasing.insert(Span::new(0, 60)));
        ranges.add(Span::new(20, 30));
        ranges.forget_released(Span::new(0, 60));
        assert_eq!([10, 30, 50].map(|address| ranges.known.at(address)), [None; 3]);
        assert_eq!(ranges.known.at(25), Some(Span::new(20, 30)));
        assert_eq!(ranges.converted.next(0), Some(Span::new(60, 100)));
        assert_eq!(ranges.releasing.count(), 0);
    }

    #[test]
    fn what_is_given_back_waits_for_its_slots() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add(Span::new(0, 100));
        assert!(ranges.converted.insert(Span::new(20, 40)));
        assert!(ranges.converted.insert(Span::new(60, 80)));
        ranges.forget(Span::new(30, 70));
        assert_eq!(ranges.given_back.pop(), Some(Span::new(60, 70)));
        assert_eq!(ranges.given_back.pop(), Some(Span::new(30, 40)));
        assert!(ranges.given_back.is_empty());
        assert_eq!(ranges.known.at(35), None);
        assert_eq!(ranges.converted.at(75), Some(Span::new(70, 80)));
        ranges.forget(Span::new(0, 100));
        assert!(ranges.converted.count() == 0 && ranges.has_slots(), "a child may map them");
        while ranges.given_back.pop().is_some() {}
        assert!(!ranges.has_slots());
    }

    #[test]
    fn only_what_is_known_and_free_is_converted() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add(Span::new(10, 50));
        ranges.converted.insert(Span::new(10, 20));
        ranges.excluded.insert(Span::new(25, 30));
        assert_eq!(ranges.convertible(Span::new(0, 60)), Span::new(20, 25));
        assert_eq!(ranges.convertible(Span::new(25, 60)), Span::new(30, 50));
        assert!(ranges.convertible(Span::new(12, 20)).is_empty());
        assert!(ranges.convertible(Span::new(50, 60)).is_empty());
    }

    #[test]
    fn a_lock_that_is_gone_leaves_other_reasons_to_stay() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add(Span::new(0, 100));
        ranges.exclude(Span::new(20, 40));
        ranges.lock(Span::new(10, 60));
        ranges.unlock(Span::new(0, 100));
        assert_eq!(ranges.convertible(Span::new(0, 100)), Span::new(0, 20));
        assert_eq!(ranges.convertible(Span::new(20, 100)), Span::new(40, 100));
        moved(&mut ranges, Span::new(20, 40), Span::new(200, 230));
        assert!(ranges.convertible(Span::new(20, 40)).is_empty());
        assert!(ranges.convertible(Span::new(200, 230)).is_empty());
        ranges.unlock(Span::new(200, 230));
        assert!(ranges.convertible(Span::new(200, 230)).is_empty());
    }

    #[test]
    fn locked_memory_stays_although_the_table_is_full() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add(Span::new(0, 10 * EXCLUDED));
        (0..=EXCLUDED).for_each(|i| ranges.lock(Span::of(i * 4, 2)));
        assert!(ranges.convertible(Span::of(EXCLUDED * 4, 2)).is_empty());
        let free = Span::of(EXCLUDED * 4 + 2, 2);
        assert_eq!(ranges.convertible(free), free);
    }

    #[test]
    fn what_a_mapping_is_moved_over_is_gone() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add(Span::new(100, 200));
        ranges.converted.insert(Span::new(100, 150));
        ranges.add_unwatched(Span::new(0, 40));
        moved(&mut ranges, Span::new(0, 40), Span::new(110, 150));
        assert_eq!(ranges.known.at(110), None);
        assert_eq!(ranges.converted.at(100), Some(Span::new(100, 110)));
        assert_eq!(ranges.given_back.pop(), Some(Span::new(110, 150)));
        assert_eq!(ranges.unwatched_bytes, 40, "it cannot be watched there either");
        // Shared memory is neither.
        moved(&mut ranges, Span::new(500, 510), Span::new(150, 160));
        assert_eq!(ranges.known.at(150), None);
    }

    #[test]
    fn what_children_do_not_get_is_evictable_until_the_table_is_full() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add(Span::new(0, 10 * UNFORKED));
        ranges.keep_from_children(Span::new(1 << 40, 2 << 40));
        assert!(ranges.unforked.next(0).is_none(), "of what is not known");
        (0..=UNFORKED).for_each(|i| ranges.keep_from_children(Span::of(i * 4, 2)));
        let last = Span::of((UNFORKED - 1) * 4, 2);
        assert_eq!(ranges.convertible(last), last);
        assert!(ranges.convertible(Span::of(UNFORKED * 4, 2)).is_empty());
        ranges.unlock(Span::new(0, usize::MAX));
        assert!(ranges.convertible(Span::of(UNFORKED * 4, 2)).is_empty(), "no lock kept it");
        ranges.forget(Span::new(0, 8));
        assert_eq!(ranges.unforked.next(0), Some(Span::of(8, 2)));
    }

    #[test]
    fn what_cannot_be_watched_is_counted_as_long_as_it_is_there() {
        let mut ranges = crate::all_zero::<Ranges>();
        ranges.add_unwatched(Span::new(0, 100));
        ranges.add_unwatched(Span::new(50, 150));
        assert_eq!(ranges.unwatched_bytes, 150);
        ranges.add(Span::new(20, 30));
        ranges.forget(Span::new(140, 500));
        assert_eq!(ranges.unwatched_bytes, 130);
        // A range that has no room is counted, and never subtracted.
        (0..UNWATCHED).for_each(|i| ranges.add_unwatched(Span::of(1000 + i * 10, 5)));
        let all = 130 + UNWATCHED * 5;
        assert_eq!(ranges.unwatched_bytes, all);
        ranges.forget(Span::new(0, usize::MAX));
        assert_eq!(ranges.unwatched_bytes, 2 * 5);
    }

    #[test]
    fn a_child_knows_by_its_mappings_what_is_in_the_file() {
        let mut ranges = crate::all_zero::<Ranges>();
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
    fn a_child_inherits_no_locks() {
        let space = crate::all_zero::<Space>();
        space.locked.store(true, Ordering::Release);
        space.with(|ranges| assert!(ranges.locks.next(0).is_none()));
        assert!(!space.is_locked());
    }

    #[test]
    fn growth_beyond_what_was_agreed_is_told() {
        let space = crate::all_zero::<Space>();
        assert!(!space.grow(100), "nobody wants to hear of it");
        let before = space.grown();
        // The helper has not seen these bytes, so they count twice rather than not at all.
        assert!(!space.grow(30));
        space.tell_beyond(before, 50);
        assert!(!space.grow(20) && space.grow(1));
        space.tell_beyond(space.grown(), 0);
        assert!(!space.grow(1000));
    }

    #[test]
    fn what_has_no_room_to_wait_is_told() {
        let mut ranges = crate::all_zero::<Ranges>();
        (0..WAITING + 1).for_each(|i| ranges.add(Span::of(i * 10, 5)));
        assert!(ranges.fresh.overflowed() && !ranges.fresh.overflowed());
        assert!((0..WAITING).all(|_| ranges.fresh.pop().is_some()));
        assert!(ranges.fresh.is_empty());
    }
}
