//! One run of programs on the machine.

use memweir_bank::machine::{Addressing, Program};
use memweir_bank::os::{Aging, Os, ProcessId, ThreadId, VirtualPage, ZoneId};
use memweir_bank::stream::{Level, Stream};
use memweir_bank::synthetic::{Structure, Synthetic};
use memweir_bank::system::{MachineRun, System};
use memweir_core::address_map::{BASE_PAGE_BITS, ColorSet};
use memweir_core::input::{InputError, Refusal};
use memweir_core::units::LINE_BYTES;
use memweir_dram::request::RowCounts;
use serde::Deserialize;

use super::machine::{Board, Kernel, machine};
use super::memory::{self, Energy, PAPER_MEMORY};
use crate::report::Effort;

/// Parameters that all runs share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    milliseconds: f64,
    quick_milliseconds: f64,
    pub(super) seed: u64,
    pub(super) resident_kib: u64,
    pub(super) resident_accesses: f64,
    /// Share of memory that is held by others, and the mean length of the runs of pages between
    /// them.
    held: f64,
    run_pages: f64,
}

impl Parameters {
    /// The same for programs that have all of memory, and reuse nothing in the cache.
    pub(super) fn with_all_memory_and_no_reuse(self) -> Self {
        Self { held: 0.0, resident_accesses: 0.0, ..self }
    }
}

/// Page policy of the memory controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Page {
    /// A row is closed when another is wanted.
    Open,
    /// A row is closed after each access.
    Closed,
}

/// Address bits that choose banks and cache sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layout {
    /// As in the paper.
    Paper,
    /// Cache colors choose no bank.
    Apart,
}

/// Refresh of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refresh {
    /// As its data sheet requires.
    On,
    /// Never, to isolate the effect of refresh on a result.
    Off,
}

/// The hardware of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Conditions {
    /// The device.
    pub(super) memory: String,
    pub(super) page: Page,
    pub(super) layout: Layout,
    pub(super) refresh: Refresh,
}

impl Conditions {
    /// The machine of the paper with memory made of this device.
    pub(super) fn with_memory(memory: &str) -> Self {
        Self {
            memory: memory.to_owned(),
            page: Page::Open,
            layout: Layout::Paper,
            refresh: Refresh::On,
        }
    }

    /// The machine of the paper.
    pub(super) fn of_paper() -> Self {
        Self::with_memory(PAPER_MEMORY)
    }
}

/// A program of a run: its structure, and the number of instructions to execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) name: &'a str,
    pub(super) structure: &'a Structure,
    pub(super) instructions: u64,
    /// Number of its threads.
    pub(super) threads: u16,
    /// Instructions after which its threads wait for each other.
    pub(super) phase: Option<u64>,
}

impl<'a> Job<'a> {
    /// A program with one thread.
    pub(super) fn single(name: &'a str, structure: &'a Structure, instructions: u64) -> Self {
        Self { name, structure, instructions, threads: 1, phase: None }
    }
}

/// Colors that programs and threads may use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Colors<'a> {
    /// A kernel without colors.
    None,
    /// A set for each program.
    Programs(&'a [ColorSet]),
    /// A set for each thread of the only program, for its own data, and one for the shared data.
    Threads { own: &'a [ColorSet], shared: &'a ColorSet },
}

/// A program that had the machine to itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub(super) seconds: f64,
    pub(super) mpki: f64,
    /// Row-buffer locality of its reads.
    pub(super) rbl: f64,
    pub(super) blp: f64,
    /// Bytes per second.
    pub(super) bandwidth: f64,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub(super) struct Executed {
    /// Time of each program.
    pub(super) seconds: Vec<f64>,
    /// Rows of all reads and writes, and of each.
    pub(super) rows: RowCounts,
    pub(super) read_rows: RowCounts,
    pub(super) write_rows: RowCounts,
    /// Bytes that the programs moved per second, each over its own time.
    pub(super) bandwidth: f64,
    pub(super) energy: Energy,
    /// Pages of other colors than they should have, and all pages.
    pub(super) spilled: (u64, u64),
    run: MachineRun,
}

/// The machine, and the length of its runs.
pub(super) struct Rig {
    pub(super) parameters: Parameters,
    /// Time that each program executes alone.
    pub(super) seconds: f64,
    /// The machine of the paper.
    pub(super) board: Board,
    /// A machine on which cache colors choose no bank.
    apart: Board,
}

impl Rig {
    /// The machine as the parameters have it.
    ///
    /// # Errors
    /// If its map is invalid.
    pub(super) fn new(parameters: Parameters, effort: Effort) -> Result<Self, InputError> {
        let milliseconds = match effort {
            Effort::Full => parameters.milliseconds,
            Effort::Quick => parameters.quick_milliseconds,
        };
        Self::lasting(parameters, milliseconds)
    }

    /// A machine on which each program executes for `milliseconds` alone.
    ///
    /// # Errors
    /// If its map is invalid.
    pub(super) fn lasting(parameters: Parameters, milliseconds: f64) -> Result<Self, InputError> {
        let Parameters { held, run_pages: run, seed, .. } = parameters;
        let aging = Aging { held, run, seed };
        let (board, apart) = (Board::of_paper(aging)?, Board::apart(aging)?);
        Ok(Self { parameters, seconds: milliseconds / 1e3, board, apart })
    }

    /// The machine with this layout.
    pub(super) fn board(&self, layout: Layout) -> &Board {
        match layout {
            Layout::Paper => &self.board,
            Layout::Apart => &self.apart,
        }
    }

