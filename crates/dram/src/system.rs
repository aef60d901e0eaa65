//! A memory system as its users see it.
//!
//! Time is counted in cycles of the memory clock and only ever moves forward. In each cycle a caller
//! first offers requests ([`MemorySystem::enqueue`]) and then lets the cycle happen
//! ([`MemorySystem::advance`]); a request can be served in the cycle in which it was accepted, and
//! room that a command makes in a queue is there in the next cycle. Cycles in which nothing is
//! offered need not be visited: [`MemorySystem::next_event`] tells when to come back.

use memweir_core::Cycles;
use memweir_core::input::Refusal;

use crate::command::Command;
use crate::config::MemoryConfig;
use crate::request::{Completion, Request};
use crate::stats::Stats;

/// The queue that a request belongs to has no room. Room is made by commands, so it is worth
/// trying again in the cycle after the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct Full;

/// Who is told what happens. Within a channel, calls come in the order of time.
pub trait Observer {
    /// A request is done. Called in the cycle of its last data beat.
    fn completed(&mut self, completion: &Completion) {
        let _ = completion;
    }

    /// A command was issued.
    fn command(&mut self, command: &Command) {
        let _ = command;
    }
}

/// Nobody.
impl Observer for () {}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn completed(&mut self, completion: &Completion) {
        (**self).completed(completion);
    }

    fn command(&mut self, command: &Command) {
        (**self).command(command);
    }
}

/// Channels of memory devices and their controllers.
#[derive(Clone, Debug)]
pub struct MemorySystem {
    stats: Stats,
}

impl MemorySystem {
    /// Builds what `config` describes, at cycle zero.
    ///
    /// # Errors
    /// If it cannot work: what [`MemoryConfig::validate`] says.
    pub fn new(config: &MemoryConfig) -> Result<Self, Refusal> {
        config.validate()?;
        Ok(Self { stats: Stats::default() })
    }

    /// Offers `request` in cycle `now`, not before the cycle to which the system has advanced.
    ///
    /// # Errors
    /// If there is no room for it; nothing has changed then.
    pub fn enqueue(&mut self, now: Cycles, request: Request) -> Result<(), Full> {
        let _ = (now, request);
        Err(Full)
    }

    /// When something will next happen that a caller may wait for: a command for a request, or an
    /// answer. Nothing if the system [is idle](Self::is_idle).
    #[must_use]
    pub fn next_event(&self) -> Option<Cycles> {
        None
    }

    /// Lets everything happen that happens in cycles up to and including `to`.
    pub fn advance(&mut self, to: Cycles, observer: &mut impl Observer) {
        let _ = (to, observer);
    }

    /// Whether no request waits or is being served. Refresh goes on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        true
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }
}
