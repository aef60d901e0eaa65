//! The helper of a paged program: its start and its loop. Each part of its state has an owner:
//!
//! | owner | state | invariant |
//! |---|---|---|
//! | [`Monitor`] | page faults, forks, where writes wait | no writer waits forever |
//! | [`Store`] | slots and their files | a page in a file never changes its slot |
//! | [`Residency`] | states of pages, order of victims | the policy has the pages in DRAM |
//! | [`protocol`] | pages on their way out | no write is lost |
//! | [`Memory`] | slot mappings, the owners above | each mapping of a file is a converted range |
//! | [`Pressure`] | amounts of memory, credit of new memory | writers are stalled only for room |
//! | [`Evictor`] | the choice of pages to move | no more time than a share goes to scans |

mod answers;
mod calls;
mod convert;
mod evict;
mod memory;
mod monitor;
mod pages;
mod pressure;
mod protocol;
mod residency;
mod store;
mod urgency;

use std::ffi::{CStr, CString};

use memweir_abi::kernel::userfaultfd::{
    UFFD_FEATURE_EVENT_FORK, UFFD_FEATURE_MINOR_SHMEM, UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
    UFFD_FEATURE_WP_UNPOPULATED,
};
use memweir_abi::preload::page::{
    DirectRead, NvmPlace, PageCounter, PageOrder, Slowdown, TmpfsOptions,
};
use memweir_policy::paging::{LearnsBy, Node, VictimEntry};

use crate::control::{Control, GONE, READY, STARTED};
use crate::launch;
use crate::maps::Maps;
use crate::memory as amounts;
use crate::page::budget::Budget;
use crate::page::slots::SLOTS;
use crate::page::space::Space;
use crate::page::tally::Tally;
use crate::pagemap::Found;
use crate::sys::{self, Errno, sys};
use crate::uffd::{PAGE, Uffd, WRITES};
use evict::Evictor;
use memory::Memory;
use monitor::{Monitor, MonitorTables};
use pressure::Pressure;
use residency::{Residency, State};
use store::{Store, StoreTables};
use urgency::Urgency;

/// Files that the helper has open besides those of forked children, and some to spare.
const OWN_FILES: usize = 16;
/// Microseconds between checks that are expensive.
const RARELY: u64 = 200_000;

/// Location of the slots.
#[derive(Clone, Copy)]
enum Place {
    Memfd,
    Tmpfs { huge: &'static CStr, policy: &'static CStr },
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
            NvmPlace::Tmpfs(TmpfsOptions { huge, policy }) => {
                let kept = |text: &str| -> Option<&'static CStr> {
                    Some(Box::leak(CString::new(text).ok()?.into_boxed_c_str()))
                };
                Place::Tmpfs { huge: kept(huge)?, policy: kept(policy)? }
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
}

/// Tables that are too large for the stack.
#[repr(C)]
struct Tables {
    maps: Maps,
    found: [Found; 1024],
    content: [u64; PAGE / 8],
    monitor: MonitorTables,
    store: StoreTables,
    states: [State; SLOTS],
    nodes: [Node; SLOTS],
}

/// Entry point of the helper.
pub(crate) extern "C" fn run(begin: usize) -> ! {
    // SAFETY: the starter made the helper's memory for this call alone, which does not return.
    let begin: &'static mut Begin = unsafe { &mut *(begin as *mut Begin) };
    let Some(start) = begin.start else { sys::exit() };
    launch::detach(c"memweir-page");
    start.control.announce(STARTED);
    match Pager::prepare(start, &mut begin.tables) {
        Ok(mut pager) => {
            start.tally.add(PageCounter::Processes, 1);
            // The memory in use may be too much already.
            pager.pressure.look(&mut pager.memory);
            start.control.announce(READY);
            pager.serve();
            pager.finish();
        }
        Err(_) => start.control.announce(GONE),
    }
    sys::exit()
}

