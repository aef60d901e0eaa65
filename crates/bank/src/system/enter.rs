//! Entry of accesses into the windows of the cores, answers to them, barriers, and the ends of
//! threads.

use memweir_core::PhysAddr;
use memweir_core::input::Refusal;

use super::System;
use super::core::{Attempt, Ending, Waiting};
use crate::clock::Time;
use crate::machine::{Addressing, Memory};
use crate::os::VirtualPage;
use crate::window::AccessNumber;

impl<M: Memory> System<'_, M> {
    /// Computes the time at which a core's next access enters, and records the end of the core's
    /// measured instructions.
    pub(super) fn plan(&mut self, place: usize) {
        let clock = self.clock;
        let core = &mut self.cores[place];
        if core.finished.is_none()
            && core.ending == Ending::Restart
            && let Some(slot) = core.window.retired(core.instruction.min(core.barrier))
        {
            let finished = clock.span(slot.div_ceil(core.window.width()));
            core.finished = Some(finished);
            self.running -= 1;
            self.end = self.end.max(finished);
        }
        core.wake = Time::NEVER;
        if self.stopped || core.off.is_some() || core.at_barrier || !core.refused.is_empty() {
            return;
        }
        if core.is_at_its_end() {
            if let Some(slot) = core.window.retirement(core.goal) {
                core.wake = clock.span(slot.div_ceil(core.window.width())).max(self.now);
            }
            return;
        }
        if core.instruction > core.barrier {
            if let Some(slot) = core.window.retirement(core.barrier) {
                self.arrive(place, slot);
            }
            return;
        }
        if let Some(slot) = core.window.entry_slot(core.instruction) {
            core.wake = clock.span(slot / core.window.width()).max(self.now);
        }
    }

    /// Records that a thread has reached a barrier; the last thread opens it.
    fn arrive(&mut self, place: usize, slot: u64) {
        self.cores[place].at_barrier = true;
        let program = &mut self.programs[self.cores[place].program];
        let (count, last) = program.arrived;
        program.arrived = (count + 1, last.max(slot));
        if program.arrived.0 < program.cores.len() {
            return;
        }
        let (phase, slot) = (program.phase.unwrap_or(u64::MAX), program.arrived.1);
        program.arrived = (0, 0);
        let threads = program.cores.clone();
        for thread in threads.clone() {
            let core = &mut self.cores[thread];
            core.window.stall(core.barrier, slot);
            core.at_barrier = false;
            core.barrier = core.barrier.saturating_add(phase);
        }
        threads.for_each(|thread| self.plan(thread));
    }

    /// Enters the next access of a core into its window.
    pub(super) fn enter(&mut self, place: usize) -> Result<(), Refusal> {
        if self.cores[place].is_at_its_end() {
            self.leave(place);
            return Ok(());
        }
        let (access, instruction) = (self.cores[place].next, self.cores[place].instruction);
        let (address, cost) = self.translate(place, access.address)?;
        let clock = self.clock;
        let core = &mut self.cores[place];
        let width = core.window.width();
        let Some(mut slot) = core.window.entry_slot(instruction) else { return Ok(()) };
        slot = slot.max(self.now.0 / clock.period().0 * width);
        let number = (access.instructions > 0).then(|| core.window.enter(instruction, slot));
        if let Some(number) = number.filter(|_| !access.kind.waits()) {
            core.window.answered(number, slot + width);
        }
        let at = self.now.after(cost);
        let counted = instruction <= core.goal;
        if cost > Time::default() {
            if counted {
                core.tally.faulting = core.tally.faulting.after(cost);
            }
            let slot = core.slot_at(at, clock);
            core.window.stall(instruction, slot);
        }
        let attempt = Attempt { number, address, kind: access.kind, counted };
        let needed = number.filter(|_| access.needs > 0);
        let producer = needed.and_then(|number| number.checked_sub(u64::from(access.needs)));
        let known = producer.map_or(Some(0), |producer| core.window.answer_of(producer));
        core.fetch();
        match known {
            None => {
                let waiting = producer.map(|producer| Waiting { producer, attempt });
                core.waiting.extend(waiting);
            }
            Some(slot) => {
                let known = clock.span(slot / width);
                if known.max(at) > self.now {
                    self.delay(place, known.max(at), attempt);
                } else {
                    self.attempt(place, attempt)?;
                }
            }
        }
        self.plan(place);
        Ok(())
    }

    /// Schedules an access to continue at `at`.
    pub(super) fn delay(&mut self, core: usize, at: Time, attempt: Attempt) {
        if !self.stopped {
            self.delayed.push(at, core, attempt);
        }
    }

    /// Records that an access has its data at `at`, and releases the accesses whose address needs
    /// it.
    pub(super) fn answer(&mut self, place: usize, number: Option<AccessNumber>, at: Time) {
        let Some(number) = number else { return };
        let clock = self.clock;
        let core = &mut self.cores[place];
        let slot = core.slot_at(at, clock);
        if core.window.answer_of(number).is_some() {
            return;
        }
        core.window.answered(number, slot);
        let mut index = 0;
        while index < self.cores[place].waiting.len() {
            if self.cores[place].waiting[index].producer == number {
                let attempt = self.cores[place].waiting.remove(index).attempt;
                self.delay(place, at.max(self.now), attempt);
            } else {
                index += 1;
            }
        }
        if self.cores[place].wake == Time::NEVER {
            self.plan(place);
        }
        if !self.successors.is_empty() && self.cores[place].window.is_answered() {
            self.succeed(place, at.max(self.now));
        }
    }

    /// Translates an address of a program. Returns the physical address and the time of the page
    /// fault, if any, for which the thread stalls.
    pub(super) fn translate(
        &mut self,
        place: usize,
        address: u64,
    ) -> Result<(PhysAddr, Time), Refusal> {
        let core = &mut self.cores[place];
        let program = &self.programs[core.program];
        if program.addressing == Addressing::Physical {
            return Ok((PhysAddr(address), Time::default()));
        }
        let bits = self.os.page_bits();
        let (page, offset) = (address >> bits, address & ((1 << bits) - 1));
        if let Some(frame) = core.recall(page) {
            return Ok((PhysAddr(frame | offset), Time::default()));
        }
        let touch =
            self.os.touch(program.process, core.thread, VirtualPage(page)).map_err(|error| {
                let reason = format!("`{}`: {error}", program.name);
                Refusal::new(reason, "a smaller footprint, more memory, or more colors")
            })?;
        core.remember(page, touch.at.0);
        let cost = Time(touch.fault.0 * 1_000_000);
        Ok((PhysAddr(touch.at.0 | offset), cost))
    }

    /// Lets the thread go on that waits for the accesses of another, the last of which is answered
    /// at `at`.
    pub(super) fn succeed(&mut self, before: usize, at: Time) {
        while let Some(place) = self.successors.iter().position(|next| next.before == before) {
            let next = self.successors.swap_remove(place);
            self.resume(next.thread, next.at.max(at));
        }
    }

    pub(super) fn resume(&mut self, thread: usize, at: Time) {
        let clock = self.clock;
        let core = &mut self.cores[thread];
        if let Some(reached) = core.off.take() {
            let slot = core.slot_at(at, clock);
            core.window.stall(reached, slot);
            self.plan(thread);
        }
        // From here on its accesses are of another core.
        self.succeed(thread, at);
    }

    /// Ends a thread.
    pub(super) fn leave(&mut self, thread: usize) {
        let core = &mut self.cores[thread];
        (core.finished, core.off) = (Some(self.now), Some(core.goal));
        core.wake = Time::NEVER;
        self.left = Some(thread);
    }

    /// Returns the last instruction that a thread has begun.
    pub(super) fn reached(&mut self, thread: usize) -> u64 {
        let (clock, now) = (self.clock, self.now);
        let core = &mut self.cores[thread];
        let slot = core.slot_at(now, clock);
        core.off.unwrap_or_else(|| core.window.reached(core.instruction, slot).min(core.goal))
    }
}
