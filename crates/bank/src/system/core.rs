//! State of a running core: its next access, its stalled accesses, and its requests to memory.

use std::collections::VecDeque;

use memweir_core::PhysAddr;
use memweir_dram::request::Request;

use crate::cache::Cache;
use crate::clock::{Clock, Time};
use crate::machine::{CacheLevel, CoreConfig};
use crate::os::ThreadId;
use crate::stream::{Access, AccessKind, Level, Stream};
use crate::tally::Tally;
use crate::window::{AccessNumber, Window};

/// Number of waiting write-backs at which a core starts no further miss and sends no further store
/// to memory.
const WRITE_BUFFER: usize = 16;

/// An access on its way into the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Its number in the window; absent for accesses without an instruction.
    pub(super) number: Option<AccessNumber>,
    /// Physical address.
    pub(super) address: PhysAddr,
    /// Kind of access.
    pub(super) kind: AccessKind,
    /// True if it belongs to the measured instructions.
    pub(super) counted: bool,
}

/// An access whose address depends on the data of another access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The access that delivers the data.
    pub(super) producer: AccessNumber,
    pub(super) attempt: Attempt,
}

/// A request on its way to memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Time of its arrival.
    pub(super) at: Time,
    /// Index of the memory system.
    pub(super) bay: usize,
    pub(super) request: Request,
}

/// Requests of one direction that wait for memory, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: VecDeque<Arrival>,
    /// True if memory was full for the first request and has had no event since.
    pub(super) full: bool,
    /// Memory has no room for the first request before this time.
    pub(super) not_before: Time,
}

/// Reason for which memory refuses a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    /// The queue is full; the request waits for the next event of the memory.
    Full,
    /// The room that becomes free before this time is reserved for earlier requests.
    Until(Time),
}

impl Lane {
    /// Records that the first request was refused.
    pub(super) fn wait(&mut self, refused: Refused) {
        match refused {
            Refused::Full => self.full = true,
            Refused::Until(time) => self.not_before = time,
        }
    }

    /// Returns the time at which the first request can be offered.
    pub(super) fn next(&self) -> Time {
        match self.queue.front() {
            Some(arrival) if !self.full => arrival.at.max(self.not_before),
            _ => Time::NEVER,
        }
    }
}

/// A private cache with its latency.
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

/// Behavior of a thread that has executed its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It starts again.
    Restart,
    /// It is over.
    Leave,
}

/// A core.
#[derive(Debug)]
pub(super) struct Core {
    /// Index of its program.
    pub(super) program: usize,
    pub(super) thread: ThreadId,
    pub(super) level: Level,
    pub(super) window: Window,
    stream: Box<dyn Stream>,
    /// The first access that was not due while the caches were warmed.
    pub(super) peeked: Option<Access>,
    /// The next access to enter, and its instruction.
    pub(super) next: Access,
    pub(super) instruction: u64,
    /// Time of its entry; never while that depends on another event.
    pub(super) wake: Time,
    /// Instruction at which the current execution of the program started.
    started: u64,
    /// Instructions of one execution.
    pub(super) goal: u64,
    /// Instruction after which the core next waits for the other threads, if it ever does.
    pub(super) barrier: u64,
    /// True while the core waits at the barrier.
    pub(super) at_barrier: bool,
    pub(super) finished: Option<Time>,
    /// Behavior at the end of its instructions.
    pub(super) ending: Ending,
    /// While it is off its core, the instruction that it has reached.
    pub(super) off: Option<u64>,
    pub(super) waiting: Vec<Waiting>,
    /// Accesses that found no room below, in order; no access enters while there are any.
    pub(super) refused: VecDeque<Attempt>,
    mshrs: u32,
    pub(super) outstanding: u32,
    pub(super) reads: Lane,
    pub(super) writes: Lane,
    pub(super) tally: Tally,
    recent: Vec<(u64, u64)>,
}

/// Number of translations that a core caches.
const RECENT: usize = 256;

impl Core {
    pub(super) fn new(
        config: &CoreConfig,
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
            stream,
            peeked: None,
            next: Access { instructions: 0, address: 0, kind: AccessKind::Load, needs: 0 },
            instruction: 0,
            wake: Time::NEVER,
            started: 0,
            goal,
            barrier: phase.unwrap_or(u64::MAX),
            at_barrier: false,
            finished: None,
            ending: Ending::Restart,
            off: None,
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

    /// Takes the next access of the program, which restarts at the end of its instructions. A
    /// stream without a beginning goes on over any number of executions.
    pub(super) fn fetch(&mut self) {
        let mut access = self.peeked.take().unwrap_or_else(|| self.stream.next());
        if self.instruction + access.instructions > self.started + self.goal
            && let Some(first) = self.stream.restart()
        {
            self.started += self.goal;
            self.instruction = self.started;
            // A gap may be longer than the program, which then has one access per execution.
            access = Access { instructions: first.instructions.min(self.goal), ..first };
        }
        self.instruction += access.instructions;
        self.next = access;
    }

    /// Takes an access of the program without advancing its instructions, for warming caches.
    pub(super) fn peek(&mut self) -> Access {
        self.stream.next()
    }

    /// Brings the stream to where the program has been running for long.
    pub(super) fn settle(&mut self) {
        self.stream.settle();
    }

    /// Returns true if the program can warm the caches.
    pub(super) fn warms(&self) -> bool {
        self.level != Level::Memory && self.stream.warms()
    }

    /// Returns true if the thread is over as soon as its last instruction has retired.
    pub(super) fn is_at_its_end(&self) -> bool {
        self.ending == Ending::Leave && self.instruction > self.goal
    }

    /// Returns true if there is room for a miss of the core.
    pub(super) fn has_room(&self) -> bool {
        self.outstanding < self.mshrs && self.can_post()
    }

    /// Returns true if there is room for a store that goes to memory.
    pub(super) fn can_post(&self) -> bool {
        self.writes.queue.len() < WRITE_BUFFER
    }

    /// Returns the first slot of the core cycle that begins at `time` or later.
    pub(super) fn slot_at(&self, time: Time, clock: Clock) -> u64 {
        clock.first_from(time).0 * self.window.width()
    }

    /// Returns the frame of a page if the core has cached the translation.
    pub(super) fn recall(&self, page: u64) -> Option<u64> {
        let (known, frame) = self.recent[page as usize % RECENT];
        (known == page).then_some(frame)
    }

    pub(super) fn remember(&mut self, page: u64, frame: u64) {
        self.recent[page as usize % RECENT] = (page, frame);
    }
}
