//! A bank-level scenario at every point of a sweep: checked before anything runs, then run on all
//! cores.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use memweir_bank::experiment::{ColoredBy, Conditions, Machine, ProgramSpec, Source};
use memweir_bank::fit::{Characteristics, Fitted, Measured};
use memweir_bank::outcome::{self, Improvement, Outcome, ProgramRun};
use memweir_bank::synthetic::Structure;
use memweir_core::address_map::{BASE_PAGE_BITS, ColorSet};
use memweir_core::input::{InputError, Refusal, Replacement};
use memweir_core::{BytesPerSec, Picos, Stop};
use memweir_dram::config::PagePolicy;
use memweir_policy::colors::{ProgramTraits, Supply};

use super::batch::Batch;
use super::report::{Alone, BankPoint, BankReport, BatchRun, Fit, PartitionRun};
use super::{BankScenario, Partition, Wanted, batch};
use crate::ScenarioText;
use crate::key::key;
use crate::parallel::{FirstError, for_each};
use crate::sweep::Grid;

/// Misses over which a structure is measured while it is fitted.
const FIT_MISSES: f64 = 8_000.0;

/// Programs per thread that run alone before those of their points run together. With more of them
/// results come later, with fewer the threads wait for each other more often.
const ALONE_PER_THREAD: usize = 16;

/// A scenario and the points at which it runs.
#[derive(Debug)]
pub struct BankStudy {
    name: String,
    grid: Grid,
    points: Vec<BankScenario>,
    interval: Option<Picos>,
}

/// A program that is ready to be executed, and its results alone.
pub(super) type Ready = (ProgramSpec, Alone);

/// A piece of work that is over.
#[derive(Clone, Copy, Debug)]
pub struct PieceOver<'a> {
    /// Number of its point.
    pub point: usize,
    /// Results of the point, if this was the last of its pieces.
    pub results: Option<&'a BankPoint>,
}

impl BankStudy {
    /// Reads the scenario at every point of `grid`, with the values `set` in place of its own.
    ///
    /// # Errors
    /// The first problem at any point.
    pub fn read(text: &ScenarioText, set: &[Replacement], grid: Grid) -> Result<Self, InputError> {
        let points = (0..grid.len())
            .map(|point| BankScenario::read(text, &[set, &grid.replacements(point)[..]].concat()))
            .collect::<Result<_, _>>()?;
        Ok(Self { name: text.name().to_owned(), grid, points, interval: None })
    }

    /// Records the requests of programs that run together over time, in intervals of this length.
    #[must_use]
    pub fn recorded(self, interval: Picos) -> Self {
        Self { interval: Some(interval), ..self }
    }

    /// Returns the scenario at each point.
    #[must_use]
    pub fn points(&self) -> &[BankScenario] {
        &self.points
    }

    /// Returns the study of one of its points alone.
    #[must_use]
    pub fn only(&self, point: usize) -> Self {
        let (grid, points) = (self.grid.only(&[point]), vec![self.points[point].clone()]);
        Self { name: self.name.clone(), grid, points, interval: self.interval }
    }

