//! The running machine, from event to event.
//!
//! There are three kinds of events: an access enters a core's window (`enter`), it goes through the
//! caches and becomes a miss, and memory takes and answers requests (`access`). Events are
//! processed in the order of their times. In a memory cycle, requests are offered before the cycle
//! is simulated, with the cores taking turns where they compete for room; accesses and cores
//! follow.
//!
//! A machine runs its programs to their ends, or an operating system puts threads on cores and
//! takes them off. Every thread has a `Core` of its own there too: its window, its miss-status
//! registers and its private caches stay with it, and the operating system decides how many run at
//! the same time. A core goes from one thread to the next when the accesses in the window of the
//! first have been answered, those included whose addresses depend on others, as a processor
//! retires what is in its window before it switches.

mod access;
mod caches;
mod core;
mod due;
mod enter;
mod memory;
mod mshr;
#[cfg(test)]
mod tests;

use memweir_core::input::Refusal;
use memweir_core::units::LINE_BYTES;
use memweir_core::words::counted;
use memweir_core::{Picos, Stop};
use memweir_dram::intervals::Intervals;
use memweir_dram::request::Completion;

use self::caches::Caches;
use self::core::{Core, Ending};
use self::due::Delayed;
use self::memory::Ports;
use self::mshr::Misses;
use crate::clock::{Clock, Time};
use crate::machine::{Addressing, MachineConfig, Memory, MemorySlot, Program};
use crate::os::{Os, ProcessId, ThreadId};
use crate::stream::{Access, AccessKind};
use crate::tally::Tally;

/// Instructions that a core executes before the next core's turn to warm the shared cache.
const WARM_TURN: u64 = 1_000;
/// Accesses per line of the shared cache after which warming ends.
const MAX_WARM_ACCESSES: usize = 4;

/// The machine.
#[derive(Debug)]
pub struct System<'a, M> {
    clock: Clock,
    cores: Vec<Core>,
    programs: Vec<State>,
    caches: Caches,
    ports: Ports<M>,
    os: &'a mut Os,
    misses: Misses,
    delayed: Delayed,
    /// Completions of the current step; the buffer is kept to reuse its allocation.
    done: Vec<Completion>,
    /// Index of the core that is offered room first.
    turn: usize,
    now: Time,
    /// Number of threads that have not finished.
    running: usize,
    /// Latest finish time of the threads that have finished.
    end: Time,
    /// True once the cores have stopped for good.
    stopped: bool,
    /// The thread that has just executed its last instruction.
    left: Option<usize>,
    /// Threads on cores whose last thread has accesses without an answer.
    successors: Vec<Successor>,
    stop: Stop,
}

/// State of a program.
#[derive(Debug)]
struct State {
    name: String,
    process: ProcessId,
    addressing: Addressing,
    phase: Option<u64>,
    /// The cores of its threads.
    cores: std::ops::Range<usize>,
    /// Number of threads at the barrier, and the latest slot of their arrivals.
    arrived: (usize, u64),
}

/// The next event.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A memory system has an event.
    Memory(usize),
    /// The oldest read of a core can be offered to memory.
    Read(usize),
    /// The oldest write-back of a core can be offered to memory.
    Write(usize),
    /// An access continues, for instance because its address is known now.
    Address,
    /// An access enters the window of a core.
    Enter(usize),
}

/// Result of one thread of a program.
#[derive(Clone, Debug)]
pub struct ThreadRun {
    /// Index of its program.
    pub program: usize,
    /// Number of measured instructions.
    pub instructions: u64,
    /// Time at which the last of them retired.
    pub finished: Time,
    /// Its counters.
    pub tally: Tally,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct MachineRun {
    /// Names of the programs.
    pub names: Vec<String>,
    /// The threads, in the order of the programs.
    pub threads: Vec<ThreadRun>,
    /// Time at which the last thread finished.
    pub end: Time,
    /// Time at which the last request was answered.
    pub drained: Time,
}

/// Behavior of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Instructions that have entered its window.
    pub instructions: u64,
    /// Lines that memory has read for it.
    pub reads: u64,
    /// Lines that it has written back.
    pub writes: u64,
}

/// A thread that goes on when the accesses of another, which had the core before, have been
/// answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successor {
    thread: usize,
    /// Earliest time at which it goes on.
    at: Time,
    before: usize,
}

