//! System calls without libc. The helper shares the program's memory and with it the thread-local
//! storage of the thread that started it, so it must never access `errno` or anything else that
//! libc or std keep there; and the hooks replace libc's own calls.

use std::arch::asm;
use std::ffi::CStr;
use std::sync::atomic::AtomicU64;

use memweir_abi::kernel::stat::StatLine;

/// The number of an error that a system call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// Calls the kernel.
///
/// # Safety
/// As for the system call: its effect on memory must suit all users of that memory.
pub(crate) unsafe fn call(number: i64, args: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the convention of x86-64: rcx and r11 are overwritten, memory may change.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// Calls the kernel with fewer than six arguments.
macro_rules! sys {
    ($number:expr $(, $arg:expr)*) => {{
        let mut args = [0usize; 6];
        let given = [$($arg as usize),*];
        args[..given.len()].copy_from_slice(&given);
        $crate::sys::call($number, args)
    }};
}
pub(crate) use sys;

/// Starts a process that shares this one's memory and nothing else: `run(argument)` on the stack
/// that ends at `stack_end`. It gets a copy of the open files, no thread-local storage of its own,
/// and ends without a signal to its parent, so that `wait` does not see it. `id` holds its number
/// while it lives, and then zero. `flags` are further flags of `clone`. Returns the number.
///
/// A tracer of this process does not follow it: gdb would take it for a thread of the program and
/// stop it, and strace would slow it down and log its calls.
///
/// # Safety
/// `stack_end` must be the 16-byte aligned end of memory with no other user; `id` must outlive the
/// process; `run` must not return, nor touch thread-local storage.
pub(crate) unsafe fn spawn_sharing(
    stack_end: usize,
    run: extern "C" fn(usize) -> !,
    argument: usize,
    id: *mut i32,
    flags: i32,
) -> Result<i32, Errno> {
    let flags = flags
        | libc::CLONE_VM
        | libc::CLONE_UNTRACED
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    let result: isize;
    // SAFETY: the parent returns as from any system call. The child has only registers, among them
    // r12 and r13, and its own stack, and leaves this code for good.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags, in("rsi") stack_end, in("rdx") id, in("r10") id, in("r8") 0,
            in("r12") argument, in("r13") run as *const () as usize,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as i32) }
}

/// Calls `work` while no signal interrupts this thread.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let (all, mut before) = (u64::MAX, 0u64);
    // SAFETY: changes the mask of this thread, which the second call restores.
    unsafe {
        let _ =
            sys!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8);
        let result = work();
        let _ = sys!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
        result
    }
}

/// Protection of memory that is read and written.
pub(crate) const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps anonymous memory at a free address, not to be shared with another process.
pub(crate) fn map(length: usize, protection: i32, flags: i32) -> Result<usize, Errno> {
    // SAFETY: without MAP_FIXED the kernel takes free addresses.
    unsafe {
        sys!(libc::SYS_mmap, 0, length, protection, flags | libc::MAP_ANONYMOUS, usize::MAX, 0)
    }
}

/// Maps the words of a file, as all processes see them; `None` if that fails. `flags` are further
/// flags with which the file is opened.
///
/// # Safety
/// The file must have as many words.
pub(crate) unsafe fn map_words<const N: usize>(
    path: &CStr,
    flags: i32,
) -> Option<&'static [AtomicU64; N]> {
    let fd = open(path, libc::O_RDWR | flags).ok()?;
    // SAFETY: a new mapping.
    let start = unsafe { sys!(libc::SYS_mmap, 0, N * 8, READ_WRITE, libc::MAP_SHARED, fd, 0) };
    close(fd);
    // SAFETY: the mapping stays, is as long as the caller says, and any words are valid.
    start.ok().map(|start| unsafe { &*(start as *const _) })
}

pub(crate) fn open(path: &CStr, flags: i32) -> Result<i32, Errno> {
    // SAFETY: the path ends with a zero byte.
    unsafe { sys!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC) }
        .map(|fd| fd as i32)
}

pub(crate) fn close(fd: i32) {
    // SAFETY: only descriptors that the caller opened are closed.
    let _ = unsafe { sys!(libc::SYS_close, fd) };
}

pub(crate) fn read_at(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel writes into the buffer only.
    unsafe { sys!(libc::SYS_pread64, fd, buffer.as_mut_ptr(), buffer.len(), offset) }
}

/// `read` from a pipe.
pub(crate) fn read(fd: i32, buffer: &mut [u64]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes into the buffer only, and any bytes are words.
    unsafe { sys!(libc::SYS_read, fd, buffer.as_mut_ptr(), size_of_val(buffer)) }
}

/// `pread` of whole words.
pub(crate) fn read_words_at(fd: i32, words: &mut [u64], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel writes into the buffer only, and any bytes are words.
    unsafe { sys!(libc::SYS_pread64, fd, words.as_mut_ptr(), words.len() * 8, offset) }
        .map(|bytes| bytes / 8)
}

/// Advice that libc does not declare for every target: pages are not needed soon.
pub(crate) const MADV_COLD: i32 = 20;
/// Reclaims pages now.
pub(crate) const MADV_PAGEOUT: i32 = 21;
/// Provides pages as writes would.
pub(crate) const MADV_POPULATE_WRITE: i32 = 23;
/// `MADV_DONTNEED` for memory that may be locked (Linux 5.18).
pub(crate) const MADV_DONTNEED_LOCKED: i32 = 24;
/// Empties pages, which an access finds guarded from then on (Linux 6.13).
pub(crate) const MADV_GUARD_INSTALL: i32 = 102;

