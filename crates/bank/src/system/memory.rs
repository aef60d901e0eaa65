//! Requests to memory and their completions.

use memweir_core::Cycles;
use memweir_core::input::Refusal;
use memweir_dram::request::{Completion, Direction};

use super::System;
use super::access::COUNTED;
use super::core::{Arrival, Lane, Refused};
use super::mshr::Waiter;
use crate::clock::Time;
use crate::machine::Memory;
use crate::stream::Level;

impl<M: Memory> System<'_, M> {
    /// Updates the time of a memory system's next event.
    pub(super) fn plan_memory(&mut self, bay: usize) {
        let port = &mut self.bays[bay];
        let next = port.bay.memory.next_event();
        port.next = next.map_or(Time::NEVER, |cycle| port.bay.clock.start(cycle));
    }

    /// Advances a memory system to the current time and handles its completions.
    pub(super) fn advance_memory(&mut self, bay: usize) -> Result<(), Refusal> {
        let to = self.cycle_of(bay);
        let mut done = std::mem::take(&mut self.done);
        self.bays[bay].bay.memory.advance(to, &mut |completion| done.push(*completion));
        for completion in &done {
            self.complete(bay, completion)?;
        }
        done.clear();
        self.done = done;
        self.plan_memory(bay);
        // Room that a command frees is available in the next cycle.
        let next = self.bays[bay].bay.clock.start(Cycles(to.0 + 1));
        let waits =
            |lane: &Lane| lane.full && lane.queue.front().is_some_and(|arrival| arrival.bay == bay);
        for core in &mut self.cores {
            for lane in [&mut core.reads, &mut core.writes] {
                if waits(lane) {
                    (lane.full, lane.not_before) = (false, next);
                    self.bays[bay].kept_until = next;
                }
            }
        }
        Ok(())
    }

    /// Offers the first read of a core to memory.
    pub(super) fn offer_read(&mut self, place: usize) {
        let Some(arrival) = self.cores[place].reads.queue.front().copied() else { return };
        if let Some(refused) = self.offer(&arrival) {
            return self.cores[place].reads.wait(refused);
        }
        let core = &mut self.cores[place];
        core.reads.queue.pop_front();
        if let Some(miss) = self.misses.get(arrival.request.tag).filter(|miss| miss.counted) {
            core.tally.parallelism.begin(miss.bank, self.now);
        }
        self.turn = (place + 1) % self.cores.len();
    }

    /// Offers the first write-back of a core to memory.
    pub(super) fn offer_write(&mut self, place: usize) -> Result<(), Refusal> {
        let Some(arrival) = self.cores[place].writes.queue.front().copied() else { return Ok(()) };
        if let Some(refused) = self.offer(&arrival) {
            self.cores[place].writes.wait(refused);
            return Ok(());
        }
        self.cores[place].writes.queue.pop_front();
        self.turn = (place + 1) % self.cores.len();
        self.retry(place)
    }

    /// Offers a request to its memory system. Returns the reason if it is refused.
    fn offer(&mut self, arrival: &Arrival) -> Option<Refused> {
        let cycle = self.cycle_of(arrival.bay);
        let port = &mut self.bays[arrival.bay];
        if self.now < port.kept_until {
            return Some(Refused::Until(port.kept_until));
        }
        if !port.bay.memory.offer(cycle, arrival.request) {
            return Some(Refused::Full);
        }
        self.plan_memory(arrival.bay);
        None
    }

    /// Handles the completion of a request.
    fn complete(&mut self, bay: usize, completion: &Completion) -> Result<(), Refusal> {
        let at = self.bays[bay].bay.clock.start(completion.done);
        if completion.request.direction == Direction::Write {
            if completion.request.tag == COUNTED {
                let owner = usize::from(completion.request.source.0);
                self.cores[owner].tally.completed(completion, Time::default());
            }
            return Ok(());
        }
        let Some(miss) = self.misses.end(completion.request.tag) else { return Ok(()) };
        let owner = miss.first.core;
        let core = &mut self.cores[owner];
        core.outstanding -= 1;
        if miss.counted {
            core.tally.parallelism.end(miss.bank, self.now);
            core.tally.completed(completion, at.since(miss.arrives));
        }
        let everybody = || std::iter::once(miss.first).chain(miss.others.iter().copied());
        let private = |waiter: &Waiter| {
            self.cores[waiter.core].level == Level::Core && self.has_private(waiter.core)
        };
        let dirty = everybody().any(|waiter| waiter.written && !private(&waiter));
        let in_private: Vec<Waiter> = everybody().filter(private).collect();
        if self.cores[owner].level != Level::Memory {
            self.fill_shared(owner, miss.line, dirty)?;
        }
        for waiter in in_private {
            self.fill_private(waiter.core, miss.line, waiter.written);
        }
        self.let_go()?;
        for waiter in everybody() {
            self.answer(waiter.core, waiter.number, at.max(self.now));
        }
        self.retry(owner)
    }
}
