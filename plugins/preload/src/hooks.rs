//! libc's functions that change mappings, replaced where they stand.
//!
//! A symbol that merely comes first (the usual way of a preload library) would not see malloc's
//! own calls, nor those for thread stacks: inside libc they do not go through symbols. So the
//! first bytes of the functions jump here, and what they did is done here. Nothing of the old code
//! is run again, so nothing has to be moved or understood.
//!
//! What calls the kernel by itself (Go) is not seen here; the helper finds its mappings a little
//! later.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::control::{self, Ask};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Where libc keeps the end of the heap.
static HEAP_END: AtomicPtr<usize> = AtomicPtr::new(ptr::null_mut());

/// Bytes of the jump: `jmp *0(%rip)` and the address.
const JUMP: usize = 14;
/// `endbr64`, which some functions begin with.
const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

fn fail(errno: Errno) {
    // SAFETY: the thread's own errno; hooks run in the program's threads only.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// Runs `change` while the helper moves no page.
fn changing<T>(change: impl FnOnce() -> T) -> T {
    let entered = control::get().filter(|control| control.enter());
    let result = change();
    if let Some(control) = entered {
        control.leave();
    }
    result
}

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
    // Pages that mmap itself populates would come before they are watched.
    let early = if placeable { libc::MAP_POPULATE | libc::MAP_LOCKED } else { 0 };
    // SAFETY: the program's own call.
    let mapped = changing(|| unsafe {
        sys!(libc::SYS_mmap, address, length, protection, flags & !early, fd, offset)
    });
    let start = match mapped {
        Ok(start) => start,
        Err(errno) => {
            fail(errno);
            return usize::MAX;
        }
    };
    if placeable {
        watch(start, length);
        if flags & early != 0 && protection & libc::PROT_WRITE != 0 {
            const MADV_POPULATE_WRITE: c_int = 23;
            let _ = sys::advise(start, length.next_multiple_of(PAGE), MADV_POPULATE_WRITE);
        }
    }
    start
}

extern "C" fn munmap(address: usize, length: usize) -> c_int {
    // SAFETY: the program's own call.
    done(changing(|| unsafe { sys!(libc::SYS_munmap, address, length) }))
}

fn done(result: Result<usize, Errno>) -> c_int {
    match result {
        Ok(value) => value as c_int,
        Err(errno) => {
            fail(errno);
            -1
        }
    }
}

extern "C" fn mremap(
    old: usize,
    old_length: usize,
    length: usize,
    flags: c_int,
    to: usize,
) -> usize {
    // SAFETY: the program's own call.
    let moved = changing(|| unsafe { sys!(libc::SYS_mremap, old, old_length, length, flags, to) });
    match moved {
        Ok(start) => {
            // A mapping that moves is watched no longer; private memory or not, asking is harmless:
            // only private memory can be watched with this mode and moved into.
            if start != old && control::get().is_some_and(control::Control::is_ready) {
                watch(start, length);
            }
            start
        }
        Err(errno) => {
            fail(errno);
            usize::MAX
        }
    }
}

extern "C" fn madvise(address: usize, length: usize, advice: c_int) -> c_int {
    const MADV_DONTNEED_LOCKED: c_int = 24;
    const MADV_COLD: c_int = 20;
    const MADV_PAGEOUT: c_int = 21;
    let call = |advice: c_int| {
        // SAFETY: the program's own call.
        changing(|| unsafe { sys!(libc::SYS_madvise, address, length, advice) })
    };
    let mut result = call(advice);
    // The memory is locked so that its pages stay where they are; the program did not ask for it
    // and must not notice.
    if result == Err(Errno(libc::EINVAL)) && control::get().is_some_and(control::Control::is_ready)
    {
        result = match advice {
            libc::MADV_DONTNEED | libc::MADV_FREE => call(MADV_DONTNEED_LOCKED),
            MADV_COLD | MADV_PAGEOUT if address.is_multiple_of(PAGE) => Ok(0),
            _ => result,
        };
    }
    done(result)
}

