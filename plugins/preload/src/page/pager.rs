//! The helper of a paged program: what it holds, how it begins, and its loop. What it does with
//! pages is in the modules below; what is to be done is decided by [`Budget`] and by the policy.

mod batch;
mod children;
mod convert;
mod credit;
mod evict;
mod files;
mod hold;
mod look;
mod marks;
mod nvm;
mod pace;
mod pages;
mod requests;
mod scan;
mod settle;
mod transfer;
mod urgency;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

use memweir_core::preload::page::{
    DirectRead, NvmPlace, PageCounter, PageOrder, PagedState, Slowdown,
};
use memweir_policy::paging::{LearnsBy, Node, VictimEntry, Victims};

use crate::control::{Control, GONE, READY, REQUESTS, STARTED};
use crate::launch;
use crate::maps::Maps;
use crate::memory;
use crate::page::budget::{Budget, MOST_AT_ONCE, Stage};
use crate::page::slots::{SLOTS, Slots};
use crate::page::space::{Ranges, Space};
use crate::page::spans::Spans;
use crate::page::tally::{Tally, Total};
use crate::pagemap::{Found, Pagemap};
use crate::sys::{self, Errno, sys};
use crate::uffd::{
    self, FEATURE_FORK, FEATURE_MINOR_SHMEM, FEATURE_WRITES_SHMEM, FEATURE_WRITES_UNPOPULATED,
    Message, PAGE, Uffd,
};
use children::Children;
use urgency::Urgency;

/// Pages for which there is always room left in NVM, even where fewer are evicted together.
const LEAST_ROOM: usize = 64;
/// Faults that can wait for an answer: one for each thread.
const PENDING: usize = 4096;
/// Ranges in which writers can be held.
const HELD: usize = 1024;
/// Tries to look at the ranges after which others get time to run.
const AWHILE: u32 = 32;
/// Microseconds between looks at what costs more than a few.
const RARELY: u64 = 200_000;

/// Where slots are.
#[derive(Clone, Copy)]
enum Place {
    Memfd,
    File(&'static CStr),
    Node(u32),
}

/// What the helper starts from; made by the program's thread.
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
    /// What `order` says; none if it asks for what cannot be done in a running program.
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

/// The helper's memory, shared with nobody. All zero at first.
#[repr(C)]
pub(crate) struct Begin {
    pub(crate) start: Option<Start>,
    tables: Tables,
    nodes: [Node; SLOTS],
}

/// What has no room on the stack.
#[repr(C)]
struct Tables {
    maps: Maps,
    slots: Slots,
    /// What is known of each slot's page: [`IN_DRAM`](marks::IN_DRAM) and the like.
    marks: [u8; SLOTS],
    /// Chunks whose slots are in the file of huge pages.
    huge: nvm::Chunks,
    /// Those of them that are not watched: no page of theirs was to leave since all did.
    unwatched: nvm::Chunks,
    found: [Found; 1024],
    pending: [Message; PENDING],
    pending_used: usize,
    children: Children,
    held: Spans<HELD>,
    /// Ranges whose pages are protected just now, because they are to leave.
    protected: Spans<MOST_AT_ONCE>,
    page: [u64; PAGE / 8],
}

/// Where the helper begins.
pub(crate) extern "C" fn run(begin: usize) -> ! {
    // SAFETY: the starter made the helper's memory for this call alone.
    let begin = unsafe { &mut *(begin as *mut Begin) };
    let Some(start) = begin.start else { sys::exit() };
    launch::detach(c"memweir-page");
    start.control.announce(STARTED);
    match Pager::prepare(start, &mut begin.tables, &mut begin.nodes) {
        Ok(mut pager) => {
            start.tally.add(PageCounter::Processes, 1);
            // What is there may be too much already.
            pager.look();
            start.control.announce(READY);
            pager.serve();
            pager.finish();
        }
        Err(_) => start.control.announce(GONE),
    }
    sys::exit()
}

/// The helper.
struct Pager<'a> {
    start: Start,
    tables: &'a mut Tables,
    victims: Victims<&'a mut [Node]>,
    uffd: Uffd,
    pagemap: Pagemap,
    statm: i32,
    maps: i32,
    nvm: files::Files,
    main: i32,
    /// This process, where pages of several ranges can be dropped by one call.
    itself: Option<i32>,
    /// Of this process among the counters.
    entry: usize,
    own: Total,
    total: Total,
    /// Slots that are [`KEPT`](marks::KEPT).
    kept: usize,
    stage: Stage,
    state: PagedState,
    /// Whether memory cannot become short before the program says that it has made room for more.
    at_ease: bool,
    /// Pages that there can be of this process before it says so, as far as is known.
    agreed: usize,
    /// Whether there were more all the same.
    surprised: bool,
    /// Pages that may come without a word, since accesses to all others were made to wait.
    credit: usize,
    /// Nothing is to be evicted until then, or until there are more pages than that: nothing could be, or
    /// there was no room.
    idle_until: u64,
    idle_up_to: usize,
    /// Rests since a page left: each waits for twice as much, so that memory that cannot leave may grow.
    rests: u32,
    rarely_due: u64,
    scan_due: u64,
    paused_since: Option<u64>,
    held_since: u64,
    /// What is protected next, when writers are held.
    hold_from: usize,
    /// Where writers are let go on next.
    release_from: usize,
    /// Where a page came to DRAM last.
    arrived_at: usize,
    converting: convert::Hand,
    batches: usize,
    /// Nanoseconds to copy a page in DRAM, if a slower medium is emulated.
    copy_nanos: f64,
    urgency: Urgency,
}

