//! Page migration (H12): moves hot pages to DRAM while the tasks run, and counts the cost of the
//! copies.

use memweir_core::{Bytes, Nanos};
use memweir_flow::migration::{EXTENTS, Pager, TaskPages};
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::workload::mix::Mix;
use memweir_flow::workload::pages::Popularity;
use memweir_flow::{Experiment, SimError, Simulation, Task};
use memweir_policy::migration::{HotPageRules, HotPages};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::media::NVM;
use super::mixes::{Case, Mixes, Times, WORK, experiment};
use crate::bars;
use crate::report::{Found, Plot};
use crate::run::Failed;
use crate::statistics::mean;
use crate::work::Bench;

/// Interval between decisions of the migration policy.
const EVERY: Nanos = Nanos::from_millis(1000);

/// Share of each task's memory that is in DRAM when it starts, by address.
const DRAM_SHARE: f64 = 0.25;

/// The memory of a task whose pages are in DRAM by address, independently of their popularity. The
/// writes go to the pages as the reads do.
fn memory(popularity: &Popularity) -> TaskPages {
    let mut ranks: Vec<usize> = (0..EXTENTS).collect();
    ranks.shuffle(&mut ChaCha8Rng::seed_from_u64(popularity.seed));
    let first = (EXTENTS as f64 * DRAM_SHARE) as usize;
    let inside: Vec<usize> = (0..EXTENTS).filter(|extent| ranks[*extent] < first).collect();
    let popularity = Popularity { write_hotness: popularity.read_hotness, ..*popularity };
    TaskPages::new(&popularity, &inside, NVM)
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
    let of_task = |(task, number): (&Task, u64)| {
        let entry = catalog.find(&task.program.name).ok()?;
        Some(memory(&entry.popularity(seed + number)))
    };
    let memories: Vec<TaskPages> = experiment.tasks.iter().zip(0..).filter_map(of_task).collect();
    for (task, memory) in experiment.tasks.iter_mut().zip(&memories) {
        task.placement = memory.placement();
    }
    let dram = memories.iter().map(TaskPages::inside).sum();
    let policy = HotPages::new(HotPageRules::default());
    let mut pager = Pager::new(&experiment.machine, policy, dram, EVERY, memories);
    let simulation = Simulation::new(&experiment);
    let outcome = match pages {
        Pages::Stay => simulation.run()?,
        Pages::Migrate => simulation.migrator(&mut pager).run()?,
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
        plots: vec![Plot::of([bars])],
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

    #[test]
    fn a_quarter_is_in_dram_whatever_its_popularity() {
        let footprint = Bytes(64 << 20);
        let popularity = Popularity { footprint, read_hotness: 1.0, write_hotness: 0.0, seed: 7 };
        let memory = memory(&popularity);
        assert_eq!(memory.inside(), Bytes(16 << 20));
        let placement = memory.placement();
        assert!((placement.reads.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(placement.reads, placement.writes);
    }
}