/// Last argument of this library's `madvise` and `process_madvise`, which do not read it. The guard
/// of paged programs refuses calls that drop memory without it.
pub(crate) const ADVICE_MARK: u32 = 0x6d77_7270;

pub(crate) fn advise(address: usize, length: usize, advice: i32) -> Result<(), Errno> {
    // SAFETY: callers name memory that is theirs.
    unsafe { sys!(libc::SYS_madvise, address, length, advice, 0, 0, ADVICE_MARK) }.map(drop)
}

pub(crate) fn protect(address: usize, length: usize, protection: i32) -> Result<(), Errno> {
    // SAFETY: callers name memory that is theirs.
    unsafe { sys!(libc::SYS_mprotect, address, length, protection) }.map(drop)
}

/// Locks pages as they are touched. Locked pages are not moved by compaction where
/// `vm.compact_unevictable_allowed` is 0.
pub(crate) fn lock_on_fault(address: usize, length: usize) -> Result<(), Errno> {
    const MLOCK_ONFAULT: usize = 1;
    // SAFETY: locking changes no memory.
    unsafe { sys!(libc::SYS_mlock2, address, length, MLOCK_ONFAULT) }.map(drop)
}

/// Undoes [`lock_on_fault`].
pub(crate) fn unlock(address: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: unlocking changes no memory.
    unsafe { sys!(libc::SYS_munlock, address, length) }.map(drop)
}

pub(crate) fn unmap(address: usize, length: usize) {
    // SAFETY: callers name memory that is theirs alone.
    let _ = unsafe { sys!(libc::SYS_munmap, address, length) };
}

/// Returns the status of an open file; `None` if the kernel does not tell.
pub(crate) fn status(fd: i32) -> Option<libc::stat> {
    // SAFETY: zero is valid for every field.
    let mut status = unsafe { std::mem::zeroed::<libc::stat>() };
    // SAFETY: the kernel writes the status.
    let asked = unsafe { sys!(libc::SYS_fstat, fd, &raw mut status) };
    asked.ok().map(|_| status)
}

/// Sets the memory policy of this process, with one node or none.
pub(crate) fn set_memory_policy(mode: i32, node: Option<u32>) -> Result<(), Errno> {
    let mut nodes = [0u64; 16];
    if let Some(node) = node {
        *nodes.get_mut(node as usize / 64).ok_or(Errno(libc::EINVAL))? = 1 << (node % 64);
    }
    let bits = size_of_val(&nodes) * 8 + 1;
    // SAFETY: the kernel reads the nodes; the policy is that of this process alone.
    unsafe { sys!(libc::SYS_set_mempolicy, mode, nodes.as_ptr(), bits) }.map(drop)
}

/// Returns true if the mapping that holds `address` has a memory policy of its own (`mbind`) that
/// does not merely prefer the node of the thread.
pub(crate) fn is_bound(address: usize) -> bool {
    const MPOL_F_ADDR: usize = 2;
    let mut mode = libc::MPOL_DEFAULT;
    // SAFETY: the kernel writes the mode.
    let asked = unsafe { sys!(libc::SYS_get_mempolicy, &raw mut mode, 0, 0, address, MPOL_F_ADDR) };
    asked.is_ok() && mode != libc::MPOL_DEFAULT && mode != libc::MPOL_LOCAL
}

pub(crate) fn process_id() -> i32 {
    // SAFETY: only returns a number.
    unsafe { sys!(libc::SYS_getpid) }.map_or(0, |id| id as i32)
}

/// Returns the start time of this process, in clock ticks since boot; zero if `/proc` does not
/// tell.
pub(crate) fn start_time() -> u64 {
    let Ok(fd) = open(c"/proc/self/stat", libc::O_RDONLY) else { return 0 };
    let mut line = [0; 1024];
    let length = read_at(fd, &mut line, 0).unwrap_or(0);
    close(fd);
    StatLine::of(&line[..length]).and_then(|line| line.start()).unwrap_or(0)
}

pub(crate) fn thread_id() -> i32 {
    // SAFETY: only returns a number.
    unsafe { sys!(libc::SYS_gettid) }.map_or(0, |id| id as i32)
}

/// Returns the microseconds of a monotonic clock.
pub(crate) fn micros() -> u64 {
    nanos() / 1000
}

/// Returns the nanoseconds of the same clock.
pub(crate) fn nanos() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Returns the microseconds of CPU time of this thread.
pub(crate) fn cpu_micros() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID) / 1000
}

fn clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time.
    let _ = unsafe { sys!(libc::SYS_clock_gettime, clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn sleep_micros(micros: u64) {
    let time = libc::timespec {
        tv_sec: (micros / 1_000_000) as i64,
        tv_nsec: (micros % 1_000_000 * 1000) as i64,
    };
    // SAFETY: the kernel reads the time.
    let _ = unsafe { sys!(libc::SYS_nanosleep, &raw const time, 0) };
}

pub(crate) fn exit() -> ! {
    loop {
        // SAFETY: ends this process.
        let _ = unsafe { sys!(libc::SYS_exit_group, 0) };
    }
}