impl<'a> Pager<'a> {
    fn prepare(start: Start, tables: &'a mut Tables, nodes: &'a mut [Node]) -> Result<Self, Errno> {
        let minor = if start.copies { FEATURE_MINOR_SHMEM } else { 0 };
        let features = FEATURE_FORK | FEATURE_WRITES_SHMEM | FEATURE_WRITES_UNPOPULATED | minor;
        let uffd = Uffd::open_with(features)?;
        // Forks are told where anything is watched that the child gets; this always is.
        let herald = sys::map(PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        uffd.register_for(herald, PAGE, uffd::WRITES)?;
        let bells = sys::map(REQUESTS * PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        sys::advise(bells, REQUESTS * PAGE, libc::MADV_DONTFORK)?;
        uffd.register_for(bells, REQUESTS * PAGE, uffd::MISSING)?;
        start.control.doorbells.store(bells, std::sync::atomic::Ordering::Release);
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
            nvm: files::Files::create(start.place)?,
            main,
            itself: batch::itself(bells),
            entry: start.tally.claim(start.main).ok_or(Errno(libc::EAGAIN))?,
            own: Total::default(),
            total: Total::default(),
            kept: 0,
            stage: Stage::Ample,
            state: PagedState::Ample,
            at_ease: false,
            agreed: 0,
            surprised: false,
            credit: 0,
            idle_until: 0,
            idle_up_to: 0,
            rests: 0,
            rarely_due: 0,
            scan_due: 0,
            paused_since: None,
            held_since: 0,
            hold_from: 0,
            release_from: 0,
            arrived_at: 0,
            converting: convert::Hand::default(),
            batches: 0,
            copy_nanos: 0.0,
            urgency: Urgency::claim(),
        };
        for (number, file) in pager.nvm.each().enumerate() {
            start.space.set_file(number, pager.identify(file)?);
        }
        pager.calibrate();
        Ok(pager)
    }

    fn serve(&mut self) {
        loop {
            let pause = match self.at_ease {
                true if self.surprised => Budget::PAUSE_WARY,
                true => self.start.budget.pause_at_ease(self.total.reach, self.stage),
                false => self.start.budget.pause(self.total.resident, self.stage),
            };
            let held = self.tables.held.count() > 0 || self.tables.pending_used > 0;
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

    /// What is done at every look.
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

    /// Whether nothing can leave just now, for a forked child or because nothing could a moment ago.
    fn cannot_evict(&self) -> bool {
        self.paused_since.is_some() || self.is_idle()
    }

    /// Whether nothing could leave a moment ago, and little has come since, or NVM is still full.
    fn is_idle(&self) -> bool {
        let still = self.total.resident <= self.idle_up_to || self.nvm_is_full();
        still && sys::micros() < self.idle_until
    }

    /// Pages that are evicted together: few beside the NVM, too.
    fn batch(&self) -> usize {
        self.start.budget.batch().min((self.start.nvm_bytes / PAGE / 64).max(LEAST_ROOM))
    }

    /// Bytes of NVM that a batch may take.
    fn batch_room(&self) -> usize {
        self.batch().max(LEAST_ROOM) * PAGE
    }

    /// Bytes that may still go to NVM.
    fn nvm_room(&self) -> usize {
        // What is in flight of other processes, and pages that faults put there for a moment.
        self.start.nvm_bytes.saturating_sub(self.total.nvm + self.batch_room())
    }

    /// Whether NVM has too little room for slots whose pages are in DRAM.
    fn nvm_is_short(&self) -> bool {
        self.nvm_room() < self.start.nvm_bytes / 8
    }

    /// Whether there is no room for a batch, so that nothing is evicted.
    fn nvm_is_full(&self) -> bool {
        self.nvm_room() < self.batch_room()
    }

    /// Looks at the ranges; forks are answered while somebody else does. Not to be called while
    /// pages are protected that are to leave: who looks may wait for one of them.
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

    /// Who looks at the ranges may have been stopped by this very process, which runs before others,
    /// or wait because writers are held.
    fn let_others_look(&mut self, rests: u32) {
        const LONG: u32 = 20;
        if rests.is_multiple_of(LONG) {
            if self.wait(0) {
                // The program has ended, and nobody will come to the end of that look.
                self.start.tally.release(self.entry, self.start.main as u64);
                sys::exit();
            }
            self.release();
        }
        sys::sleep_micros(50);
    }

    /// Counts a call of the kernel that failed.
    fn check<T>(&self, result: Result<T, Errno>) -> Option<T> {
        if result.is_err() {
            self.start.tally.add(PageCounter::Failures, 1);
        }
        result.ok()
    }

    /// Counts what the program left behind.
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
