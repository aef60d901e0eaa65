//! Replaces functions of libc in place, and provides what every replacement needs.
//!
//! A symbol that merely comes first (the usual way of a preload library) would miss malloc's own
//! calls and those for thread stacks: inside libc they do not go through symbols. So the first
//! bytes of the functions jump to the replacements, which do the work of the originals. No old code
//! runs again, so none has to be moved or understood. The list of functions and their replacements
//! is elsewhere.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::control;
use crate::sys::{self, Errno, sys};

/// Address of libc's variable with the end of the heap.
static HEAP_END: AtomicPtr<usize> = AtomicPtr::new(ptr::null_mut());

/// Bytes of the jump: `jmp *0(%rip)` and the address.
const JUMP: usize = 14;
/// `endbr64`, the first instruction of some functions.
const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

pub(crate) fn fail(errno: Errno) {
    // SAFETY: the thread's own errno; hooks run in the program's threads only.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// Returns the result of a function that returns a number.
pub(crate) fn done(result: Result<usize, Errno>) -> c_int {
    match result {
        Ok(value) => value as c_int,
        Err(errno) => {
            fail(errno);
            -1
        }
    }
}

/// Returns the result of a function that returns an address.
pub(crate) fn address(result: Result<usize, Errno>) -> usize {
    result.unwrap_or_else(|errno| {
        fail(errno);
        usize::MAX
    })
}

/// Calls `change` while the helper moves no page.
pub(crate) fn changing<T>(change: impl FnOnce() -> T) -> T {
    let entered = control::get().filter(|control| control.enter());
    let result = change();
    if let Some(control) = entered {
        control.leave();
    }
    result
}

/// Does the work of libc's `brk`: sets the end of the heap. Returns the end before and now, and
/// zero if the end reached `address`, otherwise -1.
pub(crate) fn set_heap_end(address: usize) -> (usize, usize, c_int) {
    let end = HEAP_END.load(Ordering::Relaxed);
    // SAFETY: asks for the end of the heap.
    let before = unsafe { sys!(libc::SYS_brk, 0) }.unwrap_or(0);
    // SAFETY: the program's own call.
    let now = changing(|| unsafe { sys!(libc::SYS_brk, address) }).unwrap_or(before);
    // SAFETY: libc's variable, which the replaced function would have set.
    unsafe { *end = now };
    if now < address {
        fail(Errno(libc::ENOMEM));
        return (before, now, -1);
    }
    (before, now, 0)
}

/// Returns true if functions can be replaced: if libc is loaded, and the kernel lets its code be
/// written (`proc_mem.force_override`, of Linux 6.12, may forbid that).
pub(crate) fn can_install() -> bool {
    let memory = sys::open(c"/proc/self/mem", libc::O_RDWR);
    memory.is_ok_and(|memory| {
        let can = symbol(c"__curbrk").is_some() && can_write_code(memory);
        sys::close(memory);
        can
    })
}

fn can_write_code(memory: c_int) -> bool {
    symbol(c"mmap").is_some_and(|function| {
        // SAFETY: writes a byte of code over itself.
        let written = unsafe { sys!(libc::SYS_pwrite64, memory, function, 1, function) };
        written == Ok(1)
    })
}

/// Replaces the functions. To be called once, before the program has threads. Functions that cannot
/// be replaced are left alone.
pub(crate) fn install(hooks: &[(&CStr, usize)]) {
    let Some(heap_end) = symbol(c"__curbrk") else { return };
    HEAP_END.store(heap_end as *mut usize, Ordering::Relaxed);
    // Writing through this file copies the page, as a debugger's breakpoint does, and leaves the
    // mapping and its protection as they are.
    let Ok(memory) = sys::open(c"/proc/self/mem", libc::O_RDWR) else { return };
    for (name, hook) in hooks {
        if let Some(function) = symbol(name) {
            replace(memory, function, *hook);
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

/// Returns the bytes of the function, according to its symbol.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_cannot_be_written_is_found_out() {
        let writes = |flags| {
            let memory = sys::open(c"/proc/self/mem", flags).unwrap();
            let can = can_write_code(memory);
            sys::close(memory);
            can
        };
        assert!(!writes(libc::O_RDONLY));
        assert_eq!(writes(libc::O_RDWR), can_install());
    }
}
