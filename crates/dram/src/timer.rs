//! Earliest issue times of commands for every part of a channel. Constraints are compiled once, so
//! that issuing a command takes a handful of comparisons of numbers.

use std::sync::Arc;

use crate::command::CommandKind;
use crate::spec::{BankRefresh, Constraint, Level, MemorySpec, Scope};

/// A time that does not come.
pub(crate) const NEVER: u64 = u64::MAX;

/// Earliest times by command; longer than needed, so that parts start at cache lines.
type Times = [u64; 16];

/// The most commands that a window can count.
const MAX_WINDOW: usize = 16;

/// Numbers of ranks, bank groups and banks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) ranks: usize,
    /// Groups of a rank.
    pub(crate) groups: usize,
    /// Banks of a group.
    pub(crate) banks: usize,
}

/// A bank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BankId {
    /// Its number in the channel.
    pub(crate) index: usize,
    /// Its rank.
    pub(crate) rank: usize,
    /// Its number in the rank, which is its bit in masks of banks.
    pub(crate) bit: usize,
}

impl BankId {
    /// Returns the mask of this bank among those of its rank.
    pub(crate) fn mask(self) -> u64 {
        1 << self.bit
    }
}

impl Shape {
    /// Returns the number of banks in a rank.
    pub(crate) fn banks_of_rank(self) -> usize {
        self.groups * self.banks
    }

    /// Returns the rank of the bank with this number in the channel.
    pub(crate) fn rank_of(self, bank: usize) -> usize {
        bank / self.banks_of_rank()
    }

    /// Returns the bank with this number in the channel.
    pub(crate) fn bank(self, index: usize) -> BankId {
        let rank = self.rank_of(index);
        BankId { index, rank, bit: index - rank * self.banks_of_rank() }
    }

    /// Returns the number in the channel of the first bank of a rank.
    pub(crate) fn first_bank(self, rank: usize) -> usize {
        rank * self.banks_of_rank()
    }

    /// Returns the group of that bank, counted over the channel.
    pub(crate) fn group_of(self, bank: usize) -> usize {
        bank / self.banks
    }

    fn banks_in(self, rank: usize) -> std::ops::Range<usize> {
        rank * self.banks_of_rank()..(rank + 1) * self.banks_of_rank()
    }

    fn groups_in(self, rank: usize) -> std::ops::Range<usize> {
        rank * self.groups..(rank + 1) * self.groups
    }
}

/// Waits that a command imposes on other commands, by the parts of the channel that it affects.
#[derive(Clone, Debug, Default)]
struct Effects {
    channel: Vec<(u8, u64)>,
    rank: Vec<(u8, u64)>,
    other_ranks: Vec<(u8, u64)>,
    group: Vec<(u8, u64)>,
    bank: Vec<(u8, u64)>,
    /// Windows of the rank, as numbers in [`Timer::windows`].
    windows: Vec<usize>,
}

/// A constraint that counts several commands, and the times at which those last issued at a part.
#[derive(Clone, Debug)]
struct Window {
    level: Level,
    /// Number of the part among those of the level.
    part: usize,
    /// The rank whose device has the rule, and the number of the rule.
    owner: (usize, u16),
    /// Commands that wait, as bits.
    to: u16,
    wait: u64,
    length: usize,
    next: usize,
    /// Issue times plus one; zero for an empty entry.
    times: [u64; MAX_WINDOW],
}

/// Earliest times in one channel.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    shape: Shape,
    channel: Times,
    ranks: Vec<Times>,
    groups: Vec<Times>,
    banks: Vec<Times>,
    windows: Vec<Window>,
    /// Effects by rank and command.
    effects: Vec<[Effects; CommandKind::COUNT]>,
    bank_refresh: Vec<BankRefresh>,
}

