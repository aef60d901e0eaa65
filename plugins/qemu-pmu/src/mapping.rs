//! Maps the shared files, and the window on the slot of the current process.

use std::ffi::CStr;
use std::io;
use std::ptr;

use memweir_abi::softpmu::Slot;

/// Maps a whole shared file of at least `least` bytes.
pub(crate) fn map(path: &CStr, least: usize) -> io::Result<(*const u8, usize)> {
    // SAFETY: plain system calls on a descriptor of our own; the pointers are valid.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut status: libc::stat = std::mem::zeroed();
        let known = libc::fstat(file, &mut status) == 0;
        let size = status.st_size as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fits = known && size >= least;
        let address = if fits {
            libc::mmap(ptr::null_mut(), size, protection, libc::MAP_SHARED, file, 0)
        } else {
            libc::MAP_FAILED
        };
        let error = io::Error::last_os_error();
        libc::close(file);
        match address {
            libc::MAP_FAILED if fits => Err(error),
            libc::MAP_FAILED => Err(io::Error::other("shared file is too small")),
            address => Ok((address.cast_const().cast(), size)),
        }
    }
}

/// Maps a page of zeros, over which the slots of this process and its children are mapped in turn.
pub(crate) fn window() -> io::Result<*const Slot> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping touches nothing that exists.
    let address =
        unsafe { libc::mmap(ptr::null_mut(), size_of::<Slot>(), protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address.cast_const().cast())
}

/// Makes `window` a second view of the shared `slot`.
pub(crate) fn map_over(slot: &'static Slot, window: &'static Slot) -> bool {
    let (from, to) = (ptr::from_ref(slot).cast_mut(), ptr::from_ref(window).cast_mut());
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: with an old size of zero, mremap duplicates a shared mapping (mremap(2)). The target
    // is the window, which holds only a slot's atomics before and after.
    let address = unsafe { libc::mremap(from.cast(), 0, size_of::<Slot>(), flags, to) };
    address != libc::MAP_FAILED
}

/// Makes `window` private, so that additions to it are lost.
pub(crate) fn map_nothing_over(window: &'static Slot) {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let address = ptr::from_ref(window).cast_mut().cast();
    // SAFETY: replaces the window by zeros, which are a valid slot.
    unsafe { libc::mmap(address, size_of::<Slot>(), protection, flags, -1, 0) };
}
