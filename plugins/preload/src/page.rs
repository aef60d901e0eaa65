//! Paging with direct read (drswap section III): cold pages of an unmodified program leave DRAM for
//! a file in NVM; a read maps them in place, and a write copies them back.
//!
//! As long as the program fits its budget, its memory is left as it is. When DRAM becomes short, a
//! helper process that shares the program's memory replaces it, piece by piece, by private mappings
//! of the file. A page of these mappings is in one of two states: *N*, not mapped or with the
//! file's page mapped read-only, or *D*, a copy in DRAM. The kernel itself takes a page from N to D
//! at a write, and no thread waits for the helper.
//!
//! # Why no write is lost
//!
//! To take pages from D to N, the helper performs four steps (`pager::protocol`). The result of
//! each is a type that only the step before can make:
//!
//! 1. It makes writes to the pages wait (`UFFDIO_WRITEPROTECT`; `Monitor` knows where), and then
//!    checks which of them are D: they are `Protected`.
//! 2. It waits for every page fault in progress in their mappings, by a call that locks these
//!    mappings; or it ensures that the slots of the pages were removed from the file since the
//!    pages became D (`Residency` knows which were not). Then they are `Settled`.
//! 3. It writes them to their slots (`Store::write_out`, by `pwrite`): they are `Written`.
//! 4. It drops the copies of the pages that got this far (`MADV_DONTNEED`) and lets writes
//!    continue.
//!
//! All pages of a `Batch` go through each step together. The order of the steps matters for each
//! page separately: no step changes a page of another cluster. A test runs the protocol on a model
//! of the page table, in which other threads read, write and have faults in progress between any
//! two steps. It finds lost writes if step 1 or either way of step 2 is left out.
//!
//! A page fault copies the slot, and installs its copy later if the page-table entry is then as the
//! fault found it. `do_cow_fault` found an empty entry; `wp_page_copy` found the file's page
//! mapped, and copies that page even without its lock (Linux 6.12). Suppose that meanwhile another
//! thread takes the page to D and writes to it, and the page is evicted and read again. Then the
//! entry is the same as before, so the stale copy would be installed and the write would be lost.
//! But a fault holds the lock of its mapping, or that of all mappings, from its first look at the
//! entry until its end, and step 2 takes both exclusively. So every fault that began before step 1
//! is over before step 3. A fault that begins later finds the page D and protected, and waits,
//! without having copied anything, until step 4 empties the entry; by then the slot has the right
//! content.
//!
//! So a slot may stay in the file while its page is D, and be overwritten when the page leaves
//! again, which costs a third of writing to a hole. If NVM is short, scans remove the slots of the
//! D pages that they find from the file.
//!
//! The thread of an awaited fault may itself wait for a processor, while other threads fill memory.
//! If the budget cannot absorb that, and the slot is no part of a huge page, the alternative in
//! step 2 suffices as well. `do_cow_fault` holds the lock of the file's page from before its copy
//! until the entry is set, and `pwrite` takes that lock. So either the fault is over before the
//! slot changes, and it finds the entry not empty, or the fault copies what step 3 wrote.
//! `wp_page_copy` holds a reference to the page that it copies; that page is no longer in the file
//! and cannot be reused, so the entry differs from what the fault found. A page that is D stays D
//! until step 4. So the slot's page, if it was mapped before, is removed from the file whenever the
//! removal happens while the page is D. A late fault may put a new page into the hole; no thread
//! has it mapped before step 4 empties the entry, and by then its content is that of step 3.
//!
//! Only the program can end D otherwise, by releasing the page (`MADV_DONTNEED`, `munmap`). Then
//! the slot is emptied before the program's call returns or the address is used again; a write in
//! between may be lost, as it may without paging.
//!
//! # Why no writer waits forever
//!
//! A writer that finds the page protected goes to sleep, and step 4 wakes it. A late writer, which
//! goes to sleep after step 4, would not be woken: the kernel checks the entry again, but lets
//! every thread wait that finds it empty or read-only (`userfaultfd_must_wait`), as it is then. But
//! each sleeping thread leaves a message, and when the helper reads it, the helper wakes the
//! threads whose page is not protected (`Monitor::drain`).
//!
//! # Memory without a file
//!
//! Memory that is still plain is converted in the same way; the `mmap` over it, which replaces step
//! 4, waits for all faults of the mapping.
//!
//! # Forks
//!
//! A child maps the same slots. The kernel notifies the helper of every fork before the child runs
//! (`UFFD_FEATURE_EVENT_FORK`), whichever call makes it. From then on, no slot changes until the
//! child's memory is gone (`Monitor::is_shared`), which a request to its own userfaultfd reveals.
//!
//! A child maps no slots of memory that the program withholds from it (`MADV_DONTFORK`): the advice
//! is repeated on each mapping of the file, which may be too late for a child that is forked at
//! that moment. Such a child has mappings that its program does not know, and they are treated like
//! all others.

