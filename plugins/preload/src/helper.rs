//! The helper: a process that shares the program's memory, answers its page faults with pages of
//! the asked colors and puts right what the kernel changed.
//!
//! It is a process and not a thread of the program, so the program stays single-threaded where it
//! was (for `unshare`, `setns` and those who count threads), its open files are not the program's,
//! and what the program does to its own descriptors, signals and user does not reach it. When it
//! dies, the kernel answers the page faults as ever: the program goes on, uncolored.

use std::sync::atomic::Ordering;

use memweir_core::preload::{Counter, Order, Shortage};

use crate::control::{Ask, Control, GONE, MENDING, READY, REQUESTS, SET_WORDS, STARTED};
use crate::counters::Counters;
use crate::maps::{Mapping, Maps};
use crate::memory;
use crate::pool::{self, Palette, Pool, has};
use crate::sys::{self, Errno, sys};
use crate::uffd::{Found, Message, PAGE, Pagemap, Uffd, copy_page};

/// Pages that a search looks for at least.
const LEAST: usize = 256;
/// Pages that the pool holds ahead at most.
const MOST: usize = 65_536;
/// Microseconds after which a search that found enough gives back what it holds.
const REST: u64 = 300_000;
/// Ranges that are known to be watched.
const KNOWN: usize = 8192;

/// What the helper starts from; made by the program's thread.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) palette: Palette,
    pub(crate) shortage: Shortage,
    pub(crate) pool_pages: usize,
    pub(crate) limit_pages: usize,
    pub(crate) counters: Counters,
    pub(crate) main: i32,
    pub(crate) control: &'static Control,
    /// The colors of the process.
    pub(crate) set: [u64; SET_WORDS],
    /// Microseconds to wait first: a forked child mostly starts another program.
    pub(crate) delay: u64,
}

/// Why pages are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    New,
    Fork,
    Drift,
}

/// The helper's memory, shared with nobody. All zero at first.
#[repr(C)]
pub(crate) struct Helper {
    pub(crate) start: Option<Start>,
    uffd: i32,
    pagemap: i32,
    main_fd: i32,
    scratch: usize,
    pool: Pool,
    maps: Maps,
    known: [(usize, usize); KNOWN],
    known_used: usize,
    frames: [u64; 512],
    placed: usize,
    size_seen: [u64; 2],
    vmstat_seen: u64,
    sweep_due: u64,
    fork_pause: u64,
    releasing: bool,
    last_step: u64,
    dry_until: u64,
}