impl Timer {
    /// Builds the timer of a channel with these ranks. Constraints on commands that are not `used`
    /// are left out.
    pub(crate) fn new(ranks: &[Arc<MemorySpec>], used: impl Fn(CommandKind) -> bool) -> Self {
        let organization = &ranks[0].organization;
        let shape = Shape {
            ranks: ranks.len(),
            groups: organization.bank_groups as usize,
            banks: organization.banks as usize,
        };
        let mut timer = Self {
            shape,
            channel: [0; 16],
            ranks: vec![[0; 16]; shape.ranks],
            groups: vec![[0; 16]; shape.ranks * shape.groups],
            banks: vec![[0; 16]; shape.ranks * shape.banks_of_rank()],
            windows: Vec::new(),
            effects: Vec::new(),
            bank_refresh: ranks.iter().map(|spec| spec.bank_refresh).collect(),
        };
        for (rank, spec) in ranks.iter().enumerate() {
            timer.effects.push(Default::default());
            for constraint in spec.constraints.iter().filter(|c| used(c.to)) {
                timer.compile(rank, constraint);
            }
        }
        timer.share_data_bus(ranks);
        timer
    }

    /// Adds constraints between ranks with different latencies. Their bursts meet on the data bus
    /// at other times than the rules of either device assume, which know one latency.
    fn share_data_bus(&mut self, ranks: &[Arc<MemorySpec>]) {
        use CommandKind as C;
        let latency = |spec: &MemorySpec, command| match command {
            C::Read | C::ReadAutoPrecharge => spec.read_latency.0,
            _ => spec.write_latency.0,
        };
        let columns = [C::Read, C::ReadAutoPrecharge, C::Write, C::WriteAutoPrecharge];
        for (rank, first) in ranks.iter().enumerate() {
            let unlike = ranks.iter().filter(|other| {
                (other.read_latency, other.write_latency)
                    != (first.read_latency, first.write_latency)
            });
            let gap = first.timing.get("tRTRS").unwrap_or_default().0;
            for second in unlike {
                for (from, to) in columns.iter().flat_map(|from| columns.map(|to| (*from, to))) {
                    let end = latency(first, from) + first.burst.0 + gap;
                    let wait = end.saturating_sub(latency(second, to));
                    bind(&mut self.effects[rank][from as usize].other_ranks, to, wait);
                }
            }
        }
    }

    fn compile(&mut self, rank: usize, constraint: &Constraint) {
        if constraint.window > 1 {
            self.compile_window(rank, constraint);
            return;
        }
        let effects = &mut self.effects[rank][constraint.from as usize];
        let list = match (constraint.level, constraint.scope) {
            (Level::Channel, _) => &mut effects.channel,
            (Level::Rank, Scope::Others) => &mut effects.other_ranks,
            (Level::Rank, Scope::Same) => &mut effects.rank,
            (Level::BankGroup, _) => &mut effects.group,
            (Level::Bank, _) => &mut effects.bank,
        };
        bind(list, constraint.to, constraint.wait.0);
    }

