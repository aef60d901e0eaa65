//! The path of an access through the caches. One that misses in all of them becomes a request to
//! memory, whose completion answers it.

use memweir_core::Direction;
use memweir_core::input::Refusal;
use memweir_core::units::LINE_BYTES;
use memweir_dram::request::{Completion, Request, Source};

use super::System;
use super::caches::{Found, WriteBack};
use super::core::{Arrival, Attempt, Lane};
use super::mshr::{Miss, Waiter};
use crate::cache::Line;
use crate::clock::Time;
use crate::machine::Memory;
use crate::stream::{AccessKind, Level};

/// Tag bit of a write that belongs to the measured instructions.
const COUNTED: u32 = 1;

impl<M: Memory> System<'_, M> {
    /// Performs an access. If there is no room below for it, the access waits, and the core with
    /// it.
    pub(super) fn attempt(&mut self, place: usize, attempt: Attempt) -> Result<(), Refusal> {
        if !self.cores[place].refused.is_empty() || !self.access(place, attempt)? {
            self.cores[place].refused.push_back(attempt);
            self.cores[place].wake = Time::NEVER;
        }
        Ok(())
    }

    /// Retries the accesses that found no room, in order.
    pub(super) fn retry(&mut self, place: usize) -> Result<(), Refusal> {
        if self.stopped || self.cores[place].refused.is_empty() {
            return Ok(());
        }
        while let Some(attempt) = self.cores[place].refused.front().copied() {
            if !self.access(place, attempt)? {
                return Ok(());
            }
            self.cores[place].refused.pop_front();
        }
        self.plan(place);
        Ok(())
    }

    /// Performs an access unless there is no room for it. Returns true if it was performed.
    fn access(&mut self, place: usize, attempt: Attempt) -> Result<bool, Refusal> {
        let line = attempt.address.0 / LINE_BYTES;
        let level = self.cores[place].level;
        let cached = self.caches.can_hold(place, level);
        // Without this limit, a program that only stores would run ever further ahead of memory.
        let posts = level == Level::Memory && attempt.kind == AccessKind::WriteBack
            || !cached && attempt.kind == AccessKind::Store;
        if posts && !self.cores[place].can_post() {
            return Ok(false);
        }
        match attempt.kind {
            AccessKind::WriteBack => self.put_back(place, line, level, attempt.counted)?,
            // Without a cache that could hold the line, a store does not fetch it.
            AccessKind::Store if !cached => self.post(place, line, attempt.counted)?,
            AccessKind::Load | AccessKind::Store | AccessKind::Update => {
                let (found, delay) = self.caches.look_up(place, line, level, attempt.kind);
                if found == Found::Nowhere {
                    return self.miss(place, line, attempt, delay);
                }
                let shared = found == Found::Shared && attempt.counted;
                self.cores[place].tally.llc_accesses += u64::from(shared);
                self.answer(place, attempt.number, self.now.after(delay));
                self.spill()?;
            }
        }
        Ok(true)
    }

    /// Requests a line from memory unless a request for it is in flight. Returns false if there is
    /// no room.
    fn miss(
        &mut self,
        place: usize,
        line: Line,
        attempt: Attempt,
        delay: Time,
    ) -> Result<bool, Refusal> {
        let waiter = Waiter { core: place, number: attempt.number, kind: attempt.kind };
        if let Some(miss) = self.misses.find(line) {
            miss.others.push(waiter);
        } else {
            if !self.cores[place].has_room() {
                return Ok(false);
            }
            self.ask(line, waiter, attempt.counted, delay)?;
        }
        let tally = &mut self.cores[place].tally;
        tally.llc_accesses += u64::from(attempt.counted);
        tally.llc_misses += u64::from(attempt.counted);
        Ok(true)
    }

    fn ask(
        &mut self,
        line: Line,
        first: Waiter,
        counted: bool,
        delay: Time,
    ) -> Result<(), Refusal> {
        let (bay, address) = self.ports.locate(line)?;
        let arrives = self.now.after(delay);
        let bank = self.ports.bank_of(bay, address);
        let miss = Miss { line, first, others: Vec::new(), counted, arrives, bank };
        let tag = self.misses.begin(miss);
        let source = Source(first.core as u16);
        let request = Request { address, direction: Direction::Read, source, tag };
        let core = &mut self.cores[first.core];
        core.outstanding += 1;
        core.reads.queue.push_back(Arrival { at: arrives, bay, request });
        Ok(())
    }

    /// Writes back a dirty line whose eviction is part of the stream.
    fn put_back(
        &mut self,
        place: usize,
        line: Line,
        level: Level,
        counted: bool,
    ) -> Result<(), Refusal> {
        if level == Level::Memory {
            return self.post(place, line, counted);
        }
        let gone = self.caches.put(place, line);
        self.write_back(gone)
    }

    /// Sends a line that the caches have evicted to memory.
    fn write_back(&mut self, gone: Option<WriteBack>) -> Result<(), Refusal> {
        let Some(WriteBack { owner, line }) = gone else { return Ok(()) };
        let counted = self.cores[owner].finished.is_none_or(|end| self.now <= end);
        self.post(owner, line, counted)
    }

    /// Moves the dirty victims of the private caches into the shared cache.
    fn spill(&mut self) -> Result<(), Refusal> {
        while let Some(WriteBack { owner, line }) = self.caches.overflowing() {
            let gone = self.caches.put(owner, line);
            self.write_back(gone)?;
        }
        Ok(())
    }

    /// Sends a dirty line to memory.
    fn post(&mut self, place: usize, line: Line, counted: bool) -> Result<(), Refusal> {
        let (bay, address) = self.ports.locate(line)?;
        let source = Source(place as u16);
        let tag = if counted { COUNTED } else { 0 };
        let request = Request { address, direction: Direction::Write, source, tag };
        let lane = &mut self.cores[place].writes.queue;
        lane.push_back(Arrival { at: self.now, bay, request });
        Ok(())
    }

    /// Advances a memory system to the current time and handles its completions.
    pub(super) fn advance_memory(&mut self, bay: usize) -> Result<(), Refusal> {
        let mut done = std::mem::take(&mut self.done);
        let next = self.ports.advance(bay, self.now, &mut done);
        for completion in &done {
            self.complete(bay, completion)?;
        }
        done.clear();
        self.done = done;
        self.ports.plan(bay);
        let waits =
            |lane: &Lane| lane.full && lane.queue.front().is_some_and(|arrival| arrival.bay == bay);
        for core in &mut self.cores {
            for lane in [&mut core.reads, &mut core.writes] {
                if waits(lane) {
                    (lane.full, lane.not_before) = (false, next);
                    self.ports.keep_room(bay, next);
                }
            }
        }
        Ok(())
    }

    /// Offers the first read of a core to memory.
    pub(super) fn offer_read(&mut self, place: usize) {
        let Some(arrival) = self.cores[place].reads.queue.front().copied() else { return };
        if let Some(refused) = self.ports.offer(&arrival, self.now) {
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
        if let Some(refused) = self.ports.offer(&arrival, self.now) {
            self.cores[place].writes.wait(refused);
            return Ok(());
        }
        self.cores[place].writes.queue.pop_front();
        self.turn = (place + 1) % self.cores.len();
        self.retry(place)
    }

    /// Handles the completion of a request.
    fn complete(&mut self, bay: usize, completion: &Completion) -> Result<(), Refusal> {
        let at = self.ports.answered(bay, completion);
        if completion.request.direction == Direction::Write {
            if completion.request.tag == COUNTED {
                let owner = usize::from(completion.request.source.0);
                self.cores[owner].tally.completed(at, completion, Time::default());
            }
            return Ok(());
        }
        let Some(miss) = self.misses.end(completion.request.tag) else { return Ok(()) };
        let owner = miss.first.core;
        let core = &mut self.cores[owner];
        core.outstanding -= 1;
        if miss.counted {
            core.tally.parallelism.end(miss.bank, self.now);
            core.tally.completed(at, completion, at.since(miss.arrives));
        }
        let everybody = || std::iter::once(miss.first).chain(miss.others.iter().copied());
        let private = |waiter: &Waiter| {
            self.cores[waiter.core].level == Level::Core && self.caches.has_private(waiter.core)
        };
        let dirty = everybody().any(|waiter| waiter.kind.writes() && !private(&waiter));
        let in_private: Vec<Waiter> = everybody().filter(private).collect();
        // The first access may pass by the caches, and a later one not.
        let cached = everybody().find(|waiter| self.cores[waiter.core].level != Level::Memory);
        if let Some(waiter) = cached {
            let gone = self.caches.fill_shared(waiter.core, miss.line, dirty);
            self.write_back(gone)?;
        }
        for waiter in in_private {
            self.caches.fill_private(waiter.core, miss.line, waiter.kind);
        }
        self.spill()?;
        for waiter in everybody() {
            self.answer(waiter.core, waiter.number, at.max(self.now));
        }
        self.retry(owner)
    }
}
