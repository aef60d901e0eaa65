//! The running machine, from event to event.
//!
//! There are three kinds of events: an access enters a core's window (`enter`), it goes through the
//! caches and becomes a miss (`access`), and memory takes and answers requests (`memory`). Events
//! are processed in the order of their times. In a memory cycle, requests are offered before the
//! cycle is simulated, with the cores taking turns where they compete for room; accesses and cores
//! follow.

mod access;
mod core;
mod enter;
mod memory;
mod mshr;
#[cfg(test)]
mod tests;
mod warm;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use memweir_core::input::Refusal;
use memweir_dram::request::Completion;

use self::core::{Attempt, Core};
use self::mshr::Misses;
use crate::banks::Banks;
use crate::cache::Line;
use crate::clock::{Clock, Time};
use crate::machine::{Addressing, MachineConfig, Memory, MemorySlot, Program};
use crate::os::{Os, ProcessId, ThreadId};
use crate::tally::Tally;

/// The machine.
#[derive(Debug)]
pub struct System<'a, M> {
    clock: Clock,
    cores: Vec<Core>,
    programs: Vec<State>,
    llc: Option<core::Timed>,
    bays: Vec<Port<M>>,
    os: &'a mut Os,
    misses: Misses,
    /// Accesses that continue at a later time than they entered.
    due: BinaryHeap<Reverse<Due>>,
    /// Number of accesses put there so far.
    dues: u64,
    /// Dirty lines just evicted from the cores' private caches.
    overflow: Vec<(usize, Line)>,
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

/// A memory system, and the time of its next event.
#[derive(Debug)]
struct Port<M> {
    bay: MemorySlot<M>,
    next: Time,
    /// Offers before this time are refused: the room belongs to requests that already waited for
    /// it.
    kept_until: Time,
    banks: Banks,
}

/// An access that continues at `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at: Time,
    order: u64,
    core: usize,
    attempt: Attempt,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
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
    /// Its number in the program.
    pub thread: ThreadId,
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
        let llc = config.llc.as_ref().map(|level| core::Timed::new(level, config.clock));
        let mut system = Self {
            clock: config.clock,
            cores: Vec::new(),
            programs: Vec::new(),
            llc,
            bays: ports(bays),
            os,
            misses: Misses::default(),
            due: BinaryHeap::new(),
            dues: 0,
            overflow: Vec::new(),
            done: Vec::new(),
            turn: 0,
            now: Time::default(),
            running: 0,
            end: Time::default(),
            stopped: false,
        };
        for program in programs {
            system.add(config, program);
        }
        (0..system.bays.len()).for_each(|bay| system.plan_memory(bay));
        Ok(system)
    }

    fn add(&mut self, config: &MachineConfig, program: Program) {
        let (place, first) = (self.programs.len(), self.cores.len());
        for (number, stream) in program.threads.into_iter().enumerate() {
            let own = &config.cores[self.cores.len()];
            let who = (place, ThreadId(number as u16));
            let goal = (program.instructions, program.phase);
            self.cores.push(Core::new(own, config.clock, who, program.level, stream, goal));
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

    /// Runs the programs until each has executed its instructions, and memory until it has answered
    /// all requests.
    ///
    /// # Errors
    /// If the operating system has no memory left, or an address is outside memory.
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
            self.now = time;
            self.happen(event)?;
        }
        Ok(self.outcome())
    }

    /// Returns the memory systems.
    #[must_use]
    pub fn into_bays(self) -> Vec<MemorySlot<M>> {
        self.bays.into_iter().map(|port| port.bay).collect()
    }

    /// Stops the cores and drains in-flight requests.
    fn stop(&mut self) {
        self.stopped = true;
        self.due.clear();
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
        for (place, port) in self.bays.iter().enumerate() {
            earlier(port.next, Event::Memory(place));
        }
        if let Some(Reverse(due)) = self.due.peek() {
            earlier(due.at, Event::Address);
        }
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
                if let Some(Reverse(due)) = self.due.pop() {
                    self.attempt(due.core, due.attempt)?;
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
            thread: core.thread,
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

fn ports<M>(bays: Vec<MemorySlot<M>>) -> Vec<Port<M>> {
    let mut first = 0;
    let port = |bay: MemorySlot<M>| {
        let banks = Banks::new(&bay.map, first);
        first += banks.count();
        Port { bay, next: Time::NEVER, kept_until: Time::default(), banks }
    };
    bays.into_iter().map(port).collect()
}

fn check<M>(
    config: &MachineConfig,
    bays: &[MemorySlot<M>],
    programs: &[Program],
) -> Result<(), Refusal> {
    let threads: usize = programs.iter().map(|program| program.threads.len()).sum();
    if threads > config.cores.len() {
        return Err(Refusal::new(
            format!("{threads} threads are too many for {} cores", config.cores.len()),
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
