//! DRAM, a swap area, and what a reference to a page does to them: faults, evictions, and the
//! low-memory killer. Nothing here knows time; which page is referenced next is decided elsewhere.
//!
//! A page is one byte, and a reference that faults nowhere is a look at it and two additions.

use std::ops::{Add, Range, Sub};

use memweir_policy::paging::{
    Entry, LearnsBy, Node, Page, Seen, VictimEntry, VictimPolicy, Victims,
};
use serde::Serialize;

use super::Access;

/// What a page of the swap area can do for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// It is copied to DRAM first.
    Copied,
    /// It is mapped read-only where it is (drswap section III-B), until it is written.
    InPlace,
}

/// Whom the low-memory killer ends first, when a page has to leave DRAM and the swap area is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Killer {
    /// The process that was in the foreground longest ago.
    #[default]
    LeastRecent,
    /// The process with most pages.
    Largest,
}

impl Killer {
    /// All of them, by the names that files use.
    pub const ALL: [(&'static str, Self); 2] =
        [("least-recent", Self::LeastRecent), ("largest", Self::Largest)];
}

/// How much memory there is, and how it is managed.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    /// Pages of DRAM, at least one.
    pub dram: u32,
    /// Pages of the swap area; zero for none.
    pub swap: u32,
    /// What reads of the swap area do.
    pub reads: Reads,
    /// Who leaves DRAM.
    pub victims: &'static VictimEntry,
    /// Who is killed.
    pub killer: Killer,
}

/// What happened, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// References to pages.
    pub references: u64,
    /// Of these, to pages that are mapped where they are in the swap area.
    pub references_in_place: u64,
    /// Pages that were touched for the first time.
    pub first_touches: u64,
    /// Pages that were copied to the swap area.
    pub swap_outs: u64,
    /// Pages that were copied back to DRAM: `N_rd`, with direct read `N'_rd`.
    pub copies_in: u64,
    /// Faults that were answered with a mapping in place.
    pub direct_reads: u64,
    /// Pages mapped in place that were written later: copies that direct read has only put off. They
    /// are among `copies_in`.
    pub upgrades: u64,
    /// Processes that the low-memory killer ended.
    pub killed: u64,
    /// Looks at all pages by the victim policy.
    pub scans: u64,
}

impl Counts {
    /// Pages that were read in place and not written afterwards: copies that direct read has avoided.
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

    /// What happened since an earlier count.
    fn sub(self, before: Self) -> Self {
        self.each(before, |after, before| after - before)
    }
}

/// The state of a page: these bits. A page in DRAM may be read and written, one that is mapped in
/// place is in the swap area and may be read; without any bit it was never touched.
const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
const SWAPPED: u8 = 4;
/// Seen since the last scan.
const READ: u8 = 8;
const WRITTEN: u8 = 16;

const IN_DRAM: u8 = READABLE | WRITABLE;
const IN_PLACE: u8 = READABLE | SWAPPED;

impl Access {
    /// The bit that a page needs for it, and the one that it leaves.
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
    /// When it was last in the foreground, counted in turns.
    turn: u64,
}

/// The memory of a machine.
#[derive(Clone, Debug)]
pub struct Memory {
    config: MemoryConfig,
    states: Vec<u8>,
    victims: Victims,
    /// Pages of DRAM, and of the swap area, that are in use.
    in_dram: u32,
    in_swap: u32,
    most_in_swap: u32,
    processes: Vec<Process>,
    /// Who owns a page: by blocks, all pages of which belong to one process.
    owners: Vec<u16>,
    foreground: usize,
    turns: u64,
    counts: Counts,
}

/// Pages of a block, as a power of two. Processes start at the start of a block.
const BLOCK_BITS: u32 = 8;

impl Memory {
    /// Memory for processes of so many pages each.
    ///
    /// # Panics
    /// If they have more pages than can be numbered, or there are more than 65,536.
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
            victims: config.victims.build(vec![Node::default(); pages]),
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

    /// Puts a process into the foreground, where the killer reaches it last. False if it has to
    /// be started: it never ran, or was killed.
    pub fn switch_to(&mut self, process: usize) -> bool {
        self.foreground = process;
        self.turns += 1;
        let entered = &mut self.processes[process];
        entered.turn = self.turns;
        std::mem::replace(&mut entered.alive, true)
    }

    /// The first page of a process; the others follow.
    #[must_use]
    pub fn first_page(&self, process: usize) -> Page {
        self.processes[process].pages.start
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The most pages of the swap area that were in use at once.
    #[must_use]
    pub fn most_in_swap(&self) -> u32 {
        self.most_in_swap
    }

    /// Pages of DRAM, and of the swap area, that are in use.
    #[must_use]
    pub fn in_use(&self) -> (u32, u32) {
        (self.in_dram, self.in_swap)
    }

    /// A reference to a page.
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
            // Room was made by killing the process itself.
            self.fault(page, access);
            return;
        }
        self.counts.copies_in += 1;
        self.counts.upgrades += u64::from(state & READABLE != 0);
        self.in_swap -= 1;
        self.take_frame(page, access, Entry::Returned);
    }

    /// Puts a page into DRAM, where room is made for it if there is none.
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
        if self.config.victims.learns_by == LearnsBy::Scans && self.victims.wants_scan() {
            self.scan();
        }
        let Some(page) = self.victims.victim() else { return };
        self.states[page as usize] = SWAPPED;
        self.in_dram -= 1;
        self.in_swap += 1;
        self.most_in_swap = self.most_in_swap.max(self.in_swap);
        self.counts.swap_outs += 1;
    }

    /// Tells the victim policy what was seen of every page in DRAM, and forgets it.
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

    /// Ends a process: one in the background, or that in the foreground if there is no other. What
    /// goes on in the foreground then starts from nothing.
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

    /// Gives back all pages of a process.
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
