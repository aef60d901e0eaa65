//! The path of an access through the caches; an access that misses in all of them becomes a miss.

use memweir_core::input::Refusal;
use memweir_core::units::LINE_BYTES;
use memweir_core::{Cycles, PhysAddr};
use memweir_dram::request::{Direction, Request, Source};

use super::System;
use super::core::{Arrival, Attempt};
use super::mshr::{Miss, Waiter};
use crate::cache::{Line, Victim};
use crate::clock::Time;
use crate::machine::Memory;
use crate::stream::{AccessKind, Level};

/// Tag bit of a write that belongs to the measured instructions.
pub(super) const COUNTED: u32 = 1;

/// Location of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// In a cache of the core.
    Private,
    /// In the shared cache.
    Shared,
    /// In no cache.
    Nowhere,
}

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
        let cached = level != Level::Memory && self.llc.is_some()
            || level == Level::Core && self.has_private(place);
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
                let store = attempt.kind.writes();
                let (found, delay) = self.look_up(place, line, level, store);
                if found == Found::Nowhere {
                    return self.miss(place, line, attempt, delay);
                }
                let shared = found == Found::Shared && attempt.counted;
                self.cores[place].tally.llc_accesses += u64::from(shared);
                self.answer(place, attempt.number, self.now.after(delay));
                self.let_go()?;
            }
        }
        Ok(true)
    }

    pub(super) fn has_private(&self, place: usize) -> bool {
        self.cores[place].l1.is_some() || self.cores[place].l2.is_some()
    }

    /// Looks up a line in the caches from `level` on. Returns its location and the time taken.
    fn look_up(&mut self, place: usize, line: Line, level: Level, store: bool) -> (Found, Time) {
        let mut delay = Time::default();
        let private = level == Level::Core && self.has_private(place);
        if private {
            let core = &mut self.cores[place];
            if let Some(l1) = &mut core.l1 {
                delay = delay.after(l1.delay);
                if l1.cache.touch(line, store) {
                    return (Found::Private, delay);
                }
            }
            let is_first = core.l1.is_none();
            if let Some(l2) = &mut core.l2 {
                delay = delay.after(l2.delay);
                if l2.cache.touch(line, store && is_first) {
                    self.fill_private(place, line, store);
                    return (Found::Private, delay);
                }
            }
        }
        if level != Level::Memory
            && let Some(llc) = &mut self.llc
        {
            delay = delay.after(llc.delay);
            if llc.cache.touch(line, store && !private) {
                if private {
                    self.fill_private(place, line, store);
                }
                return (Found::Shared, delay);
            }
        }
        (Found::Nowhere, delay)
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
        let written = attempt.kind.writes();
        let waiter = Waiter { core: place, number: attempt.number, written };
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
        let (bay, address) = self.locate(line)?;
        let arrives = self.now.after(delay);
        let bank = self.bank_of(bay, address);
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
        if level == Level::Memory { self.post(place, line, counted) } else { self.put(place, line) }
    }

    /// Puts a dirty line into the shared cache, or sends it to memory if there is none.
    pub(super) fn put(&mut self, place: usize, line: Line) -> Result<(), Refusal> {
        let Some(llc) = &mut self.llc else {
            let counted = self.cores[place].finished.is_none();
            return self.post(place, line, counted);
        };
        if llc.cache.touch(line, true) { Ok(()) } else { self.fill_shared(place, line, true) }
    }

    /// Inserts a line into the shared cache and writes back a dirty victim.
    pub(super) fn fill_shared(
        &mut self,
        place: usize,
        line: Line,
        dirty: bool,
    ) -> Result<(), Refusal> {
        let Some(llc) = &mut self.llc else { return Ok(()) };
        match llc.cache.insert(line, place as u16, dirty) {
            Some(victim) if victim.dirty => {
                let owner = usize::from(victim.owner);
                let counted = self.cores[owner].finished.is_none();
                self.post(owner, victim.line, counted)
            }
            _ => Ok(()),
        }
    }

    /// Inserts a line into the private caches of a core; the second-level cache may already have
    /// it. Dirty victims go to `overflow`.
    pub(super) fn fill_private(&mut self, place: usize, line: Line, store: bool) {
        let core = &mut self.cores[place];
        let (l1, mut l2) = (core.l1.as_mut(), core.l2.as_mut());
        let is_first = l1.is_none();
        let owner = place as u16;
        let mut into_l2 = |line: Line, written: bool| match &mut l2 {
            Some(l2) => {
                let there = l2.cache.touch(line, written);
                if there { None } else { l2.cache.insert(line, owner, written) }
            }
            None => Some(Victim { line, owner, dirty: written && !is_first }),
        };
        let mut gone = [into_l2(line, store && is_first), None];
        let victim = l1.and_then(|l1| l1.cache.insert(line, place as u16, store));
        if let Some(victim) = victim.filter(|victim| victim.dirty) {
            gone[1] = into_l2(victim.line, true);
        }
        let dirty = gone.into_iter().flatten().filter(|victim| victim.dirty);
        self.overflow.extend(dirty.map(|victim| (place, victim.line)));
    }

    /// Moves the dirty victims of the private caches into the shared cache.
    pub(super) fn let_go(&mut self) -> Result<(), Refusal> {
        while let Some((place, line)) = self.overflow.pop() {
            self.put(place, line)?;
        }
        Ok(())
    }

    /// Sends a dirty line to memory.
    pub(super) fn post(&mut self, place: usize, line: Line, counted: bool) -> Result<(), Refusal> {
        let (bay, address) = self.locate(line)?;
        let source = Source(place as u16);
        let tag = if counted { COUNTED } else { 0 };
        let request = Request { address, direction: Direction::Write, source, tag };
        let lane = &mut self.cores[place].writes.queue;
        lane.push_back(Arrival { at: self.now, bay, request });
        Ok(())
    }

    /// Returns the number of a bank among those of all memory systems.
    fn bank_of(&self, bay: usize, address: PhysAddr) -> usize {
        self.bays[bay].banks.number(address)
    }

    /// Returns the first cycle of a memory system that begins now or later.
    pub(super) fn cycle_of(&self, bay: usize) -> Cycles {
        self.bays[bay].bay.clock.first_from(self.now)
    }
}
