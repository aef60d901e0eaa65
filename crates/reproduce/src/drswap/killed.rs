//! Fig. 2 and 3: all applications in turn, with a swap area on flash and without one.

use memweir_core::Bytes;
use memweir_plot::Chart;
use memweir_swap::phone::ALL;
use memweir_swap::session::SessionOutcome;
use serde::Deserialize;

use super::sessions::{FLASH, assumed, kinds, less, mebibytes, refused, session};
use crate::report::{self, Effort, Found, Plot, Table};
use crate::run::Failed;
use crate::statistics::mean;
use crate::work::Bench;

/// Applications of a session.
const WORK: u64 = 30;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    dram_mib: Vec<u64>,
    swap_mib: u64,
    repetitions: u64,
    seed: u64,
}

impl Parameters {
    pub(super) fn work(&self, effort: Effort) -> u64 {
        2 * self.dram_mib.len() as u64 * effort.repetitions(self.repetitions) * WORK
    }
}

/// Outcomes of the sessions.
pub(super) struct Crowds {
    dram: Vec<Bytes>,
    /// By size of the DRAM: without swap, then with it; the repetitions.
    cells: Vec<[Vec<SessionOutcome>; 2]>,
}

impl Crowds {
    pub(super) fn run(parameters: &Parameters, bench: &Bench<'_>) -> Result<Self, Failed> {
        let flash = kinds()?.swap_remove(FLASH);
        let assumed = assumed(bench.effort);
        let repetitions = bench.effort.repetitions(parameters.repetitions);
        let mut inputs = Vec::new();
        for dram in &parameters.dram_mib {
            for swap in [0, parameters.swap_mib] {
                let session = session(ALL, &assumed, mebibytes(*dram), mebibytes(swap));
                let session = session.map_err(refused)?;
                let seeds = parameters.seed..parameters.seed + repetitions;
                inputs.extend(seeds.map(|seed| (session.clone(), seed)));
            }
        }
        let runs = bench.all(WORK, &inputs, |(session, seed)| session.run(&flash, *seed));
        let mut cells = runs.chunks(repetitions as usize).map(<[_]>::to_vec);
        let pair = || Some([cells.next()?, cells.next()?]);
        Ok(Self {
            dram: parameters.dram_mib.iter().map(|mib| mebibytes(*mib)).collect(),
            cells: std::iter::from_fn(pair).collect(),
        })
    }

    /// The means of a figure without and with swap, at each size of the DRAM.
    fn means(&self, of: impl Fn(&SessionOutcome) -> f64) -> Vec<[f64; 2]> {
        let mean = |runs: &Vec<SessionOutcome>| mean(runs.iter().map(&of));
        self.cells.iter().map(|cell| cell.each_ref().map(mean)).collect()
    }

    fn found(&self, means: &[[f64; 2]]) -> Found {
        let mib = |size: &Bytes| size.as_f64() / f64::from(1 << 20);
        let curves = [0, 1].map(|place: usize| {
            let values = means.iter().map(|pair| pair[place]);
            ("", self.dram.iter().map(mib).zip(values).collect())
        });
        let chart = Chart { x_start: self.dram.first().map_or(0.0, mib), ..Chart::lines(curves) };
        let row = |(dram, pair): (&Bytes, &[f64; 2])| report::row(dram.to_string(), 1, *pair);
        Found {
            plots: vec![Plot::of([chart])],
            tables: vec![Table::of(self.dram.iter().zip(means).map(row))],
            ..Found::default()
        }
    }
}

fn ends(means: &[[f64; 2]]) -> [[f64; 2]; 2] {
    let nothing = [f64::NAN; 2];
    [means.first().copied().unwrap_or(nothing), means.last().copied().unwrap_or(nothing)]
}

pub(super) fn figure_2(crowds: &Crowds) -> Found {
    let means = crowds.means(|outcome| outcome.counts.killed as f64);
    let [[small, small_with], [large, large_with]] = ends(&means);
    Found {
        values: vec![
            ("without", large),
            ("with", large_with),
            ("fewer", less(large, large_with)),
            ("smallest", less(small, small_with)),
        ],
        ..crowds.found(&means)
    }
}

pub(super) fn figure_3(crowds: &Crowds) -> Found {
    let means = crowds.means(|outcome| outcome.block_io.as_f64() / 1e6);
    let [[small, small_with], [large, large_with]] = ends(&means);
    Found {
        values: vec![("more", large_with / large), ("smallest", small_with / small)],
        ..crowds.found(&means)
    }
}
