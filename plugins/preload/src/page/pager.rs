//! The helper of a paged program: its state, its start, and its loop. The modules below move and
//! track pages; [`Budget`] and the policy decide what to do. [`Store`] owns the slots and their
//! files, [`Residency`] the state of each page, [`Protection`] the ranges in which writes wait,
//! [`Children`] the forked children, [`Admission`] the credit of new memory, and [`Rest`] the
//! pauses of the evictor.

mod admission;
mod batch;
mod children;
mod convert;
mod credit;
mod evict;
mod files;
mod forks;
mod hold;
mod look;
mod marks;
mod pace;
mod pages;
mod protection;
mod requests;
mod rest;
mod scan;
mod settle;
mod store;
mod transfer;
mod urgency;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

use memweir_abi::kernel::userfaultfd::{
    UFFD_FEATURE_EVENT_FORK, UFFD_FEATURE_MINOR_SHMEM, UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
    UFFD_FEATURE_WP_UNPOPULATED,
};
use memweir_abi::preload::page::{
    DirectRead, NvmPlace, PageCounter, PageOrder, PagedState, Slowdown,
};
use memweir_policy::paging::{LearnsBy, Node, VictimEntry, Victims};

use crate::control::{Control, GONE, READY, REQUESTS, STARTED};
use crate::launch;
use crate::maps::{FileId, Maps};
use crate::memory;
use crate::page::budget::Budget;
use crate::page::slots::SLOTS;
use crate::page::space::{Ranges, Space};
use crate::page::tally::{Tally, Total};
use crate::page::vmas;
use crate::pagemap::{Found, Pagemap};
use crate::sys::{self, Errno, sys};
use crate::uffd::{self, Message, PAGE, Uffd};
use admission::Admission;
use children::Children;
use marks::Residency;
use protection::Protection;
use rest::Rest;
use store::{Store, StoreTables};
use urgency::Urgency;

/// Pages for which NVM always keeps room, even if fewer are evicted together.
const LEAST_ROOM: usize = 64;
/// Faults that can wait for an answer: one for each thread.
const PENDING: usize = 4096;
/// Attempts to lock the ranges after which other threads get time to run.
const AWHILE: u32 = 32;
/// Microseconds between checks that are expensive.
const RARELY: u64 = 200_000;

/// Location of the slots.
#[derive(Clone, Copy)]
enum Place {
    Memfd,
    File(&'static CStr),
    Node(u32),
}

/// Parameters of the helper, built by a thread of the program.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    budget: Budget,
    nvm_bytes: usize,
    place: Place,
    copies: bool,
    victims: &'static VictimEntry,
    delay: Option<Slowdown>,
    control: &'static Control,
    space: &'static Space,
    tally: Tally,
    main: i32,
}

impl Start {
    /// Reads `order`; `None` if it requests something that is impossible in a running program.
    pub(crate) fn of(
        order: &PageOrder,
        control: &'static Control,
        space: &'static Space,
        tally: Tally,
        main: i32,
    ) -> Option<Self> {
        let victims = memweir_policy::paging::find(&order.victims).ok()?;
        if victims.learns_by != LearnsBy::Faults || order.dram.0 < PAGE as u64 {
            return None;
        }
        let place = match &order.nvm {
            NvmPlace::Memfd => Place::Memfd,
            NvmPlace::Node { node } => Place::Node(*node),
            NvmPlace::File { path } => {
                let path = CString::new(path.as_os_str().as_bytes()).ok()?;
                Place::File(Box::leak(path.into_boxed_c_str()))
            }
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Some(Self {
            budget: Budget::new(order.dram.0 as usize / PAGE, processors),
            nvm_bytes: order.nvm_size.0 as usize,
            place,
            copies: order.direct_read == DirectRead::Copy,
            victims,
            delay: order.delay,
            control,
            space,
            tally,
            main,
        })
    }
}

/// The helper's memory, which no other process shares. All zero at first.
#[repr(C)]
pub(crate) struct Begin {
    pub(crate) start: Option<Start>,
    tables: Tables,
    store: StoreTables,
    nodes: [Node; SLOTS],
}

/// Tables that are too large for the stack.
#[repr(C)]
struct Tables {
    maps: Maps,
    residency: Residency,
    found: [Found; 1024],
    pending: [Message; PENDING],
    pending_used: usize,
    children: Children,
    protection: Protection,
    page: [u64; PAGE / 8],
}

/// Entry point of the helper.
pub(crate) extern "C" fn run(begin: usize) -> ! {
    // SAFETY: the starter made the helper's memory for this call alone.
    let begin = unsafe { &mut *(begin as *mut Begin) };
    let Some(start) = begin.start else { sys::exit() };
    launch::detach(c"memweir-page");
    start.control.announce(STARTED);
    let prepared = Store::create(&start, &mut begin.store)
        .and_then(|store| Pager::prepare(start, &mut begin.tables, store, &mut begin.nodes));
    match prepared {
        Ok(mut pager) => {
            start.tally.add(PageCounter::Processes, 1);
            // The memory in use may be too much already.
            pager.look();
            start.control.announce(READY);
            pager.serve();
            pager.finish();
        }
        Err(_) => start.control.announce(GONE),
    }
    sys::exit()
}

/// State of the helper.
struct Pager<'a> {
    start: Start,
    tables: &'a mut Tables,
    victims: Victims<&'a mut [Node]>,
    uffd: Uffd,
    pagemap: Pagemap,
    statm: i32,
    maps: i32,
    store: Store<'a>,
    main: i32,
    /// Descriptor of this process, if one call can drop pages of several ranges.
    itself: Option<i32>,
    /// Index of this process among the counters.
    entry: usize,
    own: Total,
    total: Total,
    admission: Admission,
    state: PagedState,
    rest: Rest,
    rarely_due: u64,
    scan_due: u64,
    converting: convert::Hand,
    batches: usize,
    urgency: Urgency,
}

