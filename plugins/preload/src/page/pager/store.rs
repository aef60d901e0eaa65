//! The store of evicted pages in NVM: the files, the slots of pages in them, and the emulation of a
//! slower medium. It performs step 3 of the protocol that [`page`](crate::page) argues for, and
//! removes slots for step 2; when that is allowed is decided elsewhere.

mod files;

use memweir_abi::preload::page::{PageCounter, Slowdown};

use super::pages::CLUSTER;
use super::{Place, Start};
use crate::page::slots::{self, SLOTS, Slots};
use crate::page::spans::Span;
use crate::page::tally::Tally;
use crate::sys::{self, Errno, sys};
use crate::uffd::{self, PAGE};
use files::Files;

/// Bytes of a huge page.
pub(super) const CHUNK: usize = CLUSTER * PAGE;
const CHUNKS: usize = SLOTS * PAGE / CHUNK;

/// A set of chunks of slots. All zero means empty.
#[repr(C)]
struct Chunks([u64; CHUNKS / 64]);

impl Chunks {
    fn has(&self, chunk: usize) -> bool {
        self.0.get(chunk / 64).is_some_and(|word| word >> (chunk % 64) & 1 == 1)
    }

    fn set(&mut self, chunk: usize, member: bool) {
        if let Some(word) = self.0.get_mut(chunk / 64) {
            *word = *word & !(1 << (chunk % 64)) | u64::from(member) << (chunk % 64);
        }
    }
}

const fn chunk_of(slot: u32) -> usize {
    slot as usize / CLUSTER
}

/// Tables of the store, which are too large for the stack. All zero means that no page has a slot.
#[repr(C)]
pub(super) struct StoreTables {
    slots: Slots,
    /// Chunks whose slots are in the file of huge pages.
    huge: Chunks,
    /// Those of them that are not watched: none of their pages was a victim since all of them left.
    unwatched: Chunks,
}

/// Origin of new pages.
pub(super) enum Source {
    /// The node of slow memory, if the file should lie there.
    Nvm,
    Anywhere,
}

/// The store.
///
/// - A page has the same slot for as long as anything of its window is mapped, so a fault that is
///   late finds the slot that it looked at.
/// - The slots of a chunk lie in one file from [`choose_file`](Self::choose_file) until nothing of
///   it is mapped.
/// - Only chunks of the file of huge pages are unwatched.
pub(super) struct Store {
    tables: &'static mut StoreTables,
    files: Files,
    place: Place,
    /// True if every access to an evicted page copies it.
    copies: bool,
    slowdown: Option<Slowdown>,
    /// Nanoseconds to copy a page in DRAM, if a slower medium is emulated.
    copy_nanos: f64,
    tally: Tally,
}

impl Store {
    /// Creates the files.
    pub(super) fn create(start: &Start, tables: &'static mut StoreTables) -> Result<Self, Errno> {
        Ok(Self {
            tables,
            files: Files::create(start.place)?,
            place: start.place,
            copies: start.copies,
            slowdown: start.delay,
            copy_nanos: 0.0,
            tally: start.tally,
        })
    }

    /// Returns the slot of the page at `address`, if its window has slots.
    pub(super) fn slot(&self, address: usize) -> Option<u32> {
        self.tables.slots.slot(address)
    }

    /// Iterates over the slots of the pages of a range that have some.
    pub(super) fn slots_in(&self, range: Span) -> impl Iterator<Item = u32> {
        range.pages().filter_map(|page| self.slot(page))
    }

    /// Returns the address of the page that has the slot.
    pub(super) fn address(&self, slot: u32) -> usize {
        self.tables.slots.address(slot)
    }

    /// Assigns slots to the window of `address`, if necessary those of a window for which
    /// `is_unused` is true; returns false if there are none.
    pub(super) fn make_slots(&mut self, address: usize, is_unused: impl Fn(Span) -> bool) -> bool {
        self.tables.slots.make(address, is_unused).is_some()
    }

    /// Iterates over the files.
    pub(super) fn files(&self) -> impl Iterator<Item = i32> + use<> {
        self.files.each()
    }

    /// Returns the bytes that the files occupy.
    pub(super) fn used(&self) -> usize {
        self.files.used()
    }

    /// Records that writes to the chunk of `address` can be made to wait from now on.
    pub(super) fn mark_watched(&mut self, address: usize) {
        if let Some(slot) = self.slot(address) {
            self.tables.unwatched.set(chunk_of(slot), false);
        }
    }

    /// Reads the content of a slot, as many words as there is room for.
    pub(super) fn read(&self, slot: u32, content: &mut [u64]) -> Result<usize, Errno> {
        sys::read_words_at(self.file(slot), content, slots::offset(slot) as u64)
    }

