//! The helper: a process that shares the program's memory, answers its page faults with pages of
//! the requested colors, and corrects pages that the kernel has changed.
//!
//! It is a process and not a thread of the program. So the program stays single-threaded if it was
//! (for `unshare`, `setns` and programs that count threads), the helper has its own open files, and
//! what the program does to its descriptors, signals and user does not affect the helper: it keeps
//! the rights with which the program started, in memory that the program can write. If the helper
//! dies, the kernel answers the page faults as usual: the program continues, uncolored.
//!
//! This file has its start and its loop; it answers [`faults`], also in a [`shortage`] of pages.
//! [`Supply`](supply::Supply) owns the pool and the search for pages, [`Placer`] the ways by which
//! pages come to the program, and [`Upkeep`] what was seen of its memory.

mod faults;
mod placer;
mod shortage;
mod streams;
mod supply;
mod upkeep;

use memweir_abi::preload::{Counter, Delivery, Order, Shortage};

use crate::color::choice::{Set, words_of};
use crate::color::counters::Counters;
use crate::color::groups::Groups;
use crate::color::palette::Palette;
use crate::control::{Control, GONE, READY, STARTED};
use crate::launch;
use crate::sys::{self, Errno, sys};
use crate::uffd::Message;
use placer::{Placer, Reason};
use supply::{LEAST, MOST};
use upkeep::Upkeep;

/// Parameters of the helper, built by a thread of the program.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) palette: Palette,
    pub(crate) shortage: Shortage,
    pub(crate) delivery: Delivery,
    pub(crate) pool_pages: usize,
    pub(crate) limit_pages: usize,
    pub(crate) counters: Counters,
    pub(crate) main: i32,
    /// Start time of that process, in clock ticks since boot.
    pub(crate) started: u64,
    pub(crate) control: &'static Control,
    pub(crate) groups: Groups,
    /// The colors of the process.
    pub(crate) set: Set,
    /// Microseconds to wait first: a forked child usually starts another program.
    pub(crate) delay: u64,
}

impl Start {
    /// Reads `order` for the helper of this process; `None` if it has too many colors.
    pub(crate) fn of(order: &Order, control: &'static Control, counters: Counters) -> Option<Self> {
        Some(Self {
            palette: Palette::of(order)?,
            shortage: order.shortage,
            delivery: order.delivery,
            pool_pages: order.pool_pages as usize,
            limit_pages: order.limit_pages as usize,
            counters,
            main: sys::process_id(),
            started: sys::start_time(),
            control,
            groups: Groups::of_process(),
            set: words_of(&order.colors)?,
            delay: 0,
        })
    }
}

/// The helper's memory, which no other process shares. All zero at first.
#[repr(C)]
pub(crate) struct Helper {
    pub(crate) start: Option<Start>,
    main_fd: i32,
    placer: Placer,
    upkeep: Upkeep,
    queue: shortage::Queue,
    /// The last access that was refused by a signal: its page and thread.
    refused: (usize, u32),
    streams: streams::Streams,
}

/// Entry point of the helper.
pub(crate) extern "C" fn run(helper: usize) -> ! {
    // SAFETY: the starter made the helper's memory for this call alone.
    let helper = unsafe { &mut *(helper as *mut Helper) };
    if let Some(start) = helper.start {
        helper.live(&start);
    }
    sys::exit()
}

impl Helper {
    fn live(&mut self, start: &Start) {
        launch::detach(c"memweir-color");
        start.control.announce(STARTED);
        if start.delay > 0 {
            sys::sleep_micros(start.delay);
        }
        if !self.same_program(start) {
            return;
        }
        if self.prepare(start).is_err() {
            // The process may have ended meanwhile, as children often do.
            if self.same_program(start) {
                start.counters.add(Counter::Uncolored, 1);
            }
            start.control.announce(GONE);
            return;
        }
        start.counters.add(Counter::Processes, 1);
        self.placer.supply.fill(start, start.pool_pages.max(LEAST), None);
        self.upkeep.rescan(start, &mut self.placer, Reason::New);
        start.control.announce(READY);
        self.serve(start);
        self.upkeep.count_unmoved(start);
    }

    fn same_program(&self, start: &Start) -> bool {
        launch::same_program(start.control, start.main)
    }

    fn prepare(&mut self, start: &Start) -> Result<(), Errno> {
        self.placer.prepare(start)?;
        let Placer { uffd, pagemap, .. } = self.placer;
        // SAFETY: makes a descriptor.
        self.main_fd = unsafe { sys!(libc::SYS_pidfd_open, start.main, 0) }? as i32;
        start.control.make_doorbells(uffd)?;
        let most = MOST.max(start.pool_pages + LEAST);
        self.placer.supply.pool.prepare(start.delivery, uffd, &pagemap, most)?;
        if pagemap.entry(start.control as *const _ as usize).frame() == 0 {
            return Err(Errno(libc::EPERM));
        }
        self.upkeep.begin();
        Ok(())
    }

    fn serve(&mut self, start: &Start) {
        let mut pause = 5;
        let mut checked = sys::micros();
        loop {
            let due = self.placer.supply.background(start);
            let mut fds = [
                libc::pollfd { fd: self.placer.uffd.0, events: libc::POLLIN, revents: 0 },
                libc::pollfd { fd: self.main_fd, events: libc::POLLIN, revents: 0 },
            ];
            let pause_now = self.queue.due().map_or(pause, |due| due.min(pause));
            let timeout = if due { 0 } else { pause_now };
            // SAFETY: the kernel writes the results into the array.
            let _ = unsafe { sys!(libc::SYS_poll, fds.as_mut_ptr(), fds.len(), timeout) };
            if fds[1].revents != 0 {
                return;
            }
            if fds[0].revents != 0 {
                let mut messages = [Message::default(); 16];
                let read = self.placer.uffd.read(&mut messages);
                for message in messages.iter().take(read).filter(|m| m.event == Message::FAULT) {
                    self.fault(start, message);
                }
            }
            self.retry(start);
            let now = sys::micros();
            if now - checked >= pause as u64 * 1000 {
                checked = now;
                if !self.same_program(start) {
                    return;
                }
                let took = self.upkeep.look_after(start, &mut self.placer);
                // At most a hundredth of the time goes into searching for unreported changes.
                pause = match took {
                    Some(took) => ((took / 10) as i32).clamp(5, 500),
                    None => (pause * 2).min(100),
                };
            }
        }
    }
}
