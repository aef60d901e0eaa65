//! A channel: its controller and the state of its banks.
//!
//! What is to be done next is chosen anew after each command and each request that changes the
//! choice ([`select`]), issued when its time comes ([`issue`]), and never looked at in between.

mod issue;
mod select;
mod sleep;

use std::collections::VecDeque;

use memweir_core::Cycles;

use crate::command::CommandKind;
use crate::config::{MemoryConfig, PagePolicy, RefreshPolicy, Scheduler};
use crate::decode::Place;
use crate::queue::{CLOSED, List, NIL, Slot, Slots};
use crate::request::{Completion, Direction, Request, RowOutcome, Source};
use crate::spec::BankRefresh;
use crate::stats::Stats;
use crate::system::{Full, Observer};
use crate::timer::{NEVER, Shape, Timer};
use select::{Choice, Want};
use sleep::Sleep;

/// A bank and what waits for it.
#[derive(Clone, Debug)]
struct Bank {
    /// The open row, or [`CLOSED`].
    row: u32,
    /// Who had it opened.
    opener: Source,
    /// The request for which it was opened, until it is served.
    active: u16,
    /// By direction.
    lists: [List; 2],
    /// Accesses since the row was opened.
    accesses: u32,
    /// When the row was last used.
    last_use: u64,
    /// After how long without use it is closed (adaptive page policy).
    timeout: u64,
    /// The row that was closed after such a time.
    timed_out: u32,
}

/// A rank and which of its banks need attention; bit `i` is its `i`th bank.
#[derive(Clone, Debug)]
struct Rank {
    /// Banks with waiting requests, by direction.
    work: [u64; 2],
    /// Banks of which it has to be looked anew what is wanted, by direction.
    stale: [u64; 2],
    /// Banks with an active request.
    active: u64,
    /// Banks with an open row.
    open: u64,
    /// Banks that wait for their own refresh.
    refreshing: u64,
    /// Refreshes of the whole rank that are due.
    owed: u32,
    /// When the next refresh is due.
    due: u64,
    interval: u64,
    /// The bank whose turn it is to be refreshed.
    turn: usize,
    bank_refresh: BankRefresh,
    sleep: Sleep,
    /// When something was last done for a request.
    last_use: u64,
    /// From a read or a write to the end of its data, by direction.
    latency: [u64; 2],
    burst: u64,
}

/// What a controller was told to do.
#[derive(Clone, Copy, Debug)]
struct Options {
    scheduler: Scheduler,
    age_limit: u64,
    page: PagePolicy,
    /// Requests that wait, by direction.
    capacity: [u32; 2],
    /// Writes that wait at which draining begins, and below which it ends.
    high: u32,
    low: u32,
    per_bank_refresh: bool,
    power_down_after: u64,
    self_refresh_after: u64,
}

/// A channel, or half of one where channels are split.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    number: u16,
    options: Options,
    timer: Timer,
    slots: Slots,
    banks: Vec<Bank>,
    /// What is wanted of each bank, by direction.
    wants: [Vec<Want>; 2],
    ranks: Vec<Rank>,
    /// Requests that wait in lists, by direction.
    waiting: [u32; 2],
    /// Whether writes are served.
    draining: bool,
    /// Since when.
    drain_began: u64,
    /// Reads that are served before draining may begin again.
    owed_reads: u32,
    /// The earliest cycle for the next command: one is sent per cycle.
    floor: u64,
    /// The bank that was last served (per-bank scheduler).
    last_bank: usize,
    choice: Choice,
    /// Whether a request whose row is open has waited for too long.
    in_hurry: bool,
    /// When the next refresh is due.
    due: u64,
    answers: VecDeque<Completion>,
    /// Accepted and not answered.
    outstanding: u64,
    stats: Stats,
}

/// The index of a direction.
fn index(direction: Direction) -> usize {
    match direction {
        Direction::Read => 0,
        Direction::Write => 1,
    }
}