    /// Reads the content of a slot to the page at `target`, which is new memory.
    pub(super) fn read_to(&self, slot: u32, target: usize) -> Result<(), Errno> {
        let (file, offset) = (self.file(slot), slots::offset(slot));
        // SAFETY: the kernel writes to memory that no other code uses yet.
        unsafe { sys!(libc::SYS_pread64, file, target, PAGE, offset) }.map(drop)
    }

    /// Returns the file that holds the slot.
    fn file(&self, slot: u32) -> i32 {
        let huge = self.files.huge.filter(|_| self.tables.huge.has(chunk_of(slot)));
        huge.unwrap_or(self.files.single)
    }

    /// Returns true if the slots of the chunk can be a huge page, as far as the files are
    /// concerned.
    pub(super) fn takes_huge(&self, chunk: Span) -> bool {
        let aligned = chunk.length() == CHUNK && chunk.start.is_multiple_of(CHUNK);
        self.files.huge.is_some() && aligned && !self.copies
    }

    /// Returns true if the chunk of `address` has a huge page.
    pub(super) fn is_huge(&self, address: usize) -> bool {
        self.tables.slots.slot(address).is_some_and(|slot| self.tables.huge.has(chunk_of(slot)))
    }

    /// Returns true if slots of the range, of one chunk or two, may be parts of larger pages, which
    /// the kernel may refuse to split at the moment when the slots should be removed from the file.
    pub(super) fn may_be_large(&self, range: Span) -> bool {
        self.files.may_be_large || self.is_huge(range.start) || self.is_huge(range.end - PAGE)
    }

    /// Puts the slots of the chunk of `address`, of which nothing is mapped yet, into the file of
    /// huge pages or that of single ones. A huge chunk is not watched at first.
    pub(super) fn choose_file(&mut self, address: usize, huge: bool) {
        let Some(slot) = self.tables.slots.slot(address / CHUNK * CHUNK) else { return };
        if self.is_huge(address) && !huge {
            // Removes pages that could not be removed one by one.
            self.punch(Span::of(address / CHUNK * CHUNK, CHUNK));
        }
        self.tables.huge.set(chunk_of(slot), huge);
        self.tables.unwatched.set(chunk_of(slot), huge);
    }

    /// Returns true if evicted pages belong on a node of their own.
    pub(super) const fn is_on_node(&self) -> bool {
        matches!(self.place, Place::Node(_))
    }

    /// Returns true if writes to the chunk of `address` cannot be made to wait yet. Then the kernel
    /// maps neighbors along with a page that is read.
    pub(super) fn is_unwatched(&self, address: usize) -> bool {
        let slot = self.tables.slots.slot(address);
        slot.is_some_and(|slot| self.tables.unwatched.has(chunk_of(slot)))
    }

    /// Returns the first part of the range whose slots are adjacent in one file, and the file and
    /// offset.
    pub(super) fn slots_of(&self, range: Span) -> (Span, Option<(i32, usize)>) {
        let window = Slots::window_end(range.start).min(range.end);
        let Some(slot) = self.tables.slots.slot(range.start) else {
            return (Span::new(range.start, window), None);
        };
        let mut end = (range.start / CHUNK + 1) * CHUNK;
        while end < window && self.is_huge(end) == self.is_huge(range.start) {
            end += CHUNK;
        }
        (Span::new(range.start, end.min(window)), Some((self.file(slot), slots::offset(slot))))
    }

    /// Removes the slots of the range from their files; returns false if the kernel did not do it.
    pub(super) fn punch(&mut self, range: Span) -> bool {
        let (mut rest, mut all) = (range, true);
        while !rest.is_empty() {
            let (part, slots) = self.slots_of(rest);
            if let Some((file, offset)) = slots {
                let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                // SAFETY: callers name slots whose content is no longer needed.
                let done = unsafe { sys!(libc::SYS_fallocate, file, how, offset, part.length()) };
                all &= self.tally.check(done).is_some();
            }
            rest.start = part.end;
        }
        all
    }

    /// Writes the content of the range to the slots of the memory at `place`. New pages come from
    /// the source that [`bind`](Self::bind) set.
    pub(super) fn write_out(&mut self, range: Span, place: usize) -> bool {
        let mut done = 0;
        while done < range.length() {
            let from = range.start + done;
            let (part, slots) = self.slots_of(Span::of(place + done, range.length() - done));
            let Some((file, offset)) = slots else { break };
            // SAFETY: the kernel reads the program's memory, and reports an error if it cannot.
            let written = unsafe { sys!(libc::SYS_pwrite64, file, from, part.length(), offset) };
            match self.tally.check(written) {
                Some(bytes @ 1..) => done += bytes,
                _ => break,
            }
        }
        if done == range.length() {
            self.delay(range.length() / PAGE, |slowdown| slowdown.write);
        }
        done == range.length()
    }

