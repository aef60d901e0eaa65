//! A core as it runs: what it executes next, what it waits for, what waits behind it for memory.

use std::collections::VecDeque;

use memweir_core::PhysAddr;
use memweir_dram::request::Request;

use crate::bank::cache::Cache;
use crate::bank::clock::{Clock, Time};
use crate::bank::machine::{CacheLevel, CoreConfig};
use crate::bank::os::ThreadId;
use crate::bank::stream::{Access, AccessKind, Level, Stream};
use crate::bank::tally::Tally;
use crate::bank::window::{AccessNumber, Window};

/// Write-backs of a core that wait for memory; with so many it starts no further miss, and stores of
/// its own wait.
const WRITE_BUFFER: usize = 16;

/// An access on its way into the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Who waits for it; nobody for accesses without an instruction.
    pub(super) number: Option<AccessNumber>,
    /// Where.
    pub(super) address: PhysAddr,
    /// What.
    pub(super) kind: AccessKind,
    /// Whether it belongs to the instructions that are measured.
    pub(super) counted: bool,
}

/// An access that needs the data of another one for its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The other one.
    pub(super) producer: AccessNumber,
    pub(super) attempt: Attempt,
}

/// A request on its way to memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// When it is there.
    pub(super) at: Time,
    /// Which memory system.
    pub(super) bay: usize,
    pub(super) request: Request,
}

/// Requests of one direction that wait for memory, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: VecDeque<Arrival>,
    /// Whether memory refused the first one and has done nothing since.
    pub(super) full: bool,
    /// Memory has no room before that.
    pub(super) not_before: Time,
}

/// Why memory does not take a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    /// There is no room, and memory has to do something first.
    Full,
    /// What room there is before that belongs to others.
    Until(Time),
}

impl Lane {
    /// The first one has to wait.
    pub(super) fn wait(&mut self, refused: Refused) {
        match refused {
            Refused::Full => self.full = true,
            Refused::Until(time) => self.not_before = time,
        }
    }

    /// When the first one can be offered.
    pub(super) fn next(&self) -> Time {
        match self.queue.front() {
            Some(arrival) if !self.full => arrival.at.max(self.not_before),
            _ => Time::NEVER,
        }
    }
}

/// A private cache and how long it takes.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    pub(super) cache: Cache,
    pub(super) delay: Time,
}

impl Timed {
    pub(super) fn new(level: &CacheLevel, clock: Clock) -> Self {
        let delay = clock.span(u64::from(level.latency));
        Self { cache: Cache::new(&level.geometry), delay }
    }
}

/// One core.
#[derive(Debug)]
pub(super) struct Core {
    /// Place of its program.
    pub(super) program: usize,
    pub(super) thread: ThreadId,
    pub(super) level: Level,
    pub(super) window: Window,
    pub(super) l1: Option<Timed>,
    pub(super) l2: Option<Timed>,
    stream: Box<dyn Stream>,
    /// The access that enters next, and its instruction.
    pub(super) next: Access,
    pub(super) instruction: u64,
    /// When it enters; never while that hangs on something.
    pub(super) wake: Time,
    /// The instruction at which the program started last.
    started: u64,
    /// Instructions of one execution.
    pub(super) goal: u64,
    /// The next instruction at which it waits for the other threads, if it ever does.
    pub(super) barrier: u64,
    /// Whether it does now.
    pub(super) at_barrier: bool,
    pub(super) finished: Option<Time>,
    pub(super) waiting: Vec<Waiting>,
    /// Accesses that found no room below, in order; nothing enters while there are any.
    pub(super) refused: VecDeque<Attempt>,
    mshrs: u32,
    pub(super) outstanding: u32,
    pub(super) reads: Lane,
    pub(super) writes: Lane,
    pub(super) tally: Tally,
    recent: Vec<(u64, u64)>,
}

/// Translations that a core remembers.
const RECENT: usize = 256;

impl Core {
    pub(super) fn new(
        config: &CoreConfig,
        clock: Clock,
        (program, thread): (usize, ThreadId),
        level: Level,
        stream: Box<dyn Stream>,
        (goal, phase): (u64, Option<u64>),
    ) -> Self {
        let mut window = Window::new(config.width, config.window);
        window.watch(goal);
        Self {
            program,
            thread,
            level,
            window,
            l1: config.l1.as_ref().map(|level| Timed::new(level, clock)),
            l2: config.l2.as_ref().map(|level| Timed::new(level, clock)),
            stream,
            next: Access { instructions: 0, address: 0, kind: AccessKind::Load, needs: 0 },
            instruction: 0,
            wake: Time::NEVER,
            started: 0,
            goal,
            barrier: phase.unwrap_or(u64::MAX),
            at_barrier: false,
            finished: None,
            waiting: Vec::new(),
            refused: VecDeque::new(),
            mshrs: config.mshrs.max(1),
            outstanding: 0,
            reads: Lane::default(),
            writes: Lane::default(),
            tally: Tally::default(),
            recent: vec![(u64::MAX, 0); RECENT],
        }
    }

    /// Takes the next access from the program, which starts again when it has done its part.
    pub(super) fn fetch(&mut self) {
        let mut access = self.stream.next();
        if self.instruction + access.instructions > self.started + self.goal {
            self.started += self.goal;
            self.instruction = self.started;
            self.stream.restart();
            access = self.stream.next();
            // One gap may be longer than the program: then it has one access per execution.
            access.instructions = access.instructions.min(self.goal);
        }
        self.instruction += access.instructions;
        self.next = access;
    }

    /// An access of the program that takes no time: for warming caches.
    pub(super) fn peek(&mut self) -> Access {
        self.stream.next()
    }

    /// Whether it is of use to warm caches with the program.
    pub(super) fn warms(&self) -> bool {
        self.level != Level::Memory && self.stream.warms()
    }

    /// Whether a miss of the core can be taken up.
    pub(super) fn has_room(&self) -> bool {
        self.outstanding < self.mshrs && self.can_post()
    }

    /// Whether a store that goes to memory can be taken up.
    pub(super) fn can_post(&self) -> bool {
        self.writes.queue.len() < WRITE_BUFFER
    }

    /// The slot at which a time is over.
    pub(super) fn slot_at(&self, time: Time, clock: Clock) -> u64 {
        clock.first_from(time).0 * self.window.width()
    }

    /// The frame of a page, if the core remembers it.
    pub(super) fn recall(&self, page: u64) -> Option<u64> {
        let (known, frame) = self.recent[page as usize % RECENT];
        (known == page).then_some(frame)
    }

    pub(super) fn remember(&mut self, page: u64, frame: u64) {
        self.recent[page as usize % RECENT] = (page, frame);
    }
}