    /// Returns the number of pieces of work: each program alone, and each partition or policy.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.points.iter().map(|p| p.programs.len() + p.partitions.len() + p.policies()).sum()
    }

    /// Returns the key of each point, which changes with all that its results depend on.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let points = self.points.iter().enumerate();
        points.map(|(at, point)| key(&self.grid.at(at), point)).collect()
    }

    /// Returns the grid of the sweep.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Runs all pieces of work on `threads` threads and calls `done` after each. After a request
    /// to `stop`, none goes on.
    ///
    /// # Errors
    /// If a run is refused, for instance because the programs do not fit into memory, or `stop` is
    /// requested.
    pub fn run(
        &self,
        stop: &Stop,
        threads: NonZeroUsize,
        mut done: impl FnMut(PieceOver<'_>),
    ) -> Result<BankReport, InputError> {
        let known = Known::default();
        let (mut points, mut group) = (Vec::new(), 0..0);
        while group.end < self.points.len() {
            group = self.group(group.end, threads);
            let results = self.run_group(&group, &known, stop, threads, &mut done);
            points.extend(results.map_err(|refusal| refusal.written_in(&self.name))?);
        }
        Ok(BankReport { scenario: self.name.clone(), fidelity: "bank", points })
    }

    /// Returns the points from `first` on that run as one group.
    fn group(&self, first: usize, threads: NonZeroUsize) -> Range<usize> {
        let mut alone = 0;
        let starts = |point: &&BankScenario| {
            let is_free = alone < ALONE_PER_THREAD * threads.get();
            alone += point.programs.len();
            is_free
        };
        first..first + self.points[first..].iter().take_while(starts).count()
    }

    /// Runs all pieces of work of a group of points.
    fn run_group(
        &self,
        group: &Range<usize>,
        known: &Known,
        stop: &Stop,
        threads: NonZeroUsize,
        done: &mut impl FnMut(PieceOver<'_>),
    ) -> Result<Vec<BankPoint>, Refusal> {
        let mut ready: BTreeMap<usize, Vec<Ready>> = BTreeMap::new();
        self.all(
            group,
            threads,
            |point| point.programs.len(),
            |point, program| self.points[point].alone(program, known, stop),
            |point, programs| {
                ready.extend(programs.map(|programs| (point, programs)));
                done(PieceOver { point, results: None });
            },
        )?;
        let mut points: BTreeMap<usize, BankPoint> = BTreeMap::new();
        self.all(
            group,
            threads,
            |point| point.partitions.len(),
            |point, partition| {
                self.points[point].together(partition, &ready[&point], self.interval, stop)
            },
            |at, runs| {
                points.extend(runs.map(|runs| {
                    let point = self.point(at, &ready[&at]);
                    (at, BankPoint { partitions: compared(runs), ..point })
                }));
                done(PieceOver { point: at, results: points.get(&at) });
            },
        )?;
        let mut peaks = BTreeMap::new();
        self.all(
            group,
            threads,
            |point| usize::from(point.batch.is_some()),
            |point, _| self.points[point].peak(stop),
            |point, peak| peaks.extend(peak.map(|peak| (point, peak[0]))),
        )?;
        self.all(
            group,
            threads,
            BankScenario::policies,
            |point, policy| {
                self.points[point].as_batch(policy, &ready[&point], peaks[&point], stop)
            },
            |at, runs| {
                points.extend(runs.map(|runs| {
                    let (peak, policies) = (Some(peaks[&at].0), gaining(runs));
                    (at, BankPoint { peak, policies, ..self.point(at, &ready[&at]) })
                }));
                done(PieceOver { point: at, results: points.get(&at) });
            },
        )?;
        Ok(points.into_values().collect())
    }

    /// Does `count` pieces of work for every point of a group, and calls `done` after each with its
    /// point and, behind the last one, the results of that point in the order of the pieces.
    /// Returns the refusal of the first piece that was refused.
    fn all<T: Send>(
        &self,
        group: &Range<usize>,
        threads: NonZeroUsize,
        count: impl Fn(&BankScenario) -> usize,
        work: impl Fn(usize, usize) -> Result<T, Refusal> + Sync,
        mut done: impl FnMut(usize, Option<Vec<T>>),
    ) -> Result<(), Refusal> {
        let pieces: Vec<(usize, usize)> = group
            .clone()
            .flat_map(|point| (0..count(&self.points[point])).map(move |piece| (point, piece)))
            .collect();
        let mut ended: BTreeMap<usize, BTreeMap<usize, T>> = BTreeMap::new();
        let mut refused = FirstError::default();
        for_each(
            pieces.len(),
            threads,
            |index| work(pieces[index].0, pieces[index].1),
            |index, result| {
                let (point, piece) = pieces[index];
                let results = ended.entry(point).or_default();
                match result {
                    Ok(result) => drop(results.insert(piece, result)),
                    Err(refusal) => refused.note(index, refusal),
                }
                let is_last = results.len() == count(&self.points[point]);
                done(point, is_last.then(|| mem::take(results).into_values().collect()));
            },
        );
        refused.result()
    }

    /// Returns a point without the runs of its programs together.
    fn point(&self, at: usize, ready: &[Ready]) -> BankPoint {
        let scenario = &self.points[at];
        BankPoint {
            at: self.grid.at(at),
            machine: scenario.machine_name.clone(),
            seed: scenario.seed,
            colors: scenario.machine.coloring(0).colors(),
            alone: ready.iter().map(|(_, alone)| alone.clone()).collect(),
            peak: None,
            partitions: Vec::new(),
            policies: Vec::new(),
        }
    }
}

/// Compares the partitions behind the first with it.
fn compared(mut runs: Vec<PartitionRun>) -> Vec<PartitionRun> {
    if let Some((baseline, others)) = runs.split_first_mut() {
        for other in others {
            other.improvement = Some(Improvement::of(&baseline.outcome, &other.outcome));
        }
    }
    runs
}

/// Notes what the policies behind the first gain over it.
fn gaining(mut runs: Vec<BatchRun>) -> Vec<BatchRun> {
    if let Some((baseline, others)) = runs.split_first_mut() {
        for other in others {
            other.gain = Some(baseline.turnaround_s / other.turnaround_s - 1.0);
        }
    }
    runs
}

/// Structures already fitted, by request, level and machine.
type Known = Mutex<HashMap<String, Fitted>>;

impl BankScenario {
    /// Returns the number of policies under which the programs run as a batch.
    fn policies(&self) -> usize {
        self.batch.as_ref().map_or(0, |batch| batch.policies.len())
    }

    /// Measures the bandwidth of the machine that the policies of a batch are told.
    fn peak(&self, stop: &Stop) -> Result<BytesPerSec, Refusal> {
        batch::peak(&self.machine, self.conditions(stop))
    }

    /// Runs the programs as a batch under the policy with this index.
    fn as_batch(
        &self,
        policy: usize,
        ready: &[Ready],
        peak: BytesPerSec,
        stop: &Stop,
    ) -> Result<BatchRun, Refusal> {
        let spec = self.batch.as_ref().expect("a scenario with policies has a batch");
        let (machine, conditions) = (&self.machine, self.conditions(stop));
        Batch { spec, machine, ready, conditions, peak }.run(&spec.policies[policy])
    }

    fn conditions(&self, stop: &Stop) -> Conditions {
        Conditions { seed: self.seed, warm: self.warm, interval: None, stop: stop.clone() }
    }

    /// Fits the structure of a program and runs it alone.
    fn alone(&self, program: usize, known: &Known, stop: &Stop) -> Result<Ready, Refusal> {
        let wanted = &self.programs[program];
        let (spec, fit) = self.fitted(wanted, known, stop)?;
        let run = |spec: &ProgramSpec| {
            let name = self.names[program].clone();
            let anywhere = ProgramSpec { name, thread_colors: Vec::new(), ..spec.colored(None) };
            let execution = self.machine.execute(&[anywhere], self.conditions(stop))?;
            Ok(ProgramRun::of(&execution, self.machine.clock).swap_remove(0))
        };
        let Some(time) = wanted.time else {
            return Ok((spec.clone(), Alone { run: run(&spec)?, fit }));
        };
        // So many instructions that it takes about as long as wanted.
        let tried = run(&spec)?;
        let instructions = spec.instructions as f64 * time.as_secs_f64() / tried.time_s;
        let spec = ProgramSpec { instructions: (instructions as u64).max(1), ..spec };
        let alone = Alone { run: run(&spec)?, fit };
        Ok((spec, alone))
    }

    fn fitted(
        &self,
        wanted: &Wanted,
        known: &Known,
        stop: &Stop,
    ) -> Result<(ProgramSpec, Option<Fit>), Refusal> {
        let Some((asked, base)) = &wanted.behavior else { return Ok((wanted.spec.clone(), None)) };
        let (machine, level) = (open_page(&self.machine), wanted.spec.level);
        let key = format!("{asked:?} {base:?} {level} {} {machine:?}", self.seed);
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lock().get(&key).cloned();
        let fitted = match found {
            Some(fitted) => fitted,
            None => {
                let program = |source, instructions| {
                    let name = wanted.spec.name.clone();
                    ProgramSpec { level, ..ProgramSpec::new(name, source, instructions) }
                };
                let conditions = Conditions { warm: true, ..self.conditions(stop) };
                let fitted = fit(&machine, asked, base, &program, &conditions)?;
                lock().insert(key, fitted.clone());
                fitted
            }
        };
        let Measured { mpki, rbl, blp } = fitted.measured;
        let fit = Fit {
            mpki: [asked.mpki, mpki],
            rbl: [asked.rbl, rbl],
            blp: [asked.blp, blp],
            reached: fitted.reached,
        };
        let source = Source::Synthetic(Box::new(fitted.structure));
        Ok((ProgramSpec { source, ..wanted.spec.clone() }, Some(fit)))
    }

    /// Runs all programs together.
    fn together(
        &self,
        partition: usize,
        ready: &[Ready],
        interval: Option<Picos>,
        stop: &Stop,
    ) -> Result<PartitionRun, Refusal> {
        let partition = &self.partitions[partition];
        let colors = self.colors(partition, ready)?;
        let programs: Vec<ProgramSpec> = ready
            .iter()
            .zip(&colors)
            .map(|((spec, alone), colors)| {
                let own = matches!(partition, Partition::Given);
                let thread_colors = if own { spec.thread_colors.clone() } else { Vec::new() };
                let name = alone.run.program.clone();
                ProgramSpec { name, thread_colors, ..spec.colored(colors.clone()) }
            })
            .collect();
        let conditions = Conditions { interval, ..self.conditions(stop) };
        let execution = self.machine.execute(&programs, conditions)?;
        let alone: Vec<ProgramRun> = ready.iter().map(|(_, alone)| alone.run.clone()).collect();
        let names: Vec<String> = self.machine.memories.iter().map(|m| m.name.clone()).collect();
        let channels: Vec<u32> =
            self.machine.memories.iter().map(|m| m.config.controllers()).collect();
        Ok(PartitionRun {
            partition: partition.name().to_owned(),
            colors: colors.iter().map(|set| set.as_ref().map(ColorSet::to_string)).collect(),
            outcome: Outcome::of(&execution, &names, &channels, self.machine.clock, &alone),
            improvement: None,
            over_time: outcome::over_time(&execution),
        })
    }

    /// Returns the colors of each program.
    fn colors(
        &self,
        partition: &Partition,
        ready: &[Ready],
    ) -> Result<Vec<Option<ColorSet>>, Refusal> {
        let traits: Vec<ProgramTraits> =
            ready.iter().map(|(_, alone)| traits(&alone.run)).collect();
        let supply = match self.machine.colored_by {
            ColoredBy::Cache => Supply::new(self.machine.coloring(0).colors(), 1),
            ColoredBy::Banks => {
                let cache = self.machine.llc.map(|llc| llc.geometry);
                Supply::of_map(self.machine.map(), BASE_PAGE_BITS, cache.as_ref())
            }
        };
        let sets = match partition {
            Partition::None => return Ok(vec![None; ready.len()]),
            Partition::Given => {
                return Ok(ready.iter().map(|(spec, _)| spec.colors.clone()).collect());
            }
            Partition::Policy(policy) => policy.assign(&traits, &supply, self.cache_use)?,
            Partition::Custom(custom) => custom.assign(&traits, &supply)?,
        };
        Ok(sets.into_iter().map(Some).collect())
    }
}

/// Returns the properties of a program that assignment policies use.
fn traits(run: &ProgramRun) -> ProgramTraits {
    ProgramTraits {
        mpki: Some(run.mpki),
        row_buffer_locality: run.row_hit_rate,
        bank_parallelism: run.bank_parallelism,
        bandwidth: Some(BytesPerSec(run.bandwidth)),
        demanded_banks: None,
    }
}

/// Returns the machine with open pages, the only policy under which row-buffer locality is
/// meaningful.
fn open_page(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    for memory in &mut machine.memories {
        memory.config.page = PagePolicy::Open;
    }
    machine
}

/// Finds the structure that behaves like `asked` when it runs alone on `machine` under these
/// conditions; `program` makes a program of a source and a number of instructions.
///
/// # Errors
/// If the program does not fit into memory, or the end is requested.
pub fn fit(
    machine: &Machine,
    asked: &Characteristics,
    base: &Structure,
    program: &dyn Fn(Source, u64) -> ProgramSpec,
    conditions: &Conditions,
) -> Result<Fitted, Refusal> {
    asked.fit(base, |structure| {
        let instructions = (1e3 * FIT_MISSES / asked.mpki) as u64;
        let spec = program(Source::Synthetic(Box::new(structure.clone())), instructions);
        let execution = machine.execute(&[spec], conditions.clone())?;
        let run = ProgramRun::of(&execution, machine.clock).swap_remove(0);
        Ok(Measured {
            mpki: run.mpki,
            rbl: run.row_hit_rate.unwrap_or(0.0),
            blp: run.bank_parallelism.unwrap_or(1.0),
        })
    })
}
