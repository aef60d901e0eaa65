//! libc's functions that change mappings, as colored programs call them.
//!
//! Calls that go to the kernel directly (Go) are not seen here; the helper finds their mappings a
//! little later.

use std::ffi::{CStr, c_int};

use crate::control::{self, Ask};
use crate::maps;
use crate::patch::{self, address as address_of, changing, done};
use crate::sys::{self, Errno, sys};
use crate::uffd::{self, PAGE};

fn watch(start: usize, length: usize) {
    if let Some(control) = control::get() {
        control.ask(Ask::Watch, start, length.next_multiple_of(PAGE));
    }
}

extern "C" fn mmap(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: usize,
) -> usize {
    let placeable = flags & libc::MAP_TYPE == libc::MAP_PRIVATE
        && flags & libc::MAP_ANONYMOUS != 0
        && flags & libc::MAP_HUGETLB == 0
        && control::get().is_some_and(control::Control::is_ready);
    // Pages that mmap itself populates would be allocated before they are watched.
    let early = if placeable { libc::MAP_POPULATE | libc::MAP_LOCKED } else { 0 };
    // SAFETY: the program's own call.
    let mapped = changing(|| unsafe {
        sys!(libc::SYS_mmap, address, length, protection, flags & !early, fd, offset)
    });
    if placeable && let Ok(start) = mapped {
        watch(start, length);
        if flags & early != 0 && protection & libc::PROT_WRITE != 0 {
            let _ = sys::advise(start, length.next_multiple_of(PAGE), sys::MADV_POPULATE_WRITE);
        }
    }
    address_of(mapped)
}

extern "C" fn munmap(address: usize, length: usize) -> c_int {
    // SAFETY: the program's own call.
    done(changing(|| unsafe { sys!(libc::SYS_munmap, address, length) }))
}

extern "C" fn mremap(
    old: usize,
    old_length: usize,
    length: usize,
    flags: c_int,
    to: usize,
) -> usize {
    let together = flags == FIXED && length == old_length && is_mapped(old);
    // SAFETY: the program's own call.
    let mut moved =
        changing(|| unsafe { sys!(libc::SYS_mremap, old, old_length, length, flags, to) });
    if moved == Err(Errno(libc::EFAULT)) && together {
        moved = move_watched(old, old + old_length.next_multiple_of(PAGE), to);
    }
    // A mapping that moves is no longer watched. Asking is harmless even if it is not private
    // memory: only private memory can be watched with this mode and moved into.
    if let Ok(start) = moved
        && start != old
        && control::get().is_some_and(control::Control::is_ready)
    {
        watch(start, length);
    }
    address_of(moved)
}

extern "C" fn madvise(address: usize, length: usize, advice: c_int) -> c_int {
    let call = |advice: c_int| {
        // SAFETY: the program's own call.
        changing(|| unsafe { sys!(libc::SYS_madvise, address, length, advice) })
    };
    let mut result = call(advice);
    // The memory is locked so that its pages keep their frames; the program did not ask for that
    // and must not notice it.
    // A forked child's helper locks it before it is ready.
    if result == Err(Errno(libc::EINVAL)) {
        result = match advice {
            libc::MADV_DONTNEED | libc::MADV_FREE => call(sys::MADV_DONTNEED_LOCKED),
            sys::MADV_COLD | sys::MADV_PAGEOUT if address.is_multiple_of(PAGE) => Ok(0),
            _ => result,
        };
    }
    done(result)
}

extern "C" fn brk(address: usize) -> c_int {
    let (before, now, result) = patch::set_heap_end(address);
    let (from, to) = (before.next_multiple_of(PAGE), now.next_multiple_of(PAGE));
    if to > from {
        watch(from, to - from);
    }
    result
}

extern "C" fn ioctl(fd: c_int, request: usize, argument: *mut u64) -> c_int {
    // SAFETY: the program's own call.
    let call = || unsafe { sys!(libc::SYS_ioctl, fd, request, argument) };
    // SAFETY: the program's own call.
    let registered = unsafe { uffd::registered(request, argument) };
    // The program handles page faults of this range itself, and the kernel allows only one handler.
    done(match registered {
        Some((start, length)) => unwatched(start, length, libc::EBUSY, call),
        None => call(),
    })
}

const FIXED: c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;

/// Moves several mappings whose move has failed. The kernel (Linux 6.17) moves them one by one, and
/// stops at one that is watched; those before it are at their new addresses by then.
fn move_watched(old: usize, end: usize, to: usize) -> Result<usize, Errno> {
    let mut from = rest(old, end);
    let mut moved = Err(Errno(libc::EFAULT));
    while from < end {
        let place = to.wrapping_add(from - old);
        let call = || {
            // SAFETY: the program's own call, as far as it has not been carried out.
            changing(|| unsafe {
                sys!(libc::SYS_mremap, from, end - from, end - from, FIXED, place)
            })
        };
        moved = unwatched(from, end - from, libc::EFAULT, call);
        let next = rest(from, end);
        if moved != Err(Errno(libc::EFAULT)) || next == from {
            break;
        }
        from = next;
    }
    match moved {
        Ok(_) => Ok(to),
        Err(error) => {
            for (start, length) in [(to, from - old), (from, end - from)] {
                if length > 0 {
                    watch(start, length);
                }
            }
            Err(error)
        }
    }
}

/// Returns the first address from `start` to `end` that is mapped.
fn rest(start: usize, end: usize) -> usize {
    let mut first = end;
    if is_mapped(start) {
        return start;
    }
    maps::for_each(|_, mapping| {
        if mapping.end > start {
            first = first.min(mapping.start.max(start));
        }
    });
    first
}

fn is_mapped(page: usize) -> bool {
    let mut residency = 0u8;
    // SAFETY: the kernel writes one byte for one page.
    unsafe { sys!(libc::SYS_mincore, page, PAGE, &raw mut residency) }.is_ok()
}

/// Performs a call that the kernel refuses with `refusal` for a range that is watched. Before the
/// call, the helper may search for new mappings and watch this one again.
fn unwatched(
    start: usize,
    length: usize,
    refusal: c_int,
    call: impl Fn() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    const TRIES: usize = 100;
    let Some(control) = control::get() else { return call() };
    let mut result = Err(Errno(refusal));
    for _ in 0..TRIES {
        control.ask(Ask::Leave, start, length);
        result = call();
        if result != Err(Errno(refusal)) || !control.is_ready() {
            break;
        }
    }
    result
}

/// Replaces the functions. To be called once, before the program has threads. Functions that cannot
/// be replaced are left alone; the helper finds their mappings.
pub(crate) fn install() {
    let hooks: [(&CStr, usize); 6] = [
        (c"mmap", mmap as *const () as usize),
        (c"munmap", munmap as *const () as usize),
        (c"mremap", mremap as *const () as usize),
        (c"madvise", madvise as *const () as usize),
        (c"brk", brk as *const () as usize),
        (c"ioctl", ioctl as *const () as usize),
    ];
    patch::install(&hooks);
}