impl<'a> Pager<'a> {
    fn prepare(
        start: Start,
        tables: &'a mut Tables,
        store: Store<'a>,
        nodes: &'a mut [Node],
    ) -> Result<Self, Errno> {
        let minor = if start.copies { UFFD_FEATURE_MINOR_SHMEM } else { 0 };
        let features = UFFD_FEATURE_EVENT_FORK
            | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
            | UFFD_FEATURE_WP_UNPOPULATED
            | minor;
        let uffd = Uffd::open_with(features)?;
        // Forks are reported if the child inherits any watched range; this one always exists.
        let sentinel = sys::map(PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        uffd.register_for(sentinel, PAGE, uffd::WRITES)?;
        let doorbells = sys::map(REQUESTS * PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        sys::advise(doorbells, REQUESTS * PAGE, libc::MADV_DONTFORK)?;
        uffd.register_for(doorbells, REQUESTS * PAGE, uffd::MISSING)?;
        start.control.doorbells.store(doorbells, std::sync::atomic::Ordering::Release);
        // SAFETY: makes a descriptor.
        let main = unsafe { sys!(libc::SYS_pidfd_open, start.main, 0) }? as i32;
        let mut pager = Self {
            start,
            tables,
            victims: start.victims.build(nodes),
            uffd,
            pagemap: Pagemap(sys::open(c"/proc/self/pagemap", libc::O_RDONLY)?),
            statm: sys::open(c"/proc/self/statm", libc::O_RDONLY)?,
            maps: sys::open(c"/proc/self/maps", libc::O_RDONLY)?,
            store,
            main,
            itself: batch::itself(doorbells),
            entry: start.tally.claim(start.main).ok_or(Errno(libc::EAGAIN))?,
            own: Total::default(),
            total: Total::default(),
            admission: Admission::FREE,
            state: PagedState::Ample,
            rest: Rest::default(),
            rarely_due: 0,
            scan_due: 0,
            converting: convert::Hand::default(),
            batches: 0,
            urgency: Urgency::claim(),
        };
        for (number, file) in pager.store.files().enumerate() {
            start.space.set_file(number, pager.identify(file)?);
        }
        // At the priority at which pages will be moved.
        pager.store.calibrate();
        Ok(pager)
    }

    /// Returns the identity that the kernel reports for mappings of the file.
    fn identify(&mut self, file: i32) -> Result<FileId, Errno> {
        let (nothing, private) = (libc::PROT_NONE, libc::MAP_PRIVATE);
        // SAFETY: creates a new mapping, which no other code knows.
        let start = unsafe { sys!(libc::SYS_mmap, 0, PAGE, nothing, private, file, 0) }?;
        let mapping = vmas::at(self.maps, &mut self.tables.maps, start);
        sys::unmap(start, PAGE);
        mapping.map(|mapping| mapping.file).ok_or(Errno(libc::ENOENT))
    }

    fn serve(&mut self) {
        loop {
            let Total { resident, reach, .. } = self.total;
            let pause = self.admission.pause(self.start.budget, resident, reach);
            let held = self.tables.protection.holds() || self.tables.pending_used > 0;
            if self.wait(if held { pause.min(500) } else { pause }) {
                return;
            }
            self.drain();
            self.answer();
            self.tick();
            let now = sys::micros();
            if now >= self.rarely_due {
                self.rarely_due = now + RARELY;
                self.start.tally.reap(Some(self.entry));
                if !launch::same_program(self.start.control, self.start.main) {
                    return;
                }
            }
        }
    }

    /// Does the work of one check.
    fn tick(&mut self) {
        self.give_back();
        self.look_after_children();
        self.look();
        self.hold_or_release();
        if !self.cannot_evict() {
            let pages = self.start.budget.to_evict(self.own.resident, self.total.resident);
            self.evict(pages);
        }
        self.hold_or_release();
        self.scan_sometimes();
        self.sleep_in_time();
    }

    /// Returns true if nothing can be evicted now, because of a forked child or because nothing
    /// could be evicted a moment ago.
    fn cannot_evict(&self) -> bool {
        self.tables.children.paused_since().is_some() || self.is_idle()
    }

    /// Returns true if nothing could be evicted a moment ago, and few pages have come since or NVM
    /// is still full.
    fn is_idle(&self) -> bool {
        let still = self.rest.covers(self.total.resident) || self.nvm_is_full();
        still && self.rest.lasts(sys::micros())
    }

    /// Returns the number of pages in a batch, which is small compared with the budget and with
    /// NVM.
    fn batch(&self) -> usize {
        self.start.budget.batch().min((self.start.nvm_bytes / PAGE / 64).max(LEAST_ROOM))
    }

    /// Returns the bytes of NVM that a batch may take.
    fn batch_room(&self) -> usize {
        self.batch().max(LEAST_ROOM) * PAGE
    }

    /// Returns the bytes that may still go to NVM.
    fn nvm_room(&self) -> usize {
        // Covers pages in flight of other processes, and pages that faults put there for a moment.
        self.start.nvm_bytes.saturating_sub(self.total.nvm + self.batch_room())
    }

    /// Returns true if NVM has too little room for the slots of resident pages.
    fn nvm_is_short(&self) -> bool {
        self.nvm_room() < self.start.nvm_bytes / 8
    }

    /// Returns true if NVM has no room for a batch, so that nothing is evicted.
    fn nvm_is_full(&self) -> bool {
        self.nvm_room() < self.batch_room()
    }

    /// Calls `look` on the ranges, and answers forks while another thread holds their lock. Must
    /// not be called while pages are protected for eviction: the lock holder may wait for one of
    /// them.
    fn ranges<T>(&mut self, look: impl FnOnce(&mut Ranges) -> T) -> T {
        let space = self.start.space;
        let mut tries = 0u32;
        let meanwhile = || {
            self.drain();
            tries += 1;
            if tries.is_multiple_of(AWHILE) {
                self.let_others_look(tries / AWHILE);
            }
        };
        space.with_patience(meanwhile, look)
    }

    /// Lets the lock holder of the ranges run. It may have been descheduled by this very process,
    /// which runs before others, or wait because writers are held.
    fn let_others_look(&mut self, rests: u32) {
        const LONG: u32 = 20;
        if rests.is_multiple_of(LONG) {
            if self.wait(0) {
                // The program has ended, so the lock will never be released.
                self.start.tally.release(self.entry, self.start.main as u64);
                sys::exit();
            }
            self.release();
        }
        sys::sleep_micros(50);
    }

    /// Returns the result of a system call, and counts it if it failed.
    fn check<T>(&self, result: Result<T, Errno>) -> Option<T> {
        self.start.tally.check(result)
    }

    /// Takes the last counts after the program has ended.
    fn finish(&mut self) {
        self.scan();
        let mut text = [0u8; 128];
        let mut numbers =
            memory::read(c"/proc/self/schedstat", &mut text).split(|byte| *byte == b' ');
        // CPU time, then the time that this process was ready to run and did not.
        let delay = numbers.nth(1).map_or(0, memory::number);
        self.start.tally.add(PageCounter::RunDelay, delay as usize);
        self.measure();
        self.start.tally.release(self.entry, self.start.main as u64);
    }
}
