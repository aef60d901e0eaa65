//! Pages of chosen colors. The program's memory is watched with userfaultfd. A helper process that
//! shares the memory keeps a pool of pages whose colors it read from pagemap, and answers each page
//! fault by moving one into place (`UFFDIO_MOVE`), or by recycling its frame if the kernel cannot
//! do that.

pub(crate) mod api;
mod choice;
mod counters;
mod groups;
mod helper;
mod hooks;
mod palette;
mod pool;

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use memweir_abi::preload::{Counter, Order};

use crate::control::{self, Control, READY};
use crate::launch;
use crate::sys::{self, Errno, sys};
use counters::Counters;
use helper::{Helper, Start};

/// Parameters from which a forked child starts its helper.
static START: OnceLock<Start> = OnceLock::new();

/// Starts the placing of pages. Runs before the program, when libc works and there is only one
/// thread.
pub(crate) fn begin(text: &str) {
    let Ok(order) = text.parse::<Order>() else { return };
    let Ok(control) = control::create() else { return };
    let counters =
        CString::new(order.counters.as_str()).map_or(Counters::NONE, |path| Counters::open(&path));
    let Some(start) = Start::of(&order, control, counters) else { return };
    api::COLORS.store(order.coloring.colors(), Ordering::Relaxed);
    let start = START.get_or_init(|| start);
    // Huge pages span all colors. Children inherit the setting.
    // SAFETY: changes a setting of this process.
    let _ = unsafe { sys!(libc::SYS_prctl, libc::PR_SET_THP_DISABLE, 1) };
    // The helper locks the program's memory. Once the program has given up root, its stack could
    // not grow, and its mappings could not be enlarged.
    launch::lift_limit(libc::RLIMIT_MEMLOCK, libc::RLIM_INFINITY);
    remember_set(control, start);
    if start_helper(*start).is_err() {
        counters.add(Counter::Uncolored, 1);
        launch::leave_mark();
        return;
    }
    control.await_state(READY);
    if !control.is_ready() {
        launch::leave_mark();
    }
    hooks::install();
    // SAFETY: the handlers live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
}

/// Stores the colors of the process as the first set.
fn remember_set(control: &Control, start: &Start) {
    for (word, set) in control.sets[0].iter().zip(start.set) {
        word.store(set, Ordering::Relaxed);
    }
    control.sets_used.store(1, Ordering::Release);
}

/// Starts the helper and waits until it has closed the program's files.
fn start_helper(start: Start) -> Result<(), Errno> {
    let fill = |helper: &mut Helper| helper.start = Some(start);
    // SAFETY: all zero is a helper that has not started.
    unsafe { launch::launch(start.control, start.main, fill, helper::run) }
}

extern "C" fn before_fork() {
    if let Some(control) = control::get() {
        // Undone in the parent; in the child, the word is wiped.
        while control.may_move() && !control.enter() {}
    }
}

extern "C" fn in_parent() {
    if let Some(control) = control::get().filter(|control| control.may_move()) {
        control.forks.fetch_add(1, Ordering::Relaxed);
        control.leave();
    }
}

extern "C" fn in_child() {
    let (Some(control), Some(start)) = (control::get(), START.get()) else { return };
    let (main, started) = (sys::process_id(), sys::start_time());
    let child = Start { main, started, delay: 3000, pool_pages: 0, ..*start };
    remember_set(control, start);
    if start_helper(child).is_ok() {
        start.counters.add(Counter::Forks, 1);
    }
}