mod budget;
mod guard;
mod hooks;
mod pager;
mod slots;
mod space;
mod spans;
mod start;
mod statics;
mod tally;
mod vmas;

use std::ffi::CString;

use memweir_abi::preload::page::{PageCounter, PageOrder};

use crate::control::{self, READY};
use crate::{launch, maps, patch, sys};
use pager::{Begin, Start};
use space::Space;
use tally::Tally;

/// Starts paging. Runs before the program, when libc works and there is only one thread.
pub(crate) fn begin(text: &str) {
    let Ok(order) = text.parse::<PageOrder>() else { return };
    let tally =
        CString::new(order.counters.as_str()).map_or(Tally::NONE, |path| Tally::open(&path));
    if start_paging(&order, tally).is_none() {
        tally.add(PageCounter::Unpaged, 1);
        launch::leave_mark();
    }
}

/// Returns true if this process has the same number here and in `/proc`. In a PID namespace of its
/// own it has not, and other processes would take the number in the counters for another's.
fn is_numbered_as_elsewhere() -> bool {
    let number = std::fs::read_link("/proc/self");
    number.is_ok_and(|number| number.as_os_str() == sys::process_id().to_string().as_str())
}

fn start_paging(order: &PageOrder, tally: Tally) -> Option<()> {
    // Without the hooks, memory that the program drops would keep its evicted content.
    if !is_numbered_as_elsewhere() || !patch::can_install() {
        return None;
    }
    let control = control::create().ok()?;
    let space = space::create().ok()?;
    let main = sys::process_id();
    let start = Start::of(order, control, space, tally, main)?;
    know_first_memory(space);
    let fill = |begin: &mut Begin| begin.start = Some(start);
    // SAFETY: all zero is a helper that has not started; it uses system calls only.
    unsafe { launch::launch(control, main, fill, pager::run) }.ok()?;
    control.await_state(READY);
    if !control.is_ready() {
        return None;
    }
    start::follow(tally, order.unpaged);
    if !guard::install() {
        tally.add(PageCounter::Failures, 1);
    }
    hooks::install();
    // SAFETY: the handler lives as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    Some(())
}

/// Reads the child's mappings before its program may forbid itself to read files.
extern "C" fn in_child() {
    if let Some(space) = space::get() {
        space.with(|_| ());
    }
}

/// Adds the memory that the program has before its first call of libc to the known ranges: its heap
/// and its static variables.
fn know_first_memory(space: &Space) {
    let zeroed = statics::zeroed();
    maps::for_each(|line, mapping| {
        let whole = vmas::span(mapping);
        let own = if line.ends_with(b"[heap]") { whole } else { whole.and(zeroed) };
        if mapping.anonymous && mapping.writable && !own.is_empty() {
            space.with(|ranges| ranges.add(own));
        }
    });
}