/// Where the helper begins.
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
        // SAFETY: the descriptors are copies that only this process has.
        let _ = unsafe { sys!(libc::SYS_close_range, 0, u32::MAX, 0) };
        // SAFETY: changes this process alone: its name, its session.
        unsafe {
            let _ = sys!(libc::SYS_prctl, libc::PR_SET_NAME, c"memweir-color".as_ptr());
            let _ = sys!(libc::SYS_setsid);
        }
        start.control.announce(STARTED);
        if start.delay > 0 {
            sys::sleep_micros(start.delay);
        }
        if !self.same_program(start) {
            return;
        }
        if self.prepare(start).is_err() {
            start.counters.add(Counter::Uncolored, 1);
            start.control.announce(GONE);
            return;
        }
        start.counters.add(Counter::Processes, 1);
        self.fill(start, start.pool_pages.max(LEAST), None);
        self.rescan(start, Reason::New);
        start.control.announce(READY);
        self.serve(start);
    }

    /// Whether the process that started this one still runs the same program in this memory.
    fn same_program(&self, start: &Start) -> bool {
        let mut cookie = 0u64;
        let mine = start.control.cookie.load(Ordering::Relaxed);
        let local = [&raw mut cookie as usize, 8];
        let remote = [start.control.cookie.as_ptr() as usize, 8];
        // SAFETY: reads a word of the other process into ours.
        let read = unsafe {
            sys!(libc::SYS_process_vm_readv, start.main, local.as_ptr(), 1, remote.as_ptr(), 1, 0)
        };
        read.is_ok() && cookie == mine
    }

    fn prepare(&mut self, start: &Start) -> Result<(), Errno> {
        let (uffd, moves) = Uffd::open()?;
        if !moves {
            return Err(Errno(libc::ENOSYS));
        }
        self.uffd = uffd.0;
        self.pagemap = sys::open(c"/proc/self/pagemap", libc::O_RDONLY)?;
        // SAFETY: makes a descriptor.
        self.main_fd = unsafe { sys!(libc::SYS_pidfd_open, start.main, 0) }? as i32;
        self.scratch = pool::reserve(2 * PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        uffd.register(self.scratch, 2 * PAGE)?;
        let bells = sys::map(REQUESTS * PAGE, libc::PROT_READ, libc::MAP_PRIVATE)?;
        sys::advise(bells, REQUESTS * PAGE, libc::MADV_DONTFORK)?;
        uffd.register(bells, REQUESTS * PAGE)?;
        start.control.doorbells.store(bells, Ordering::Release);
        let most = MOST.max(start.pool_pages + LEAST);
        self.pool.prepare(uffd, &Pagemap(self.pagemap), most)?;
        let frame =
            Pagemap(self.pagemap).frames(start.control as *const _ as usize, &mut self.frames[..1]);
        if frame == 0 || self.frames[0] == 0 {
            return Err(Errno(libc::EPERM));
        }
        self.vmstat_seen = memory::moved_by_kernel();
        Ok(())
    }

    fn serve(&mut self, start: &Start) {
        let mut pause = 5;
        let mut checked = sys::micros();
        loop {
            let due = self.background(start);
            let mut fds = [
                libc::pollfd { fd: self.uffd, events: libc::POLLIN, revents: 0 },
                libc::pollfd { fd: self.main_fd, events: libc::POLLIN, revents: 0 },
            ];
            let timeout = if due { 0 } else { pause };
            // SAFETY: the kernel writes the answers into the array.
            let _ = unsafe { sys!(libc::SYS_poll, fds.as_mut_ptr(), fds.len(), timeout) };
            if fds[1].revents != 0 {
                return;
            }
            if fds[0].revents != 0 {
                let mut messages = [Message::default(); 16];
                let read = Uffd(self.uffd).read(&mut messages);
                for message in messages.iter().take(read).filter(|m| m.event == Message::FAULT) {
                    self.fault(start, message);
                }
            }
            let now = sys::micros();
            if now - checked >= pause as u64 * 1000 {
                checked = now;
                if !self.same_program(start) {
                    return;
                }
                let took = self.look_after(start);
                // At most a hundredth of the time goes into looking for what changed by itself.
                pause = match took {
                    Some(took) => ((took / 10) as i32).clamp(5, 500),
                    None => (pause * 2).min(100),
                };
            }
        }
    }

    /// Searches on, or gives back; true if there is more to do at once.
    fn background(&mut self, start: &Start) -> bool {
        if self.releasing {
            self.releasing = !self.pool.release();
            start.counters.tell_pool(start.main, self.pool.ranges());
            return self.releasing;
        }
        // As much again as a quarter of what the program has: searching twice costs least if each
        // search finds as much as all before.
        let target = (self.placed / 4).clamp(LEAST, MOST).max(start.pool_pages.min(LEAST));
        if self.pool.searching() {
            if self.pool.free < target {
                self.releasing = !self.step(start);
                return true;
            }
            // While the program grows the search only rests: begun anew, it would first be given
            // the very pages that did not fit.
            self.releasing = sys::micros() - self.last_step > REST;
            return self.releasing;
        }
        if self.pool.free < target / 2 && sys::micros() >= self.dry_until {
            return self.begin(start);
        }
        false
    }

    fn begin(&mut self, start: &Start) -> bool {
        let pages = memory::searchable_pages();
        let begun = pages >= LEAST && self.pool.begin(pages).is_ok();
        if !begun {
            self.dry_until = sys::micros() + 50_000;
        }
        start.counters.tell_pool(start.main, self.pool.ranges());
        begun
    }

    fn step(&mut self, start: &Start) -> bool {
        self.last_step = sys::micros();
        let set = set_of(start.control, 0);
        // What the search holds is given back and does not count.
        let limit = start.limit_pages;
        let full = limit > 0 && memory::own_pages().saturating_sub(self.pool.held) >= limit;
        let more = !full && self.pool.step(&start.palette, &set, start.counters);
        if !more {
            self.dry_until = sys::micros() + 50_000;
        }
        more
    }

    /// Searches until the pool has `pages` pages or, if asked, one of the set.
    fn fill(
        &mut self,
        start: &Start,
        pages: usize,
        wanted: Option<&[u64; SET_WORDS]>,
    ) -> Option<usize> {
        while self.releasing {
            self.releasing = !self.pool.release();
        }
        if !self.pool.searching() && !self.begin(start) {
            return None;
        }
        loop {
            if let Some(page) = wanted.and_then(|set| self.pool.take(set)) {
                return Some(page);
            }
            if wanted.is_none() && self.pool.free >= pages {
                return None;
            }
            if !self.step(start) {
                self.releasing = true;
                return wanted.and_then(|set| self.pool.take(set));
            }
        }
    }

    fn take(&mut self, start: &Start, set: &[u64; SET_WORDS]) -> Option<usize> {
        if let Some(page) = self.pool.take(set) {
            return Some(page);
        }
        if sys::micros() < self.dry_until { None } else { self.fill(start, 0, Some(set)) }
    }

    fn fault(&mut self, start: &Start, message: &Message) {
        let page = message.address as usize & !(PAGE - 1);
        let bells = start.control.doorbells.load(Ordering::Relaxed);
        if (bells..bells + REQUESTS * PAGE).contains(&page) {
            self.request(start, (page - bells) / PAGE);
            let _ = Uffd(self.uffd).zero(page);
            Uffd(self.uffd).wake(page);
            return;
        }
        start.counters.add(Counter::Faults, 1);
        let set = chosen(start.control, page, message.thread);
        match self.take(start, &set) {
            Some(colored) => self.deliver(start, page, colored),
            None => self.shortage(start, page, &set),
        }
    }

    fn deliver(&mut self, start: &Start, page: usize, colored: usize) {
        let uffd = Uffd(self.uffd);
        for _ in 0..8 {
            match uffd.shift(page, colored, PAGE) {
                Ok(_) => {
                    self.placed += 1;
                    start.counters.add(Counter::Placed, 1);
                    return;
                }
                Err((_, Errno(libc::EAGAIN))) => continue,
                Err((_, Errno(libc::EINVAL))) => {
                    return self.deliver_elsewhere(start, page, colored);
                }
                Err(_) => break,
            }
        }
        self.pool.drop_page(colored);
        uffd.wake(page);
    }

    /// Page and pool differ in protection or locking.
    fn deliver_elsewhere(&mut self, start: &Start, page: usize, colored: usize) {
        let uffd = Uffd(self.uffd);
        self.maps.read();
        let placed = match self.maps.find(page) {
            // Memory that cannot be written stays all zeros: the shared page of zeros will do.
            Some(mapping) if !mapping.writable => uffd.zero(page).is_ok(),
            Some(mapping) => {
                let _ = sys::lock_on_fault(mapping.start, mapping.end - mapping.start);
                let moved = self.through_scratch(mapping, page, colored);
                if moved {
                    self.placed += 1;
                    start.counters.add(Counter::Placed, 1);
                    return uffd.wake(page);
                }
                false
            }
            None => true,
        };
        if !placed && uffd.copy(page, colored).is_ok() {
            start.counters.add(Counter::Failed, 1);
        }
        self.pool.drop_page(colored);
        uffd.wake(page);
    }

    /// Moves a page of the pool by way of a page whose protection is that of the mapping.
    fn through_scratch(&mut self, mapping: Mapping, page: usize, colored: usize) -> bool {
        let uffd = Uffd(self.uffd);
        let stage = self.scratch + PAGE;
        let plain = libc::PROT_READ | libc::PROT_WRITE;
        let moved = uffd.shift(stage, colored, PAGE).is_ok()
            && sys::protect(self.scratch, 2 * PAGE, protection(mapping)).is_ok()
            && uffd.shift(page, stage, PAGE).is_ok();
        let _ = sys::protect(self.scratch, 2 * PAGE, plain);
        moved
    }

    fn shortage(&mut self, start: &Start, page: usize, set: &[u64; SET_WORDS]) {
        let uffd = Uffd(self.uffd);
        match start.shortage {
            Shortage::Spill => {
                start.counters.add(Counter::Spilled, 1);
                if uffd.copy(page, self.zeros()).is_err() {
                    uffd.wake(page);
                }
            }
            Shortage::Refuse => {
                start.counters.add(Counter::Refused, 1);
                if uffd.poison(page).is_err() {
                    // SAFETY: ends the program, as asked.
                    let _ = unsafe { sys!(libc::SYS_kill, start.main, libc::SIGBUS) };
                }
                uffd.wake(page);
            }
            Shortage::Wait => {
                start.counters.add(Counter::Waited, 1);
                let begun = sys::micros();
                while self.same_program(start) {
                    sys::sleep_micros(20_000);
                    self.dry_until = 0;
                    if let Some(colored) = self.take(start, set) {
                        self.deliver(start, page, colored);
                        break;
                    }
                }
                start.counters.add(Counter::WaitMicros, sys::micros() - begun);
            }
        }
    }

    /// A page of zeros to copy from: the table of known ranges has room at its end.
    fn zeros(&self) -> usize {
        static ZEROS: [u64; PAGE / 8] = [0; PAGE / 8];
        ZEROS.as_ptr() as usize
    }

    fn request(&mut self, start: &Start, slot: usize) {
        let Some(request) = start.control.requests.get(slot) else { return };
        let from = request.start.load(Ordering::Relaxed);
        let length = request.length.load(Ordering::Relaxed);
        match request.ask.load(Ordering::Acquire) {
            ask if ask == Ask::Watch as u32 => {
                let _ = Uffd(self.uffd).register(from, length);
                let _ = sys::lock_on_fault(from, length);
                self.sweep(start, from, from + length, Reason::New, plain());
                self.know(from, from + length);
            }
            ask if ask == Ask::Leave as u32 => {
                let _ = Uffd(self.uffd).unregister(from, length);
            }
            _ => {}
        }
    }

    fn know(&mut self, from: usize, to: usize) {
        let used = self.known_used;
        if let Some(last) = self.known[..used].iter_mut().find(|(_, end)| *end == from) {
            last.1 = to;
        } else if let Some(free) = self.known.get_mut(used) {
            *free = (from, to);
            self.known_used += 1;
        }
    }

    /// Sees to it that pages which could not be moved now are tried again.
    fn look_again(&mut self) {
        if self.fork_pause == 0 {
            self.fork_pause = 10_000;
        }
    }

    /// Finds what changed without a word: new mappings, copies after fork, pages that the kernel
    /// moved. Returns how long it took, if there was anything.
    fn look_after(&mut self, start: &Start) -> Option<u64> {
        let begun = sys::micros();
        let now_forks = start.control.forks.swap(0, Ordering::Relaxed);
        if now_forks > 0 {
            self.fork_pause = 10_000;
            self.sweep_due = begun;
        }
        let moved = memory::moved_by_kernel();
        let size = memory::sizes();
        if moved != self.vmstat_seen {
            self.vmstat_seen = moved;
            self.rescan(start, Reason::Drift);
        } else if self.fork_pause > 0 && begun >= self.sweep_due {
            self.rescan(start, Reason::Fork);
            let took = sys::micros() - begun;
            self.fork_pause = (self.fork_pause * 2).max(took * 50).min(2_000_000);
            self.sweep_due = begun + self.fork_pause;
        } else if size != self.size_seen {
            self.rescan(start, Reason::New);
        } else {
            return None;
        }
        self.size_seen = size;
        Some(sys::micros() - begun)
    }

    /// Watches every mapping of the program's own, and looks at those pages that `reason` asks for:
    /// what is new, or everything.
    fn rescan(&mut self, start: &Start, reason: Reason) {
        self.maps.read();
        let own = self.pool.ranges();
        let bells = start.control.doorbells.load(Ordering::Relaxed);
        let mut at = 0;
        let mut fresh = 0;
        while let Some((mapping, next)) = self.maps.next(at) {
            at = next;
            let ours = mapping.start == bells
                || (mapping.start >= own[0] && mapping.end <= own[1])
                || (mapping.start >= own[2] && mapping.end <= own[3])
                || (mapping.start <= self.scratch && self.scratch < mapping.end);
            if !mapping.anonymous || ours {
                continue;
            }
            let (from, to) = (mapping.start, mapping.end);
            if Uffd(self.uffd).register(from, to - from).is_err() {
                continue;
            }
            let _ = sys::lock_on_fault(from, to - from);
            let seen = self.known[..self.known_used].iter().any(|(s, e)| *s <= from && to <= *e);
            if (!seen || reason != Reason::New) && mapping.writable {
                self.sweep(start, from, to, reason, mapping);
            }
            // The list is made anew behind what was read of it only when all is known.
            if !seen {
                self.know(from, to);
            }
            fresh += 1;
        }
        if fresh * 2 + 64 < self.known_used || self.known_used == KNOWN {
            self.known_used = 0;
        }
    }

    /// Moves pages of other colors between the addresses into the asked ones.
    fn sweep(&mut self, start: &Start, from: usize, to: usize, reason: Reason, mapping: Mapping) {
        let mut found = [Found::default(); 32];
        let mut at = from;
        while at < to {
            let Ok((count, end)) = Pagemap(self.pagemap).scan(at, to, &mut found) else { return };
            for range in found.iter().take(count) {
                self.sweep_range(start, *range, reason, mapping);
            }
            if end <= at {
                return;
            }
            at = end;
        }
    }

    fn sweep_range(&mut self, start: &Start, range: Found, reason: Reason, mapping: Mapping) {
        let (from, to) = (range.start as usize, range.end as usize);
        let mut at = from;
        while at < to {
            let pages = ((to - at) / PAGE).min(self.frames.len());
            let mut frames = self.frames;
            let known = Pagemap(self.pagemap).frames(at, &mut frames[..pages]);
            for (i, frame) in frames[..known].iter().enumerate().filter(|(_, frame)| **frame != 0) {
                let page = at + i * PAGE;
                let set = chosen(start.control, page, 0);
                let right = !range.is_zero()
                    && start.palette.color(*frame).is_some_and(|color| has(&set, color));
                if !right {
                    self.mend(start, page, &set, reason, mapping);
                }
            }
            at += pages * PAGE;
        }
    }

    /// Puts the content of `page` into a page of the set. Between the two moves the page is away:
    /// who touches it waits, as for any page fault, and mappings must not change.
    fn mend(
        &mut self,
        start: &Start,
        page: usize,
        set: &[u64; SET_WORDS],
        reason: Reason,
        mapping: Mapping,
    ) {
        let Some(colored) = self.take(start, set) else { return };
        let uffd = Uffd(self.uffd);
        let (old, stage) = (self.scratch, self.scratch + PAGE);
        if !close_gate(start.control) {
            start.counters.add(Counter::Busy, 1);
            self.look_again();
            return self.pool.drop_page(colored);
        }
        let plain = libc::PROT_READ | libc::PROT_WRITE;
        let ready = uffd.shift(stage, colored, PAGE).is_ok()
            && sys::protect(self.scratch, 2 * PAGE, protection(mapping)).is_ok();
        let away = if ready {
            uffd.shift(old, page, PAGE).map_err(|(_, errno)| errno)
        } else {
            Err(Errno(0))
        };
        if away.is_ok() {
            // SAFETY: both pages were moved into the scratch area, which is the helper's.
            unsafe { copy_page(stage, old) };
            let mut back = uffd.shift(page, stage, PAGE);
            while let Err((_, Errno(libc::EAGAIN))) = back {
                back = uffd.shift(page, stage, PAGE);
            }
            if back.is_err() {
                self.look_again();
                let _ = uffd.copy(page, old);
                uffd.wake(page);
            }
        }
        let _ = sys::protect(self.scratch, 2 * PAGE, plain);
        self.pool.drop_page(old);
        if away.is_err() {
            self.pool.drop_page(stage);
            self.look_again();
        }
        start.control.gate.fetch_and(!MENDING, Ordering::Release);
        start.counters.add(
            match (away, reason) {
                (Ok(_), Reason::New) => Counter::Adopted,
                (Ok(_), Reason::Fork) => Counter::MendedAfterFork,
                (Ok(_), Reason::Drift) => Counter::MendedDrift,
                (Err(_), _) => Counter::Busy,
            },
            1,
        );
    }
}

