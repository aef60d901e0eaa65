//! DRAM, a swap area, and the effects of a reference: faults, evictions, and the low-memory killer.
//! This module does not model time, and its callers choose the pages.
//!
//! The state of a page is one byte; a reference without a fault updates that byte and adds to two
//! counters.

use std::ops::{Add, Range, Sub};
use std::sync::Arc;

use memweir_policy::paging::{Entry, LearnsBy, Page, Seen, VictimPolicy, VictimSource};
use serde::Serialize;

use crate::Access;

/// Handling of reads of swapped pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The page is first copied to DRAM.
    Copied,
    /// The page is mapped in place, read-only (drswap section III-B), until it is written.
    InPlace,
}

memweir_core::named! { pub Reads, "way to read": Copied = "copied", InPlace = "in-place" }

/// Order in which the low-memory killer ends processes when a page has to leave DRAM and the swap
/// area is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Killer {
    /// The process that was in the foreground longest ago first.
    #[default]
    LeastRecent,
    /// The process with most pages first.
    Largest,
}

memweir_core::named! { pub Killer, "killer": LeastRecent = "least-recent", Largest = "largest" }

/// Sizes and policies of a memory.
#[derive(Clone, Debug)]
pub struct MemoryConfig {
    /// Pages of DRAM, at least one.
    pub dram: u32,
    /// Pages of the swap area; zero for no swap area.
    pub swap: u32,
    /// Handling of reads of swapped pages.
    pub reads: Reads,
    /// Victim policy.
    pub victims: Arc<dyn VictimSource>,
    /// Policy of the low-memory killer.
    pub killer: Killer,
}

/// Counters of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// References to pages.
    pub references: u64,
    /// Of these, references to pages that are mapped in place.
    pub references_in_place: u64,
    /// Pages touched for the first time.
    pub first_touches: u64,
    /// Pages copied to the swap area.
    pub swap_outs: u64,
    /// Pages copied back to DRAM: `N_rd`, with direct read `N'_rd`.
    pub copies_in: u64,
    /// Faults resolved by mapping the page in place.
    pub direct_reads: u64,
    /// Pages mapped in place that were written later, so that direct read only delayed their copy.
    /// They are included in `copies_in`.
    pub upgrades: u64,
    /// Processes ended by the low-memory killer.
    pub killed: u64,
    /// Scans of all pages by the victim policy.
    pub scans: u64,
}

impl Counts {
    /// Returns the number of pages that were read in place and not written later: the copies that
    /// direct read avoided.
    #[must_use]
    pub fn copies_avoided(&self) -> u64 {
        self.direct_reads.saturating_sub(self.upgrades)
    }
}

impl Counts {
    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            references: of(self.references, other.references),
            references_in_place: of(self.references_in_place, other.references_in_place),
            first_touches: of(self.first_touches, other.first_touches),
            swap_outs: of(self.swap_outs, other.swap_outs),
            copies_in: of(self.copies_in, other.copies_in),
            direct_reads: of(self.direct_reads, other.direct_reads),
            upgrades: of(self.upgrades, other.upgrades),
            killed: of(self.killed, other.killed),
            scans: of(self.scans, other.scans),
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }
}

impl Sub for Counts {
    type Output = Self;

    /// Returns the counts since `before`.
    fn sub(self, before: Self) -> Self {
        self.each(before, |after, before| after - before)
    }
}

/// Bits of a page's state. A page in DRAM may be read and written; a page mapped in place is in the
/// swap area and may be read. A page without any bit was never touched.
const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
const SWAPPED: u8 = 4;
/// Accesses since the last scan.
const READ: u8 = 8;
const WRITTEN: u8 = 16;

const IN_DRAM: u8 = READABLE | WRITABLE;
const IN_PLACE: u8 = READABLE | SWAPPED;

impl Access {
    /// Returns the bit that a page needs for the access, and the bit that the access sets.
    #[inline]
    fn bits(self) -> (u8, u8) {
        match self {
            Self::Read => (READABLE, READ),
            Self::Write => (WRITABLE, WRITTEN),
        }
    }
}

#[derive(Clone, Debug)]
struct Process {
    pages: Range<Page>,
    /// Pages in DRAM or in the swap area.
    held: u32,
    alive: bool,
    /// Turn in which it was last in the foreground.
    turn: u64,
}

/// The memory of a machine.
pub struct Memory {
    config: MemoryConfig,
    states: Vec<u8>,
    victims: Box<dyn VictimPolicy>,
    /// Pages in use in DRAM and in the swap area.
    in_dram: u32,
    in_swap: u32,
    most_in_swap: u32,
    processes: Vec<Process>,
    /// Owner of each block of pages; all pages of a block belong to one process.
    owners: Vec<u16>,
    foreground: usize,
    turns: u64,
    counts: Counts,
}

/// Pages per block, as a power of two. The pages of a process start at a block.
const BLOCK_BITS: u32 = 8;

impl Memory {
    /// Creates the memory of processes with `sizes` pages.
    ///
    /// # Panics
    /// If there are more pages than page numbers, or more than 65,536 processes.
    #[must_use]
    pub fn new(config: MemoryConfig, sizes: &[u32]) -> Self {
        let mut processes = Vec::new();
        let mut owners = Vec::new();
        for (number, size) in sizes.iter().enumerate() {
            let start = (owners.len() as u32) << BLOCK_BITS;
            let blocks = size.div_ceil(1 << BLOCK_BITS) as usize;
            let owner = u16::try_from(number).expect("few enough processes");
            owners.resize(owners.len() + blocks, owner);
            processes.push(Process { pages: start..start + size, held: 0, alive: false, turn: 0 });
        }
        let pages = owners.len() << BLOCK_BITS;
        Self {
            victims: config.victims.create(pages),
            states: vec![0; pages],
            config,
            in_dram: 0,
            in_swap: 0,
            most_in_swap: 0,
            processes,
            owners,
            foreground: 0,
            turns: 0,
            counts: Counts::default(),
        }
    }

