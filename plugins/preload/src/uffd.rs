//! A userfaultfd: requests to it, and its messages.

pub(crate) use memweir_abi::kernel::PAGE_BYTES as PAGE;
pub(crate) use memweir_abi::kernel::userfaultfd::{
    Message, UFFDIO_REGISTER_MODE_MINOR as MINOR, UFFDIO_REGISTER_MODE_MISSING as MISSING,
    UFFDIO_REGISTER_MODE_WP as WRITES,
};
use memweir_abi::kernel::userfaultfd::{
    UFFD_API, UFFD_FEATURE_MOVE, UFFD_FEATURE_POISON, UFFD_FEATURE_THREAD_ID, UFFDIO_API,
    UFFDIO_COPY, UFFDIO_MOVE, UFFDIO_POISON, UFFDIO_REGISTER, UFFDIO_UNREGISTER, UFFDIO_WAKE,
    UFFDIO_WRITEPROTECT, UFFDIO_WRITEPROTECT_MODE_WP, UFFDIO_ZEROPAGE,
};

use crate::sys::{self, Errno, sys};

/// Returns the start and length that a program registers with its own userfaultfd, if its `ioctl`
/// does that.
///
/// # Safety
/// `argument` must be the argument that the program passes with `request`.
pub(crate) unsafe fn registered(request: usize, argument: *const u64) -> Option<(usize, usize)> {
    if request as u64 != UFFDIO_REGISTER || argument.is_null() {
        return None;
    }
    // SAFETY: the program passes a `struct uffdio_register`, which begins with the range.
    unsafe { Some((*argument as usize, *argument.add(1) as usize)) }
}

/// A userfaultfd.
#[derive(Clone, Copy)]
pub(crate) struct Uffd(pub(crate) i32);

impl Uffd {
    /// Opens a userfaultfd with the features that the helper needs; returns whether the kernel can
    /// move pages.
    pub(crate) fn open() -> Result<(Self, bool), Errno> {
        // A descriptor accepts one request for features, and refuses features that it does not
        // have.
        let asked = Self::create()?;
        let mut api = [UFFD_API, 0, 0];
        let known = asked.ioctl(UFFDIO_API, &mut api).map(|()| api[1]);
        sys::close(asked.0);
        let known = known?;
        let wanted = UFFD_FEATURE_THREAD_ID | UFFD_FEATURE_POISON | UFFD_FEATURE_MOVE;
        Ok((Self::open_with(known & wanted)?, known & UFFD_FEATURE_MOVE != 0))
    }

    /// Opens a userfaultfd with exactly these features.
    pub(crate) fn open_with(features: u64) -> Result<Self, Errno> {
        let uffd = Self::create()?;
        uffd.ioctl(UFFDIO_API, &mut [UFFD_API, features, 0])?;
        Ok(uffd)
    }

    fn create() -> Result<Self, Errno> {
        // SAFETY: makes a descriptor.
        let fd = unsafe { sys!(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
        fd.map(|fd| Self(fd as i32))
    }

    fn ioctl<const N: usize>(self, request: u64, words: &mut [u64; N]) -> Result<(), Errno> {
        // SAFETY: the size of the array is the size that the request's number encodes.
        unsafe { sys!(libc::SYS_ioctl, self.0, request, words.as_mut_ptr()) }.map(drop)
    }

    /// Registers for faults of these modes, a sum of [`MISSING`], [`WRITES`] and [`MINOR`].
    pub(crate) fn register(self, start: usize, length: usize, modes: u64) -> Result<(), Errno> {
        self.ioctl(UFFDIO_REGISTER, &mut [start as u64, length as u64, modes, 0])
    }

    /// Makes writes to the range wait.
    pub(crate) fn protect(self, start: usize, length: usize) -> Result<(), Errno> {
        let mode = UFFDIO_WRITEPROTECT_MODE_WP;
        self.ioctl(UFFDIO_WRITEPROTECT, &mut [start as u64, length as u64, mode])
    }

    /// Lets writes to the range continue.
    pub(crate) fn unprotect(self, start: usize, length: usize) -> Result<(), Errno> {
        self.ioctl(UFFDIO_WRITEPROTECT, &mut [start as u64, length as u64, 0])
    }

    pub(crate) fn unregister(self, start: usize, length: usize) -> Result<(), Errno> {
        self.ioctl(UFFDIO_UNREGISTER, &mut [start as u64, length as u64])
    }

    /// Moves pages; returns the bytes that were moved.
    pub(crate) fn shift(
        self,
        to: usize,
        from: usize,
        length: usize,
    ) -> Result<usize, (usize, Errno)> {
        self.transfer(UFFDIO_MOVE, to, from, length)
    }

    /// Provides a page with the content of `from`.
    pub(crate) fn copy(self, to: usize, from: usize) -> Result<(), Errno> {
        self.transfer(UFFDIO_COPY, to, from, PAGE).map(drop).map_err(|(_, errno)| errno)
    }

    /// Provides pages with the content of those at `from`; returns the bytes that were provided.
    pub(crate) fn copy_all(
        self,
        to: usize,
        from: usize,
        length: usize,
    ) -> Result<usize, (usize, Errno)> {
        self.transfer(UFFDIO_COPY, to, from, length)
    }

    /// Moves or copies; on an error, the last word holds the bytes that were transferred.
    fn transfer(
        self,
        request: u64,
        to: usize,
        from: usize,
        length: usize,
    ) -> Result<usize, (usize, Errno)> {
        let mut words = [to as u64, from as u64, length as u64, 0, 0];
        match self.ioctl(request, &mut words) {
            Ok(()) => Ok(length),
            Err(errno) => Err(((words[4] as i64).max(0) as usize, errno)),
        }
    }

    /// Provides the shared page of zeros.
    pub(crate) fn zero(self, to: usize) -> Result<(), Errno> {
        self.ioctl(UFFDIO_ZEROPAGE, &mut [to as u64, PAGE as u64, 0, 0])
    }

    /// Makes every access to the page an error (SIGBUS).
    pub(crate) fn poison(self, page: usize) -> Result<(), Errno> {
        self.ioctl(UFFDIO_POISON, &mut [page as u64, PAGE as u64, 0, 0])
    }

    /// Wakes the threads that wait for the range, so that they retry.
    pub(crate) fn wake_range(self, start: usize, length: usize) {
        let _ = self.ioctl(UFFDIO_WAKE, &mut [start as u64, length as u64]);
    }

    pub(crate) fn wake(self, page: usize) {
        self.wake_range(page, PAGE);
    }

    /// Reads the pending messages.
    pub(crate) fn read(self, messages: &mut [Message]) -> usize {
        let size = size_of::<Message>();
        // SAFETY: the kernel writes messages into the buffer.
        let read =
            unsafe { sys!(libc::SYS_read, self.0, messages.as_mut_ptr(), size_of_val(messages)) };
        read.map_or(0, |bytes| bytes / size)
    }
}

/// Copies a page without libc: its `memcpy` reads a variable of libc, which may lie in the very
/// page that is away while it is copied.
///
/// # Safety
/// Both pages must be present, and no other code may use them.
pub(crate) unsafe fn copy_page(to: usize, from: usize) {
    // SAFETY: guaranteed by the caller for both pages.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") PAGE / 8 => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}
