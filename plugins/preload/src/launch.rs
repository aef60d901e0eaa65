//! Starts a helper: a process that shares the program's memory. Its work is defined elsewhere.

use std::sync::atomic::Ordering;

use memweir_abi::preload::UNREACHED_MARK;

use crate::control::{Control, STARTED};
use crate::sys::{self, Errno, sys};
use crate::uffd::PAGE;

/// Bytes of the helper's stack.
const STACK: usize = 256 << 10;
/// Files that the helper can have open: one for each forked child, and some of its own.
const FILES: libc::rlim_t = 2048;

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
    let shared = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // Shared memory, so that it does not count as memory to place.
    let length = size_of::<T>().next_multiple_of(PAGE) + STACK;
    let memory = sys::map(length, sys::READ_WRITE, shared)?;
    sys::advise(memory, length, libc::MADV_DONTFORK)?;
    // SAFETY: fresh memory, all zero, which is valid according to the caller.
    fill(unsafe { &mut *(memory as *mut T) });
    control.cookie.store(sys::micros() << 20 | main as u64, Ordering::Relaxed);
    let id = control.helper.as_ptr();
    let mut plan = Plan { stack_end: memory + length, run, memory, id, started: Ok(0) };
    // No signal may run a handler of the program in the helper, which inherits this mask.
    sys::without_signals(|| {
        // SAFETY: the stack is the end of the new memory; the caller vouches for the rest.
        unsafe { if is_reaper() { plan.start() } else { plan.start_orphan() } }
    });
    plan.started.map(|_| control.await_state(STARTED))
}

/// Returns true if orphans become children of this process.
fn is_reaper() -> bool {
    let mut reaper = 0i32;
    // SAFETY: the kernel writes a number.
    let _ = unsafe { sys!(libc::SYS_prctl, libc::PR_GET_CHILD_SUBREAPER, &raw mut reaper) };
    sys::process_id() == 1 || reaper != 0
}

/// A helper that is about to be started.
struct Plan {
    stack_end: usize,
    run: extern "C" fn(usize) -> !,
    memory: usize,
    /// Word that holds its process number.
    id: *mut i32,
    started: Result<i32, Errno>,
}

impl Plan {
    /// Starts the helper as a child of the calling process.
    ///
    /// # Safety
    /// As for [`launch`].
    unsafe fn start(&mut self) {
        // SAFETY: as the caller says.
        self.started =
            unsafe { sys::spawn_sharing(self.stack_end, self.run, self.memory, self.id, 0) };
    }

    /// Starts the helper by a child that ends at once, so that the helper is no child of the
    /// program: one that waits for all children (`__WALL`, as strace does) would wait forever, and
    /// each `execve` would leave a defunct helper.
    ///
    /// # Safety
    /// As for [`launch`].
    unsafe fn start_orphan(&mut self) {
        let mut id = 0;
        let stack_end = self.stack_end - STACK / 2;
        let (plan, flags) = (&raw mut *self as usize, libc::CLONE_VFORK);
        // SAFETY: the helper needs little of its stack before the child ends; until then the kernel
        // keeps this thread from running.
        match unsafe { sys::spawn_sharing(stack_end, start_and_end, plan, &raw mut id, flags) } {
            Ok(child) => reap(child),
            Err(errno) => self.started = Err(errno),
        }
    }
}

extern "C" fn start_and_end(plan: usize) -> ! {
    // SAFETY: `start_orphan` passes its plan, which it does not use meanwhile.
    unsafe { (*(plan as *mut Plan)).start() };
    sys::exit()
}

fn reap(child: i32) {
    let wait = || {
        // SAFETY: releases a child of this library.
        unsafe { sys!(libc::SYS_wait4, child, 0, libc::__WALL, 0) }
    };
    while wait() == Err(Errno(libc::EINTR)) {}
}

