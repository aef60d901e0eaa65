//! Page migration (H12): moves hot pages to DRAM while the tasks run, and counts the cost of the
//! copies.

use memweir_core::{Bytes, JobId, Lines, MAX_MEDIA, Media, MediumId, Nanos, PAGE, Traffic};
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::workload::mix::Mix;
use memweir_flow::workload::pages::Popularity;
use memweir_flow::{
    Experiment, Migration, Migrator, PageCopy, Placement, SimError, Simulation, TaskQuantum, View,
};
use memweir_plot::Panel;
use memweir_policy::migration::{Extent, HotPageRules, HotPages, MigrationView, Move};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::media::NVM;
use super::mixes::{Case, Mixes, Times, WORK, experiment};
use crate::bars;
use crate::mean::mean;
use crate::report::{Found, Plot};
use crate::run::Failed;
use crate::work::Bench;

/// Pieces of each task's memory that move as a whole: pages of about equal popularity.
const PIECES: usize = 64;

/// Interval between decisions of the migration policy.
const EVERY: Nanos = Nanos::from_millis(1000);

/// Share of each task's memory that is in DRAM when it starts, by address.
const DRAM_SHARE: f64 = 0.25;

/// A task's memory: pieces in the order of their popularity, and the medium of each.
struct Memory {
    job: JobId,
    /// Share of the reads and writes that go to each piece; they add up to one.
    shares: Vec<f64>,
    size: Bytes,
    places: Vec<MediumId>,
    /// Traffic of the task since the last decision.
    traffic: Traffic,
}

impl Memory {
    /// The memory of a task whose pages are in DRAM by address, independently of their popularity.
    fn new(job: JobId, popularity: &Popularity) -> Self {
        let pages = popularity.footprint.0.div_ceil(PAGE.0).max(PIECES as u64) as usize;
        let mut shares: Vec<f64> = (0..PIECES)
            .map(|piece| {
                let ranks = piece * pages / PIECES..(piece + 1) * pages / PIECES;
                ranks.map(|rank| ((rank + 1) as f64).powf(-popularity.read_hotness)).sum()
            })
            .collect();
        let total: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= total);
        let nvm = MediumId::ALL[NVM];
        let inside = (PIECES as f64 * DRAM_SHARE) as usize;
        let place = |piece| if piece < inside { MediumId::LOCAL_DRAM } else { nvm };
        let mut places: Vec<MediumId> = (0..PIECES).map(place).collect();
        places.shuffle(&mut ChaCha8Rng::seed_from_u64(popularity.seed));
        let size = Bytes(popularity.footprint.0 / PIECES as u64);
        Self { job, shares, size, places, traffic: Traffic::default() }
    }

    fn placement(&self) -> Placement {
        let mut shares = [0.0; MAX_MEDIA];
        for (place, share) in self.places.iter().zip(&self.shares) {
            shares[place.index()] += share;
        }
        Placement::even(shares)
    }

    /// The pieces with their part of the traffic.
    fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let part = |lines: Lines, share: f64| Lines((lines.as_f64() * share).round() as u64);
        (0..).zip(self.places.iter().zip(&self.shares)).map(move |(number, (place, share))| {
            Extent {
                job: self.job,
                number,
                size: self.size,
                medium: *place,
                traffic: Traffic {
                    reads: part(self.traffic.reads, *share),
                    writes: part(self.traffic.writes, *share),
                },
            }
        })
    }
}

/// Runs the policy once a second, and carries out its moves.
struct Driver {
    memories: Vec<Memory>,
    policy: HotPages,
    media: Media,
    dram: Bytes,
    since: Nanos,
}

impl Driver {
    fn new(memories: Vec<Memory>, media: Media) -> Self {
        let dram = memories.iter().flat_map(Memory::extents);
        let dram =
            dram.filter(|extent| extent.medium == MediumId::LOCAL_DRAM).map(|e| e.size).sum();
        let policy = HotPages::new(HotPageRules::default());
        Self { memories, policy, media, dram, since: Nanos::ZERO }
    }

    /// Carries out the moves, and returns the migrations task by task.
    fn carry_out(&mut self, extents: &[Extent], moves: &[Move]) -> Vec<Migration> {
        let mut migrations: Vec<Migration> = Vec::new();
        for each in moves {
            let Extent { job, number, size, medium, .. } = extents[each.extent];
            let Some(memory) = self.memories.iter_mut().find(|memory| memory.job == job) else {
                continue;
            };
            memory.places[number as usize] = each.to;
            let placement = memory.placement();
            let copy = PageCopy { from: medium.index(), to: each.to.index(), bytes: size };
            match migrations.iter_mut().find(|migration| migration.task == job) {
                Some(migration) => {
                    migration.placement = placement;
                    migration.copies.push(copy);
                }
                None => migrations.push(Migration { task: job, placement, copies: vec![copy] }),
            }
        }
        migrations
    }
}

impl Migrator for Driver {
    fn migrate(&mut self, elapsed: Nanos, tasks: &[TaskQuantum]) -> Vec<Migration> {
        for task in tasks {
            if let Some(memory) = self.memories.iter_mut().find(|memory| memory.job == task.task) {
                memory.traffic += Traffic { reads: task.counts.reads, writes: task.counts.writes };
            }
        }
        self.since += elapsed;
        if self.since < EVERY {
            return Vec::new();
        }
        let extents: Vec<Extent> = self.memories.iter().flat_map(Memory::extents).collect();
        let view = MigrationView {
            elapsed: self.since,
            extents: &extents,
            dram_capacity: self.dram,
            media: &self.media,
        };
        let mut moves = Vec::new();
        self.policy.decide(&view, &mut moves);
        self.since = Nanos::ZERO;
        self.memories.iter_mut().for_each(|memory| memory.traffic = Traffic::default());
        self.carry_out(&extents, &moves)
    }
}

