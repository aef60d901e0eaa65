//! Slots in the files: finds the file of a slot, writes to slots and removes them. Slots are
//! assigned to pages elsewhere.

use super::{Pager, Place};
use crate::maps::FileId;
use crate::page::slots::{self, SLOTS, Slots};
use crate::page::spans::Span;
use crate::page::vmas;
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Bytes of a huge page.
pub(super) const CHUNK: usize = super::pages::CLUSTER * PAGE;
const CHUNKS: usize = SLOTS * PAGE / CHUNK;

/// A set of chunks of slots. All zero means empty.
#[repr(C)]
pub(super) struct Chunks([u64; CHUNKS / 64]);

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
    slot as usize / super::pages::CLUSTER
}

/// Origin of new pages.
pub(super) enum Source {
    /// The node of slow memory, if the file should lie there.
    Nvm,
    Anywhere,
}

impl Pager<'_> {
    /// Assigns slots to the window of `address`; returns false if none are left.
    pub(super) fn make_slots(&mut self, address: usize) -> bool {
        self.tables.slots.make(address).is_some()
    }

    /// Returns the identity that the kernel reports for mappings of the file.
    pub(super) fn identify(&mut self, file: i32) -> Result<FileId, Errno> {
        let (nothing, private) = (libc::PROT_NONE, libc::MAP_PRIVATE);
        // SAFETY: creates a new mapping, which no other code knows.
        let start = unsafe { sys!(libc::SYS_mmap, 0, PAGE, nothing, private, file, 0) }?;
        let mapping = vmas::at(self.maps, &mut self.tables.maps, start);
        sys::unmap(start, PAGE);
        mapping.map(|mapping| mapping.file).ok_or(Errno(libc::ENOENT))
    }

    /// Returns the file that holds the slot.
    pub(super) fn file(&self, slot: u32) -> i32 {
        let huge = self.nvm.huge.filter(|_| self.tables.huge.has(chunk_of(slot)));
        huge.unwrap_or(self.nvm.single)
    }

    /// Returns true if the slots of the chunk can be a huge page, as far as the files are
    /// concerned.
    pub(super) fn takes_huge(&self, chunk: Span) -> bool {
        let aligned = chunk.length() == CHUNK && chunk.start.is_multiple_of(CHUNK);
        self.nvm.huge.is_some() && aligned && !self.start.copies
    }

    /// Returns true if the chunk of `address` has a huge page.
    pub(super) fn is_huge(&self, address: usize) -> bool {
        self.tables.slots.slot(address).is_some_and(|slot| self.tables.huge.has(chunk_of(slot)))
    }

    /// Returns true if slots of the range, of one chunk or two, may be parts of larger pages, which
    /// the kernel may refuse to split at the moment when the slots should be removed from the file.
    pub(super) fn may_be_large(&self, range: Span) -> bool {
        self.nvm.may_be_large || self.is_huge(range.start) || self.is_huge(range.end - PAGE)
    }

    /// Chooses the file for the chunk of `address`, of which nothing is mapped there yet.
    pub(super) fn choose_file(&mut self, address: usize, huge: bool) {
        let Some(slot) = self.tables.slots.make(address / CHUNK * CHUNK) else { return };
        if self.is_huge(address) && !huge {
            // Removes pages that could not be removed one by one.
            self.punch(Span::of(address / CHUNK * CHUNK, CHUNK));
        }
        self.tables.huge.set(chunk_of(slot), huge);
        self.tables.unwatched.set(chunk_of(slot), huge);
    }

    /// Returns true if writes to the chunk of `address` cannot be made to wait yet. Then the kernel
    /// maps neighbors along with a page that is read.
    pub(super) fn is_unwatched(&self, address: usize) -> bool {
        let slot = self.tables.slots.slot(address);
        slot.is_some_and(|slot| self.tables.unwatched.has(chunk_of(slot)))
    }

    /// Makes it possible to protect the range. This locks the ranges, so nothing may be protected.
    pub(super) fn watch_chunks(&mut self, range: Span) {
        let mut at = range.start / CHUNK * CHUNK;
        while at < range.end {
            let chunk = Span::of(at, CHUNK);
            at = chunk.end;
            if !self.is_unwatched(chunk.start) {
                continue;
            }
            let _ = self.each_in_file(chunk, |pager, piece| {
                pager.watch_file(piece);
                Ok(())
            });
            if let Some(slot) = self.tables.slots.slot(chunk.start) {
                self.tables.unwatched.set(chunk_of(slot), false);
            }
        }
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
                all &= self.check(done).is_some();
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
            match self.check(written) {
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
        let Place::Node(node) = self.start.place else { return };
        let mut mask = [0u64; 16];
        if let Some(word) = mask.get_mut(node as usize / 64) {
            *word = 1 << (node % 64);
        }
        let (mode, mask, bits) = match source {
            Source::Nvm => (libc::MPOL_BIND, mask.as_ptr() as usize, 1025),
            Source::Anywhere => (libc::MPOL_DEFAULT, 0, 0),
        };
        // SAFETY: the kernel reads the mask; the policy is this process's own.
        let set = unsafe { sys!(libc::SYS_set_mempolicy, mode, mask, bits) };
        self.check(set);
    }

    /// Spins for as long as a slower medium would take beyond DRAM (drswap section IV-A): `factor -
    /// 1` times the copy time of the pages.
    pub(super) fn delay(
        &self,
        pages: usize,
        factor: impl Fn(memweir_abi::preload::page::Slowdown) -> f64,
    ) {
        let Some(slowdown) = self.start.delay else { return };
        let wait = (pages as f64 * (factor(slowdown) - 1.0) * self.copy_nanos) as u64;
        let begun = sys::nanos();
        while sys::nanos() - begun < wait {
            std::hint::spin_loop();
        }
        self.start.tally.add(memweir_abi::preload::page::PageCounter::DelayNanos, wait as usize);
    }

    /// Measures the time to copy a page in DRAM, if it is needed.
    pub(super) fn calibrate(&mut self) {
        const PAGES: usize = 4096;
        if self.start.delay.is_none() {
            return;
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let Ok(memory) = sys::map(2 * PAGES * PAGE, both, libc::MAP_SHARED) else { return };
        let copy = |page: usize| {
            // SAFETY: both pages are in memory that was just allocated.
            unsafe {
                crate::uffd::copy_page(memory + page * PAGE, memory + (PAGES + page) * PAGE);
            }
        };
        // The first pass populates the pages; they are more than caches hold.
        (0..PAGES).for_each(copy);
        let begun = sys::nanos();
        (0..PAGES).for_each(copy);
        self.copy_nanos = (sys::nanos() - begun) as f64 / PAGES as f64;
        // SAFETY: no reference to the memory exists.
        let _ = unsafe { sys!(libc::SYS_munmap, memory, 2 * PAGES * PAGE) };
    }
}
