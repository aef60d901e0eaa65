//! Page migration in a scenario: the policies of `memweir-policy` on a model of each task's pages.
//!
//! A task's memory is divided into extents of pages of similar popularity, by the Zipf distribution
//! of its program. The traffic of a task in a quantum is distributed over its extents; the policy
//! decides which extents move; the engine copies them and charges the copies.

use memweir_core::input::{InputError, Section, Value};
use memweir_core::{Bytes, JobId, Lines, MAX_MEDIA, Media, MediumId, Nanos, Traffic};
use memweir_flow::machine::{Machine, View};
use memweir_flow::record::{Migration, Migrator, PageCopy, TaskQuantum};
use memweir_flow::task::{Placement, Task};
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::workload::pages::Popularity;
use memweir_policy::migration::{Extent, HotPageRules, HotPages, MigrationView, Move};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::placement;

/// Keys of the table.
pub(super) const KEYS: [&str; 10] = [
    "policy",
    "elsewhere",
    "dram_mib",
    "start",
    "footprint_mib",
    "hotness",
    "interval_ms",
    "horizon_s",
    "hysteresis",
    "budget_mib",
];

/// Extents of one task: enough to give a policy a choice, few enough to consider each.
const EXTENTS: usize = 64;

/// Initial placement of pages, and their migration.
#[derive(Clone, Debug, PartialEq)]
pub struct MigrationSpec {
    mover: Mover,
    start: Start,
    /// Index of the memory that holds the pages outside DRAM.
    elsewhere: usize,
    /// Local DRAM for all tasks together.
    dram: Bytes,
    /// Popularity of the pages of programs that are not in the catalog.
    unknown: Popularity,
    /// Time between two decisions.
    interval: Nanos,
}

/// Migration policy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mover {
    Nothing,
    HotPages(HotPageRules),
}

/// Pages in DRAM at the start. Each task gets DRAM in proportion to its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Any pages: hotness does not depend on the address.
    Address,
    /// The hottest pages.
    Hot,
}

impl MigrationSpec {
    /// Reads the table `migration`.
    pub(super) fn read(value: Value<'_>, machine: &Machine) -> Result<Self, InputError> {
        let mut section = value.section()?;
        section.only(&KEYS)?;
        if machine.nodes.len() > 1 {
            let reason = format!("`{}` has {} nodes", machine.name, machine.nodes.len());
            return Err(section.refuse(reason).help("pages migrate on machines of one node"));
        }
        let elsewhere = section.require("elsewhere")?;
        let mib = |v: Value<'_>| v.number_in(0.01..=1e9, "size in MiB").map(bytes_of_mib);
        let policy = section.require("policy")?;
        let rules = rules(&mut section)?;
        let movers = [("none", Mover::Nothing), ("hot-pages", Mover::HotPages(rules))];
        let mover = policy.choose("migration policy", movers)?;
        let starts = [("address", Start::Address), ("hot", Start::Hot)];
        let start = section.map("start", |v| v.choose("start", starts))?;
        let footprint = section.map("footprint_mib", mib)?.unwrap_or(Bytes(512 << 20));
        let hotness = section.map("hotness", |v| v.number_in(0.0..=10.0, "exponent"))?;
        let hotness = hotness.unwrap_or(super::pages::DEFAULT_HOTNESS);
        let interval = section.map("interval_ms", |v| v.number_in(1.0..=1e7, "time in ms"))?;
        Ok(Self {
            mover,
            start: start.unwrap_or(Start::Address),
            elsewhere: placement::memory(&elsewhere, elsewhere.string()?, machine)?,
            dram: mib(section.require("dram_mib")?)?,
            unknown: Popularity {
                footprint,
                read_hotness: hotness,
                write_hotness: hotness,
                seed: 0,
            },
            interval: interval
                .map_or(Nanos::from_millis(1000), |ms| Nanos::from_secs_f64(ms / 1e3)),
        })
    }

    /// Returns true if pages move.
    pub(super) fn moves(&self) -> bool {
        self.mover != Mover::Nothing
    }

    /// Returns the pages of these tasks in their initial placement.
    pub(super) fn pages(&self, tasks: &[Task], catalog: &Catalog, seed: u64) -> Vec<TaskPages> {
        let popularity = |task: &Task| {
            catalog.find(&task.program.name).map_or(self.unknown, |entry| entry.popularity(seed))
        };
        let of_tasks: Vec<Popularity> = tasks.iter().map(popularity).collect();
        let all: f64 = of_tasks.iter().map(|popularity| popularity.footprint.as_f64()).sum();
        let fits = (self.dram.as_f64() / all).min(1.0);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        of_tasks
            .iter()
            .map(|popularity| {
                let mut order: Vec<usize> = (0..EXTENTS).collect();
                if self.start == Start::Address {
                    order.shuffle(&mut random);
                }
                let mut pages = TaskPages::new(popularity, self.elsewhere);
                for extent in &order[..(fits * EXTENTS as f64) as usize] {
                    pages.memory[*extent] = 0;
                }
                pages
            })
            .collect()
    }

    /// Returns the pager that moves the pages while the tasks run, if they move.
    pub(super) fn migrator(&self, machine: &Machine, pages: Vec<TaskPages>) -> Option<Pager> {
        let Mover::HotPages(rules) = self.mover else { return None };
        let view = View::new(machine);
        Some(Pager {
            policy: HotPages::new(rules),
            media: view.media().clone(),
            medium: (0..machine.memories.len()).map(|memory| view.medium(0, memory)).collect(),
            dram: self.dram,
            interval: self.interval,
            since: Nanos::ZERO,
            pages,
        })
    }
}

