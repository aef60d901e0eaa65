//! A memory system behind its public interface.
//!
//! Time is counted in cycles of the memory clock and only moves forward. In each cycle a caller
//! first offers requests ([`MemorySystem::enqueue`]) and then advances through the cycle
//! ([`MemorySystem::advance`]). A request can be served in the cycle in which it was accepted; a
//! queue entry that a command frees can be used in the next cycle. Cycles without an offer can be
//! skipped: [`MemorySystem::next_event`] returns the next one of interest.

use memweir_core::Cycles;
use memweir_core::input::Refusal;

use crate::channel::Channel;
use crate::command::Command;
use crate::config::MemoryConfig;
use crate::decode::Decoder;
use crate::link::Way;
use crate::request::{Completion, Request};
use crate::stats::Stats;
use crate::timer::NEVER;

/// The queue for a request is full. Commands make room, so the caller should try again in the cycle
/// after the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct Full;

/// Observer of a memory system. Within a channel, calls come in the order of time.
pub trait Observer {
    /// A request is complete. Called in the cycle of its last data beat.
    fn completed(&mut self, completion: &Completion) {
        let _ = completion;
    }

    /// A command was issued.
    fn command(&mut self, command: &Command) {
        let _ = command;
    }
}

/// Ignores all events.
impl Observer for () {}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn completed(&mut self, completion: &Completion) {
        (**self).completed(completion);
    }

    fn command(&mut self, command: &Command) {
        (**self).command(command);
    }
}

/// Channels of memory devices and their controllers, and the link to them if there is one.
#[derive(Clone, Debug)]
pub struct MemorySystem {
    controllers: Controllers,
    way: Option<Box<Way>>,
}

impl MemorySystem {
    /// Builds the memory that `config` describes, at cycle zero.
    ///
    /// # Errors
    /// If it cannot work, for the reasons that [`MemoryConfig::validate`] gives.
    pub fn new(config: &MemoryConfig) -> Result<Self, Refusal> {
        config.validate()?;
        let channels = 0..config.controllers() as u16;
        let controllers = Controllers {
            decoder: Decoder::new(&config.complete_map()?),
            channels: channels.map(|number| Channel::new(number, config)).collect(),
        };
        let clock = config.spec().clock;
        let way = config.spec().link.map(|link| Box::new(Way::new(link, clock)));
        Ok(Self { controllers, way })
    }

    /// Offers `request` in cycle `now`, not before the cycle to which the system has advanced.
    ///
    /// # Errors
    /// If the queue has no room; nothing has changed then.
    #[inline]
    pub fn enqueue(&mut self, now: Cycles, request: Request) -> Result<(), Full> {
        match &mut self.way {
            None => self.controllers.enqueue(now.0, request),
            Some(way) => way.send(now, request),
        }
    }

    /// Returns the cycle of the next event that a caller may wait for: a command for a request, or
    /// a completion. `None` if the system [is idle](Self::is_idle).
    #[must_use]
    #[inline]
    pub fn next_event(&self) -> Option<Cycles> {
        let next = match &self.way {
            None => self.controllers.next_for_requests(),
            Some(way) => way.next().min(self.controllers.next_for_requests()),
        };
        (next != NEVER).then_some(Cycles(next))
    }

    /// Advances through all cycles up to and including `to`.
    #[inline]
    pub fn advance(&mut self, to: Cycles, observer: &mut impl Observer) {
        match &mut self.way {
            None => self.controllers.advance(to.0, observer),
            Some(way) => way.advance(&mut self.controllers, to.0, observer),
        }
    }

    /// Returns true if no request waits or is being served. Refresh continues.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.controllers.is_idle() && self.way.as_ref().is_none_or(|way| way.is_idle())
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.controllers.channels.iter().for_each(|channel| sum += channel.stats());
        sum
    }
}

/// The channels, and the address map that chooses among them.
#[derive(Clone, Debug)]
pub(crate) struct Controllers {
    decoder: Decoder,
    channels: Vec<Channel>,
}

impl Controllers {
    #[inline]
    pub(crate) fn enqueue(&mut self, now: u64, request: Request) -> Result<(), Full> {
        let place = self.decoder.place(request.address);
        self.channels[place.channel].enqueue(now, request, place)
    }

    /// Returns the cycle of the next event of a channel with outstanding requests.
    #[inline]
    pub(crate) fn next_for_requests(&self) -> u64 {
        let busy = self.channels.iter().filter(|channel| !channel.is_idle());
        busy.map(Channel::next).min().unwrap_or(NEVER)
    }

    /// Returns the cycle of the next event of any channel.
    pub(crate) fn next(&self) -> u64 {
        self.channels.iter().map(Channel::next).min().unwrap_or(NEVER)
    }

    #[inline]
    pub(crate) fn advance(&mut self, to: u64, observer: &mut impl Observer) {
        loop {
            let next = self.channels.iter_mut().min_by_key(|channel| channel.next());
            match next {
                Some(channel) if channel.next() <= to => channel.step(channel.next(), observer),
                _ => return,
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.channels.iter().all(Channel::is_idle)
    }
}
