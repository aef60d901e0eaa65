//! userfaultfd and pagemap: the kernel's interfaces, which libc does not declare.

use crate::sys::{self, Errno, sys};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

const UFFD_API: u64 = 0xaa;
const API: usize = ioctl(0x3f, 24);
const REGISTER: usize = ioctl(0, 32);
const UNREGISTER: usize = (2 << 30) | (16 << 16) | (0xaa << 8) | 1;
const WAKE: usize = (2 << 30) | (16 << 16) | (0xaa << 8) | 2;
const COPY: usize = ioctl(3, 40);
const ZEROPAGE: usize = ioctl(4, 32);
const MOVE: usize = ioctl(5, 40);
const POISON: usize = ioctl(8, 32);

const FEATURE_THREAD_ID: u64 = 1 << 8;
const FEATURE_POISON: u64 = 1 << 14;
/// The kernel can move pages (Linux 6.8 or later).
pub(crate) const FEATURE_MOVE: u64 = 1 << 16;

const fn ioctl(number: usize, size: usize) -> usize {
    (3 << 30) | (size << 16) | (0xaa << 8) | number
}

/// A page fault, as the kernel tells it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Message {
    pub(crate) event: u8,
    reserved: [u8; 7],
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) thread: u32,
    padding: u32,
}

impl Message {
    /// The event of a page fault.
    pub(crate) const FAULT: u8 = 0x12;
}

/// A userfaultfd.
#[derive(Clone, Copy)]
pub(crate) struct Uffd(pub(crate) i32);

impl Uffd {
    /// Opens one with what the helper needs; tells whether the kernel can move pages.
    pub(crate) fn open() -> Result<(Self, bool), Errno> {
        let create = || {
            // SAFETY: makes a descriptor.
            let fd = unsafe { sys!(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
            fd.map(|fd| Self(fd as i32))
        };
        // A descriptor can be asked once, and refuses features that it does not have.
        let asked = create()?;
        let mut api = [UFFD_API, 0, 0];
        let known = asked.ioctl(API, &mut api).map(|()| api[1]);
        sys::close(asked.0);
        let known = known?;
        let uffd = create()?;
        let wanted = FEATURE_THREAD_ID | FEATURE_POISON | FEATURE_MOVE;
        uffd.ioctl(API, &mut [UFFD_API, known & wanted, 0])?;
        Ok((uffd, known & FEATURE_MOVE != 0))
    }

    fn ioctl<const N: usize>(self, request: usize, words: &mut [u64; N]) -> Result<(), Errno> {
        // SAFETY: the size of the array is the size that the request's number names.
        unsafe { sys!(libc::SYS_ioctl, self.0, request, words.as_mut_ptr()) }.map(drop)
    }

    /// Asks for the faults on missing pages of the range.
    pub(crate) fn register(self, start: usize, length: usize) -> Result<(), Errno> {
        self.ioctl(REGISTER, &mut [start as u64, length as u64, 1, 0])
    }

    pub(crate) fn unregister(self, start: usize, length: usize) -> Result<(), Errno> {
        self.ioctl(UNREGISTER, &mut [start as u64, length as u64])
    }

    /// Moves pages; returns the bytes that were moved.
    pub(crate) fn shift(
        self,
        to: usize,
        from: usize,
        length: usize,
    ) -> Result<usize, (usize, Errno)> {
        let mut words = [to as u64, from as u64, length as u64, 0, 0];
        match self.ioctl(MOVE, &mut words) {
            Ok(()) => Ok(length),
            Err(errno) => Err(((words[4] as i64).max(0) as usize, errno)),
        }
    }

    /// Gives a page with the content of `from`.
    pub(crate) fn copy(self, to: usize, from: usize) -> Result<(), Errno> {
        self.ioctl(COPY, &mut [to as u64, from as u64, PAGE as u64, 0, 0])
    }

    /// Gives the shared page of zeros.
    pub(crate) fn zero(self, to: usize) -> Result<(), Errno> {
        self.ioctl(ZEROPAGE, &mut [to as u64, PAGE as u64, 0, 0])
    }

    /// Makes every access to the page an error (SIGBUS).
    pub(crate) fn poison(self, page: usize) -> Result<(), Errno> {
        self.ioctl(POISON, &mut [page as u64, PAGE as u64, 0, 0])
    }

    pub(crate) fn wake(self, page: usize) {
        let _ = self.ioctl(WAKE, &mut [page as u64, PAGE as u64]);
    }

    /// Reads the faults that wait.
    pub(crate) fn read(self, messages: &mut [Message]) -> usize {
        let size = size_of::<Message>();
        // SAFETY: the kernel writes messages into the buffer.
        let read =
            unsafe { sys!(libc::SYS_read, self.0, messages.as_mut_ptr(), size_of_val(messages)) };
        read.map_or(0, |bytes| bytes / size)
    }
}

/// Finds pages by what they are, without looking at holes.
pub(crate) struct Pagemap(pub(crate) i32);

/// One range that [`Pagemap::scan`] found.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    pub(crate) start: u64,
    pub(crate) end: u64,
    categories: u64,
}

impl Found {
    /// Whether it is the shared page of zeros, which a write would replace by any page, without a
    /// word to the helper.
    pub(crate) fn is_zero(&self) -> bool {
        self.categories & Pagemap::ZERO != 0
    }
}

impl Pagemap {
    const SCAN: usize = (3 << 30) | (96 << 16) | ((b'f' as usize) << 8) | 16;
    const SCAN_SIZE: u64 = 96;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const ZERO: u64 = 1 << 5;

    /// Pages of the program's own memory between the addresses; how many ranges were found, and
    /// where the search ended.
    pub(crate) fn scan(
        &self,
        start: usize,
        end: usize,
        found: &mut [Found],
    ) -> Result<(usize, usize), Errno> {
        let (own, told) = (Self::FILE | Self::PRESENT, Self::PRESENT | Self::ZERO);
        let mut argument = [
            Self::SCAN_SIZE,
            0,
            start as u64,
            end as u64,
            0,
            found.as_mut_ptr() as u64,
            found.len() as u64,
            0,
            Self::FILE,
            own,
            0,
            told,
        ];
        // SAFETY: the argument has the layout of `struct pm_scan_arg` and names the buffer.
        let count = unsafe { sys!(libc::SYS_ioctl, self.0, Self::SCAN, argument.as_mut_ptr()) }?;
        Ok((count, argument[4] as usize))
    }

    /// The page frames from `start` on; zero where there is none.
    pub(crate) fn frames(&self, start: usize, frames: &mut [u64]) -> usize {
        let count = sys::read_words_at(self.0, frames, (start / PAGE * 8) as u64).unwrap_or(0);
        for entry in &mut frames[..count] {
            *entry = if *entry >> 63 == 1 { *entry & ((1 << 55) - 1) } else { 0 };
        }
        count
    }
}

/// Copies a page, without libc: its `memcpy` reads a variable of libc's, which may lie in the very
/// page that is away while it is copied.
///
/// # Safety
/// Both pages must be present and nobody else's.
pub(crate) unsafe fn copy_page(to: usize, from: usize) {
    // SAFETY: as the caller says of both pages.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") PAGE / 8 => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}