/// The helper.
struct Pager {
    start: Start,
    /// Index of this process among the counters.
    entry: usize,
    memory: Memory,
    pressure: Pressure,
    evictor: Evictor,
    urgency: Urgency,
    rarely_due: u64,
    /// Content of the page that is copied in.
    content: &'static mut [u64],
}

impl Pager {
    fn prepare(start: Start, tables: &'static mut Tables) -> Result<Self, Errno> {
        // A fork waits forever if there is no free descriptor for its child.
        let children = launch::file_limit().checked_sub(OWN_FILES).ok_or(Errno(libc::EMFILE))?;
        let store = Store::create(&start, &mut tables.store)?;
        let minor = if start.copies { UFFD_FEATURE_MINOR_SHMEM } else { 0 };
        let features = UFFD_FEATURE_EVENT_FORK
            | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
            | UFFD_FEATURE_WP_UNPOPULATED
            | minor;
        let uffd = Uffd::open_with(features)?;
        // Forks are reported if the child inherits any watched range; this one always exists.
        let sentinel = sys::map(PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        uffd.register(sentinel, PAGE, WRITES)?;
        start.control.make_doorbells(uffd)?;
        // SAFETY: makes a descriptor.
        let main = unsafe { sys!(libc::SYS_pidfd_open, start.main, 0) }? as i32;
        let entry = start.tally.claim(start.main).ok_or(Errno(libc::EAGAIN))?;
        let monitor = Monitor::new(uffd, main, &start, entry, children, &mut tables.monitor);
        let victims = start.victims.build(&mut tables.nodes[..]);
        let residency = Residency::new(&mut tables.states, victims, start.tally);
        let mut memory = Memory::new(&start, monitor, store, residency, &mut tables.maps)?;
        for (number, file) in memory.store.files().enumerate() {
            start.space.set_file(number, memory.identify(file)?);
        }
        let urgency = Urgency::claim();
        // At the priority at which pages will be moved.
        memory.store.calibrate();
        Ok(Self {
            start,
            entry,
            memory,
            pressure: Pressure::new(&start, entry)?,
            evictor: Evictor::new(&mut tables.found),
            urgency,
            rarely_due: 0,
            content: &mut tables.content,
        })
    }

    /// Serves the program to its end.
    fn serve(&mut self) {
        loop {
            let pause = self.pressure.pause();
            let waited_for = self.memory.monitor.has_waiters();
            if self.memory.monitor.wait(if waited_for { pause.min(500) } else { pause }) {
                return;
            }
            self.memory.monitor.drain();
            self.answer();
            let Self { memory, pressure, evictor, urgency, .. } = self;
            memory.give_back();
            memory.monitor.look_after_children();
            pressure.look(memory);
            pressure.stall_or_release(memory);
            if !pressure.cannot_evict(memory) {
                evictor.evict(pressure.to_evict(), pressure, memory);
            }
            pressure.stall_or_release(memory);
            evictor.scan_sometimes(pressure, memory);
            urgency.sleep_in_time(pressure, memory);
            let now = sys::micros();
            if now >= self.rarely_due {
                self.rarely_due = now + RARELY;
                self.start.tally.reap(self.entry);
                if !launch::same_program(self.start.control, self.start.main) {
                    return;
                }
            }
        }
    }

    /// Takes the last counts after the program has ended.
    fn finish(&mut self) {
        let Self { memory, pressure, evictor, .. } = self;
        evictor.scan(pressure, memory);
        // Forked children may outlive the program.
        if let Some(since) = memory.monitor.children().paused_since() {
            memory.monitor.count_pause(since);
        }
        let mut text = [0u8; 128];
        let mut numbers =
            amounts::read(c"/proc/self/schedstat", &mut text).split(|byte| *byte == b' ');
        // CPU time, then the time that this process was ready to run and did not.
        let delay = numbers.nth(1).map_or(0, amounts::number);
        self.start.tally.add(PageCounter::RunDelay, delay as usize);
        pressure.measure(memory);
        self.start.tally.release(self.entry, self.start.main as u64);
    }
}
