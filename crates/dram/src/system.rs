//! A memory system as its users see it.
//!
//! Time is counted in cycles of the memory clock and only ever moves forward. In each cycle a caller
//! first offers requests ([`MemorySystem::enqueue`]) and then lets the cycle happen
//! ([`MemorySystem::advance`]); a request can be served in the cycle in which it was accepted, and
//! room that a command makes in a queue is there in the next cycle. Cycles in which nothing is
//! offered need not be visited: [`MemorySystem::next_event`] tells when to come back.

use memweir_core::Cycles;
use memweir_core::input::Refusal;

use crate::channel::Channel;
use crate::command::Command;
use crate::config::MemoryConfig;
use crate::decode::Decoder;
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
    decoder: Decoder,
    channels: Vec<Channel>,
}

impl MemorySystem {
    /// Builds what `config` describes, at cycle zero.
    ///
    /// # Errors
    /// If it cannot work: what [`MemoryConfig::validate`] says.
    pub fn new(config: &MemoryConfig) -> Result<Self, Refusal> {
        config.validate()?;
        let channels = 0..config.controllers() as u16;
        Ok(Self {
            decoder: Decoder::new(&config.complete_map()?),
            channels: channels.map(|number| Channel::new(number, config)).collect(),
        })
    }

    /// Offers `request` in cycle `now`, not before the cycle to which the system has advanced.
    ///
    /// # Errors
    /// If there is no room for it; nothing has changed then.
    #[inline]
    pub fn enqueue(&mut self, now: Cycles, request: Request) -> Result<(), Full> {
        let place = self.decoder.place(request.address);
        self.channels[place.channel].enqueue(now.0, request, place)
    }

    /// When something will next happen that a caller may wait for: a command for a request, or an
    /// answer. Nothing if the system [is idle](Self::is_idle).
    #[must_use]
    #[inline]
    pub fn next_event(&self) -> Option<Cycles> {
        let busy = self.channels.iter().filter(|channel| !channel.is_idle());
        busy.map(|channel| Cycles(channel.next())).min()
    }

    /// Lets everything happen that happens in cycles up to and including `to`.
    #[inline]
    pub fn advance(&mut self, to: Cycles, observer: &mut impl Observer) {
        loop {
            let next = self.channels.iter_mut().min_by_key(|channel| channel.next());
            match next {
                Some(channel) if channel.next() <= to.0 => channel.step(channel.next(), observer),
                _ => return,
            }
        }
    }

    /// Whether no request waits or is being served. Refresh goes on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.channels.iter().all(Channel::is_idle)
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.channels.iter().for_each(|channel| sum += channel.stats());
        sum
    }
}
