//! Slots in the files: which file has them, writing to them and taking them out. Which slot is whose is
//! not decided here.

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

/// Chunks of slots that are special. All zero: none.
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

/// Where new pages come from.
pub(super) enum Source {
    /// The node of slow memory, if the file is to lie there.
    Nvm,
    Anywhere,
}

impl Pager<'_> {
    /// Gives slots to the window of `address`; false if none are left.
    pub(super) fn make_slots(&mut self, address: usize) -> bool {
        self.tables.slots.make(address).is_some()
    }

    /// How the kernel tells of the file where it is mapped.
    pub(super) fn identify(&mut self, file: i32) -> Result<FileId, Errno> {
        let (nothing, private) = (libc::PROT_NONE, libc::MAP_PRIVATE);
        // SAFETY: a new mapping, which nobody else knows of.
        let start = unsafe { sys!(libc::SYS_mmap, 0, PAGE, nothing, private, file, 0) }?;
        let mapping = vmas::at(self.maps, &mut self.tables.maps, start);
        sys::unmap(start, PAGE);
        mapping.map(|mapping| mapping.file).ok_or(Errno(libc::ENOENT))
    }

    /// The file of the page that has the slot.
    pub(super) fn file(&self, slot: u32) -> i32 {
        let huge = self.nvm.huge.filter(|_| self.tables.huge.has(chunk_of(slot)));
        huge.unwrap_or(self.nvm.single)
    }

    /// Whether slots of the chunk can be a huge page, as far as the files go.
    pub(super) fn takes_huge(&self, chunk: Span) -> bool {
        let aligned = chunk.length() == CHUNK && chunk.start.is_multiple_of(CHUNK);
        self.nvm.huge.is_some() && aligned && !self.start.copies
    }

    /// Whether the chunk of `address` has a huge page.
    pub(super) fn is_huge(&self, address: usize) -> bool {
        self.tables.slots.slot(address).is_some_and(|slot| self.tables.huge.has(chunk_of(slot)))
    }

    /// Whether slots of the range, of one chunk or two, may be parts of larger pages, which the kernel
    /// may not split just when they are to be taken out of the file.
    pub(super) fn may_be_large(&self, range: Span) -> bool {
        self.nvm.may_be_large || self.is_huge(range.start) || self.is_huge(range.end - PAGE)
    }

    /// Says in which file the chunk of `address` is. Nothing of it is mapped there yet.
    pub(super) fn choose_file(&mut self, address: usize, huge: bool) {
        let Some(slot) = self.tables.slots.make(address / CHUNK * CHUNK) else { return };
        if self.is_huge(address) && !huge {
            // Pages that could not be taken out one by one.
            self.punch(Span::of(address / CHUNK * CHUNK, CHUNK));
        }
        self.tables.huge.set(chunk_of(slot), huge);
        self.tables.unwatched.set(chunk_of(slot), huge);
    }

    /// Whether writes to the chunk of `address` cannot be made to wait yet. Then the kernel maps
    /// neighbors along with a page that is read.
    pub(super) fn is_unwatched(&self, address: usize) -> bool {
        let slot = self.tables.slots.slot(address);
        slot.is_some_and(|slot| self.tables.unwatched.has(chunk_of(slot)))
    }

    /// Makes it possible to protect the range. It looks at the ranges, so nothing may be protected.
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

    /// The first part of the range whose slots are side by side in one file, and where.
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

    /// Takes the slots of the range out of their files; false if the kernel did not do it.
    pub(super) fn punch(&mut self, range: Span) -> bool {
        let (mut rest, mut all) = (range, true);
        while !rest.is_empty() {
            let (part, slots) = self.slots_of(rest);
            if let Some((file, offset)) = slots {
                let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                // SAFETY: callers name slots whose content nobody needs.
                let done = unsafe { sys!(libc::SYS_fallocate, file, how, offset, part.length()) };
                all &= self.check(done).is_some();
            }
            rest.start = part.end;
        }
        all
    }

    /// Writes the content of the range to the slots of the memory at `place`. Pages that are new come
    /// from wherever [`bind`](Self::bind) says.
    pub(super) fn write_out(&mut self, range: Span, place: usize) -> bool {
        let mut done = 0;
        while done < range.length() {
            let from = range.start + done;
            let (part, slots) = self.slots_of(Span::of(place + done, range.length() - done));
            let Some((file, offset)) = slots else { break };
            // SAFETY: the kernel reads the program's memory, and says so if it cannot.
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

    /// Says where pages come from that this process adds to the file. What the program touches comes
    /// from where its own policy says.
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

    /// Takes as long as a slower medium would beyond DRAM (drswap section IV-A): what the factor of
    /// the pages' copy asks for.
    pub(super) fn delay(
        &self,
        pages: usize,
        factor: impl Fn(memweir_core::preload::page::Slowdown) -> f64,
    ) {
        let Some(slowdown) = self.start.delay else { return };
        let wait = (pages as f64 * (factor(slowdown) - 1.0) * self.copy_nanos) as u64;
        let begun = sys::nanos();
        while sys::nanos() - begun < wait {
            std::hint::spin_loop();
        }
        self.start.tally.add(memweir_core::preload::page::PageCounter::DelayNanos, wait as usize);
    }

    /// Finds out how long a page takes to be copied in DRAM, if that matters.
    pub(super) fn calibrate(&mut self) {
        const PAGES: usize = 4096;
        if self.start.delay.is_none() {
            return;
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let Ok(memory) = sys::map(2 * PAGES * PAGE, both, libc::MAP_SHARED) else { return };
        let copy = |page: usize| {
            // SAFETY: both pages are in memory that was just made.
            unsafe {
                crate::uffd::copy_page(memory + page * PAGE, memory + (PAGES + page) * PAGE);
            }
        };
        // Once so that the pages are there; they are more than caches hold.
        (0..PAGES).for_each(copy);
        let begun = sys::nanos();
        (0..PAGES).for_each(copy);
        self.copy_nanos = (sys::nanos() - begun) as f64 / PAGES as f64;
        // SAFETY: nobody refers to the memory.
        let _ = unsafe { sys!(libc::SYS_munmap, memory, 2 * PAGES * PAGE) };
    }
}
