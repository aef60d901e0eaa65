//! The sessions of Table IV: each group on swap areas of each kind and size.

use std::sync::Arc;

use memweir_core::input::{InputError, Refusal};
use memweir_core::{Bytes, Nanos};
use memweir_plot::Bars;
use memweir_policy::paging::VICTIM_POLICIES;
use memweir_swap::area::{SWAPS, SwapKind};
use memweir_swap::memory::{Counts, Killer};
use memweir_swap::phone::app;
use memweir_swap::phone::{Assumed, Phone};
use memweir_swap::session::{SessionOutcome, SessionSpec};
use serde::Deserialize;

use crate::report::{Effort, Plot};
use crate::run::Failed;
use crate::statistics::mean;
use crate::work::Bench;

/// Time of an application in the foreground, and the number of rounds (D8).
const FOREGROUND: Nanos = Nanos::from_millis(60_000);
const ROUNDS: u32 = 3;

/// Work of a session, for the progress display: one per application.
pub(super) const WORK: u64 = 5;

/// The kinds of swap area, in the order of the shipped ones.
pub(super) const DRAM: usize = 0;
pub(super) const FLASH: usize = 1;
pub(super) const COPIED: usize = 2;
pub(super) const DIRECT: usize = 3;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    pub(super) dram_mib: u64,
    pub(super) swap_mib: Vec<u64>,
    repetitions: u64,
    pub(super) seed: u64,
    /// Shares of written pages to try.
    pub(super) written_pages: Vec<f64>,
}

impl Parameters {
    pub(super) fn work(&self, effort: Effort) -> u64 {
        let groups = Phone::shipped().groups().count() as u64;
        let runs = groups * self.swap_mib.len() as u64 * SWAPS.len() as u64;
        runs * effort.repetitions(self.repetitions) * WORK
    }

    /// Work of the runs over shares of written pages.
    pub(super) fn shares_work(&self) -> u64 {
        let groups = Phone::shipped().groups().count() as u64;
        groups * self.written_pages.len() as u64 * 2 * WORK
    }
}

/// Assumptions about applications; a quick run makes a tenth of the references.
pub(super) fn assumed(effort: Effort) -> Assumed {
    let mut assumed = Phone::shipped().assumed.clone();
    if effort == Effort::Quick {
        assumed.references /= 10;
    }
    assumed
}

pub(super) fn mebibytes(mib: u64) -> Bytes {
    Bytes(mib << 20)
}

/// The session of a group.
///
/// # Errors
/// If there is no such group.
pub(super) fn session(
    group: &str,
    assumed: &Assumed,
    dram: Bytes,
    swap: Bytes,
) -> Result<SessionSpec, Refusal> {
    let apps = Phone::shipped().group(group)?.into_iter().map(|each| app(each, assumed));
    Ok(SessionSpec {
        apps: apps.collect(),
        dram,
        swap,
        rounds: ROUNDS,
        foreground: FOREGROUND,
        victims: Arc::new(VICTIM_POLICIES[0]),
        killer: Killer::default(),
    })
}

/// The shipped kinds of swap area.
pub(super) fn kinds() -> Result<Vec<SwapKind>, InputError> {
    SWAPS.iter().map(|(name, text)| SwapKind::parse(name, text)).collect()
}

pub(super) fn refused(refusal: Refusal) -> Failed {
    refusal.written_in("experiments/drswap").into()
}

/// Outcomes of all sessions.
pub(super) struct Sessions {
    pub(super) sizes: Vec<Bytes>,
    /// Name and title of each group.
    pub(super) groups: Vec<(&'static str, &'static str)>,
    pub(super) kinds: Vec<SwapKind>,
    /// By size, group and kind: the repetitions.
    cells: Vec<Vec<SessionOutcome>>,
}

impl Sessions {
    /// Runs all sessions.
    pub(super) fn run(parameters: &Parameters, bench: &Bench<'_>) -> Result<Self, Failed> {
        let groups: Vec<_> = Phone::shipped().groups().collect();
        let kinds = kinds()?;
        let assumed = assumed(bench.effort);
        let dram = mebibytes(parameters.dram_mib);
        let sizes: Vec<Bytes> = parameters.swap_mib.iter().map(|mib| mebibytes(*mib)).collect();
        let repetitions = bench.effort.repetitions(parameters.repetitions);
        let mut inputs = Vec::new();
        for size in &sizes {
            for (group, _) in &groups {
                let session = session(group, &assumed, dram, *size).map_err(refused)?;
                for kind in &kinds {
                    let seeds = parameters.seed..parameters.seed + repetitions;
                    inputs.extend(seeds.map(|seed| (session.clone(), kind, seed)));
                }
            }
        }
        let runs = bench.all(WORK, &inputs, |(session, kind, seed)| session.run(kind, *seed));
        let cells = runs.chunks(repetitions as usize).map(<[_]>::to_vec).collect();
        drop(inputs);
        Ok(Self { sizes, groups, kinds, cells })
    }

    /// The mean of a figure over the repetitions of a group on a swap area.
    pub(super) fn mean(
        &self,
        [size, group, kind]: [usize; 3],
        of: impl Fn(&SessionOutcome) -> f64,
    ) -> f64 {
        let place = (size * self.groups.len() + group) * self.kinds.len() + kind;
        mean(self.cells[place].iter().map(of))
    }

    /// The mean of a count.
    pub(super) fn count(&self, at: [usize; 3], of: impl Fn(&Counts) -> u64) -> f64 {
        self.mean(at, |outcome| of(&outcome.counts) as f64)
    }

    /// Mean of a count over the groups.
    pub(super) fn average(&self, size: usize, kind: usize, of: impl Fn(&Counts) -> u64) -> f64 {
        mean((0..self.groups.len()).map(|group| self.count([size, group, kind], &of)))
    }

    /// Draws a panel for each size: the value of each group on these kinds of swap area.
    pub(super) fn bars(&self, kinds: &[(usize, &str)], value: impl Fn([usize; 3]) -> f64) -> Plot {
        let panels = self.sizes.iter().enumerate().map(|(size, bytes)| {
            let sets = kinds.iter().map(|(kind, name)| {
                let groups = 0..self.groups.len();
                (*name, groups.map(|group| value([size, group, *kind])).collect())
            });
            let titles = self.groups.iter().map(|(_, title)| *title);
            Bars { title: bytes.to_string(), ..Bars::of(titles, sets) }
        });
        Plot::of(panels)
    }
}

/// Reduction of `with` against `without`, in percent.
pub(super) fn less(without: f64, with: f64) -> f64 {
    100.0 * (1.0 - with / without)
}