impl<'a, M: Memory> System<'a, M> {
    /// Creates a machine. Each thread of the programs gets the next core of `config`; the remaining
    /// cores stay idle.
    ///
    /// # Errors
    /// If there are fewer cores than threads, no memory, or a program has nothing to execute.
    pub fn new(
        config: &MachineConfig,
        bays: Vec<MemorySlot<M>>,
        programs: Vec<Program>,
        os: &'a mut Os,
    ) -> Result<Self, Refusal> {
        check(config, &bays, &programs)?;
        let mut system = Self {
            clock: config.clock,
            cores: Vec::new(),
            programs: Vec::new(),
            caches: Caches::new(config.llc.as_ref(), config.clock),
            ports: Ports::new(bays),
            os,
            misses: Misses::default(),
            delayed: Delayed::default(),
            done: Vec::new(),
            turn: 0,
            now: Time::default(),
            running: 0,
            end: Time::default(),
            stopped: false,
            left: None,
            successors: Vec::new(),
            stop: Stop::default(),
        };
        for program in programs {
            system.add(config, program);
        }
        Ok(system)
    }

    fn add(&mut self, config: &MachineConfig, program: Program) {
        let (place, first) = (self.programs.len(), self.cores.len());
        for (number, stream) in program.threads.into_iter().enumerate() {
            let own = &config.cores[self.cores.len()];
            let who = (place, ThreadId(number as u16));
            let goal = (program.instructions, program.phase);
            self.cores.push(Core::new(own, who, program.level, stream, goal));
            self.caches.add(own, config.clock);
            self.running += 1;
        }
        self.programs.push(State {
            name: program.name,
            process: program.process,
            addressing: program.addressing,
            phase: program.phase,
            cores: first..self.cores.len(),
            arrived: (0, 0),
        });
    }

    /// Refuses to go on after a request to `stop`.
    pub fn heed(&mut self, stop: Stop) {
        self.stop = stop;
    }

    /// Brings the programs to where they have been running for long, and fills the shared cache
    /// with the lines that they would have in it if all ran at the same speed. Takes no simulated
    /// time and makes no memory request. Leaves out recorded programs.
    ///
    /// # Errors
    /// If the operating system has no memory left, or the end is requested.
    pub fn warm(&mut self) -> Result<(), Refusal> {
        self.cores.iter_mut().for_each(Core::settle);
        let Some(lines) = self.caches.shared_lines() else { return Ok(()) };
        let warming: Vec<usize> =
            (0..self.cores.len()).filter(|core| self.cores[*core].warms()).collect();
        let (mut filled, mut accesses) = (0, 0);
        // The next access of each core, with the instructions from the start of its turn: a gap may
        // be longer than a turn.
        let mut next: Vec<Access> = warming.iter().map(|core| self.cores[*core].peek()).collect();
        while !warming.is_empty()
            && filled < lines + lines / 4
            && accesses < MAX_WARM_ACCESSES * lines
        {
            self.stop.check()?;
            for (core, next) in warming.iter().zip(&mut next) {
                while next.instructions <= WARM_TURN {
                    accesses += 1;
                    filled += usize::from(self.warm_one(*core, next.address, next.kind)?);
                    let after = self.cores[*core].peek();
                    *next =
                        Access { instructions: next.instructions + after.instructions, ..after };
                }
                next.instructions -= WARM_TURN;
            }
        }
        for (core, next) in warming.into_iter().zip(next) {
            self.cores[core].peeked = Some(next);
        }
        Ok(())
    }

    /// Records the requests of each thread over time, in intervals of this length.
    pub fn record(&mut self, interval: Picos) {
        for core in &mut self.cores {
            core.tally.over_time = Some(Intervals::new(interval));
        }
    }

    /// Touches one line. Returns true if it was missing.
    fn warm_one(&mut self, core: usize, address: u64, kind: AccessKind) -> Result<bool, Refusal> {
        let (address, _) = self.translate(core, address)?;
        Ok(self.caches.warm(core, address.0 / LINE_BYTES, kind))
    }

    /// Runs the programs until each has executed its instructions, and memory until it has answered
    /// all requests.
    ///
    /// # Errors
    /// If the operating system has no memory left, an address is outside memory, or the end is
    /// requested.
    pub fn run(&mut self) -> Result<MachineRun, Refusal> {
        for core in 0..self.cores.len() {
            self.cores[core].fetch();
            self.plan(core);
        }
        while let Some((time, event)) = self.next_event() {
            if self.running == 0 && time > self.end {
                self.stop();
                self.running = usize::MAX;
                continue;
            }
            self.stop.check()?;
            self.now = time;
            self.happen(event)?;
        }
        // A memory that has answered all of its requests goes on to refresh until the others have.
        (0..self.ports.count()).try_for_each(|bay| self.advance_memory(bay))?;
        Ok(self.outcome())
    }