    fn compile_window(&mut self, rank: usize, constraint: &Constraint) {
        let parts = match constraint.level {
            Level::Channel => 0..1,
            Level::Rank => rank..rank + 1,
            Level::BankGroup => self.shape.groups_in(rank),
            Level::Bank => self.shape.banks_in(rank),
        };
        let owner = (rank, constraint.rule);
        for part in parts {
            let known = self.windows.iter().position(|w| (w.owner, w.part) == (owner, part));
            let number = known.unwrap_or(self.windows.len());
            if known.is_none() {
                self.windows.push(Window {
                    level: constraint.level,
                    part,
                    owner,
                    to: 0,
                    wait: constraint.wait.0,
                    length: constraint.window as usize,
                    next: 0,
                    times: [0; MAX_WINDOW],
                });
            }
            self.windows[number].to |= 1 << constraint.to as u8;
            let counted = &mut self.effects[rank][constraint.from as usize].windows;
            if !counted.contains(&number) {
                counted.push(number);
            }
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the earliest time that the channel and the rank allow for `command`.
    pub(crate) fn of_rank(&self, command: CommandKind, rank: usize) -> u64 {
        self.channel[command as usize].max(self.ranks[rank][command as usize])
    }

    /// Returns the earliest time that the group allows for `command`.
    pub(crate) fn of_group(&self, command: CommandKind, group: usize) -> u64 {
        self.groups[group][command as usize]
    }

    /// Returns the earliest time that the bank allows for `command`.
    pub(crate) fn of_bank(&self, command: CommandKind, bank: usize) -> u64 {
        self.banks[bank][command as usize]
    }

    /// Returns the earliest time for a command to one bank.
    pub(crate) fn for_bank(&self, command: CommandKind, bank: usize) -> u64 {
        let (rank, group) = (self.shape.rank_of(bank), self.shape.group_of(bank));
        let within = self.of_group(command, group).max(self.of_bank(command, bank));
        self.of_rank(command, rank).max(within)
    }

    /// Returns the earliest time for a command to a whole rank.
    pub(crate) fn for_rank(&self, command: CommandKind, rank: usize) -> u64 {
        let groups = self.groups[self.shape.groups_in(rank)].iter();
        let banks = self.banks[self.shape.banks_in(rank)].iter();
        let parts = groups.chain(banks).map(|times| times[command as usize]);
        parts.fold(self.of_rank(command, rank), u64::max)
    }

    /// Records that `command` issues at `now` at `bank`, or at the rank of that bank.
    pub(crate) fn issue(&mut self, command: CommandKind, bank: usize, now: u64) {
        let shape = self.shape;
        let (rank, group) = (shape.rank_of(bank), shape.group_of(bank));
        let effects = &self.effects[rank][command as usize];
        raise(&mut self.channel, &effects.channel, now);
        raise(&mut self.ranks[rank], &effects.rank, now);
        if !effects.other_ranks.is_empty() {
            for other in (0..shape.ranks).filter(|other| *other != rank) {
                raise(&mut self.ranks[other], &effects.other_ranks, now);
            }
        }
        match Target::of(command, self.bank_refresh[rank]) {
            Target::Bank => {
                raise(&mut self.groups[group], &effects.group, now);
                raise(&mut self.banks[bank], &effects.bank, now);
            }
            target => {
                for group in shape.groups_in(rank) {
                    raise(&mut self.groups[group], &effects.group, now);
                }
                for other in shape.banks_in(rank) {
                    if target == Target::Rank || other % shape.banks == bank % shape.banks {
                        raise(&mut self.banks[other], &effects.bank, now);
                    }
                }
            }
        }
        if !effects.windows.is_empty() {
            self.count(command, rank, group, bank, now);
        }
    }

    fn count(&mut self, command: CommandKind, rank: usize, group: usize, bank: usize, now: u64) {
        for number in &self.effects[rank][command as usize].windows {
            let window = &mut self.windows[*number];
            let (part, times) = match window.level {
                Level::Channel => (0, &mut self.channel),
                Level::Rank => (rank, &mut self.ranks[rank]),
                Level::BankGroup => (group, &mut self.groups[group]),
                Level::Bank => (bank, &mut self.banks[bank]),
            };
            if window.part != part {
                continue;
            }
            window.times[window.next] = now + 1;
            window.next = if window.next + 1 == window.length { 0 } else { window.next + 1 };
            let oldest = window.times[window.next];
            if oldest > 0 {
                let mut to = window.to;
                while to != 0 {
                    let earliest = &mut times[to.trailing_zeros() as usize];
                    *earliest = (*earliest).max(oldest - 1 + window.wait);
                    to &= to - 1;
                }
            }
        }
    }
}

/// Adds the wait of a command to a list. Of several constraints on the same pair, the longest
/// binds.
fn bind(list: &mut Vec<(u8, u64)>, to: CommandKind, wait: u64) {
    match list.iter_mut().find(|(known, _)| *known == to as u8) {
        Some((_, known)) => *known = wait.max(*known),
        None => list.push((to as u8, wait)),
    }
}

fn raise(times: &mut Times, effects: &[(u8, u64)], now: u64) {
    for (to, wait) in effects {
        let earliest = &mut times[*to as usize & 15];
        *earliest = (*earliest).max(now + wait);
    }
}

/// The part that a command addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Bank,
    /// The banks with one number in all groups.
    SameNumber,
    Rank,
}

impl Target {
    fn of(command: CommandKind, bank_refresh: BankRefresh) -> Self {
        match (command, bank_refresh) {
            (CommandKind::RefreshBank, BankRefresh::SameNumber) => Self::SameNumber,
            _ if command.is_to_rank() => Self::Rank,
            _ => Self::Bank,
        }
    }
}