fn plain() -> Mapping {
    Mapping { readable: true, writable: true, ..Mapping::default() }
}

fn protection(mapping: Mapping) -> i32 {
    let bit = |set: bool, bit: i32| if set { bit } else { 0 };
    bit(mapping.readable, libc::PROT_READ)
        | bit(mapping.writable, libc::PROT_WRITE)
        | bit(mapping.executable, libc::PROT_EXEC)
}

/// Waits a moment until no thread changes mappings; false if some do for longer.
fn close_gate(control: &Control) -> bool {
    control.gate.fetch_or(MENDING, Ordering::AcqRel);
    for _ in 0..100 {
        if control.gate.load(Ordering::Acquire) == MENDING {
            return true;
        }
        sys::sleep_micros(10);
    }
    control.gate.fetch_and(!MENDING, Ordering::Release);
    false
}

fn set_of(control: &Control, number: usize) -> [u64; SET_WORDS] {
    let words = &control.sets[number.min(control.sets.len() - 1)];
    std::array::from_fn(|i| words[i].load(Ordering::Relaxed))
}

/// The colors for a page: those of its range, of the thread that touches it, or of the process.
fn chosen(control: &Control, page: usize, thread: u32) -> [u64; SET_WORDS] {
    if control.sets_used.load(Ordering::Acquire) > 1 {
        let holds = |region: &&[std::sync::atomic::AtomicUsize; 3]| {
            let start = region[0].load(Ordering::Acquire);
            start != 0 && (start..region[1].load(Ordering::Relaxed)).contains(&page)
        };
        if let Some(region) = control.regions.iter().find(holds) {
            return set_of(control, region[2].load(Ordering::Relaxed));
        }
        let of_thread =
            |entry: u64| (thread != 0 && (entry >> 32) as u32 == thread).then_some(entry);
        let mut threads = control.threads.iter().map(|entry| entry.load(Ordering::Relaxed));
        if let Some(entry) = threads.find_map(of_thread) {
            return set_of(control, (entry & 0xffff_ffff) as usize);
        }
    }
    set_of(control, 0)
}

/// Reads the order for the helper of this process.
pub(crate) fn start_of(
    order: &Order,
    control: &'static Control,
    counters: Counters,
) -> Option<Start> {
    Some(Start {
        palette: Palette::of(order)?,
        shortage: order.shortage,
        pool_pages: order.pool_pages as usize,
        limit_pages: order.limit_pages as usize,
        counters,
        main: sys::process_id(),
        control,
        set: words_of(order),
        delay: 0,
    })
}

fn words_of(order: &Order) -> [u64; SET_WORDS] {
    let mut words = [0; SET_WORDS];
    for color in order.colors.iter() {
        if let Some(word) = words.get_mut(color.0 as usize / 64) {
            *word |= 1 << (color.0 % 64);
        }
    }
    words
}
