//! Starts a helper: a process that shares the program's memory. Its work is defined elsewhere.

use std::sync::atomic::Ordering;

use crate::control::{Control, STARTED};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Bytes of the helper's stack.
const STACK: usize = 256 << 10;

/// Starts `run` with the address of a new `T`, which `fill` prepares, and waits until it has closed
/// the program's files.
///
/// # Safety
/// All zero must be a valid `T`. `run` must not return, nor touch thread-local storage.
pub(crate) unsafe fn launch<T>(
    control: &Control,
    main: i32,
    fill: impl FnOnce(&mut T),
    run: extern "C" fn(usize) -> !,
) -> Result<(), Errno> {
    control.provide()?;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let shared = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // Shared memory, so that it does not count as memory to place.
    let length = size_of::<T>().next_multiple_of(PAGE) + STACK;
    let memory = sys::map(length, both, shared)?;
    sys::advise(memory, length, libc::MADV_DONTFORK)?;
    // SAFETY: fresh memory, all zero, which is valid according to the caller.
    fill(unsafe { &mut *(memory as *mut T) });
    control.cookie.store(sys::micros() << 20 | main as u64, Ordering::Relaxed);
    let mut before = 0u64;
    let all = u64::MAX;
    // SAFETY: no signal may run a handler of the program in the helper, which inherits this mask.
    unsafe {
        let _ =
            sys!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8);
    }
    // SAFETY: the stack is the end of the new memory.
    let helper = unsafe { sys::spawn_sharing(memory + length, run, memory) };
    if let Ok(id) = helper {
        control.helper.store(id, Ordering::Release);
    }
    // SAFETY: restores the mask.
    unsafe {
        let _ = sys!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
    }
    helper.map(|_| control.await_state(STARTED))
}

/// Leaves the program's files, session and name.
pub(crate) fn detach(name: &std::ffi::CStr) {
    // SAFETY: the descriptors are copies that only this process has; the rest changes this process
    // alone.
    unsafe {
        let _ = sys!(libc::SYS_close_range, 0, u32::MAX, 0);
        let _ = sys!(libc::SYS_prctl, libc::PR_SET_NAME, name.as_ptr());
        let _ = sys!(libc::SYS_setsid);
    }
}

/// Returns true if the process that started this one still runs the same program in this memory.
pub(crate) fn same_program(control: &Control, main: i32) -> bool {
    let mut cookie = 0u64;
    let mine = control.cookie.load(Ordering::Relaxed);
    let local = [&raw mut cookie as usize, 8];
    let remote = [control.cookie.as_ptr() as usize, 8];
    // SAFETY: reads a word of the other process into ours.
    let read =
        unsafe { sys!(libc::SYS_process_vm_readv, main, local.as_ptr(), 1, remote.as_ptr(), 1, 0) };
    read.is_ok() && cookie == mine
}