impl Channel {
    pub(crate) fn new(number: u16, config: &MemoryConfig) -> Self {
        let options = Options::new(config);
        let timer = Timer::new(&config.ranks, |command| options.uses(command));
        let shape = timer.shape();
        let bank = Bank {
            row: CLOSED,
            opener: Source::default(),
            active: NIL,
            lists: [List::EMPTY; 2],
            accesses: 0,
            last_use: 0,
            timeout: match config.page {
                PagePolicy::Adaptive { timeout } => timeout.0,
                _ => NEVER,
            },
            timed_out: CLOSED,
        };
        let mut channel = Self {
            number,
            options,
            slots: Slots::new(),
            banks: vec![bank; shape.ranks * shape.banks_of_rank()],
            wants: [(); 2].map(|()| vec![Want::NOTHING; shape.ranks * shape.banks_of_rank()]),
            ranks: (0..shape.ranks).map(|rank| Rank::new(rank, config)).collect(),
            timer,
            waiting: [0; 2],
            draining: false,
            drain_began: 0,
            owed_reads: 0,
            floor: 0,
            last_bank: 0,
            choice: Choice::NONE,
            in_hurry: false,
            due: NEVER,
            answers: VecDeque::new(),
            outstanding: 0,
            stats: Stats::default(),
        };
        channel.find_due();
        channel.select();
        channel
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    /// When something happens next.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let answer = self.answers.front().map_or(NEVER, |answer| answer.done.0);
        answer.min(self.choice.at).min(self.due)
    }

    fn shape(&self) -> Shape {
        self.timer.shape()
    }

    /// The number of `bank` in its rank.
    fn bit(&self, bank: usize) -> usize {
        bank - self.shape().rank_of(bank) * self.shape().banks_of_rank()
    }

    /// Takes a request in cycle `now`.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: u64, request: Request, place: Place) -> Result<(), Full> {
        let bank = place.bank as usize;
        if self.slots.write_may_wait(request.address) && self.write_waits(place) {
            self.answer_from_queue(now, request);
            return Ok(());
        }
        let way = index(request.direction);
        let state = &mut self.banks[bank];
        let (open, list) = (state.row, &mut state.lists[way]);
        let is_full = if self.options.scheduler == Scheduler::PerBank && way == 0 {
            u32::from(list.length) >= self.options.capacity[way]
        } else {
            self.waiting[way] >= self.options.capacity[way]
        };
        if is_full {
            return Err(Full);
        }
        let slot = Slot::new(request, now, place.row, place.column);
        self.slots.append(list, open, slot);
        let (rank, bit) = (self.shape().rank_of(bank), self.bit(bank));
        self.ranks[rank].work[way] |= 1 << bit;
        self.ranks[rank].stale[way] |= 1 << bit;
        self.ranks[rank].last_use = now;
        self.waiting[way] += 1;
        self.outstanding += 1;
        match request.direction {
            Direction::Read => self.stats.reads += 1,
            Direction::Write => {
                self.stats.writes += 1;
                self.slots.write_waits(request.address);
            }
        }
        self.floor = self.floor.max(now);
        self.select_after_arrival(bank, way);
        Ok(())
    }

    /// Whether a write to this line waits, in a list or as the request for which its row was opened.
    fn write_waits(&self, place: Place) -> bool {
        let bank = &self.banks[place.bank as usize];
        let active = (bank.active != NIL).then(|| self.slots.get(bank.active));
        let is_active = active.is_some_and(|slot| {
            slot.request.direction == Direction::Write
                && (slot.row, slot.column) == (place.row, place.column)
        });
        is_active || self.slots.holds(&bank.lists[1], place.row, place.column)
    }

    /// A read is answered with what a waiting write brought; a write replaces it.
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
        self.outstanding += 1;
        self.answer(Completion {
            request,
            accepted: Cycles(now),
            done: Cycles(now + 1),
            outcome: RowOutcome::Hit,
            blamed: None,
        });
    }

    /// Keeps answers in the order in which they are given.
    fn answer(&mut self, completion: Completion) {
        let later = self.answers.iter().rev().take_while(|other| other.done > completion.done);
        let place = self.answers.len() - later.count();
        self.answers.insert(place, completion);
    }

    /// Lets what happens next happen, which is not before `now`.
    #[inline]
    pub(crate) fn step(&mut self, now: u64, observer: &mut impl Observer) {
        while let Some(answer) = self.answers.front()
            && answer.done.0 <= now
        {
            observer.completed(answer);
            self.outstanding -= 1;
            self.answers.pop_front();
        }
        if self.due <= now {
            self.refresh_falls_due(now);
        }
        if self.choice.at <= now {
            self.issue(now, observer);
        }
    }

    fn refresh_falls_due(&mut self, now: u64) {
        for rank in &mut self.ranks {
            if rank.due > now {
                continue;
            }
            rank.due += rank.interval;
            if matches!(rank.sleep, Sleep::SelfRefresh) {
                continue;
            }
            if self.options.per_bank_refresh {
                rank.refreshing |= rank.banks_of_turn(self.timer.shape());
            } else {
                rank.owed += 1;
            }
        }
        self.find_due();
        self.floor = self.floor.max(now);
        self.select();
    }

    fn find_due(&mut self) {
        self.due = self.ranks.iter().map(|rank| rank.due).min().unwrap_or(NEVER);
    }
}

