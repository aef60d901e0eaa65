//! The preload library of `memweir color run`: the heap, the anonymous mappings and the stacks of
//! an unmodified program come to lie in pages of chosen colors.
//!
//! The program's memory is watched with userfaultfd. A helper process that shares the memory keeps
//! a pool of pages whose colors it read from pagemap, and answers each page fault by moving one
//! into place (`UFFDIO_MOVE`). Without [`ORDER_VARIABLE`] in
//! the environment the library does nothing at all.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the preload library knows the system calls of Linux on x86-64 only");

mod api;
mod control;
mod counters;
mod helper;
mod hooks;
mod maps;
mod memory;
mod pool;
mod sys;
mod uffd;

pub use api::{
    memweir_color_alloc, memweir_color_count, memweir_color_free, memweir_thread_colors,
};

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use memweir_core::preload::{Counter, ORDER_VARIABLE, Order};

use control::{Control, READY, STARTED};
use counters::Counters;
use helper::{Helper, Start};
use sys::{Errno, sys};

/// Bytes of the helper's stack.
const STACK: usize = 256 << 10;

/// What a forked child starts its helper from.
static START: OnceLock<Start> = OnceLock::new();

/// Runs before the program, when libc works and there is one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    let Ok(text) = std::env::var(ORDER_VARIABLE) else { return };
    let Ok(order) = text.parse::<Order>() else { return };
    let Ok(control) = control::create() else { return };
    let counters =
        match CString::new(order.counters.as_str()).map(|path| sys::open(&path, libc::O_RDWR)) {
            Ok(Ok(fd)) => {
                let counters = Counters::map(fd);
                sys::close(fd);
                counters
            }
            _ => Counters::NONE,
        };
    let Some(start) = helper::start_of(&order, control, counters) else { return };
    api::COLORS.store(order.coloring.colors(), Ordering::Relaxed);
    let start = START.get_or_init(|| start);
    // Huge pages lie in every color. Inherited by children, forgotten by nobody.
    // SAFETY: changes a setting of this process.
    let _ = unsafe { sys!(libc::SYS_prctl, libc::PR_SET_THP_DISABLE, 1) };
    remember_set(control, start);
    if launch(*start).is_err() {
        counters.add(Counter::Uncolored, 1);
        return;
    }
    control.await_state(READY);
    hooks::install();
    // SAFETY: the handlers live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
}

/// The colors of the process as the first set.
fn remember_set(control: &Control, start: &Start) {
    for (word, set) in control.sets[0].iter().zip(start.set) {
        word.store(set, Ordering::Relaxed);
    }
    control.sets_used.store(1, Ordering::Release);
}

/// Starts the helper and waits until it has let go of the program's files.
fn launch(start: Start) -> Result<(), Errno> {
    start.control.provide()?;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let shared = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // Shared memory, so that it is none of the memory that is placed.
    let length = size_of::<Helper>().next_multiple_of(uffd::PAGE) + STACK;
    let memory = sys::map(length, both, shared)?;
    sys::advise(memory, length, libc::MADV_DONTFORK)?;
    // SAFETY: fresh memory, all zero, which is valid for a helper that has not started.
    unsafe { (*(memory as *mut Helper)).start = Some(start) };
    let control = start.control;
    control.cookie.store(sys::micros() << 20 | start.main as u64, Ordering::Relaxed);
    let mut before = 0u64;
    let all = u64::MAX;
    // SAFETY: no signal may run a handler of the program's in the helper, whose mask is ours.
    unsafe {
        let _ =
            sys!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8);
    }
    // SAFETY: the stack is the end of the new memory.
    let helper = unsafe { sys::spawn_sharing(memory + length, helper::run, memory) };
    if let Ok(id) = helper {
        control.helper.store(id, Ordering::Release);
    }
    // SAFETY: puts the mask back.
    unsafe {
        let _ = sys!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
    }
    helper.map(|_| control.await_state(STARTED))
}

extern "C" fn before_fork() {
    if let Some(control) = control::get() {
        // Undone in the parent; the child finds the word wiped.
        while control.is_ready() && !control.enter() {}
    }
}

extern "C" fn in_parent() {
    if let Some(control) = control::get().filter(|control| control.is_ready()) {
        control.forks.fetch_add(1, Ordering::Relaxed);
        control.leave();
    }
}

extern "C" fn in_child() {
    let (Some(control), Some(start)) = (control::get(), START.get()) else { return };
    let started = Start { main: sys::process_id(), delay: 3000, pool_pages: 0, ..*start };
    remember_set(control, start);
    if launch(started).is_ok() {
        start.counters.add(Counter::Forks, 1);
    }
}
