//! Paging with direct read (drswap section III): cold pages of an unmodified program leave DRAM for
//! a file in NVM; a read maps them where they lie, a write copies them back.
//!
//! As long as the program fits its budget its memory is left as it is. When DRAM becomes short, a
//! helper process that shares the program's memory replaces it, piece by piece, by private mappings
//! of the file. In these a page is in one of two states: *N*, not mapped or the file's page mapped
//! read-only, or *D*, a copy in DRAM. The kernel itself takes it from N to D at a write, and nobody
//! waits for the helper.
//!
//! # Why no write is lost
//!
//! To take pages from D to N, the helper
//!
//! 1. makes writes to them wait (`UFFDIO_WRITEPROTECT`), and looks which of them are D,
//! 2. waits for every page fault of their mappings that is under way, by a call that locks these; or
//!    makes sure that their slots were taken out of the file since they came to be D,
//! 3. writes them to their slots (`pwrite`),
//! 4. drops the copies (`MADV_DONTNEED`) and lets writes go on.
//!
//! A batch goes through each step together. The order of steps matters for each page alone: none of
//! them changes a page of another cluster.
//!
//! A page fault copies the slot, and installs its copy later if the entry of the page table is then
//! as the fault found it. `do_cow_fault` found an empty entry, `wp_page_copy` found the file's page
//! mapped, and copies it even without its lock (Linux 6.12). If another thread takes the page to D
//! meanwhile, writes, and the page is evicted and read again, the entry is the same as before: the
//! stale copy would be installed, and the write be lost. But a fault holds the lock of its mapping,
//! or that of all mappings, from its first look at the entry until its end, and step 2 takes both for
//! itself. So what began before step 1 is over before step 3. What begins later finds the page D and
//! protected, and waits without having copied anything, until step 4 empties the entry; then the slot
//! has what it must have.
//!
//! So a slot may stay in the file while its page is D, and be written over when that leaves again,
//! which costs a third of writing to a hole. Where NVM is short the slots of D pages are taken out of
//! the file as scans find them.
//!
//! Who is waited for may itself wait for a processor, and others fill memory meanwhile. Where the
//! budget does not bear that, and the slot is no part of a huge page, the other step 2 does as well:
//! `do_cow_fault` holds the lock of the file's page from before its copy until the entry is set, and
//! `pwrite` takes that lock, so the fault is over before the slot changes, and finds the entry not
//! empty, or copies what step 3 wrote. `wp_page_copy` holds a reference to the page that it copies,
//! which is no longer in the file and cannot be used again, so the entry differs from what it found.
//! What is D stays so until step 4, so its slot's page, if it was mapped before, is taken out whenever
//! that happens while it is D. A fault that is late may put a new page into the hole; nobody has it
//! mapped before step 4 empties the entry, and then its content is that of step 3.
//!
//! Only the program can end D otherwise, by giving the page up (`MADV_DONTNEED`, `munmap`): then the
//! slot is emptied before the program's call returns or the address is used again, and what is
//! written in between may be lost as it may without paging.
//!
//! # Why nobody waits for ever
//!
//! A writer that finds the page protected goes to sleep, and step 4 wakes it. One that is late, and
//! goes to sleep after step 4, would not be woken: the kernel looks at the entry again, but lets
//! everybody wait who finds it empty or read-only (`userfaultfd_must_wait`), as it is then. But each
//! sleeper leaves a message, and the helper wakes those whose page is not protected when it reads
//! that.
//!
//! # Memory without a file
//!
//! Memory that is still plain is converted likewise; `mmap` over it, in place of step 4, waits for
//! all faults of the mapping.
//!
//! # Forks
//!
//! A child maps the same slots. The kernel tells the helper of every fork before the child runs
//! (`UFFD_FEATURE_EVENT_FORK`), whichever way it is called, and from then on no slot changes until
//! the child's memory is gone, which a request to its own userfaultfd tells.
//!
//! A child maps no slots of memory that the program keeps from it (`MADV_DONTFORK`): the advice is
//! given again on each mapping of the file, which may be late for a child that is forked just then.
//! Such a child has mappings that its program does not know, and they are treated as all others.

mod budget;
mod guard;
mod hooks;
mod pager;
mod slots;
mod space;
mod spans;
mod start;
mod tally;
mod vmas;

use std::ffi::CString;

use memweir_core::preload::page::{PageCounter, PageOrder};

use crate::control::{self, READY};
use crate::{launch, maps, sys};
use pager::{Begin, Start};
use space::Space;
use spans::Span;
use tally::Tally;

/// Runs before the program, when libc works and there is one thread.
pub(crate) fn begin(text: &str) {
    let Ok(order) = text.parse::<PageOrder>() else { return };
    let tally = match CString::new(order.counters.as_str()) {
        Ok(path) => Tally::open(&path),
        Err(_) => Tally::NONE,
    };
    if start_paging(&order, tally).is_none() {
        tally.add(PageCounter::Unpaged, 1);
    }
}

fn start_paging(order: &PageOrder, tally: Tally) -> Option<()> {
    let control = control::create().ok()?;
    let space = space::create().ok()?;
    let main = sys::process_id();
    let start = Start::of(order, control, space, tally, main)?;
    know_heap(space);
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

/// Finds out what the memory is made of before the program may forbid itself to read files.
extern "C" fn in_child() {
    if let Some(space) = space::get() {
        space.with(|_| ());
    }
}

/// What the heap has already.
fn know_heap(space: &Space) {
    maps::for_each(|line, mapping| {
        if line.ends_with(b"[heap]") {
            space.with(|ranges| ranges.add(Span::new(mapping.start, mapping.end)));
        }
    });
}
