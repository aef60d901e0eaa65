//! A channel: its controller and the state of its banks.
//!
//! The next command is selected after each command and each request that changes the choice
//! ([`select`]) and issued when its time comes ([`issue`]). Nothing happens in between.

mod accept;
mod issue;
mod options;
mod select;
mod sleep;
mod upkeep;
mod want;

use std::collections::VecDeque;

use crate::config::{MemoryConfig, PagePolicy, RefreshPolicy};
use crate::observer::Observer;
use crate::queue::{CLOSED, List, NIL, Slots};
use crate::request::{Completion, Direction, Source};
use crate::spec::BankRefresh;
use crate::stats::Stats;
use crate::timer::{NEVER, Shape, Timer};
use options::Options;
use select::Choice;
use sleep::Sleep;
use want::Want;

/// A bank and the requests that wait for it.
#[derive(Clone, Debug)]
struct Bank {
    /// The open row, or [`CLOSED`].
    row: u32,
    /// The requester for which the row was opened.
    opener: Source,
    /// The request for which the row was opened, until it is served.
    active: u16,
    /// Waiting requests by direction.
    lists: [List; 2],
    /// Accesses since the row was opened.
    accesses: u32,
    /// Cycle in which the row was last used.
    last_use: u64,
    /// Idle cycles after which the row is closed (adaptive page policy).
    timeout: u64,
    /// The row that such a timeout closed, until the next activate.
    timed_out: u32,
}

/// A rank, with masks of the banks that need attention; bit `i` is its `i`th bank.
#[derive(Clone, Debug)]
struct Rank {
    /// Banks with waiting requests, by direction.
    work: [u64; 2],
    /// Banks whose [`Want`] is out of date, by direction.
    stale: [u64; 2],
    /// Banks with an active request.
    active: u64,
    /// Banks with an open row.
    open: u64,
    /// Banks that wait for their own refresh.
    refreshing: u64,
    /// Refreshes of the whole rank that are due.
    owed: u32,
    /// Cycle in which the next refresh is due.
    due: u64,
    interval: u64,
    /// The turn of the banks that are to be refreshed next.
    turn: usize,
    /// The turn after that of the last bank refresh.
    next_turn: usize,
    /// Bank refreshes that are due while the bank whose turn it is still waits for its previous
    /// one.
    late_turns: u32,
    bank_refresh: BankRefresh,
    sleep: Sleep,
    /// Cycle in which a request last arrived or was served.
    last_use: u64,
    /// Time from a read or a write to the end of its data, by direction.
    latency: [u64; 2],
    burst: u64,
}

/// A channel, or one of its sub-channels.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    number: u16,
    options: Options,
    timer: Timer,
    slots: Slots,
    banks: Vec<Bank>,
    /// Wanted commands of each bank, by direction.
    wants: [Vec<Want>; 2],
    ranks: Vec<Rank>,
    /// Requests that wait in lists, by direction.
    waiting: [u32; 2],
    /// True while writes are drained.
    draining: bool,
    /// The latest cycle in which draining began or no read waited.
    drain_began: u64,
    /// Reads to serve before draining may begin again.
    owed_reads: u32,
    /// The earliest cycle for the next command: one is sent per cycle.
    floor: u64,
    /// The bank that was served last (per-bank scheduler).
    last_bank: usize,
    choice: Choice,
    /// True if a request whose row was opened for it has exceeded the age limit.
    in_hurry: bool,
    /// Cycle in which the next refresh of any rank is due.
    due: u64,
    answers: VecDeque<Completion>,
    /// Requests that were accepted and not completed.
    outstanding: u64,
    stats: Stats,
}

/// Returns the index of a direction.
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

    /// Returns the cycle of the next event.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let answer = self.answers.front().map_or(NEVER, |answer| answer.done.0);
        answer.min(self.choice.at).min(self.due)
    }

    fn shape(&self) -> Shape {
        self.timer.shape()
    }

    /// Returns the number of `bank` in its rank.
    fn bit(&self, bank: usize) -> usize {
        bank - self.shape().rank_of(bank) * self.shape().banks_of_rank()
    }

    /// Processes the events that are due at `now`.
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
                rank.late_turns += 1;
                rank.begin_turns(self.timer.shape());
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
            next_turn: 0,
            late_turns: 0,
            bank_refresh: spec.bank_refresh,
            sleep: Sleep::Awake,
            last_use: 0,
            latency: [spec.read_latency.0 + burst, spec.write_latency.0 + burst],
            burst,
        }
    }

    /// Returns the turn of a bank, given by its bit, and the number of turns.
    fn turn_of(&self, bit: usize, shape: Shape) -> (usize, usize) {
        match self.bank_refresh {
            BankRefresh::SameNumber => (bit % shape.banks, shape.banks),
            _ => (bit, shape.banks_of_rank()),
        }
    }

    /// Returns the number of turns from the next one to that of a bank. Banks are refreshed in turn
    /// even when they are late: none twice before all others.
    fn turns_until(&self, bit: usize, shape: Shape) -> usize {
        let (turn, turns) = self.turn_of(bit, shape);
        (turn + turns - self.next_turn) % turns
    }

    /// Makes banks wait for the refreshes that are due, unless a bank would have to wait for two.
    fn begin_turns(&mut self, shape: Shape) {
        while self.late_turns > 0 {
            let turn = self.turn;
            let banks = self.banks_of_turn(shape);
            if self.refreshing & banks != 0 {
                self.turn = turn;
                return;
            }
            self.refreshing |= banks;
            self.late_turns -= 1;
        }
    }

    /// Returns the banks whose turn it is to be refreshed, and passes the turn on.
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
