//! Page migration in a scenario ([`memweir_flow::migration`]).

use memweir_core::input::{InputError, Section, Value};
use memweir_core::{Bytes, Nanos};
use memweir_flow::machine::Machine;
use memweir_flow::migration::{EXTENTS, Pager, TaskPages};
use memweir_flow::task::Task;
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::workload::pages::Popularity;
use memweir_policy::migration::{HotPageRules, HotPages};
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
                let inside = &order[..(fits * EXTENTS as f64) as usize];
                TaskPages::new(popularity, inside, self.elsewhere)
            })
            .collect()
    }

    /// Returns the pager that moves the pages while the tasks run, if they move.
    pub(super) fn migrator(&self, machine: &Machine, pages: Vec<TaskPages>) -> Option<Pager> {
        let Mover::HotPages(rules) = self.mover else { return None };
        Some(Pager::new(machine, HotPages::new(rules), self.dram, self.interval, pages))
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

#[cfg(test)]
mod tests;