    /// Prepares the threads, by number in the order of the programs. None is on a core, and each is
    /// over when it has executed its instructions.
    pub fn prepare(&mut self) {
        for core in &mut self.cores {
            (core.off, core.ending) = (Some(0), Ending::Leave);
            core.fetch();
        }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Puts a thread on a core, where it goes on at `at`, now or later, and when all accesses in
    /// the window of `before`, which had the core before, have been answered.
    pub fn put_on(&mut self, thread: usize, at: Time, before: Option<usize>) {
        let drains = |before: &usize| {
            let core = &self.cores[*before];
            core.off.is_some() && !core.window.is_answered()
        };
        match before.filter(|before| *before != thread && drains(before)) {
            Some(before) => self.successors.push(Successor { thread, at, before }),
            None => self.resume(thread, at),
        }
    }

    /// Takes a thread off its core.
    pub fn take_off(&mut self, thread: usize) {
        let reached = self.reached(thread);
        self.successors.retain(|next| next.thread != thread);
        let core = &mut self.cores[thread];
        (core.off, core.wake) = (Some(reached), Time::NEVER);
    }

    /// Advances time to `until`, or to the end of a thread, which it returns; that one is off its
    /// core.
    ///
    /// # Errors
    /// If the operating system has no memory left, an address is outside memory, or the end is
    /// requested.
    pub fn advance(&mut self, until: Time) -> Result<Option<usize>, Refusal> {
        while let Some((time, event)) = self.next_event().filter(|(time, _)| *time < until) {
            self.stop.check()?;
            self.now = time;
            self.happen(event)?;
            if let Some(thread) = self.left.take() {
                return Ok(Some(thread));
            }
        }
        self.now = self.now.max(until);
        Ok(None)
    }

    /// Returns the behavior of a thread so far.
    pub fn progress(&mut self, thread: usize) -> Progress {
        let instructions = self.reached(thread);
        let tally = &self.cores[thread].tally;
        Progress { instructions, reads: tally.reads, writes: tally.writes }
    }

    /// Returns the memory systems.
    #[must_use]
    pub fn into_bays(self) -> Vec<MemorySlot<M>> {
        self.ports.into_bays()
    }

    /// Stops the cores and drains in-flight requests.
    fn stop(&mut self) {
        self.stopped = true;
        self.delayed.clear();
        self.cores.iter_mut().for_each(|core| core.wake = Time::NEVER);
    }

    fn next_event(&self) -> Option<(Time, Event)> {
        let (mut first, mut event) = (Time::NEVER, None);
        let mut earlier = |time: Time, candidate: Event| {
            if time < first {
                (first, event) = (time, Some(candidate));
            }
        };
        // Starts with the core whose turn it is, so that no core is always the first to find room.
        let turns = (self.turn..self.cores.len()).chain(0..self.turn);
        for place in turns.clone() {
            earlier(self.cores[place].reads.next(), Event::Read(place));
            earlier(self.cores[place].writes.next(), Event::Write(place));
        }
        for (place, next) in self.ports.next().enumerate() {
            earlier(next, Event::Memory(place));
        }
        earlier(self.delayed.next(), Event::Address);
        for place in turns {
            earlier(self.cores[place].wake, Event::Enter(place));
        }
        Some((first, event?))
    }

    fn happen(&mut self, event: Event) -> Result<(), Refusal> {
        match event {
            Event::Memory(bay) => self.advance_memory(bay)?,
            Event::Read(core) => self.offer_read(core),
            Event::Write(core) => self.offer_write(core)?,
            Event::Address => {
                if let Some((core, attempt)) = self.delayed.pop() {
                    self.attempt(core, attempt)?;
                }
            }
            Event::Enter(core) => self.enter(core)?,
        }
        Ok(())
    }

    fn outcome(&mut self) -> MachineRun {
        debug_assert_eq!(self.misses.len(), 0, "every miss comes back");
        let thread = |core: &mut Core| ThreadRun {
            program: core.program,
            instructions: core.goal,
            finished: core.finished.unwrap_or(self.now),
            tally: std::mem::take(&mut core.tally),
        };
        MachineRun {
            names: self.programs.iter().map(|program| program.name.clone()).collect(),
            threads: self.cores.iter_mut().map(thread).collect(),
            end: self.end,
            drained: self.now,
        }
    }
}

fn check<M>(
    config: &MachineConfig,
    bays: &[MemorySlot<M>],
    programs: &[Program],
) -> Result<(), Refusal> {
    let threads: usize = programs.iter().map(|program| program.threads.len()).sum();
    if threads > config.cores.len() {
        let cores = counted(config.cores.len() as u64, "core");
        return Err(Refusal::new(
            format!("{threads} threads are too many for {cores}"),
            "every thread has a core of its own: give the machine more, or hardware threads",
        ));
    }
    if bays.is_empty() {
        return Err(Refusal::new("the machine has no memory", "give it one"));
    }
    let idle = |program: &&Program| program.threads.is_empty() || program.instructions == 0;
    match programs.iter().find(idle) {
        Some(program) => Err(Refusal::new(
            format!("`{}` has nothing to execute", program.name),
            "give it at least one thread and one instruction",
        )),
        None => Ok(()),
    }
}
