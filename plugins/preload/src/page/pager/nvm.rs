//! The file whose pages are the slots. Which slot is whose is not decided here.

use super::{Pager, Place};
use crate::page::slots::FILE_BYTES;
use crate::page::spans::Span;
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Where new pages come from.
pub(super) enum Source {
    /// The node of slow memory, if the file is to lie there.
    Nvm,
    Anywhere,
}

/// Makes the file: it has no name, so nothing is left of it however the processes end.
pub(super) fn create(place: Place) -> Result<i32, Errno> {
    let fd = match place {
        Place::Memfd | Place::Node(_) => {
            // SAFETY: makes a descriptor.
            unsafe { sys!(libc::SYS_memfd_create, c"memweir-nvm".as_ptr(), libc::MFD_CLOEXEC) }?
                as i32
        }
        Place::File(path) => nameless(path.to_bytes())?,
    };
    // SAFETY: the file is new and nobody else's.
    unsafe { sys!(libc::SYS_ftruncate, fd, FILE_BYTES) }?;
    Ok(fd)
}

/// A nameless file in the directory, or in that of the file.
fn nameless(path: &[u8]) -> Result<i32, Errno> {
    let mut name = [0u8; libc::PATH_MAX as usize];
    let room = name.get_mut(..path.len()).ok_or(Errno(libc::ENAMETOOLONG))?;
    room.copy_from_slice(path);
    let open = |name: &[u8]| {
        let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: the name ends with a zero byte.
        unsafe { sys!(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags, 0o600) }
            .map(|fd| fd as i32)
    };
    match open(&name) {
        Err(Errno(libc::ENOTDIR | libc::ENOENT)) => {
            let end = path.iter().rposition(|byte| *byte == b'/');
            match end {
                None => name[..2].copy_from_slice(b".\0"),
                Some(end) => name[end + 1] = 0,
            }
            open(&name)
        }
        opened => opened,
    }
}

/// Bytes that the file has.
pub(super) fn used(fd: i32) -> usize {
    // SAFETY: zero is valid for every field.
    let mut status = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: the kernel writes the status.
    let asked = unsafe { sys!(libc::SYS_fstat, fd, &raw mut status) };
    asked.map_or(0, |_| status.st_blocks as usize * 512)
}

impl Pager<'_> {
    /// Where the range is in the file: it must not leave its window.
    pub(super) fn offset(&mut self, range: Span) -> Option<usize> {
        self.tables.slots.make(range.start).map(crate::page::slots::offset)
    }

    /// Takes the slots of the range out of the file; false if the kernel did not do it.
    pub(super) fn punch(&mut self, range: Span) -> bool {
        let (mut rest, mut all) = (range, true);
        while !rest.is_empty() {
            let end = crate::page::slots::Slots::window_end(rest.start).min(rest.end);
            if let Some(slot) = self.tables.slots.slot(rest.start) {
                let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                let (at, length) = (crate::page::slots::offset(slot), end - rest.start);
                // SAFETY: callers name slots whose content nobody needs.
                let done = unsafe { sys!(libc::SYS_fallocate, self.nvm, how, at, length) };
                all &= self.check(done).is_some();
            }
            rest.start = end;
        }
        all
    }

    /// Writes the content of the range to its slots. Pages that are new come from wherever
    /// [`bind`](Self::bind) says.
    pub(super) fn write_out(&mut self, range: Span, offset: usize) -> bool {
        let mut done = 0;
        while done < range.length() {
            let (from, length) = (range.start + done, range.length() - done);
            // SAFETY: the kernel reads the program's memory, and says so if it cannot.
            let written =
                unsafe { sys!(libc::SYS_pwrite64, self.nvm, from, length, offset + done) };
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
