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
        self.system.enqueue(now, request).is_ok()
    }

    fn next_event(&self) -> Option<Cycles> {
        self.system.next_event()
    }

    fn advance(&mut self, to: Cycles, done: &mut dyn FnMut(&Completion)) {
        self.system.advance(to, &mut Told { done, observer: &mut self.observer });
    }
}