/// Leaves a mapping by whose name memweir finds programs that have loaded the library and have no
/// helper. Forked children do not get it: most of their pages are their parent's.
pub(crate) fn leave_mark() -> Option<()> {
    let (name, flags) = (UNREACHED_MARK.as_ptr(), libc::MFD_CLOEXEC);
    // SAFETY: makes a descriptor; the name ends with a zero byte.
    let fd = unsafe { sys!(libc::SYS_memfd_create, name, flags) }.ok()? as i32;
    // SAFETY: a new mapping, which nothing accesses.
    let start = unsafe { sys!(libc::SYS_mmap, 0, PAGE, libc::PROT_NONE, libc::MAP_SHARED, fd, 0) };
    sys::close(fd);
    sys::advise(start.ok()?, PAGE, libc::MADV_DONTFORK).ok()
}

/// Limits under which the helper would end before the program, or get no memory to work on the
/// program's.
const LIFTED: [libc::__rlimit_resource_t; 5] =
    [libc::RLIMIT_FSIZE, libc::RLIMIT_CPU, libc::RLIMIT_RTTIME, libc::RLIMIT_AS, libc::RLIMIT_DATA];

/// Leaves the program's files, session, name, and limits.
pub(crate) fn detach(name: &std::ffi::CStr) {
    // SAFETY: the descriptors are copies that only this process has; the rest changes this process
    // alone.
    unsafe {
        let _ = sys!(libc::SYS_close_range, 0, u32::MAX, 0);
        let _ = sys!(libc::SYS_prctl, libc::PR_SET_NAME, name.as_ptr());
        let _ = sys!(libc::SYS_setsid);
    }
    lift_limit(libc::RLIMIT_NOFILE, FILES);
    LIFTED.iter().for_each(|resource| lift_limit(*resource, libc::RLIM_INFINITY));
}

/// Returns the number of files that this process can have open.
pub(crate) fn file_limit() -> usize {
    limit(libc::RLIMIT_NOFILE).rlim_cur as usize
}

fn limit(resource: libc::__rlimit_resource_t) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the limit.
    let _ = unsafe { sys!(libc::SYS_prlimit64, 0, resource, 0, &raw mut limit) };
    limit
}

/// Lifts a limit of this process to `wanted`, or as far as it may.
pub(crate) fn lift_limit(resource: libc::__rlimit_resource_t, wanted: libc::rlim_t) {
    let now = limit(resource);
    for rlim_max in [now.rlim_max.max(wanted), now.rlim_max] {
        let limit = libc::rlimit { rlim_cur: now.rlim_cur.max(wanted.min(rlim_max)), rlim_max };
        // SAFETY: the kernel reads the limit, which is that of this process alone.
        if unsafe { sys!(libc::SYS_prlimit64, 0, resource, &raw const limit, 0) }.is_ok() {
            return;
        }
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
    match read {
        Ok(_) => cookie == mine,
        // The kernel looks for the memory at the first thread, which may end before others.
        Err(Errno(libc::ESRCH)) => has_threads(main),
        Err(_) => false,
    }
}

/// Returns true if any thread of the process runs.
fn has_threads(process: i32) -> bool {
    // SAFETY: creates a descriptor.
    let Ok(fd) = (unsafe { sys!(libc::SYS_pidfd_open, process, 0) }) else { return false };
    let mut file = libc::pollfd { fd: fd as i32, events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel writes the result.
    let ended = unsafe { sys!(libc::SYS_poll, &raw mut file, 1, 0) };
    sys::close(fd as i32);
    ended == Ok(0)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;

    extern "C" fn waits(_: *mut c_void) -> *mut c_void {
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }

    #[test]
    fn a_program_runs_until_its_last_thread_has_ended() {
        let control = crate::all_zero::<Control>();
        control.cookie.store(77, Ordering::Relaxed);
        // SAFETY: the child starts a thread, and ends the one that it has.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut thread = 0;
                let no_attributes = std::ptr::null();
                libc::pthread_create(&mut thread, no_attributes, waits, std::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
            child
        };
        let ended = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
            stat.contains(") Z ")
        };
        while !ended() {
            std::thread::yield_now();
        }
        assert!(same_program(&control, child), "it has another thread");
        // SAFETY: ends and releases the child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
        }
        assert!(!same_program(&control, child));
    }
}
