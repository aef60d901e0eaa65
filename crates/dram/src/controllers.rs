//! The controllers of a memory system, one for each channel, behind its address map.

use memweir_core::input::Refusal;

use crate::channel::Channel;
use crate::config::MemoryConfig;
use crate::decode::Decoder;
use crate::observer::Observer;
use crate::request::{Full, Request};
use crate::stats::Stats;
use crate::timer::NEVER;

/// The channels, and the address map that chooses among them.
#[derive(Clone, Debug)]
pub(crate) struct Controllers {
    decoder: Decoder,
    channels: Vec<Channel>,
}

impl Controllers {
    /// Builds the controllers of all channels, at cycle zero.
    ///
    /// # Errors
    /// If the address map of the configuration does not fit its devices.
    pub(crate) fn new(config: &MemoryConfig) -> Result<Self, Refusal> {
        let channels = 0..config.controllers() as u16;
        Ok(Self {
            decoder: Decoder::new(&config.complete_map()?),
            channels: channels.map(|number| Channel::new(number, config)).collect(),
        })
    }

    /// Passes a request to the channel of its address.
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

    /// Processes all events up to and including `to`, in the order of time.
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

    /// Returns true if no request waits or is being served.
    pub(crate) fn is_idle(&self) -> bool {
        self.channels.iter().all(Channel::is_idle)
    }

    /// Returns the counts of all channels so far.
    pub(crate) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        self.channels.iter().for_each(|channel| sum += channel.stats());
        sum
    }
}