extern "C" fn brk(address: usize) -> c_int {
    let end = HEAP_END.load(Ordering::Relaxed);
    // SAFETY: asks for the end of the heap.
    let before = unsafe { sys!(libc::SYS_brk, 0) }.unwrap_or(0);
    // SAFETY: the program's own call.
    let now = changing(|| unsafe { sys!(libc::SYS_brk, address) }).unwrap_or(before);
    // SAFETY: libc's variable, which the replaced function would have set.
    unsafe { *end = now };
    if now < address {
        fail(Errno(libc::ENOMEM));
        return -1;
    }
    let (from, to) = (before.next_multiple_of(PAGE), now.next_multiple_of(PAGE));
    if to > from {
        watch(from, to - from);
    }
    0
}

extern "C" fn ioctl(fd: c_int, request: usize, argument: *mut u64) -> c_int {
    const UFFDIO_REGISTER: usize = 0xc020_aa00;
    if request == UFFDIO_REGISTER
        && !argument.is_null()
        && let Some(control) = control::get()
    {
        // SAFETY: the program passes a `struct uffdio_register`, which begins with the range.
        let (start, length) = unsafe { (*argument, *argument.add(1)) };
        // The program handles page faults of this range by itself; the kernel knows one handler.
        control.ask(Ask::Leave, start as usize, length as usize);
    }
    // SAFETY: the program's own call.
    done(unsafe { sys!(libc::SYS_ioctl, fd, request, argument) })
}

/// Replaces the functions. To be called once, before the program has threads. What cannot be
/// replaced is left alone; the helper finds what it maps.
pub(crate) fn install() {
    let Some(heap_end) = symbol(c"__curbrk") else { return };
    HEAP_END.store(heap_end as *mut usize, Ordering::Relaxed);
    let hooks: [(&CStr, usize); 6] = [
        (c"mmap", mmap as *const () as usize),
        (c"munmap", munmap as *const () as usize),
        (c"mremap", mremap as *const () as usize),
        (c"madvise", madvise as *const () as usize),
        (c"brk", brk as *const () as usize),
        (c"ioctl", ioctl as *const () as usize),
    ];
    // Writing through this file copies the page, as a debugger's breakpoint does, and leaves the
    // mapping and its protection as they are.
    let Ok(memory) = sys::open(c"/proc/self/mem", libc::O_RDWR) else { return };
    for (name, hook) in hooks {
        if let Some(function) = symbol(name) {
            replace(memory, function, hook);
        }
    }
    sys::close(memory);
}

fn replace(memory: c_int, function: usize, hook: usize) {
    // SAFETY: code of libc, which is readable; functions are aligned to 16 bytes and these are
    // longer than that.
    let begins = unsafe { ptr::read_unaligned(function as *const [u8; 4]) };
    let at = if begins == ENDBR { function + ENDBR.len() } else { function };
    if size_of_function(function).is_none_or(|size| size < at - function + JUMP) {
        return;
    }
    let mut jump = [0; JUMP];
    jump[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    jump[6..].copy_from_slice(&hook.to_le_bytes());
    // SAFETY: the bytes belong to the function that is replaced.
    let _ = unsafe { sys!(libc::SYS_pwrite64, memory, jump.as_ptr(), jump.len(), at) };
}

fn symbol(name: &CStr) -> Option<usize> {
    // SAFETY: looks for a loaded libc and one of its symbols.
    unsafe {
        let libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if libc.is_null() {
            return None;
        }
        let found = libc::dlsym(libc, name.as_ptr());
        libc::dlclose(libc);
        (!found.is_null()).then_some(found as usize)
    }
}

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}

/// Bytes of the function, as its symbol says.
fn size_of_function(function: usize) -> Option<usize> {
    const RTLD_DL_SYMENT: c_int = 1;
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let mut entry: *mut c_void = ptr::null_mut();
    // SAFETY: both are written by the call, the entry is a symbol of a loaded library.
    unsafe {
        let found = dladdr1(function as *const c_void, &mut info, &mut entry, RTLD_DL_SYMENT);
        let entry = entry as *const libc::Elf64_Sym;
        (found != 0 && !entry.is_null()).then(|| (*entry).st_size as usize)
    }
}