    /// Switches a process to the foreground, where the killer reaches it last. Returns false if the
    /// process has to be started because it never ran or was killed.
    pub fn switch_to(&mut self, process: usize) -> bool {
        self.foreground = process;
        self.turns += 1;
        let entered = &mut self.processes[process];
        entered.turn = self.turns;
        std::mem::replace(&mut entered.alive, true)
    }

    /// Returns the first page of a process; its other pages follow.
    #[must_use]
    pub fn first_page(&self, process: usize) -> Page {
        self.processes[process].pages.start
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the maximum number of pages in the swap area so far.
    #[must_use]
    pub fn most_in_swap(&self) -> u32 {
        self.most_in_swap
    }

    /// Returns the pages in use in DRAM and in the swap area.
    #[must_use]
    pub fn in_use(&self) -> (u32, u32) {
        (self.in_dram, self.in_swap)
    }

    /// References a page.
    ///
    /// # Panics
    /// If there is no such page.
    #[inline]
    pub fn reference(&mut self, page: Page, access: Access) {
        self.counts.references += 1;
        let (needs, leaves) = access.bits();
        let state = &mut self.states[page as usize];
        if *state & needs == 0 {
            self.fault(page, access);
            return;
        }
        *state |= leaves;
        self.counts.references_in_place += u64::from(*state & SWAPPED != 0);
    }

    #[cold]
    fn fault(&mut self, page: Page, access: Access) {
        let state = self.states[page as usize];
        if state & SWAPPED == 0 {
            self.counts.first_touches += 1;
            self.take_frame(page, access, Entry::New);
            self.owner(page).held += 1;
            return;
        }
        if access == Access::Read && self.config.reads == Reads::InPlace {
            self.counts.direct_reads += 1;
            self.counts.references_in_place += 1;
            self.states[page as usize] = IN_PLACE | READ;
            return;
        }
        self.make_room();
        if self.states[page as usize] & SWAPPED == 0 {
            // The killer ended the process itself to make room.
            self.fault(page, access);
            return;
        }
        self.counts.copies_in += 1;
        self.counts.upgrades += u64::from(state & READABLE != 0);
        self.in_swap -= 1;
        self.take_frame(page, access, Entry::Returned);
    }

    /// Puts a page into DRAM after making room for it.
    fn take_frame(&mut self, page: Page, access: Access, why: Entry) {
        self.make_room();
        self.in_dram += 1;
        self.states[page as usize] = IN_DRAM | access.bits().1;
        self.victims.enter(page, why);
    }

    fn make_room(&mut self) {
        while self.in_dram >= self.config.dram {
            if self.in_swap >= self.config.swap {
                self.kill();
            } else {
                self.evict();
            }
        }
    }

    fn evict(&mut self) {
        if self.config.victims.learns_by() == LearnsBy::Scans && self.victims.wants_scan() {
            self.scan();
        }
        let Some(page) = self.victims.victim() else { return };
        self.states[page as usize] = SWAPPED;
        self.in_dram -= 1;
        self.in_swap += 1;
        self.most_in_swap = self.most_in_swap.max(self.in_swap);
        self.counts.swap_outs += 1;
    }

    /// Reports the accesses to every page in DRAM to the victim policy, and clears their bits.
    fn scan(&mut self) {
        for (page, state) in self.states.iter_mut().enumerate() {
            if *state & WRITABLE == 0 {
                continue;
            }
            let seen = match (*state & WRITTEN != 0, *state & READ != 0) {
                (true, _) => Seen::Written,
                (false, true) => Seen::Read,
                (false, false) => Seen::Idle,
            };
            *state &= !(READ | WRITTEN);
            self.victims.see(page as Page, seen);
        }
        self.victims.scanned();
        self.counts.scans += 1;
    }

    /// Ends a process in the background, or the one in the foreground if there is no other. A
    /// foreground process that is ended goes on without any of its pages.
    fn kill(&mut self) {
        let background = self.processes.iter().enumerate().filter(|(number, process)| {
            *number != self.foreground && process.alive && process.held > 0
        });
        let chosen = match self.config.killer {
            Killer::LeastRecent => background.min_by_key(|(_, process)| process.turn),
            Killer::Largest => background.max_by_key(|(_, process)| process.held),
        };
        let chosen = chosen.map_or(self.foreground, |(number, _)| number);
        self.counts.killed += 1;
        self.end(chosen);
        self.processes[chosen].alive = chosen == self.foreground;
    }

    /// Frees all pages of a process.
    fn end(&mut self, process: usize) {
        for page in self.processes[process].pages.clone() {
            let state = std::mem::take(&mut self.states[page as usize]);
            if state & WRITABLE != 0 {
                self.victims.leave(page);
                self.in_dram -= 1;
            } else if state & SWAPPED != 0 {
                self.in_swap -= 1;
            }
        }
        self.processes[process].held = 0;
    }

    fn owner(&mut self, page: Page) -> &mut Process {
        let owner = self.owners[(page >> BLOCK_BITS) as usize];
        &mut self.processes[usize::from(owner)]
    }
}