    /// Sets the source of pages that this process adds to the file. Pages that the program touches
    /// come from the source that its own policy sets.
    pub(super) fn bind(&self, source: Source) {
        let Place::Node(node) = self.place else { return };
        self.tally.check(match source {
            Source::Nvm => sys::set_memory_policy(libc::MPOL_BIND, Some(node)),
            Source::Anywhere => sys::set_memory_policy(libc::MPOL_DEFAULT, None),
        });
    }

    /// Spins for as long as a slower medium would take beyond DRAM (drswap section IV-A): `factor -
    /// 1` times the copy time of the pages.
    pub(super) fn delay(&self, pages: usize, factor: impl Fn(Slowdown) -> f64) {
        let Some(slowdown) = self.slowdown else { return };
        let wait = (pages as f64 * (factor(slowdown) - 1.0) * self.copy_nanos) as u64;
        let begun = sys::nanos();
        while sys::nanos() - begun < wait {
            std::hint::spin_loop();
        }
        self.tally.add(PageCounter::DelayNanos, wait as usize);
    }

    /// Measures the time to copy a page in DRAM, if it is needed.
    pub(super) fn calibrate(&mut self) {
        const PAGES: usize = 4096;
        if self.slowdown.is_none() {
            return;
        }
        let length = 2 * PAGES * PAGE;
        let Ok(memory) = sys::map(length, sys::READ_WRITE, libc::MAP_SHARED) else { return };
        let copy = |page: usize| {
            // SAFETY: both pages are in memory that was just allocated.
            unsafe {
                uffd::copy_page(memory + page * PAGE, memory + (PAGES + page) * PAGE);
            }
        };
        // The first pass populates the pages; they are more than caches hold.
        (0..PAGES).for_each(copy);
        let begun = sys::nanos();
        (0..PAGES).for_each(copy);
        self.copy_nanos = (sys::nanos() - begun) as f64 / PAGES as f64;
        sys::unmap(memory, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `test` with a store in memory without a name.
    fn with_store(test: impl FnOnce(&mut Store)) {
        let files = Files::create(Place::Memfd).unwrap();
        let mut store = Store {
            tables: Box::leak(crate::all_zero()),
            files,
            place: Place::Memfd,
            copies: false,
            slowdown: None,
            copy_nanos: 0.0,
            tally: Tally::NONE,
        };
        test(&mut store);
        files.each().for_each(sys::close);
    }

    /// Two pages filled with `word`, aligned like pages of a program.
    #[repr(align(4096))]
    struct Content([u64; 2 * PAGE / 8]);

    #[test]
    fn slots_hold_what_was_written_until_they_are_removed() {
        with_store(|store| {
            let content = Content([7; 2 * PAGE / 8]);
            let memory = Span::of(content.0.as_ptr() as usize, 2 * PAGE);
            let place = 5 * CHUNK;
            assert!(!store.write_out(memory, place), "there are no slots yet");
            assert!(store.make_slots(place, |_| false) && store.write_out(memory, place));
            assert_eq!(store.used(), 2 * PAGE);
            let slot = store.slot(place + PAGE).unwrap();
            assert_eq!(store.address(slot), place + PAGE);
            let mut read = [0; 2];
            assert_eq!(store.read(slot, &mut read), Ok(2));
            assert_eq!(read, [7, 7]);
            assert!(store.punch(Span::of(place + PAGE, PAGE)));
            assert_eq!((store.read(slot, &mut read), read), (Ok(2), [0, 0]));
            assert_eq!(store.used(), PAGE);
        });
    }

    #[test]
    fn slots_side_by_side_lie_in_one_file() {
        with_store(|store| {
            let both = Span::of(CHUNK, 2 * CHUNK);
            assert_eq!(store.slots_of(both).1, None);
            assert!(store.make_slots(CHUNK, |_| false));
            store.choose_file(CHUNK, false);
            assert_eq!(store.slots_of(both).0, both);
            if !store.takes_huge(Span::of(2 * CHUNK, CHUNK)) {
                return memweir_test_support::skip!(Kernel, "no file system with huge pages");
            }
            store.choose_file(2 * CHUNK, true);
            assert_eq!(store.slots_of(both).0, Span::of(CHUNK, CHUNK));
            assert!(store.is_huge(2 * CHUNK) && store.may_be_large(Span::of(2 * CHUNK, PAGE)));
            assert!(store.is_unwatched(2 * CHUNK) && !store.is_unwatched(CHUNK));
            store.mark_watched(2 * CHUNK);
            assert!(!store.is_unwatched(2 * CHUNK) && store.is_huge(2 * CHUNK));
        });
    }

    #[test]
    fn only_whole_chunks_take_huge_pages() {
        with_store(|store| {
            assert!(!store.takes_huge(Span::of(CHUNK, CHUNK - PAGE)));
            assert!(!store.takes_huge(Span::of(CHUNK + PAGE, CHUNK)));
            store.copies = true;
            assert!(!store.takes_huge(Span::of(CHUNK, CHUNK)));
        });
    }
}
