//! The controller of a channel, and the state of its banks.
//!
//! A request waits in a queue until commands on the channel's bus have served it. In each cycle the
//! bus carries one command, and the devices forbid most of them most of the time. So a controller
//! is an arbiter: it selects, among the commands that waiting requests and upkeep need, the one
//! that can be sent first. This model does so once after each event that changes the choice, and
//! jumps to the cycle of the command that was selected; in between nothing happens.
//!
//! # State
//!
//! Each part of the state has one owner, whose fields are private and whose invariants stand at its
//! definition. An owner learns of arrivals and commands by its methods.
//!
//! | owner | state |
//! |---|---|
//! | [`CommandBus`] | earliest cycle of each command (the devices' timing), one command per cycle |
//! | [`Queues`] | waiting requests by bank, with the oldest hit and the oldest other of each |
//! | [`RowBuffers`] | open rows, the requests for which they were opened, the page policy |
//! | [`Needs`] | the next command that waiting requests need at each bank |
//! | [`Drain`] | the direction that is served: reads, or a drain of the write queue |
//! | [`Refresh`] | refreshes that are due, by rank or bank by bank in turn |
//! | [`Power`] | power-down and self-refresh of idle ranks |
//! | [`Completions`] | data that crosses the bus, and requests that are outstanding |
//!
//! # Arrival
//!
//! A request to a line that a waiting write covers is answered from the queue: a read returns the
//! data of the write, and a write replaces it. Any other request joins the list of its bank and
//! direction, if there is room.
//!
//! # Selection
//!
//! Owners offer [`Candidate`]s: a command, its earliest cycle, and a key. The earliest is selected,
//! and the smallest key among several in one cycle. Keys put first the requests whose row was
//! opened for them, then refresh, then waiting requests by age, then housekeeping (timeouts of
//! rows, and sleep). A rank that sleeps, or that is owed a refresh as a whole, offers nothing for
//! waiting requests; a bank that waits for its own refresh does not either.
//!
//! Three limits keep requests from starving. At its bank, a request beyond the age limit lets no
//! younger row-buffer hit go before it. While a row-buffer hit, or a request whose row was opened
//! for it, is beyond the age limit, no other waiting request of the channel gets a command. A drain
//! beyond the age limit ends, and the reads that wait then are served before the next.
//!
//! # Effects
//!
//! The command that was selected raises the earliest cycles of others, and changes rows, lists,
//! refreshes or power states (`issue`). Then the next command is selected.

mod bus;
mod candidate;
mod completions;
mod drain;
mod issue;
mod needs;
mod power;
mod queues;
mod refresh;
mod rows;
mod select;
mod slots;

use bus::CommandBus;
use candidate::Candidate;
use completions::Completions;
use drain::Drain;
use needs::Needs;
use power::Power;
use queues::Queues;
use refresh::Refresh;
use rows::RowBuffers;

use memweir_core::Direction;

use crate::config::{MemoryConfig, Scheduler};
use crate::decode::Place;
use crate::observer::Observer;
use crate::request::{Full, Request};
use crate::stats::Stats;
use crate::timer::NEVER;

/// A channel, or one of its sub-channels.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    number: u16,
    scheduler: Scheduler,
    age_limit: u64,
    bus: CommandBus,
    queues: Queues,
    rows: RowBuffers,
    needs: Needs,
    drain: Drain,
    refresh: Refresh,
    power: Power,
    completions: Completions,
    /// The command that is sent next, if nothing happens before.
    selected: Candidate,
    /// True if a request whose row was opened for it has exceeded the age limit.
    in_hurry: bool,
    stats: Stats,
}

impl Channel {
    pub(crate) fn new(number: u16, config: &MemoryConfig) -> Self {
        let bus = CommandBus::new(config);
        let shape = bus.shape();
        let mut channel = Self {
            number,
            scheduler: config.scheduler,
            age_limit: config.age_limit.map_or(NEVER, |limit| limit.0),
            queues: Queues::new(config, shape),
            rows: RowBuffers::new(config, shape),
            needs: Needs::new(config, shape),
            drain: Drain::new(config),
            refresh: Refresh::new(config, shape),
            power: Power::new(config, shape),
            completions: Completions::new(config),
            bus,
            selected: Candidate::NONE,
            in_hurry: false,
            stats: Stats::default(),
        };
        channel.select();
        channel
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.completions.is_idle()
    }

    /// Returns the cycle of the next event.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.completions.next().min(self.selected.at).min(self.refresh.due())
    }

    /// Processes the events that are due at `now`.
    #[inline]
    pub(crate) fn step(&mut self, now: u64, observer: &mut impl Observer) {
        self.completions.deliver(now, observer);
        if self.refresh.due() <= now {
            self.refresh.fall_due(now, |rank| self.power.is_in_self_refresh(rank));
            self.bus.reach(now);
            self.select();
        }
        if self.selected.at <= now {
            self.issue(now, observer);
        }
    }

    /// Accepts a request in cycle `now`.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: u64, request: Request, place: Place) -> Result<(), Full> {
        let bank = self.bus.shape().bank(place.bank.into());
        let active = self.rows.active(bank.index);
        if self.queues.holds_write(&request, place, active) {
            self.answer_from_queue(now, request);
            return Ok(());
        }
        let direction = request.direction;
        if !self.queues.has_room(bank.index, direction) {
            return Err(Full);
        }
        self.queues.push(request, now, place, bank, self.rows.row(bank.index));
        self.needs.arrived(bank, direction);
        self.completions.expect();
        match direction {
            Direction::Read => self.stats.reads += 1,
            Direction::Write => self.stats.writes += 1,
        }
        self.bus.reach(now);
        self.select_after_arrival(bank, direction);
        Ok(())
    }

    /// Completes a request from a waiting write to the same line.
    fn answer_from_queue(&mut self, now: u64, request: Request) {
        match request.direction {
            Direction::Read => {
                self.stats.reads += 1;
                self.stats.forwarded += 1;
            }
            Direction::Write => {
                self.stats.writes += 1;
                self.stats.coalesced += 1;
            }
        }
        self.stats.row_hits += 1;
        self.completions.expect();
        self.completions.serve_from_queue(request, now);
    }
}
