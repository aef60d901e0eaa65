//! Implements [`Memory`] for the memory systems of `memweir-dram`, each with an observer.

use memweir_core::Cycles;
use memweir_dram::command::Command;
use memweir_dram::request::{Completion, Request};
use memweir_dram::{MemorySystem, Observer};

use crate::machine::Memory;

/// A memory system with an observer of its commands and completions, `()` for none.
#[derive(Debug)]
pub struct Observed<O> {
    /// The memory system.
    pub system: MemorySystem,
    /// The observer.
    pub observer: O,
}

struct Told<'a, O> {
    done: &'a mut dyn FnMut(&Completion),
    observer: &'a mut O,
}

impl<O: Observer> Observer for Told<'_, O> {
    fn completed(&mut self, completion: &Completion) {
        (self.done)(completion);
        self.observer.completed(completion);
    }

    fn command(&mut self, command: &Command) {
        self.observer.command(command);
    }
}

impl<O: Observer> Memory for Observed<O> {
    fn offer(&mut self, now: Cycles, request: Request) -> bool {
        // An idle memory has no event to wait for, but goes on to refresh and to close rows.
        // Nothing completes meanwhile: completions are events.
        if let Some(before) = now.0.checked_sub(1) {
            self.system.advance(Cycles(before), &mut self.observer);
        }
        self.system.enqueue(now, request).is_ok()
    }

    fn next_event(&self) -> Option<Cycles> {
        self.system.next_event()
    }

    fn advance(&mut self, to: Cycles, done: &mut dyn FnMut(&Completion)) {
        self.system.advance(to, &mut Told { done, observer: &mut self.observer });
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{Direction, PhysAddr};
    use memweir_dram::request::Source;
    use memweir_dram::{MemoryConfig, MemorySpec};

    use super::*;

    #[test]
    fn refreshes_that_fell_due_while_memory_was_idle_do_not_delay_the_next_request() {
        let config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        let system = MemorySystem::new(&config).unwrap();
        let mut memory = Observed { system, observer: () };
        // After tREFI, 9,360 cycles, the rank is busy for tRFC, 420. By cycle 100,000 the tenth
        // refresh has ended long ago, at 94,020.
        let (address, direction) = (PhysAddr(0), Direction::Read);
        let request = Request { address, direction, source: Source(0), tag: 0 };
        assert!(memory.offer(Cycles(100_000), request));
        let mut done = Vec::new();
        memory.advance(Cycles(110_000), &mut |completion| done.push(completion.done.0));
        // tRCD, CL and the four cycles of the burst.
        assert_eq!(done, [100_000 + 17 + 17 + 4]);
        assert_eq!(memory.system.stats().refreshes, 11, "the last one at 102,960");
    }
}