/// Treatment of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    Stay,
    Migrate,
}

/// Completion time of each task in seconds, and the bytes that were copied.
fn completion(
    case: &Case,
    mix: &Mix,
    policy: &str,
    pages: Pages,
    seed: u64,
) -> Result<(Vec<f64>, Bytes), SimError> {
    let catalog = Catalog::shipped();
    let mut experiment: Experiment = experiment(&case.hardware, mix, policy, seed);
    let memories: Vec<Memory> = experiment
        .tasks
        .iter()
        .zip(0..)
        .filter_map(|(task, number)| {
            let entry = catalog.find(&task.program.name).ok()?;
            Some(Memory::new(JobId(number), &entry.popularity(seed + u64::from(number))))
        })
        .collect();
    for (task, memory) in experiment.tasks.iter_mut().zip(&memories) {
        task.placement = memory.placement();
    }
    let media = View::new(&experiment.machine).media().clone();
    let mut driver = Driver::new(memories, media);
    let simulation = Simulation::new(&experiment);
    let outcome = match pages {
        Pages::Stay => simulation.run()?,
        Pages::Migrate => simulation.migrator(&mut driver).run()?,
    };
    let times = outcome.tasks.iter().map(|task| task.turnaround().as_secs_f64()).collect();
    Ok((times, outcome.copied))
}

/// Scheduler alone, migration alone, both, against neither.
pub(super) fn migration(mixes: &Mixes, bench: &Bench<'_>) -> Result<Found, Failed> {
    let ways = [
        ("neither", "os", Pages::Stay),
        ("scheduler", "hmmsched", Pages::Stay),
        ("migration", "os", Pages::Migrate),
        ("both", "hmmsched", Pages::Migrate),
    ];
    let mut inputs = Vec::new();
    for case in &mixes.cases {
        for way in &ways {
            inputs.extend(case.draws.iter().zip(0..).map(|draw| (case, way, draw)));
        }
    }
    let runs = bench.try_all(WORK, &inputs, |(case, (_, policy, pages), (mix, number))| {
        completion(case, mix, policy, *pages, mixes.seed + number)
    })?;
    let repetitions = mixes.repetitions as usize;
    let times: Vec<Times> = runs
        .chunks(repetitions)
        .map(|runs| Times(runs.iter().map(|(times, _)| times.clone()).collect()))
        .collect();
    let cases: Vec<&[Times]> = times.chunks(ways.len()).collect();
    let reductions = |at: usize| -> Vec<f64> {
        cases.iter().map(|case| mean(case[at].reductions(&case[0]))).collect()
    };
    let sets = ways.iter().enumerate().skip(1).map(|(at, (name, ..))| (*name, reductions(at)));
    let bars = bars::with_means(mixes.cases.iter().map(|case| &case.name), sets);
    let copied: Vec<f64> = runs
        .iter()
        .zip(&inputs)
        .filter(|(_, (_, (_, _, pages), _))| *pages == Pages::Migrate)
        .map(|((_, copied), _)| copied.as_f64() / 1e9)
        .collect();
    Ok(Found {
        plots: vec![Plot::of(vec![Panel::Bars(bars)])],
        values: vec![
            ("scheduler", mean(reductions(1))),
            ("migration", mean(reductions(2))),
            ("both", mean(reductions(3))),
        ],
        remarks: vec![format!(
            "A run with migration copies {:.1} GB on average. How popular pages are is known \
             exactly and stays as it is, so that migration is shown at its best.",
            mean(&copied)
        )],
        ..Found::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let popularity = Popularity {
            footprint: Bytes(64 << 20),
            read_hotness: 1.0,
            write_hotness: 1.0,
            seed: 7,
        };
        Memory::new(JobId(0), &popularity)
    }

    #[test]
    fn a_quarter_is_in_dram_whatever_its_popularity() {
        let memory = memory();
        let inside = memory.places.iter().filter(|place| **place == MediumId::LOCAL_DRAM).count();
        assert_eq!(inside, PIECES / 4);
        let shares = memory.placement();
        assert!((shares.reads.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(memory.shares.is_sorted_by(|a, b| a >= b), "the most popular pieces first");
    }

    #[test]
    fn hot_pieces_come_to_dram_and_the_copies_are_charged() {
        let mut popular = memory();
        popular.traffic = Traffic { reads: Lines(50_000_000), writes: Lines(10_000_000) };
        let before = popular.placement().reads[NVM];
        let hardware = super::super::media::hardware("ratio-1-3-8").unwrap();
        let media = View::new(&hardware.machine).media().clone();
        let mut driver = Driver::new(vec![popular], media);
        let migrations = driver.migrate(EVERY, &[]);
        let [migration] = &migrations[..] else { panic!("{migrations:?}") };
        assert!(migration.placement.reads[NVM] < before);
        let bytes = |to: usize| -> u64 {
            migration.copies.iter().filter(|copy| copy.to == to).map(|copy| copy.bytes.0).sum()
        };
        assert!(bytes(0) > 0);
        assert_eq!(bytes(0), bytes(NVM), "DRAM was full: as much leaves as comes");
    }
}
