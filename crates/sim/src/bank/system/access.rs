//! An access goes through the caches; what none of them has becomes a miss.

use memweir_core::input::Refusal;
use memweir_core::units::LINE_BYTES;
use memweir_core::{Cycles, PhysAddr};
use memweir_dram::request::{Direction, Request, Source};

use super::System;
use super::core::{Arrival, Attempt};
use super::mshr::{Miss, Waiter};
use crate::bank::cache::{Line, Victim};
use crate::bank::clock::Time;
use crate::bank::machine::Memory;
use crate::bank::stream::{AccessKind, Level};

/// In the tag of a write: it belongs to the instructions that are measured.
pub(super) const COUNTED: u32 = 1;

/// Where a line was.
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
    /// An access goes on now; what finds no room below waits, and the core with it.
    pub(super) fn attempt(&mut self, place: usize, attempt: Attempt) -> Result<(), Refusal> {
        if !self.cores[place].refused.is_empty() || !self.access(place, attempt)? {
            self.cores[place].refused.push_back(attempt);
            self.cores[place].wake = Time::NEVER;
        }
        Ok(())
    }

    /// Those that found no room try again, in their order.
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

    /// Whether an access could be taken up.
    fn access(&mut self, place: usize, attempt: Attempt) -> Result<bool, Refusal> {
        let line = attempt.address.0 / LINE_BYTES;
        let level = self.cores[place].level;
        let cached = level != Level::Memory && self.llc.is_some()
            || level == Level::Core && self.has_private(place);
        // Else who only stores would be ever further ahead of memory.
        let posts = level == Level::Memory && attempt.kind == AccessKind::WriteBack
            || !cached && attempt.kind == AccessKind::Store;
        if posts && !self.cores[place].can_post() {
            return Ok(false);
        }
        match attempt.kind {
            AccessKind::WriteBack => self.put_back(place, line, level, attempt.counted)?,
            // Without a cache that could hold the line there is nothing to fetch it into.
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

    /// Looks for a line in the caches from `level` on; how long that took.
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

    /// A line is in none of the caches: memory is asked for it, unless it has been.
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

    /// A dirty line that the private caches of a recording let go.
    fn put_back(
        &mut self,
        place: usize,
        line: Line,
        level: Level,
        counted: bool,
    ) -> Result<(), Refusal> {
        if level == Level::Memory { self.post(place, line, counted) } else { self.put(place, line) }
    }

    /// A dirty line goes into the shared cache, or to memory where there is none.
    pub(super) fn put(&mut self, place: usize, line: Line) -> Result<(), Refusal> {
        let Some(llc) = &mut self.llc else {
            let counted = self.cores[place].finished.is_none();
            return self.post(place, line, counted);
        };
        if llc.cache.touch(line, true) { Ok(()) } else { self.fill_shared(place, line, true) }
    }

    /// Puts a line into the shared cache.
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

    /// Puts a line into the private caches of a core, of which the second may have it already. What
    /// they let go is in `overflow` then.
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

    /// What the private caches let go goes into the shared one.
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

    /// The number of a bank among those of all memory systems.
    fn bank_of(&self, bay: usize, address: PhysAddr) -> usize {
        self.bays[bay].banks.number(address)
    }

    /// The first cycle of a memory system that is not over.
    pub(super) fn cycle_of(&self, bay: usize) -> Cycles {
        self.bays[bay].bay.clock.first_from(self.now)
    }
}
