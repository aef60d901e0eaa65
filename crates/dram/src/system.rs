//! A memory system behind its public interface.
//!
//! Time is counted in cycles of the memory clock and only moves forward. In each cycle a caller
//! first offers requests ([`MemorySystem::enqueue`]) and then advances through the cycle
//! ([`MemorySystem::advance`]). A request can be served in the cycle in which it was accepted; a
//! queue entry that a command frees can be used in the next cycle. Cycles without an offer can be
//! skipped: [`MemorySystem::next_event`] returns the next one of interest. An idle system goes on
//! to refresh and to close rows, so a caller advances to the cycle before an offer, too.

use memweir_core::Cycles;
use memweir_core::input::Refusal;

use crate::config::MemoryConfig;
use crate::controllers::Controllers;
use crate::link::Link;
use crate::observer::Observer;
use crate::request::{Full, Request};
use crate::stats::Stats;
use crate::timer::NEVER;

/// Channels of memory devices and their controllers, and the link to them if there is one.
#[derive(Clone, Debug)]
pub struct MemorySystem {
    controllers: Controllers,
    link: Option<Box<Link>>,
}

impl MemorySystem {
    /// Builds the memory that `config` describes, at cycle zero.
    ///
    /// # Errors
    /// If it cannot work, for the reasons that [`MemoryConfig::validate`] gives.
    pub fn new(config: &MemoryConfig) -> Result<Self, Refusal> {
        config.validate()?;
        let controllers = Controllers::new(config)?;
        let clock = config.spec().clock;
        let link = config.spec().link.map(|spec| Box::new(Link::new(spec, clock)));
        Ok(Self { controllers, link })
    }

    /// Offers `request` in cycle `now`, to a system that has advanced through all cycles before.
    ///
    /// # Errors
    /// If the queue has no room; nothing has changed then.
    #[inline]
    pub fn enqueue(&mut self, now: Cycles, request: Request) -> Result<(), Full> {
        match &mut self.link {
            None => self.controllers.enqueue(now.0, request),
            Some(link) => link.send(now, request),
        }
    }

    /// Returns the cycle of the next event that a caller may wait for: a command for a request, or
    /// a completion. `None` if the system [is idle](Self::is_idle).
    #[must_use]
    #[inline]
    pub fn next_event(&self) -> Option<Cycles> {
        let next = match &self.link {
            None => self.controllers.next_for_requests(),
            Some(link) => link.next().min(self.controllers.next_for_requests()),
        };
        (next != NEVER).then_some(Cycles(next))
    }

    /// Advances through all cycles up to and including `to`.
    #[inline]
    pub fn advance(&mut self, to: Cycles, observer: &mut impl Observer) {
        match &mut self.link {
            None => self.controllers.advance(to.0, observer),
            Some(link) => link.advance(&mut self.controllers, to.0, observer),
        }
    }

    /// Returns true if no request waits or is being served. Refresh continues.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.controllers.is_idle() && self.link.as_ref().is_none_or(|link| link.is_idle())
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.controllers.stats()
    }
}
