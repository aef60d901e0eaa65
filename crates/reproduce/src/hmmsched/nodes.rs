//! Remote nodes (H12): the effective bandwidth with and without the link to the other node.

use memweir_core::MAX_MEDIA;
use memweir_core::input::Refusal;
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::workload::mix::Mix;
use memweir_flow::workload::mix::hmmsched::{self, HmmschedRecipe, MIX_1, MIX_2};
use memweir_flow::{Hardware, Placement, Task};

use super::mixes::{Mixes, Times, WORK, completion, experiment, short_names};
use crate::bars;
use crate::report::{Found, Plot};
use crate::run::Failed;
use crate::statistics::mean;
use crate::work::Bench;

/// The machine: DRAM and NVM of node 0, then of node 1.
const MACHINE: &str = "two-node";

/// Both mixes at once, 16 tasks for 8 cores. The pages of every other task are on one node, those
/// of the rest divided: DRAM here, NVM there.
fn tasks(hardware: &Hardware, recipe: &HmmschedRecipe, seed: u64) -> Result<Mix, Refusal> {
    let catalog = Catalog::shipped();
    let mut mix = hmmsched::mix("two nodes", &MIX_1, &catalog, hardware, recipe, seed)?;
    let more = hmmsched::mix("", &MIX_2, &catalog, hardware, recipe, seed + 1_000)?;
    mix.tasks.extend(more.tasks);
    for (number, task) in mix.tasks.iter_mut().enumerate() {
        let (dram, nvm) = match number % 4 {
            0 => (0, 1),
            1 => (0, 3),
            2 => (2, 3),
            _ => (2, 1),
        };
        task.placement = moved(task, dram, nvm);
    }
    Ok(mix)
}

/// The task's shares of DRAM and NVM, in these memories.
fn moved(task: &Task, dram: usize, nvm: usize) -> Placement {
    let shares = |shares: [f64; MAX_MEDIA]| {
        let elsewhere = shares[hmmsched::NVM];
        let mut moved = [0.0; MAX_MEDIA];
        moved[dram] += 1.0 - elsewhere;
        moved[nvm] += elsewhere;
        moved
    };
    Placement { reads: shares(task.placement.reads), writes: shares(task.placement.writes) }
}

/// Results with translation against those without.
pub(super) fn remote(mixes: &Mixes, bench: &Bench<'_>) -> Result<Found, Failed> {
    let refused = |refusal: Refusal| refusal.written_in("experiments/hmmsched/remote.toml");
    let hardware = Hardware::shipped(MACHINE).map_err(refused)?;
    let policies = ["os", "hmmsched", "hmmsched:no-remote"];
    let draws = (0..mixes.repetitions).map(|n| tasks(&hardware, &mixes.recipe, mixes.seed + n));
    let draws = draws.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let inputs: Vec<_> = policies
        .iter()
        .flat_map(|policy| draws.iter().zip(0..).map(move |draw| (*policy, draw)))
        .collect();
    let runs = bench.try_all(2 * WORK, &inputs, |(policy, (mix, number))| {
        completion(&experiment(&hardware, mix, policy, mixes.seed + number))
    })?;
    let times: Vec<Times> = runs.chunks(draws.len()).map(|runs| Times(runs.to_vec())).collect();
    let (with, without) = (times[1].reductions(&times[0]), times[2].reductions(&times[0]));
    let sets = [&with, &without].map(|values| ("", values.clone()));
    let bars = bars::with_means(short_names(&draws), sets);
    Ok(Found {
        plots: vec![Plot::of([bars])],
        values: vec![
            (
                "turnaround",
                100.0 * (times[2].turnaround() - times[1].turnaround()) / times[0].turnaround(),
            ),
            ("translation", mean(&with) - mean(&without)),
        ],
        remarks: vec![format!(
            "Mean reduction {:.2} % with translation and {:.2} % without; the last task is \
             complete after {:.1} s under the OS, {:.1} s with translation and {:.1} s without.",
            mean(&with),
            mean(&without),
            times[0].turnaround(),
            times[1].turnaround(),
            times[2].turnaround()
        )],
        ..Found::default()
    })
}
