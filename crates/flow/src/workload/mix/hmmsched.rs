//! The mixes of hmmsched section VI: four applications with two instances each, with a part of
//! their pages in NVM.
//!
//! The text names 429.mcf and 471.omnetpp in mix #1, 433.milc in mix #2, and 444.namd as the
//! CPU-intensive program of Fig. 2. The other choices are ours, and so is the placement of the
//! pages: the paper says that frequently accessed data are in DRAM, but not the size of that DRAM.

use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::{Bytes, Nanos};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Ingredient, Mix, Weight, instance_name};
use crate::hardware::Hardware;
use crate::task::Task;
use crate::workload::catalog::Catalog;
use crate::workload::pages::PagePolicy;
use crate::workload::requirement;

/// Instances of each application.
pub const INSTANCES: u32 = 2;

/// Index of the NVM among the memories of the shipped machine.
pub const NVM: usize = 1;

/// The applications of mix #1 by their names in the catalog, two memory-intensive ones before two
/// CPU-intensive ones, which are our choice.
pub const MIX_1: [&str; 4] = ["429.mcf", "471.omnetpp", "444.namd", "453.povray"];

/// The applications of mix #2, three memory-intensive ones before a CPU-intensive one; all but the
/// first are our choice.
pub const MIX_2: [&str; 4] = ["433.milc", "429.mcf", "471.omnetpp", "444.namd"];

/// Parameters of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HmmschedRecipe {
    /// Work of each task.
    pub weight: Weight,
    /// Share of each program's memory that fits into its part of the DRAM, from 0 to 1: the pages
    /// with the most sampled accesses go there.
    pub dram_share: f64,
    /// Accesses that are sampled to find them.
    pub samples: u64,
}

impl Default for HmmschedRecipe {
    /// Two minutes each, a quarter of every program's memory in DRAM, 100,000 samples: all our
    /// choices.
    fn default() -> Self {
        Self { weight: super::TWO_MINUTES, dram_share: 0.25, samples: 100_000 }
    }
}

/// Makes a mix, such as [`MIX_1`] or [`MIX_2`], for a machine whose memory [`NVM`] is the second
/// kind.
///
/// # Errors
/// If an application is missing from the catalog, or the machine has no second memory.
pub fn mix(
    name: impl Into<String>,
    applications: &[&str],
    catalog: &Catalog,
    hardware: &Hardware,
    recipe: &HmmschedRecipe,
    seed: u64,
) -> Result<Mix, Refusal> {
    if hardware.machine.memories.len() <= NVM {
        let reason = format!("the machine `{}` has no second memory", hardware.machine.name);
        return Err(Refusal::new(reason, "add one under `[[memories]]`"));
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut tasks = Vec::new();
    for application in applications {
        let entry = catalog.find(application)?;
        let part = Ingredient::of(entry, hardware, seed);
        let popularity = entry.popularity(seed);
        let dram = Bytes((popularity.footprint.as_f64() * recipe.dram_share).round() as u64);
        let policy = PagePolicy::HotPages { dram, samples: Some(recipe.samples) };
        let placement = popularity.placement(policy, NVM);
        for number in 1..=INSTANCES {
            let millis = part.program.length().0 / Nanos::MILLI.0;
            tasks.push(Task {
                offset: Nanos::from_millis(random.random_range(0..millis.max(1))),
                work: match recipe.weight {
                    Weight::Equal(work) => work,
                    Weight::Normal => part.run_time,
                },
                placement,
                ..Task::once(instance_name(&part.program.name, number), Arc::clone(&part.program))
            });
        }
    }
    let iabw = requirement::ideal_average(&tasks, hardware.machine.cores());
    Ok(Mix { name: name.into(), seed, iabw, tasks })
}