fn rules(section: &mut Section<'_>) -> Result<HotPageRules, InputError> {
    let default = HotPageRules::default();
    let horizon = section.map("horizon_s", |v| v.number_in(0.001..=1e6, "time in seconds"))?;
    let hysteresis = section.map("hysteresis", |v| v.number_in(1.0..=1e6, "factor"))?;
    let budget = section.map("budget_mib", |v| v.number_in(0.0..=1e9, "size in MiB"))?;
    Ok(HotPageRules {
        horizon: horizon.map_or(default.horizon, Nanos::from_secs_f64),
        hysteresis: hysteresis.unwrap_or(default.hysteresis),
        budget: budget.map_or(default.budget, bytes_of_mib),
        ..default
    })
}

fn bytes_of_mib(mib: f64) -> Bytes {
    Bytes((mib * f64::from(1 << 20)) as u64)
}

/// The extents of one task.
#[derive(Clone, Debug)]
pub struct TaskPages {
    /// Size of each extent.
    size: Bytes,
    /// Shares of the reads, the most popular extent first.
    reads: Vec<f64>,
    /// Shares of the writes, in the same order.
    writes: Vec<f64>,
    /// Index of the memory of each extent.
    memory: Vec<usize>,
    /// Traffic of the task since the last decision.
    moved: Traffic,
}

impl TaskPages {
    fn new(popularity: &Popularity, elsewhere: usize) -> Self {
        let shares = |hotness: f64| popularity.shares(hotness, EXTENTS);
        Self {
            size: Bytes((popularity.footprint.0 / EXTENTS as u64).max(1)),
            reads: shares(popularity.read_hotness),
            writes: shares(popularity.write_hotness),
            memory: vec![elsewhere; EXTENTS],
            moved: Traffic::default(),
        }
    }

    /// Returns the shares of the memories that follow from the placement of the extents.
    pub(super) fn placement(&self) -> Placement {
        let sums = |shares: &[f64]| {
            let mut sums = [0.0; MAX_MEDIA];
            for (share, memory) in shares.iter().zip(&self.memory) {
                sums[*memory] += share;
            }
            sums.map(|sum: f64| sum.min(1.0))
        };
        Placement { reads: sums(&self.reads), writes: sums(&self.writes) }
    }

    /// Returns the part of the traffic that goes to an extent.
    fn traffic(&self, extent: usize) -> Traffic {
        let share = |lines: Lines, share: f64| Lines((lines.as_f64() * share).round() as u64);
        Traffic {
            reads: share(self.moved.reads, self.reads[extent]),
            writes: share(self.moved.writes, self.writes[extent]),
        }
    }
}

/// Moves pages according to a migration policy.
pub(super) struct Pager {
    policy: HotPages,
    media: Media,
    /// Medium of each memory.
    medium: Vec<MediumId>,
    dram: Bytes,
    interval: Nanos,
    /// Time since the last decision.
    since: Nanos,
    /// Pages by task.
    pages: Vec<TaskPages>,
}

impl Migrator for Pager {
    fn migrate(&mut self, elapsed: Nanos, tasks: &[TaskQuantum]) -> Vec<Migration> {
        for task in tasks {
            let Traffic { reads, writes } =
                Traffic { reads: task.counts.reads, writes: task.counts.writes };
            self.pages[task.task.index()].moved += Traffic { reads, writes };
        }
        self.since += elapsed;
        if self.since < self.interval {
            return Vec::new();
        }
        let moves = self.decide();
        self.since = Nanos::ZERO;
        for pages in &mut self.pages {
            pages.moved = Traffic::default();
        }
        self.make(&moves)
    }
}

impl Pager {
    /// Returns the moves that the policy chooses, by numbers of extents over all tasks.
    fn decide(&mut self) -> Vec<Move> {
        let of_task = |(task, pages): (usize, &TaskPages)| {
            (0..EXTENTS)
                .map(|number| Extent {
                    job: JobId(task as u32),
                    number: number as u32,
                    size: pages.size,
                    medium: self.medium[pages.memory[number]],
                    traffic: pages.traffic(number),
                })
                .collect::<Vec<_>>()
        };
        let extents: Vec<Extent> = self.pages.iter().enumerate().flat_map(of_task).collect();
        let view = MigrationView {
            elapsed: self.since,
            extents: &extents,
            dram_capacity: self.dram,
            media: &self.media,
        };
        let mut moves = Vec::new();
        self.policy.decide(&view, &mut moves);
        moves
    }

    /// Performs the moves and returns the copies to make for each task.
    fn make(&mut self, moves: &[Move]) -> Vec<Migration> {
        let mut migrations: Vec<Migration> = Vec::new();
        for one in moves {
            let (task, extent) = (one.extent / EXTENTS, one.extent % EXTENTS);
            let Some(to) = self.medium.iter().position(|medium| *medium == one.to) else {
                continue;
            };
            let pages = &mut self.pages[task];
            let from = std::mem::replace(&mut pages.memory[extent], to);
            let copy = PageCopy { from, to, bytes: pages.size };
            let placement = pages.placement();
            let task = JobId(task as u32);
            match migrations.iter_mut().find(|migration| migration.task == task) {
                Some(migration) => {
                    migration.placement = placement;
                    migration.copies.push(copy);
                }
                None => migrations.push(Migration { task, placement, copies: vec![copy] }),
            }
        }
        migrations
    }
}

#[cfg(test)]
mod tests;
