//! Memory systems with their places in the address space.

use memweir_core::input::Refusal;
use memweir_core::units::LINE_BYTES;
use memweir_core::{Cycles, PhysAddr};
use memweir_dram::request::Completion;

use super::core::{Arrival, Refused};
use crate::banks::Banks;
use crate::cache::Line;
use crate::clock::Time;
use crate::machine::{Memory, MemorySlot};

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

impl<M: Memory> Port<M> {
    fn new(bay: MemorySlot<M>, banks: Banks) -> Self {
        let mut port = Self { bay, next: Time::NEVER, kept_until: Time::default(), banks };
        port.plan();
        port
    }

    /// Updates the time of the next event.
    fn plan(&mut self) {
        let next = self.bay.memory.next_event();
        self.next = next.map_or(Time::NEVER, |cycle| self.bay.clock.start(cycle));
    }
}

/// The memory systems of the machine, by number.
#[derive(Debug)]
pub(super) struct Ports<M>(Vec<Port<M>>);

impl<M: Memory> Ports<M> {
    pub(super) fn new(bays: Vec<MemorySlot<M>>) -> Self {
        let mut first = 0;
        let port = |bay: MemorySlot<M>| {
            let banks = Banks::new(&bay.map, first);
            first += banks.count();
            Port::new(bay, banks)
        };
        Self(bays.into_iter().map(port).collect())
    }

    /// Returns their number.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory systems.
    pub(super) fn into_bays(self) -> Vec<MemorySlot<M>> {
        self.0.into_iter().map(|port| port.bay).collect()
    }

    /// Returns the time of each one's next event.
    pub(super) fn next(&self) -> impl Iterator<Item = Time> {
        self.0.iter().map(|port| port.next)
    }

    /// Returns the memory system that holds a line, and the address within it.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn locate(&self, line: Line) -> Result<(usize, PhysAddr), Refusal> {
        let address = line * LINE_BYTES;
        let inside = |port: &Port<M>| {
            let offset = address.wrapping_sub(port.bay.base.0);
            (offset < port.bay.size.0).then_some(offset)
        };
        self.0
            .iter()
            .enumerate()
            .find_map(|(place, port)| inside(port).map(|offset| (place, PhysAddr(offset))))
            .ok_or_else(|| {
                Refusal::new(
                    format!("there is no memory at {}", PhysAddr(address)),
                    "addresses of a trace are those of the machine only if it is said so; else the \
                     operating system places its pages",
                )
            })
    }

    /// Returns the number of a bank among those of all memory systems.
    pub(super) fn bank_of(&self, bay: usize, address: PhysAddr) -> usize {
        self.0[bay].banks.number(address)
    }

    /// Returns the time at which a completion has its data.
    pub(super) fn answered(&self, bay: usize, completion: &Completion) -> Time {
        self.0[bay].bay.clock.start(completion.done)
    }

    /// Advances a memory system to the first of its cycles that begins at `now` or later, and adds
    /// its completions to `done`. Returns the start of the next cycle, in which room that a command
    /// has freed is available.
    pub(super) fn advance(&mut self, bay: usize, now: Time, done: &mut Vec<Completion>) -> Time {
        let port = &mut self.0[bay];
        let to = port.bay.clock.first_from(now);
        port.bay.memory.advance(to, &mut |completion| done.push(*completion));
        port.bay.clock.start(Cycles(to.0 + 1))
    }

    /// Updates the time of a memory system's next event after completions were handled.
    pub(super) fn plan(&mut self, bay: usize) {
        self.0[bay].plan();
    }

    /// Keeps the room of a memory system until then for requests that wait already.
    pub(super) fn keep_room(&mut self, bay: usize, until: Time) {
        self.0[bay].kept_until = until;
    }

    /// Offers a request to its memory system. Returns the reason if it is refused.
    pub(super) fn offer(&mut self, arrival: &Arrival, now: Time) -> Option<Refused> {
        let port = &mut self.0[arrival.bay];
        if now < port.kept_until {
            return Some(Refused::Until(port.kept_until));
        }
        let cycle = port.bay.clock.first_from(now);
        if !port.bay.memory.offer(cycle, arrival.request) {
            return Some(Refused::Full);
        }
        port.plan();
        None
    }
}
