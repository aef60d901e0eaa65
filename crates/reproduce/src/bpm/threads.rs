//! Colors for threads: a program like streamcluster (section 5.2).

use memweir_bank::experiment::ProgramSpec;
use memweir_bank::synthetic::{Shared, Structure};
use memweir_core::Bytes;
use memweir_core::address_map::ColorSet;
use memweir_core::input::Refusal;
use memweir_plot::Bars;
use memweir_policy::colors::{CacheUse, ColorAssignment, ProgramTraits};
use serde::Deserialize;

use super::programs::program;
use super::rig::{Conditions, Rig};
use super::runs::{Runs, WORK, refused};
use crate::report::{Found, Plot};
use crate::run::Failed;
use crate::source::FigureData;

/// Characteristics of the program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    mpki: f64,
    /// Mean lines that a thread goes through in a row.
    run_lines: f64,
    /// Places that it goes through at the same time.
    streams: f64,
    write_share: f64,
    /// Each thread's part of the points.
    chunk_mib: u64,
    /// Points that all threads access, and the share of the accesses to them.
    shared_mib: u64,
    shared_share: f64,
    /// Times that the threads wait for each other.
    phases: u64,
}

/// Instructions per cycle that a thread is taken to reach, for the length of a run.
const RATE: f64 = 0.5;

impl Parameters {
    fn structure(&self, shared_share: f64) -> Structure {
        let shared = Shared { bytes: Bytes(self.shared_mib << 20), share: shared_share };
        Structure {
            intensity: self.mpki,
            run: self.run_lines,
            streams: self.streams,
            burst_intensity: self.mpki,
            stores: self.write_share / (1.0 - self.write_share),
            footprint: Bytes(self.chunk_mib << 20),
            shared: Some(shared),
            ..Structure::default()
        }
    }

    /// Seconds that the threads of a setting take.
    fn time(&self, rig: &Rig, run: &Setting) -> Result<f64, Refusal> {
        let structure = self.structure(run.shared_share);
        let instructions = (rig.seconds * 2.8e9 * RATE) as u64;
        let traits = vec![ProgramTraits::default(); usize::from(run.threads)];
        let uniform = ColorAssignment::named("uniform")?;
        let own = uniform.assign(&traits, &rig.board.supply, CacheUse::Balance)?;
        let shared = match run.colors {
            Assigned::None => None,
            Assigned::SharedWithFirst => Some(own[0].clone()),
            Assigned::SharedEverywhere => Some(ColorSet::all(rig.board.supply.colors())),
        };
        let program = ProgramSpec {
            threads: run.threads,
            phase: Some((instructions / self.phases).max(1)),
            thread_colors: if shared.is_some() { own } else { Vec::new() },
            shared_colors: shared,
            ..program("streamcluster", &structure, instructions)
        };
        let executed = rig.execute(&[program], &Conditions::of_paper())?;
        Ok(executed.seconds[0])
    }

    /// Time that these colors save, %, in cases of a number of threads and a share of their
    /// accesses to shared data.
    fn saved(
        &self,
        cases: &[(u16, f64)],
        colors: Assigned,
        runs: &Runs<'_>,
    ) -> Result<Vec<f64>, Failed> {
        let pair = |(threads, shared_share): &(u16, f64)| {
            let (threads, shared_share) = (*threads, *shared_share);
            [Assigned::None, colors].map(|colors| Setting { threads, shared_share, colors })
        };
        let settings: Vec<Setting> = cases.iter().flat_map(pair).collect();
        let rig = runs.rig;
        let run = |setting: &Setting| self.time(rig, setting);
        let times = runs.bench.try_all(WORK, &settings, run).map_err(refused)?;
        Ok(times.chunks(2).map(|pair| 100.0 * (1.0 - pair[1] / pair[0])).collect())
    }
}

struct Setting {
    threads: u16,
    shared_share: f64,
    colors: Assigned,
}

/// Assignment of colors to threads.
#[derive(Clone, Copy)]
enum Assigned {
    None,
    /// Each thread has its own; shared data is in those of the first.
    SharedWithFirst,
    /// Each thread has its own; shared data is in all colors.
    SharedEverywhere,
}

/// The program with 4 and 8 threads, with and without colors for threads.
pub(super) fn streamcluster(data: &FigureData, runs: &Runs<'_>) -> Result<Found, Failed> {
    let parameters: Parameters = data.parameters()?;
    let cases = [(4, parameters.shared_share), (8, parameters.shared_share), (4, 0.0)];
    let less = parameters.saved(&cases, Assigned::SharedWithFirst, runs)?;
    let names = ["4 threads", "8 threads", "4 threads that share nothing"];
    Ok(Found {
        plots: vec![Plot::of([Bars::of(names, [("", less.clone())])])],
        values: vec![("four", less[0]), ("eight", less[1]), ("all-own", less[2])],
        ..Found::default()
    })
}

/// Time that 4 and 8 threads save with colors if their shared data is in all colors, %.
pub(super) fn shared_everywhere(
    parameters: &Parameters,
    runs: &Runs<'_>,
) -> Result<[f64; 2], Failed> {
    let cases = [4, 8].map(|threads| (threads, parameters.shared_share));
    let less = parameters.saved(&cases, Assigned::SharedEverywhere, runs)?;
    Ok([less[0], less[1]])
}