    /// Executes programs together, under these conditions.
    ///
    /// # Errors
    /// If the machine refuses them.
    pub(super) fn execute(
        &self,
        jobs: &[Job<'_>],
        colors: Colors<'_>,
        on: &Conditions,
    ) -> Result<Executed, Refusal> {
        let board = self.board(on.layout);
        let kernel = if let Colors::None = colors { Kernel::Plain } else { Kernel::Colored };
        let mut os = board.os(kernel);
        let mut programs = Vec::new();
        for (place, job) in jobs.iter().enumerate() {
            let process = os.spawn();
            if let Colors::Programs(sets) = colors {
                os.allow(process, ZoneId(0), &sets[place])?;
            }
            programs.push(self.program(job, process, colors, &mut os)?);
        }
        let threads = jobs.iter().map(|job| usize::from(job.threads)).sum();
        let bay = memory::bay(on, &board.map)?;
        let (run, energy) = {
            let mut system = System::new(&machine(threads), vec![bay], programs, &mut os)?;
            system.warm()?;
            let run = system.run()?;
            let drained = run.drained;
            let bays = system.into_bays();
            (run, bays.iter().map(|bay| memory::energy(bay, drained)).sum())
        };
        Ok(Executed::new(run, jobs.len(), energy, &os))
    }

    fn program(
        &self,
        job: &Job<'_>,
        process: ProcessId,
        colors: Colors<'_>,
        os: &mut Os,
    ) -> Result<Program, Refusal> {
        let mut threads: Vec<Box<dyn Stream>> = Vec::new();
        for thread in 0..job.threads {
            let stream = Synthetic::new(job.structure, thread, self.seed_of(job.name));
            if let Colors::Threads { own, shared } = colors {
                os.allow_thread(process, ThreadId(thread), ZoneId(0), &own[usize::from(thread)])?;
                if let Some((first, bytes)) = stream.regions().last().filter(|_| thread == 0) {
                    let page = |address: u64| VirtualPage(address >> BASE_PAGE_BITS);
                    os.place(process, page(first)..page(first + bytes), ZoneId(0), shared)?;
                }
            }
            // A program writes its arrays in order before it computes.
            for (first, bytes) in stream.regions() {
                for page in first >> BASE_PAGE_BITS..(first + bytes).div_ceil(1 << BASE_PAGE_BITS) {
                    let touched = os.touch(process, ThreadId(thread), VirtualPage(page));
                    let help = "a smaller footprint, or more colors";
                    touched.map_err(|error| Refusal::new(error.to_string(), help))?;
                }
            }
            threads.push(Box::new(stream));
        }
        Ok(Program {
            name: job.name.to_owned(),
            process,
            threads,
            level: Level::Shared,
            addressing: Addressing::Virtual,
            instructions: job.instructions,
            phase: job.phase,
        })
    }

    /// The seed of a program: the same in every run, so that runs differ in nothing but their case.
    fn seed_of(&self, name: &str) -> u64 {
        name.bytes().fold(self.parameters.seed, |seed, byte| {
            seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte)
        })
    }

    /// Executes one program alone, in `colors` if they are given.
    ///
    /// # Errors
    /// If the machine refuses it.
    pub(super) fn alone(
        &self,
        job: &Job<'_>,
        colors: Option<&ColorSet>,
        on: &Conditions,
    ) -> Result<Alone, Refusal> {
        let sets: Vec<ColorSet> = colors.cloned().into_iter().collect();
        let colors = if sets.is_empty() { Colors::None } else { Colors::Programs(&sets) };
        let executed = self.execute(std::slice::from_ref(job), colors, on)?;
        let tally = &executed.run.threads[0].tally;
        Ok(Alone {
            seconds: executed.seconds[0],
            mpki: tally.llc_misses as f64 / job.instructions as f64 * 1e3,
            rbl: tally.read_rows.hit_rate().unwrap_or(1.0),
            blp: tally.parallelism.mean().unwrap_or(1.0),
            bandwidth: executed.bandwidth,
        })
    }
}

impl Executed {
    fn new(run: MachineRun, programs: usize, energy: Energy, os: &Os) -> Self {
        let mut seconds = vec![0.0_f64; programs];
        let [mut rows, mut read_rows, mut write_rows] = [RowCounts::default(); 3];
        let mut bandwidth = 0.0;
        for thread in &run.threads {
            let time = thread.finished.as_secs_f64();
            seconds[thread.program] = seconds[thread.program].max(time);
            rows = rows.and(thread.tally.read_rows).and(thread.tally.write_rows);
            read_rows = read_rows.and(thread.tally.read_rows);
            write_rows = write_rows.and(thread.tally.write_rows);
            let lines = thread.tally.reads + thread.tally.writes;
            bandwidth += (lines * LINE_BYTES) as f64 / time;
        }
        let stats = os.stats().processes;
        let spilled = stats.iter().map(|process| process.spilled).sum();
        let pages = stats.iter().map(|process| process.faults).sum();
        Self {
            seconds,
            rows,
            read_rows,
            write_rows,
            bandwidth,
            energy,
            spilled: (spilled, pages),
            run,
        }
    }

    /// Share of the requests that do not find their row open.
    pub(super) fn miss_rate(&self) -> f64 {
        1.0 - self.rows.hit_rate().unwrap_or(1.0)
    }

    /// The same for reads.
    pub(super) fn read_miss_rate(&self) -> f64 {
        1.0 - self.read_rows.hit_rate().unwrap_or(1.0)
    }

    /// The same for write-backs.
    pub(super) fn write_miss_rate(&self) -> f64 {
        1.0 - self.write_rows.hit_rate().unwrap_or(1.0)
    }
}