impl Options {
    fn new(config: &MemoryConfig) -> Self {
        let share = |share: f64| share * f64::from(config.write_queue);
        let after = |after: Option<Cycles>| after.map_or(NEVER, |after| after.0);
        Self {
            scheduler: config.scheduler,
            age_limit: after(config.age_limit),
            page: config.page,
            capacity: [config.read_queue, config.write_queue],
            // Above the share, and below it.
            high: (share(config.high_watermark).floor() as u32 + 1).min(config.write_queue),
            low: share(config.low_watermark).ceil() as u32,
            per_bank_refresh: config.refresh == RefreshPolicy::PerBank,
            power_down_after: after(config.power.power_down_after),
            self_refresh_after: after(config.power.self_refresh_after),
        }
    }

    /// Whether ranks are ever put to sleep.
    fn sleeps(&self) -> bool {
        self.power_down_after != NEVER || self.self_refresh_after != NEVER
    }

    /// Whether a controller with these options ever sends `command`.
    fn uses(&self, command: CommandKind) -> bool {
        use CommandKind as C;
        match command {
            C::Activate | C::Precharge | C::Read | C::Write => true,
            C::PrechargeAll => !self.per_bank_refresh || self.sleeps(),
            C::Refresh => !self.per_bank_refresh,
            C::RefreshBank => self.per_bank_refresh,
            C::ReadAutoPrecharge | C::WriteAutoPrecharge => {
                matches!(self.page, PagePolicy::Closed { .. })
            }
            C::PowerDownEnter | C::PowerDownExit => self.power_down_after != NEVER,
            C::SelfRefreshEnter | C::SelfRefreshExit => self.self_refresh_after != NEVER,
        }
    }
}

impl Rank {
    fn new(number: usize, config: &MemoryConfig) -> Self {
        let spec = &config.ranks[number];
        let interval = match config.refresh {
            RefreshPolicy::Off => None,
            RefreshPolicy::PerBank => spec.bank_refresh_interval(),
            RefreshPolicy::AllBank | RefreshPolicy::Staggered => spec.refresh_interval(),
        };
        let interval = interval.map_or(NEVER, |interval| interval.0.max(1));
        let first = match config.refresh {
            RefreshPolicy::Staggered if interval != NEVER => {
                interval / config.ranks.len() as u64 * (number as u64 + 1)
            }
            _ => interval,
        };
        let burst = spec.burst.0;
        Self {
            work: [0; 2],
            stale: [0; 2],
            active: 0,
            open: 0,
            refreshing: 0,
            owed: 0,
            due: first,
            interval,
            turn: 0,
            bank_refresh: spec.bank_refresh,
            sleep: Sleep::Awake,
            last_use: 0,
            latency: [spec.read_latency.0 + burst, spec.write_latency.0 + burst],
            burst,
        }
    }

    /// The banks whose turn it is to be refreshed; the next time it is the turn of others.
    fn banks_of_turn(&mut self, shape: Shape) -> u64 {
        let (turn, turns, banks) = match self.bank_refresh {
            BankRefresh::SameNumber => {
                let groups = (0..shape.groups).map(|group| group * shape.banks + self.turn);
                (self.turn, shape.banks, groups.fold(0, |banks, bank| banks | 1 << bank))
            }
            _ => (self.turn, shape.banks_of_rank(), 1 << self.turn),
        };
        self.turn = (turn + 1) % turns;
        banks
    }
}
